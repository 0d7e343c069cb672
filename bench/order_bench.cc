// Orders of pipelines: how long they take to find, and how far they are from the optimum.

#include <benchmark/benchmark.h>

#include <algorithm>

#include "plan/order/best_order.h"
#include "plan/order/exact_order.h"
#include "plan/pipe_shapes.h"

namespace heddle {
namespace {

// Small pipelines against the exact optimum at equal memory. Targets: mean 1.02, worst 1.10.
void BestOrderAgainstOptimum(benchmark::State& state) {
  double sum = 0, worst = 1, bounds = 0, proven = 0;
  const auto instances = static_cast<uint64_t>(state.range(0));
  for (auto _ : state) {
    for (uint64_t seed = 0; seed < instances; ++seed) {
      const PipeShape shape = RandomShape(seed, 3, 4);
      const OrderChoice choice = BestOrder(shape).value();
      const ExactOrder exact = SolveOrder(shape, choice.best.time).value();
      if (!exact.proven) continue;
      ++proven;
      sum += choice.best.time / exact.makespan;
      worst = std::max(worst, choice.best.time / exact.makespan);
      bounds += choice.bound / exact.makespan;
    }
  }
  state.counters["proven"] = proven;
  state.counters["mean"] = sum / proven;
  state.counters["worst"] = worst;
  state.counters["bound"] = bounds / proven;
}
BENCHMARK(BestOrderAgainstOptimum)->Arg(500)->Iterations(1)->Unit(benchmark::kMillisecond);

// All orders that apply, without the search; stages and four times as many microbatches.
void OrdersWithoutSearch(benchmark::State& state) {
  const auto stages = static_cast<int>(state.range(0));
  PipeShape shape = StraightShape(stages, 4 * stages,
                                  {.forward = 1, .input = 1.1, .weight = 0.9, .channel = 0.1});
  shape.limits.assign(stages, 3 * stages);
  OrderChoice choice;
  for (auto _ : state) choice = BestOrder(shape, {.search_items = 0}).value();
  state.counters["over_bound"] = choice.best.time / choice.bound;
}
BENCHMARK(OrdersWithoutSearch)->Arg(4)->Arg(8)->Arg(16)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace heddle
