// What the worker costs besides arithmetic: the walk over the list, finding buffers, posting
// messages. One device, so that nothing waits.

#include <benchmark/benchmark.h>

#include "one_device.h"
#include "run/local_communicator.h"
#include "run/torch/tensor_memory.h"
#include "run/worker.h"
#include "run/wrapped_executor.h"

namespace heddle {
namespace {

// Forwards to another executor and adds up the time it takes.
class TimedExecutor final : public WrappedExecutor {
 public:
  using WrappedExecutor::WrappedExecutor;
  void Compute(const Instruction& compute, int64_t i) override {
    seconds += Time([&] { WrappedExecutor::Compute(compute, i); });
  }
  double seconds = 0;
};

// Per instruction: `worker_us` is the walk over the list, around the executor; `executor_us` what
// the executor does around kernels and loading data, finding and freeing tensors for all ops of a
// segment; `per_op_us` the same per op.
void BM_OverheadPerInstruction(benchmark::State& state) {
  InstallTensorMemory();
  OneDevice one("tiny-gpt", 16, 16);
  TimedExecutor timed(one.executor());
  LocalExchange exchange(LocalExchange::GroupsOf(one.program()));
  const auto communicator = exchange.ForDevice(0);
  double kernels = 0;
  int64_t ops = 0;
  one.executor().SetListener([&](const Op&, double seconds) {
    kernels += seconds;
    ++ops;
  });
  WorkerOptions options;
  options.repetitions = 4;
  const auto instructions =
      static_cast<double>(options.repetitions * one.program().instruction_count());
  std::vector<double> worker, executor, per_op;
  for (auto _ : state) {
    kernels = timed.seconds = one.data().seconds = 0;
    ops = 0;
    const double seconds =
        Time([&] { (void)RunDevice(one.program(), 0, timed, *communicator, options).ok(); });
    const double around = timed.seconds - kernels - one.data().seconds;
    worker.push_back((seconds - timed.seconds) / instructions);
    executor.push_back(around / instructions);
    per_op.push_back(around / static_cast<double>(ops));
    state.SetIterationTime(seconds);
  }
  state.counters["instructions"] = instructions;
  state.counters["worker_us"] = 1e6 * Median(worker);
  state.counters["executor_us"] = 1e6 * Median(executor);
  state.counters["per_op_us"] = 1e6 * Median(per_op);
}
BENCHMARK(BM_OverheadPerInstruction)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(10);

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
