// What it costs to look the board of a share over whenever its mutex is taken: by itself, and
// beside the shortest thing that anybody does under the mutex.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "run/share/board.h"
#include "run/share/board_damage.h"

namespace heddle {
namespace {

// Jobs that all run on the same devices, two to a node.
Board MakeBoard(int32_t jobs, int32_t devices) {
  BoardShape shape{TurnOrder::kRotation, {}};
  for (int32_t d = 0; d < devices; ++d) shape.node_of.push_back(d / 2);
  Board board = Board::Create(shape).value();
  std::vector<int32_t> numbers;
  for (int32_t j = 0; j < jobs; ++j) {
    JobEntry entry{.name = "job" + std::to_string(j), .devices = {}};
    for (int32_t d = 0; d < devices; ++d) entry.devices.push_back(d);
    entry.turns = 1'000'000;
    numbers.push_back(board.AddJob(entry).value());
    for (int32_t d = 0; d < devices; ++d) board.Enter(numbers.back(), d);
  }
  board.Activate(numbers);
  return board;
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"jobs", "devices"});
  for (const auto& [jobs, devices] : {std::pair{2, 4}, {4, 16}, {8, 64}, {32, 64}}) {
    benchmark->Args({jobs, devices});
  }
}

void BM_BoardLookedOver(benchmark::State& state) {
  const Board board =
      MakeBoard(static_cast<int32_t>(state.range(0)), static_cast<int32_t>(state.range(1)));
  const int64_t now = BoardNow();
  for (auto _ : state) benchmark::DoNotOptimize(FindDamage(board.memory(), now));
}
BENCHMARK(BM_BoardLookedOver)->Apply(Sizes);

// Taking the mutex, the look, and the clock that it asks.
void BM_BoardQuestion(benchmark::State& state) {
  const Board board =
      MakeBoard(static_cast<int32_t>(state.range(0)), static_cast<int32_t>(state.range(1)));
  for (auto _ : state) benchmark::DoNotOptimize(board.ranks(0));
}
BENCHMARK(BM_BoardQuestion)->Apply(Sizes);

}  // namespace
}  // namespace heddle
