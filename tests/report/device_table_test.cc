#include "report/device_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;

// Stages of so many devices each; what a device does may depend on its number.
struct Case {
  Plan plan;
  Simulation simulation;

  Case(int stages, int devices_each, double (*busy)(int device)) {
    simulation.iteration = Seconds{0.1};
    plan.pipelines.emplace_back();
    for (int s = 0; s < stages; ++s) {
      StagePlan stage;
      stage.chunks = {{2 * s, 2 * s + 1}};
      for (int k = 0; k < devices_each; ++k) {
        const int d = s * devices_each + k;
        DeviceUse use;
        use.device = fmt::format("a{}:{}", d / 8, d % 8);
        use.busy = Seconds{busy(d)};
        use.idle = Seconds{0.1 - busy(d)};
        simulation.devices.push_back(use);
        stage.devices.push_back(use.device);
        plan.estimate.memory.push_back({use.device, 4 * kGiB, 16 * kGiB});
      }
      plan.pipelines[0].stages.push_back(stage);
    }
  }

  std::string Text(bool all) const { return DeviceTableText(plan, simulation, {.width = 80}, all); }
  int64_t Lines(bool all) const {
    const std::string text = Text(all);
    return std::count(text.begin(), text.end(), '\n');
  }
};

TEST(DeviceTableTest, DevicesAlikeShareARow) {
  const Case same(2, 32, [](int device) { return device < 32 ? 0.05 : 0.025; });
  EXPECT_EQ(same.Text(false),
            R"(device            stage  layers     busy  idle  sent  peak memory  capacity
────────────────  ─────  ──────  ───────  ────  ────  ───────────  ────────
a0:0 … a3:7 (32)      0     0-1  50.0 ms   50%   0 B     4.00 GiB  16.0 GiB
a4:0 … a7:7 (32)      1     2-3  25.0 ms   75%   0 B     4.00 GiB  16.0 GiB
With COLUMNS=85 or --json also: received.
)");
}

TEST(DeviceTableTest, FiguresThatAreCloseAreAlike) {
  const Case close(1, 64, [](int device) { return 0.05 + 0.00001 * device; });
  EXPECT_THAT(close.Text(false), HasSubstr("\na0:0 … a7:7 (64)      0     0-1  50.0-50.6 ms  "));
}

TEST(DeviceTableTest, OfManyTheLeastAndTheMostOfTheirStage) {
  const Case different(2, 32, [](int device) { return 0.02 + 0.001 * device; });
  EXPECT_THAT(different.Text(false), HasSubstr("20.0-51.0 ms"));
  EXPECT_THAT(different.Text(false), HasSubstr("a0:0 … a3:7 (32)"));
  EXPECT_EQ(different.Lines(false), 2 + 2 + 1);  // titles, stages, what is left out
  EXPECT_GE(different.Lines(true), 64);
}

// The same stage of several pipelines.
TEST(DeviceTableTest, PipelinesAlikeShareRows) {
  Case same(2, 32, [](int) { return 0.05; });
  const std::vector<StagePlan> stages = same.plan.pipelines[0].stages;
  same.plan.pipelines.assign(32, {stages});
  for (size_t p = 0; p < 32; ++p) {
    for (size_t s = 0; s < 2; ++s) {
      same.plan.pipelines[p].stages[s].devices = {stages[s].devices[p]};
    }
  }
  EXPECT_THAT(same.Text(false), HasSubstr("\na0:0 … a3:7 (32)  0.0 … 31.0     0-1  50.0 ms"));
  EXPECT_THAT(same.Text(false), HasSubstr("\na4:0 … a7:7 (32)  0.1 … 31.1     2-3  50.0 ms"));
}

TEST(DeviceTableTest, OfManyStagesThoseInTheMiddleAreLeftOut) {
  const Case stages(64, 1, [](int device) { return 0.05 + 0.0001 * device; });
  EXPECT_LE(stages.Lines(false), 16);
  EXPECT_THAT(stages.Text(false), HasSubstr("\na0:0 "));
  EXPECT_THAT(stages.Text(false), HasSubstr("… 53 more rows\n"));
  EXPECT_THAT(stages.Text(false), HasSubstr("\na7:7 "));
}

TEST(DeviceTableTest, UnitsOfSpans) {
  const Case units(1, 64, [](int device) { return 0.0005 + 0.001 * device; });
  EXPECT_THAT(units.Text(false), HasSubstr("500 us-63.5 ms"));
}

}  // namespace
}  // namespace heddle
