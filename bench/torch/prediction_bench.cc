// With a profile of this machine: the simulated time of a step against the measured one, on one
// device. `ratio` is predicted / measured.

#include <benchmark/benchmark.h>

#include "one_device.h"
#include "run/torch/measure.h"
#include "run/torch/tensor_memory.h"

namespace heddle {
namespace {

void BM_PredictedAgainstMeasured(benchmark::State& state, const char* model, int64_t batch) {
  InstallTensorMemory();
  Profile profile;
  MeasureOptions measure;
  measure.model = model;
  measure.rows = {batch};
  measure.steps = 7;
  if (!MeasureModel(measure, profile, [](const std::string&) {}).ok()) return;
  OneDevice one(model, batch, 1, &profile);
  std::vector<double> seconds;
  int64_t step = 0;
  for (auto _ : state) {
    const double time = Time([&] { one.Step(step); });
    if (step++ > 0) seconds.push_back(time);
    state.SetIterationTime(time);
  }
  const double predicted = one.plan().estimate.iteration_seconds;
  state.counters["predicted_ms"] = 1e3 * predicted;
  state.counters["measured_ms"] = 1e3 * Median(seconds);
  state.counters["ratio"] = predicted / Median(seconds);
}

BENCHMARK_CAPTURE(BM_PredictedAgainstMeasured, tiny_gpt, "tiny-gpt", 16)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(20);
BENCHMARK_CAPTURE(BM_PredictedAgainstMeasured, bert_2, "bert-base?layers=2&seq=128", 8)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(8);
BENCHMARK_CAPTURE(BM_PredictedAgainstMeasured, resnet_small,
                  "resnet152?image=64&blocks1=1&blocks2=1&blocks3=2&blocks4=1", 8)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(8);
BENCHMARK_CAPTURE(BM_PredictedAgainstMeasured, vit_2, "vit?layers=2", 4)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(8);

}  // namespace
}  // namespace heddle
