#include "report/throughput.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/json_field.h"
#include "plan/planning.h"

namespace heddle {
namespace {

// Two devices of 10 and one of 20 TFLOP/s; half of their matrix units' rate in fp32.
Cluster ThreeDevices() {
  return ParseClusterToml(R"(
schema = "heddle.cluster/1"
[device_type.slow]
flops = { fp32 = "10 TFLOP/s", bf16 = "40 TFLOP/s" }
memory = "64 GiB"
memory_bandwidth = "900 GB/s"
[device_type.fast]
flops = { fp32 = "20 TFLOP/s", bf16 = "160 TFLOP/s" }
memory = "64 GiB"
memory_bandwidth = "900 GB/s"
[[node]]
name = "a"
devices = [{ type = "slow", count = 2 }, { type = "fast" }]
link = { bandwidth = "10 GB/s", latency = "5 us" }
)",
                          "test.toml")
      .value();
}

// A GPT: blocks, width, heads, positions, words, batch.
constexpr double kL = 3, kH = 64, kS = 32, kV = 512, kB = 8;
constexpr char kGpt[] = "gpt?layers=3&hidden=64&heads=4&seq=32&vocab=512&dropout=10";

// Of products, 2 FLOPs each: in a block 12 h² weights per position and two products of attention.
constexpr double kBlocks = kL * (24 * kB * kS * kH * kH + 4 * kB * kS * kS * kH);
constexpr double kLogits = 2 * kB * kS * kH * kV;

Planning PlanningOf(const Cluster& cluster, const std::string& model, DType dtype = DType::kF32) {
  PlanRequest options;
  options.model = model;
  options.batch = static_cast<int64_t>(kB);
  options.dtype = dtype;
  return Planning::Make(options, cluster, nullptr).value();
}

// Blocks on a:0, head on a:2.
Plan TwoStages(const Planning& planning, bool recompute) {
  Plan plan = planning.Blank("pipeline", "gpipe");
  plan.microbatches = 2;
  StagePlan first, second;
  first.chunks = {{0, 3}};
  first.devices = {"a:0"};
  first.shares = {1};
  first.recompute = recompute;
  first.order = ParseOrder("F*2 B*2", "", 100).value();
  second.chunks = {{4, 4}};
  second.devices = {"a:2"};
  second.shares = {1};
  second.order = first.order;
  plan.pipelines = {{{first, second}}};
  return plan;
}

TEST(ThroughputTest, ModelFlopsAreThoseOfThePublishedFormula) {
  const Cluster cluster = ThreeDevices();
  const double counted = ModelFlops(PlanningOf(cluster, kGpt).graph)->value;
  EXPECT_NEAR(counted / (3 * (kBlocks + kLogits)), 1, 1e-12);
  const double formula = 72 * kB * kS * kL * kH * kH * (1 + kS / (6 * kH)) + 6 * kB * kS * kH * kV;
  EXPECT_NEAR(counted / formula, 1, 1e-12);
}

TEST(ThroughputTest, WithAllBlocksComputedAgainItIsMegatrons) {
  const Cluster cluster = ThreeDevices();
  const Planning planning = PlanningOf(cluster, kGpt);
  const double seconds = 1e-3, peak = 30e12;  // of the two devices used
  const Throughput once =
      ThroughputOf(TwoStages(planning, false), planning.graph, cluster, Seconds{seconds}).value();
  EXPECT_NEAR(*once.mfu, 3 * (kBlocks + kLogits) / (seconds * peak), 1e-12);
  EXPECT_EQ(once.mfu, once.hfu);
  EXPECT_FALSE(once.computes_again());
  const Throughput again =
      ThroughputOf(TwoStages(planning, true), planning.graph, cluster, Seconds{seconds}).value();
  EXPECT_EQ(again.mfu, once.mfu);
  const double megatron = 96 * kB * kS * kL * kH * kH * (1 + kS / (6 * kH) + kV / (16 * kL * kH));
  EXPECT_NEAR(*again.hfu, megatron / (seconds * peak), 1e-12);
  EXPECT_TRUE(again.computes_again());
}

TEST(ThroughputTest, TokensAndSamplesPerDeviceUsed) {
  const Cluster cluster = ThreeDevices();
  const Planning planning = PlanningOf(cluster, kGpt);
  const Throughput rate =
      ThroughputOf(TwoStages(planning, false), planning.graph, cluster, Seconds{0.5}).value();
  EXPECT_DOUBLE_EQ(rate.samples, 8);  // 8 in half a second, two devices
  EXPECT_DOUBLE_EQ(*rate.tokens, 8 * 32);
}

TEST(ThroughputTest, ThePeakIsThatOfThePlansDtype) {
  const Cluster cluster = ThreeDevices();
  const Planning planning = PlanningOf(cluster, kGpt, DType::kBf16);
  const Throughput rate =
      ThroughputOf(TwoStages(planning, false), planning.graph, cluster, Seconds{1e-3}).value();
  EXPECT_NEAR(*rate.mfu, 3 * (kBlocks + kLogits) / (1e-3 * 200e12), 1e-12);
}

// A round of LocalSGD goes through as many batches as it has updates.
TEST(ThroughputTest, OfOneBatchUnderLocalSgd) {
  const Cluster cluster = ThreeDevices();
  const Planning planning = PlanningOf(cluster, kGpt);
  Plan plan = TwoStages(planning, false);
  const Throughput one = ThroughputOf(plan, planning.graph, cluster, Seconds{1e-3}).value();
  plan.local = LocalPlan{{3, 5}};
  const Throughput round = ThroughputOf(plan, planning.graph, cluster, Seconds{1e-3}).value();
  EXPECT_DOUBLE_EQ(round.samples, 8 * one.samples);
  EXPECT_DOUBLE_EQ(*round.mfu, 8 * *one.mfu);
}

TEST(ThroughputTest, WhichTokensCount) {
  const auto tokens = [](const std::string& model) {
    return TokensPerSample(BuildModel(model, {.batch = 2}).value());
  };
  EXPECT_EQ(tokens("bert-base?seq=48"), 48);
  EXPECT_EQ(tokens("transformer?seq=40"), 40);  // the target's, not source and target
  EXPECT_EQ(tokens("mlp"), std::nullopt);
  EXPECT_EQ(tokens("vit"), std::nullopt);
}

// An encoder-decoder's cross-attention: backward is twice forward, though its kernels, which look
// at the scores again, do more.
TEST(ThroughputTest, BackwardOfAttentionIsTwiceItsForward) {
  const Graph graph = BuildModel("transformer?layers=1&seq=16", {.batch = 2}).value();
  double forward = 0;
  for (const Op& op : graph.ops()) {
    const bool product = InfoOf(op.kind).matrix && op.phase == Phase::kForward;
    if (product) forward += FlopsOf(op, op.extents).value;
  }
  EXPECT_NEAR(ModelFlops(graph)->value / (3 * forward), 1, 1e-12);
}

TEST(ThroughputTest, InWords) {
  Throughput rate;
  rate.samples = 14.375;
  EXPECT_EQ(ThroughputText(rate), "14.4 samples/s per device, MFU –");
  rate.tokens = 1840;
  rate.mfu = rate.hfu = 0.4123;
  EXPECT_EQ(ThroughputText(rate), "1,840 tokens/s per device (14.4 samples/s), MFU 41.2%");
  rate.hfu = 0.549;
  EXPECT_EQ(ThroughputText(rate),
            "1,840 tokens/s per device (14.4 samples/s), MFU 41.2%, HFU 54.9%");
  EXPECT_EQ(RateText(0.01234), "0.0123");
  EXPECT_EQ(RateText(99.96), "100");
  EXPECT_EQ(RateText(1234567.4), "1,234,567");
}

TEST(ThroughputTest, WhatIsUnknownIsNull) {
  Json json;
  AddThroughput(std::nullopt, json);
  for (const char* key :
       {"samples_per_second_per_device", "tokens_per_second_per_device", "mfu", "hfu"}) {
    ASSERT_TRUE(json.contains(key)) << key;
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  AddThroughput(Throughput{3, {}, {}, {}}, json);
  EXPECT_EQ(json["samples_per_second_per_device"], 3.0);
  EXPECT_TRUE(json["mfu"].is_null());
}

}  // namespace
}  // namespace heddle
