// What the worker costs besides arithmetic: the walk over the list, finding buffers, posting
// messages. One device, so that nothing waits.

#include <benchmark/benchmark.h>

#include "one_device.h"
#include "run/local_communicator.h"
#include "run/torch/tensor_memory.h"

namespace heddle {
namespace {

// Wall time of a step less the time inside kernels, per instruction. Loading data counts.
void BM_OverheadPerInstruction(benchmark::State& state) {
  InstallTensorMemory();
  OneDevice one("tiny-gpt", 16, 16);
  double kernels = 0;
  one.executor().SetListener([&](const Op&, double seconds) { kernels += seconds; });
  const auto instructions = static_cast<double>(one.program().instruction_count());
  std::vector<double> overheads;
  int64_t step = 0;
  for (auto _ : state) {
    kernels = 0;
    const double seconds = Time([&] { one.Step(step++); });
    overheads.push_back((seconds - kernels) / instructions);
    state.SetIterationTime(seconds);
  }
  state.counters["instructions"] = instructions;
  state.counters["overhead_us"] = 1e6 * Median(overheads);
}
BENCHMARK(BM_OverheadPerInstruction)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(30);

// A message of 64 bytes between two devices, both ends posted by one thread.
void BM_PostLocalMessage(benchmark::State& state) {
  LocalExchange exchange({});
  const auto sender = exchange.ForDevice(0), receiver = exchange.ForDevice(1);
  std::array<std::byte, 64> from{}, to{};
  for (auto _ : state) {
    const TicketPtr received = receiver->Receive(0, 0, {nullptr, to.data(), to.size()});
    sender->Send(1, 0, {nullptr, from.data(), from.size()})->Wait();
    received->Wait();
  }
}
BENCHMARK(BM_PostLocalMessage);

}  // namespace
}  // namespace heddle
