// Pipelines against closed forms, and against the case of design/2-pipeline.md.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "pipeline_text.h"
#include "simulated.h"

namespace heddle {
namespace {

double TimeOf(const PipelineText& pipeline, bool gpipe, const Cluster& cluster, LinkModel links) {
  std::vector<std::string> orders;
  for (int s = 0; s < pipeline.stages; ++s) {
    orders.push_back(gpipe ? pipeline.GpipeOrder() : pipeline.OneForwardOneBackward(s));
  }
  return SimulationOf(pipeline.Text(orders), cluster, {.links = links}).makespan.value;
}

TEST(PipelineTimesTest, Orders) {
  EXPECT_EQ(PipelineText{}.OneForwardOneBackward(0), "FFFFBFBFBFBFBBBB");
  EXPECT_EQ(PipelineText{}.OneForwardOneBackward(3), "FBFBFBFBFBFBFBFB");
}

// n = 4 stages, M = 8, F = 1, B = 2: (M + n - 1)(F + B) = 33 when messages cost nothing.
TEST(PipelineTimesTest, FreeChannels) {
  const Cluster cluster = MeshOf(4, "1000 TB/s");
  for (const LinkModel links : {LinkModel::kShared, LinkModel::kExclusive, LinkModel::kChannels}) {
    EXPECT_NEAR(TimeOf({}, false, cluster, links), 33, 1e-6);
    EXPECT_NEAR(TimeOf({}, true, cluster, links), 33, 1e-6);
  }
}

// Half-duplex channels, 0.5 each way: 1F1B takes 41 (design/2-pipeline.md).
TEST(PipelineTimesTest, HalfDuplexChannels) {
  PipelineText pipeline;
  pipeline.channels = "half";
  const Cluster cluster = MeshOf(4, "1 kB/s");  // 500 bytes
  EXPECT_NEAR(TimeOf(pipeline, false, cluster, LinkModel::kChannels), 41, 1e-9);
}

// The same over links of the cluster: half duplex as a property of the link, not of a channel.
TEST(PipelineTimesTest, HalfDuplexLinks) {
  std::string links;
  for (int s = 0; s < 3; ++s) {
    links += fmt::format(
        "[[link]]\nbetween = [\"a:{}\", \"a:{}\"]\nbandwidth = \"1 kB/s\"\nlatency = \"0 s\"\n"
        "duplex = \"half\"\n",
        s, s + 1);
  }
  const Cluster cluster =
      ClusterOf("[[node]]\nname = \"a\"\ndevices = [{ type = \"gpu\", count = 4 }]\n" + links);
  EXPECT_NEAR(TimeOf({}, false, cluster, LinkModel::kExclusive), 41, 1e-9);
}

// A lone microbatch goes down and up: n(F + B) and twice the messages between.
TEST(PipelineTimesTest, OneMicrobatch) {
  PipelineText pipeline;
  pipeline.microbatches = 1;
  EXPECT_NEAR(TimeOf(pipeline, false, MeshOf(4, "1 kB/s"), LinkModel::kShared), 4 * 3 + 2 * 3 * 0.5,
              1e-9);
  EXPECT_NEAR(TimeOf(pipeline, false, MeshOf(4, "1 kB/s", "250 ms"), LinkModel::kShared),
              4 * 3 + 2 * 3 * 0.75, 1e-9);
}

// (M + n - 1)(F + B) for GPipe and 1F1B, whatever the numbers (Huang et al. 2019, Narayanan et al.
// 2021: the bubble is (n - 1)(F + B)).
RC_GTEST_PROP(PipelineTimesProperty, ClosedForm, ()) {
  PipelineText pipeline;
  pipeline.stages = *rc::gen::inRange(1, 7);
  pipeline.microbatches = *rc::gen::inRange(1, 13);
  pipeline.forward = *rc::gen::inRange(1, 5);
  pipeline.backward = *rc::gen::inRange(1, 9);
  const Cluster cluster = MeshOf(std::max(2, pipeline.stages), "1000 TB/s");
  const double expected =
      (pipeline.microbatches + pipeline.stages - 1) * (pipeline.forward + pipeline.backward);
  for (const bool gpipe : {false, true}) {
    const double time = TimeOf(pipeline, gpipe, cluster, LinkModel::kShared);
    RC_ASSERT(std::abs(time - expected) < 1e-6);
  }
}

// Slower messages never make it faster, and half duplex is no better than full.
RC_GTEST_PROP(PipelineTimesProperty, SlowerLinksAreNotFaster, ()) {
  PipelineText pipeline;
  pipeline.stages = *rc::gen::inRange(2, 5);
  pipeline.microbatches = *rc::gen::inRange(1, 9);
  pipeline.elements = *rc::gen::inRange(1, 500);
  pipeline.channels = "full";
  const Cluster cluster = MeshOf(4, "1 kB/s");
  const double full = TimeOf(pipeline, false, cluster, LinkModel::kChannels);
  RC_ASSERT(std::abs(full - TimeOf(pipeline, false, cluster, LinkModel::kExclusive)) < 1e-9);
  PipelineText half = pipeline;
  half.channels = "half";
  RC_ASSERT(TimeOf(half, false, cluster, LinkModel::kChannels) >= full - 1e-9);
  RC_ASSERT(full >= (pipeline.microbatches + pipeline.stages - 1) * 3 - 1e-9);
}

}  // namespace
}  // namespace heddle
