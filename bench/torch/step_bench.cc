// One training step on one device: our Program against the same step in libtorch with autograd, in
// turn in one process. `ratio` is ours / theirs by medians; `memory_ratio` the bytes at the
// allocator against the checker's static peak.

#include <benchmark/benchmark.h>

#include <cmath>

#include "direct_step.h"
#include "one_device.h"
#include "program/check/check.h"
#include "run/torch/tensor_memory.h"

namespace heddle {
namespace {

struct Size {
  const char* model;
  int64_t batch, layers, heads;
  bool gpt;
};

void BM_StepAgainstLibtorch(benchmark::State& state, const Size& size) {
  InstallTensorMemory();
  OneDevice one(size.model, size.batch, 1);
  const Verdict verdict = CheckProgram(one.program(), {&one.graph(), {}});
  DirectTransformer direct(one.graph(), one.data(), size.layers, size.heads, size.gpt);
  std::vector<double> ours, theirs;
  int64_t step = 0;
  double our_loss = 0, their_loss = 0;
  for (auto _ : state) {
    const double mine = Time([&] { our_loss = one.Step(step); });
    const double other = Time([&] { their_loss = direct.Step(step); });
    if (step++ >= 2) {  // warm
      ours.push_back(mine);
      theirs.push_back(other);
    }
    state.SetIterationTime(mine);
  }
  const auto peak = static_cast<double>(one.executor().memory().peak());
  state.counters["ours_ms"] = 1e3 * Median(ours);
  state.counters["libtorch_ms"] = 1e3 * Median(theirs);
  state.counters["ratio"] = Median(ours) / Median(theirs);
  state.counters["loss_difference"] = std::abs(our_loss - their_loss);
  state.counters["memory_MiB"] = peak / (1 << 20);
  state.counters["memory_ratio"] = peak / static_cast<double>(verdict.memory[0].peak.value);
}

BENCHMARK_CAPTURE(BM_StepAgainstLibtorch, tiny_gpt, Size{"tiny-gpt", 16, 4, 4, true})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(40);
BENCHMARK_CAPTURE(BM_StepAgainstLibtorch, bert_4,
                  Size{"bert-base?layers=4&seq=128&dropout=0", 8, 4, 12, false})
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(12);

}  // namespace
}  // namespace heddle
