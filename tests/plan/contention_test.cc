#include "plan/pipeline/contention.h"

#include <gtest/gtest.h>

#include "plan/pipeline/candidate.h"
#include "plan/pipeline/neighbours.h"

namespace heddle {
namespace {

// Two nodes of two devices; a switch between them.
Cluster TwoNodes() {
  return ParseClusterToml(R"(schema = "heddle.cluster/1"
[device_type.gpu]
flops = "10 TFLOP/s"
memory = "16 GiB"
memory_bandwidth = "900 GB/s"
[[node]]
name = "a"
devices = [{ type = "gpu", count = 2 }]
link = { bandwidth = "100 GB/s", latency = "0 us" }
[[node]]
name = "b"
devices = [{ type = "gpu", count = 2 }]
link = { bandwidth = "100 GB/s", latency = "0 us" }
[[link]]
between = ["a", "b"]
bandwidth = "1 GB/s"
latency = "0 us"
)",
                          "two.toml")
      .value();
}

class ContentionTest : public testing::Test {
 protected:
  ContentionTest()
      : cluster_(TwoNodes()),
        planning_(Planning::Make(Options(), cluster_, nullptr).value()),
        table_(planning_) {}

  static PlanRequest Options() {
    PlanRequest options;
    options.model = "gpt?layers=6&seq=128";
    options.batch = 32;
    options.microbatches = 8;
    return options;
  }

  std::shared_ptr<const StageCosts> CostsFor(std::vector<std::vector<int>> files) {
    const int64_t m = 8 / static_cast<int64_t>(files.size());
    const auto line = std::make_shared<DeviceLine>(table_, std::move(files));
    return std::make_shared<StageCosts>(table_, line, m);
  }

  // One device per stage, a cut after every two layers.
  static std::vector<PartitionStage> Stages(int count, int layers) {
    std::vector<PartitionStage> stages;
    for (int s = 0; s < count; ++s) {
      stages.push_back({2 * s, s + 1 == count ? layers : 2 * s + 2, {s, 1}, false});
    }
    return stages;
  }

  Cluster cluster_;
  Planning planning_;
  LayerTable table_;
};

TEST_F(ContentionTest, MessagesOfOneCutHaveTheWireToThemselves) {
  const auto costs = CostsFor({{0, 1, 2, 3}});
  const auto stages = Stages(4, table_.layers());
  const Contention contention(*costs, stages, {0, 1, 2, 3}, 1.0);
  const auto channel = costs->ChannelBetween(stages[1].devices, stages[2].devices);
  EXPECT_DOUBLE_EQ(contention.cuts()[1].forward, costs->ForwardSeconds(channel, stages[2].first));
  EXPECT_DOUBLE_EQ(contention.period(), 1.0);
}

// a:0 b:0 a:1 b:1: cuts 0 and 2 go from a to b, cut 1 from b to a.
TEST_F(ContentionTest, MessagesOfSeveralCutsShareIt) {
  const auto costs = CostsFor({{0, 2, 1, 3}});
  const auto stages = Stages(4, table_.layers());
  const auto channel = costs->ChannelBetween(stages[0].devices, stages[1].devices);
  const double alone = costs->ForwardSeconds(channel, stages[1].first);
  // From a to b go forwards of two cuts and the gradient of the one between: three in a period.
  const Contention slow(*costs, stages, {0, 1, 2, 3}, 100 * alone);
  EXPECT_NEAR(slow.cuts()[0].forward, alone / (1 - 2.0 / 100), 1e-9 * alone);
  const Contention fast(*costs, stages, {0, 1, 2, 3}, 0);
  EXPECT_NEAR(fast.period(), 3 * alone, 1e-9 * alone);
  EXPECT_NEAR(fast.cuts()[0].forward, fast.period(), 1e-9 * alone);
}

TEST_F(ContentionTest, PipelinesSideBySideShareWires) {
  const auto one = CostsFor({{0, 2}});
  const auto two = CostsFor({{0, 2}, {1, 3}});
  const DeviceRange from{0, 1}, to{1, 1};
  EXPECT_DOUBLE_EQ(two->ChannelBetween(from, to).forward_per_byte,
                   2 * one->ChannelBetween(from, to).forward_per_byte);
}

TEST_F(ContentionTest, SumsQueueForTheirWires) {
  const auto costs = CostsFor({{0, 2}, {1, 3}});
  std::vector<PartitionStage> stages = Stages(2, table_.layers());
  const std::vector<StageSum> sums = {{0, 5, 6}, {1, 3, 4}};
  const double none = LastSum(*costs, stages, sums);
  EXPECT_GE(none, 6);
  // In nodes a and b: over different wires. Both across the slow link: one after the other.
  const auto across = CostsFor({{0, 1}, {2, 3}});
  const auto seconds = [&](int k) {
    double longest = 0;
    for (const WireSeconds& wire :
         across->line().WiresOfAllReduce(stages[static_cast<size_t>(k)].devices)) {
      longest = std::max(longest,
                         wire.per_byte * table_.ParameterBytes(stages[static_cast<size_t>(k)].first,
                                                               stages[static_cast<size_t>(k)].end));
    }
    return longest;
  };
  const std::vector<StageSum> at_once = {{0, 0, 0}, {1, 0, 0}};
  EXPECT_NEAR(LastSum(*across, stages, at_once), seconds(0) + seconds(1), 1e-9);
}

TEST_F(ContentionTest, NeighboursDifferInOneDecisionAndCoverAllLayers) {
  const auto costs = CostsFor({{0, 1, 2, 3}});
  const int layers = table_.layers();
  const Candidate from =
      StraightCandidate(costs, {{{0, 3, {0, 2}, false}, {3, layers, {2, 2}, false}}, 0, 0});
  int cuts = 0, devices = 0, joined = 0, divided = 0, orders = 0;
  for (const Candidate& near : Neighbours(from)) {
    int first = 0, at = 0;
    for (const PartitionStage& stage : near.chunks) {
      EXPECT_EQ(stage.first, first);
      EXPECT_EQ(stage.devices.at, at);
      first = stage.end;
      at = stage.devices.end();
    }
    EXPECT_EQ(first, layers);
    EXPECT_EQ(at, 4);
    const bool same_order = near.costs->order() == costs->order();
    orders += !same_order;
    joined += near.stages == 1;
    divided += near.stages == 3;
    devices += near.stages == 2 && near.chunks[0].devices.count != 2;
    cuts += near.stages == 2 && near.chunks[0].end != 3;
  }
  EXPECT_GE(cuts, 3);
  EXPECT_EQ(devices, 2);
  EXPECT_EQ(joined, 1);
  EXPECT_GE(divided, 2);
  EXPECT_EQ(orders, 1);  // a device of a for one of b
}

}  // namespace
}  // namespace heddle
