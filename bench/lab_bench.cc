// Races between training methods: how long the whole quadratic race and the map take, and a
// gradient of the language model.

#include <benchmark/benchmark.h>

#include "lab/map.h"
#include "lab/problems.h"
#include "lab/race.h"

namespace heddle {
namespace {

// S = 2, 4, 8, 16, 32; six methods; 5 seeds; 16 step sizes and those around the best; 10000 ticks
// on two threads. Target: 4 s of processor time without noise. The argument is the noise in
// hundredths.
void QuadraticRace(benchmark::State& state) {
  const auto objective = MakeProblem("quadratic", {}).value();
  RaceOptions options;
  options.noises = {static_cast<double>(state.range(0)) / 100};
  options.threads = 2;
  int64_t trials = 0;
  for (auto _ : state) {
    const Race race = RunRace(*objective, options).value();
    trials = 0;
    for (const RaceEntry& entry : race.entries) trials += int64_t{entry.tried} * options.seeds;
  }
  state.counters["trials"] = static_cast<double>(trials);
}
BENCHMARK(QuadraticRace)
    ->Arg(0)
    ->Arg(10)
    ->Iterations(1)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// 4 noises, 4 numbers of rows for a parameter, 3 of local steps, 5 of stages, 10 seeds, on two
// threads. Target: 60 s, 120 s of processor time.
void LogisticMap(benchmark::State& state) {
  MapOptions options;
  options.threads = 2;
  for (auto _ : state) benchmark::DoNotOptimize(RunMap(options).value().cells.data());
}
BENCHMARK(LogisticMap)
    ->Iterations(1)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// One microbatch of the lab's default language model, forward and backward, on one core.
void LanguageModelGradient(benchmark::State& state) {
  const auto objective = MakeProblem("lm", {}).value();
  const std::vector<double> x = objective->Start(0);
  std::vector<double> gradient(x.size());
  Pass pass = objective->MakePass();
  for (auto _ : state) {
    ++pass.draw.microbatch;
    objective->Gradient(x.data(), pass, gradient.data());
    benchmark::DoNotOptimize(gradient.data());
  }
}
BENCHMARK(LanguageModelGradient)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace heddle
