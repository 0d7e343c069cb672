#include "lab/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace heddle {
namespace {

TEST(ScheduleTest, UnitTicksAreTheGrid) {
  for (const int stages : {1, 2, 3, 7, 32}) {
    const Schedule schedule = MakeSchedule({.stages = stages}, 200);
    int64_t updates = 0;
    for (size_t k = 0; k < schedule.events.size(); ++k) {
      const Event& event = schedule.events[k];
      const int tick = event.forward ? 2 * event.microbatch + event.stage
                                     : 2 * event.microbatch + 2 * stages - 1 - event.stage;
      EXPECT_EQ(event.tick, tick);
      if (!event.forward) ++updates;
      if (k == 0) continue;
      const Event& before = schedule.events[k - 1];
      EXPECT_LT(std::tie(before.tick, before.stage), std::tie(event.tick, event.stage));
    }
    EXPECT_EQ(schedule.updates, updates);
    // All of them: F(s, m) with 2m + s < 200, B(s, m) with 2m + 2S - 1 - s < 200.
    size_t expected = 0;
    for (int s = 0; s < stages; ++s) {
      expected += static_cast<size_t>((200 - s + 1) / 2);
      expected += static_cast<size_t>(std::max(0, (200 - (2 * stages - 1 - s) + 1) / 2));
    }
    EXPECT_EQ(schedule.events.size(), expected) << stages;
  }
}

TEST(ScheduleTest, DelaysFollowTheLaw) {
  for (int64_t stages = 1; stages <= 32; ++stages) {
    const DelayCounts counts = SteadyDelays({.stages = static_cast<int>(stages)});
    EXPECT_EQ(counts.most, (2 * stages * stages - stages) / 2) << stages;  // ⌊S² - S/2⌋
    EXPECT_EQ(counts.mean, static_cast<double>(stages * stages - 1) / 2) << stages;
    for (int64_t s = 0; s < stages; ++s) {
      EXPECT_EQ(counts.own[static_cast<size_t>(s)], stages - 1 - s);
    }
  }
  EXPECT_EQ(SteadyDelays({.stages = 32}).most, 1008);
}

// For i = 0, block j has S - 1 - ⌊j/2⌋ updates of its own between F(j, m) and B(0, m).
TEST(ScheduleTest, SharperCountIsOfThirdOrder) {
  for (int64_t stages = 1; stages <= 32; ++stages) {
    int64_t squares = 0;
    for (int64_t j = 0; j < stages; ++j) squares += (stages - 1 - j / 2) * (stages - 1 - j / 2);
    EXPECT_EQ(SteadyDelays({.stages = static_cast<int>(stages)}).squares, squares) << stages;
  }
}

TEST(ScheduleTest, RoundsAndFlushes) {
  for (const int stages : {1, 2, 5, 16}) {
    for (const int64_t microbatches : {1, 3, 80}) {
      const int64_t ticks = 2 * microbatches + 2 * (stages - 1);
      EXPECT_EQ(DrainedTicks({.stages = stages}, microbatches), ticks);
      EXPECT_EQ(FlushTicks({.stages = stages}, microbatches), ticks);
    }
  }
  // (M + S - 1) slots of F + B, and the links once each way.
  EXPECT_EQ(FlushTicks({.stages = 4, .backward = 2, .latency = 5}, 3), 6 * 3 + 2 * 3 * 5);
  // One microbatch alone: S (F + B) and the links.
  EXPECT_EQ(DrainedTicks({.stages = 4, .backward = 2, .latency = 5}, 1), 4 * 3 + 2 * 3 * 5);
  EXPECT_EQ(DrainedTicks({.stages = 4}, 0), 0);
}

// Whatever it costs: inputs come first, a stage does one thing at a time, in the order of 1F1B.
TEST(ScheduleTest, CostsMoveEventsButKeepTheirOrder) {
  for (const PipelineClock& clock :
       {PipelineClock{5, 1, 2, 0}, PipelineClock{4, 1, 1, 3}, PipelineClock{6, 2, 3, 1}}) {
    const Schedule schedule = MakeSchedule(clock, 600);
    std::map<std::tuple<int, int, bool>, int64_t> end;  // stage, microbatch, forward
    std::vector<int64_t> free(static_cast<size_t>(clock.stages));
    std::vector<std::string> order(free.size());
    for (const Event& event : schedule.events) {
      const int64_t cost = event.forward ? clock.forward : clock.backward;
      const int64_t start = event.forward ? event.tick : event.tick - clock.backward + 1;
      const auto s = static_cast<size_t>(event.stage);
      EXPECT_GE(start, free[s]);
      free[s] = start + cost;
      end[{event.stage, event.microbatch, event.forward}] = start + cost;
      order[s] += event.forward ? 'F' : 'B';
      if (event.forward && event.stage > 0) {
        EXPECT_GE(start, end.at({event.stage - 1, event.microbatch, true}) + clock.latency);
      }
      if (!event.forward && event.stage + 1 < clock.stages) {
        EXPECT_GE(start, end.at({event.stage + 1, event.microbatch, false}) + clock.latency);
      }
    }
    for (int s = 0; s < clock.stages; ++s) {
      std::string expected(static_cast<size_t>(clock.stages - s), 'F');
      while (expected.size() < order[static_cast<size_t>(s)].size()) expected += "BF";
      EXPECT_EQ(order[static_cast<size_t>(s)],
                expected.substr(0, order[static_cast<size_t>(s)].size()));
    }
  }
}

// The order on a stage fixes its own delay; times change only what other stages do meanwhile.
TEST(ScheduleTest, OwnDelayDoesNotDependOnTimes) {
  const DelayCounts counts = SteadyDelays({.stages = 6, .backward = 2, .latency = 3});
  EXPECT_EQ(counts.own, (std::vector<int64_t>{5, 4, 3, 2, 1, 0}));
}

}  // namespace
}  // namespace heddle
