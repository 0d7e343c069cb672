// Building training graphs: forward, autodiff and validation.

#include <benchmark/benchmark.h>

#include <string>

#include "model/layer_chain.h"
#include "model/zoo.h"

namespace heddle {
namespace {

// Target: 48 layers under 50 ms.
void BuildGpt(benchmark::State& state) {
  const std::string spec = "gpt?layers=" + std::to_string(state.range(0));
  size_t ops = 0;
  for (auto _ : state) {
    const Result<Graph> graph = BuildModel(spec, {.batch = 256});
    ops = graph.value().ops().size();
    benchmark::DoNotOptimize(graph);
  }
  state.counters["ops"] = static_cast<double>(ops);
}
BENCHMARK(BuildGpt)->Arg(12)->Arg(48)->Arg(96)->Unit(benchmark::kMillisecond);

void DeriveChain(benchmark::State& state) {
  const Graph graph = BuildModel("gpt?layers=48", {.batch = 256}).value();
  for (auto _ : state) benchmark::DoNotOptimize(ChainOf(graph));
}
BENCHMARK(DeriveChain)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace heddle
