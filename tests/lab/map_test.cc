#include "lab/map.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lab/problems.h"

namespace heddle {
namespace {

MapOptions SmallMap() {
  MapOptions options;
  options.dimension = 24;
  options.noises = {0, 0.5};
  options.rows = {0.25, 3};
  options.everys = {1, 4};
  options.stages = {2, 6};
  options.ticks = 500;
  options.tune_seeds = 2;
  return options;
}

// A cell's figures are those of a race of its own.
TEST(MapTest, CellsAreRaces) {
  const MapOptions options = SmallMap();
  const Map map = RunMap(options).value();
  ASSERT_EQ(map.cells.size(), 16U);
  const auto cell = std::find_if(map.cells.begin(), map.cells.end(), [](const MapCell& one) {
    return one.noise == 0.5 && one.rows == 3 && one.every == 4 && one.stages == 6;
  });
  ASSERT_NE(cell, map.cells.end());
  const DataBySeed data =
      DataBySeed::Make("logistic", MapProblem("logistic", 24, 3), 0, 12, 1).value();
  RaceOptions race;
  race.stages = {6};
  race.methods = {"pd", "local", cell->flush};
  race.noises = {0.5};
  race.seeds = 10;
  race.tune_seeds = 2;
  race.step_sizes = 6;
  race.refine = 1;
  race.powers_of_two = true;
  race.trial.ticks = 500;
  race.trial.points = 4;
  race.trial.every = 4;
  const ObjectiveOf objective_of = [&](uint64_t seed) -> const Objective& { return data.Of(seed); };
  const Race alone = RunRace(objective_of, race).value();
  EXPECT_EQ(cell->local_to_pd.paired->ratio.mean, alone.entries[1].against_first->mean);
  EXPECT_EQ(cell->flush_to_pd.paired->ratio.high, alone.entries[2].against_first->high);
  EXPECT_EQ(cell->rounds, 500 / (2 * 6 * 4 + 10));
}

// Somebody is always in front; who is there alone is ahead of both others.
TEST(MapTest, FrontsFollowFromPairs) {
  const Map map = RunMap(SmallMap()).value();
  for (const MapCell& cell : map.cells) {
    ASSERT_FALSE(cell.front.empty());
    if (cell.front == std::vector<std::string>{"local"}) {
      EXPECT_TRUE(cell.local_to_pd.standing == Standing::kAhead ||
                  cell.local_to_flush.standing == Standing::kAhead);
    }
    const bool has_pd = std::find(cell.front.begin(), cell.front.end(), "pd") != cell.front.end();
    const bool beaten = cell.local_to_pd.standing == Standing::kAhead ||
                        cell.flush_to_pd.standing == Standing::kAhead;
    EXPECT_EQ(has_pd, !beaten);
    EXPECT_TRUE(!cell.tie || cell.front.size() > 1);
  }
}

TEST(MapTest, ThreadsDoNotChangeTheResult) {
  MapOptions options = SmallMap();
  options.noises = {0.5};
  options.rows = {1};
  options.threads = 1;
  const Map one = RunMap(options).value();
  options.threads = 3;
  const Map three = RunMap(options).value();
  for (size_t k = 0; k < one.cells.size(); ++k) {
    EXPECT_EQ(one.cells[k].local_to_pd.paired->ratio.mean,
              three.cells[k].local_to_pd.paired->ratio.mean);
  }
}

// With H = 1 and no noise of its own a round is a flush of as many microbatches as stages: one
// method under two names.
TEST(MapTest, OneLocalStepIsAFlush) {
  MapOptions options = SmallMap();
  options.noises = {0};
  options.everys = {1};
  const Map map = RunMap(options).value();
  for (const MapCell& cell : map.cells) {
    if (cell.flush != "gpipe" || !cell.local_to_flush.paired) continue;
    EXPECT_NEAR(cell.local_to_flush.paired->ratio.mean, 1, 0.02);
  }
}

TEST(MapTest, RefusesWhatMakesNoSense) {
  const auto refused = [](auto change) {
    MapOptions options = SmallMap();
    change(options);
    const auto map = RunMap(options);
    return map.ok() ? "" : map.error().where;
  };
  EXPECT_EQ(refused([](MapOptions& o) { o.objective = "lm"; }), "--objective");
  EXPECT_EQ(refused([](MapOptions& o) { o.rows = {0.01}; }), "--rows-per-parameter");
  EXPECT_EQ(refused([](MapOptions& o) { o.stages = {25}; }), "--stages");
  EXPECT_EQ(refused([](MapOptions& o) { o.seeds = 1; }), "--seeds");
  EXPECT_EQ(refused([](MapOptions& o) { o.everys = {}; }), "map");
}

}  // namespace
}  // namespace heddle
