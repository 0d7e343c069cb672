// Plans as JSON: round trip, and what is wrong with a broken one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_field.h"
#include "cluster/cluster.h"
#include "model/zoo.h"
#include "program/plan/plan.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr char kCluster[] = R"(
schema = "heddle.cluster/1"
[device_type.gpu]
flops = "10 TFLOP/s"
memory = "16 GiB"
memory_bandwidth = "900 GB/s"
[[node]]
name = "a"
devices = [{ type = "gpu", count = 3 }]
link = { bandwidth = "10 GB/s", latency = "5 us" }
)";

StagePlan Stage(std::vector<LayerRun> chunks, std::vector<std::string> devices,
                std::vector<double> shares, const std::string& order) {
  StagePlan stage;
  stage.chunks = std::move(chunks);
  stage.devices = std::move(devices);
  stage.shares = std::move(shares);
  stage.order = ParseOrder(order, "").value();
  return stage;
}

// Two stages: layers 0 to 3 on two devices in the ratio 3:1, layers 4 and 5 on one.
Plan TwoStages() {
  const Cluster cluster = ParseClusterToml(kCluster, "c.toml").value();
  Plan plan;
  plan.strategy = "pipeline";
  plan.order_name = "1f1b";
  plan.request.model = "mlp?layers=6";
  plan.model_hash = "00c0ffee00c0ffee";
  plan.cluster = cluster.spec();
  plan.cluster_hash = cluster.ContentHash();
  plan.request.batch = 16;
  plan.microbatches = 4;
  plan.request.dtype = DType::kBf16;
  plan.request.optimizer = Optimizer::kSgd;
  plan.bucket = Bytes{12345678};
  plan.all_reduce = CollectiveAlgorithm::kTree;
  plan.pipelines.push_back({{Stage({{0, 3}}, {"a:0", "a:1"}, {3, 1}, "F (F B)*3 B"),
                             Stage({{4, 5}}, {"a:2"}, {1}, "(F B)*4")}});
  plan.pipelines[0].stages[1].recompute = true;
  plan.estimate = {0.25, 0.125, 1e-3, 0, {{"a:0", 1000, 16LL << 30}}};
  plan.search = {1.5,
                 42,
                 {"tried 42 plans", "with \"quotes\" and é"},
                 {{"even ratios", 0.25, 0.2, "a:1", 1000, 2000}, {"others", 0.3, 0.1, "a:0", 7, 8}},
                 SearchCertificate{"astar", 0.4, 0.3, 17}};
  return plan;
}

// None of these plans is an SPMD program, whose names are a graph's.
const Graph& AnyGraph() {
  static const Graph graph = BuildModel("tiny-mlp", {}).value();
  return graph;
}

std::string TextOf(const Plan& plan) { return PlanToJson(plan, AnyGraph()).dump(2); }

std::string ErrorOf(const std::string& text) {
  const Result<Plan> plan = ParsePlan(text, "plan.json");
  if (plan.ok()) return "";
  EXPECT_EQ(plan.error().kind, ErrorKind::kBadInput);
  return plan.error().ToString();
}

// The message after one edit of the JSON.
template <class Edit>
std::string ErrorAfter(Edit edit) {
  Json json = PlanToJson(TwoStages(), AnyGraph());
  edit(json);
  return ErrorOf(json.dump());
}

TEST(PlanJsonTest, RoundTrip) {
  const Plan plan = TwoStages();
  const Result<Plan> read = ParsePlan(TextOf(plan), "plan.json");
  ASSERT_TRUE(read.ok()) << read.error().ToString();
  EXPECT_EQ(TextOf(read.value()), TextOf(plan));
  EXPECT_EQ(read.value().pipelines[0].stages[0].order, plan.pipelines[0].stages[0].order);
  EXPECT_TRUE(read.value().pipelines[0].stages[1].recompute);
  EXPECT_EQ(read.value().devices_used(), 3);
  EXPECT_EQ(read.value().search.notes, plan.search.notes);
  EXPECT_EQ(read.value().estimate.memory[0].capacity_bytes, 16LL << 30);
  EXPECT_EQ(Cluster::Make(read.value().cluster, "plan.json").value().ContentHash(),
            plan.cluster_hash);
}

TEST(PlanJsonTest, ProfileHashIsOptional) {
  Plan plan = TwoStages();
  EXPECT_EQ(TextOf(plan).find("profile_hash"), std::string::npos);
  plan.profile_hash = "1234";
  EXPECT_EQ(ParsePlan(TextOf(plan), "plan.json").value().profile_hash, "1234");
}

TEST(PlanJsonTest, ClipIsOptional) {
  Plan plan = TwoStages();
  EXPECT_FALSE(PlanToJson(plan, AnyGraph())["request"].contains("clip"));
  EXPECT_EQ(ParsePlan(TextOf(plan), "plan.json").value().request.clip, 0);
  plan.request.clip = 0.1;
  EXPECT_EQ(ParsePlan(TextOf(plan), "plan.json").value().request.clip, 0.1);
  EXPECT_EQ(TextOf(ParsePlan(TextOf(plan), "plan.json").value()), TextOf(plan));
  EXPECT_EQ(ErrorAfter([&](Json& j) { j["request"]["clip"] = -1.5; }),
            "plan.json: request.clip: -1.5 is out of range\n  hint: expected 0 to 1e+30");
  EXPECT_THAT(ErrorAfter([](Json& j) { j["request"]["clip"] = "1"; }),
              HasSubstr("clip: found string"));
}

TEST(PlanJsonTest, EveryOptimizer) {
  for (const Optimizer optimizer : kOptimizers) {
    Plan plan = TwoStages();
    plan.request.optimizer = optimizer;
    EXPECT_EQ(ParsePlan(TextOf(plan), "plan.json").value().request.optimizer, optimizer);
  }
  EXPECT_THAT(ErrorAfter([](Json& j) { j["request"]["optimizer"] = "lamb"; }),
              HasSubstr("\"lamb\" is unknown\n  hint: sgd, momentum, adam or adamw"));
}

TEST(PlanJsonTest, KeysThatToolsRelyOn) {
  const Json json = PlanToJson(TwoStages(), AnyGraph());
  for (const char* key : {"schema", "strategy", "iteration_seconds", "schedule_bound_seconds",
                          "lower_bound_seconds", "planning_seconds", "devices_used", "memory"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["schema"], "heddle.plan/2");
  EXPECT_EQ(json["pipelines"][0]["stages"][0]["order"], "F*2 (B F)*2 B*2");
}

TEST(PlanJsonTest, WhatIsGuaranteedIsThereIfItIsKnown) {
  Plan plan = TwoStages();
  EXPECT_FALSE(PlanToJson(plan, AnyGraph()).contains("guaranteed_seconds"));
  plan.estimate.guaranteed_seconds = 0.5;
  EXPECT_EQ(ParsePlan(TextOf(plan), "plan.json").value().estimate.guaranteed_seconds, 0.5);
}

TEST(PlanJsonTest, UnknownFieldSuggestsTheNearest) {
  EXPECT_THAT(
      ErrorAfter([](Json& j) { j["stratgy"] = "x"; }),
      HasSubstr("plan.json: unknown field \"stratgy\"\n  hint: did you mean \"strategy\"?"));
  EXPECT_THAT(ErrorAfter([](Json& j) { j["pipelines"][0]["stages"][1]["share"] = 1; }),
              HasSubstr("plan.json: pipelines[0].stages[1]: unknown field \"share\"\n  hint: did "
                        "you mean \"shares\"?"));
}

TEST(PlanJsonTest, MissingFields) {
  EXPECT_EQ(ErrorAfter([](Json& j) { j["request"].erase("batch"); }),
            "plan.json: request.batch: missing\n  hint: add this field");
  EXPECT_THAT(ErrorAfter([](Json& j) { j["pipelines"][0]["stages"][0].erase("order"); }),
              HasSubstr("plan.json: pipelines[0].stages[0].order: missing"));
  EXPECT_THAT(ErrorAfter([](Json& j) { j.erase("model_hash"); }),
              HasSubstr("plan.json: model_hash: missing"));
  EXPECT_THAT(ErrorAfter([](Json& j) { j.erase("cluster"); }), HasSubstr("cluster: missing"));
}

TEST(PlanJsonTest, AnotherKindOfFile) {
  EXPECT_THAT(ErrorAfter([](Json& j) { j["schema"] = "heddle.profile/1"; }),
              HasSubstr("schema is \"heddle.profile/1\"\n  hint: expected \"heddle.plan/2\""));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("plan.json: schema: missing"));
  EXPECT_THAT(ErrorOf("[1]"), HasSubstr("expected a table"));
  EXPECT_THAT(ErrorOf("7"), HasSubstr("expected a table"));
}

TEST(PlanJsonTest, WrongTypesAndValues) {
  EXPECT_THAT(ErrorAfter([](Json& j) { j["request"]["batch"] = "16"; }),
              HasSubstr("plan.json: request.batch: found \"16\", expected a whole number"));
  EXPECT_THAT(ErrorAfter([](Json& j) { j["request"]["batch"] = 0; }),
              HasSubstr("batch: 0 is out of range"));
  EXPECT_THAT(ErrorAfter([](Json& j) { j["microbatches"] = 17; }),
              HasSubstr("microbatches: 17 is out of range\n  hint: expected 1 to 16"));
  EXPECT_THAT(
      ErrorAfter([](Json& j) { j["request"]["dtype"] = "f31"; }),
      HasSubstr(
          "dtype: \"f31\" is unknown\n  hint: did you mean \"fp32\"? fp32, bf16, fp16 or fp64"));
  EXPECT_THAT(ErrorAfter([](Json& j) { j["request"]["optimizer"] = 1; }),
              HasSubstr("expected text"));
  EXPECT_THAT(ErrorAfter([](Json& j) { j["bucket"] = 25; }), HasSubstr("bucket: 25 has no unit"));
  EXPECT_THAT(ErrorAfter([](Json& j) { j["iteration_seconds"] = "fast"; }),
              HasSubstr("iteration_seconds: found string, expected a number"));
  EXPECT_THAT(ErrorAfter([](Json& j) { j["pipelines"] = Json::array(); }),
              HasSubstr("pipelines: is empty"));
}

TEST(PlanJsonTest, BadStages) {
  const auto after = [](const char* key, const Json& value) {
    return ErrorAfter([&](Json& j) { j["pipelines"][0]["stages"][0][key] = value; });
  };
  EXPECT_THAT(after("layers", Json::array()), HasSubstr("stages[0].layers: is empty"));
  EXPECT_THAT(after("layers", {{0}}), HasSubstr("stages[0].layers[0]: is not [first, last]"));
  EXPECT_THAT(after("layers", {{3, 0}}), HasSubstr("layers[0][1]: 0 is out of range"));
  EXPECT_THAT(after("shares", {1, -1}), HasSubstr("stages[0].shares[1]: -1 is out of range"));
  EXPECT_THAT(after("recompute", 1), HasSubstr("recompute: found number, expected true or false"));
  EXPECT_THAT(after("order", "F*3 (F B"),
              HasSubstr("pipelines[0].stages[0].order: missing ')' at character 9"));
}

TEST(PlanJsonTest, TruncatedAnywhereIsNotAPlan) {
  const std::string text = TextOf(TwoStages());
  for (size_t length = 0; length < text.size(); length += 7) {
    EXPECT_THAT(ErrorOf(text.substr(0, length)), HasSubstr("plan.json: not valid JSON")) << length;
  }
}

TEST(PlanJsonTest, ShortTextsCannotAskForMuch) {
  EXPECT_THAT(ErrorOf(std::string(100000, '[')), HasSubstr("nested too deeply"));
  Json json = PlanToJson(TwoStages(), AnyGraph());
  Json& stages = json["pipelines"][0]["stages"];
  stages[0]["order"] = "F*4000000";
  for (int k = 0; k < 100; ++k) stages.push_back(stages[0]);
  EXPECT_THAT(ErrorOf(json.dump()), HasSubstr("order: the order is too long"));
}

// --- what the layers, devices and orders must be ---

template <class Edit>
std::string InvalidAfter(Edit edit, int layers = 6) {
  Plan plan = TwoStages();
  edit(plan.pipelines[0].stages, plan);
  const Status status = ValidatePlan(plan, layers, "plan.json");
  return status.ok() ? "" : status.error().ToString();
}

using Stages = std::vector<StagePlan>;

TEST(ValidatePlanTest, GoodPlan) {
  EXPECT_EQ(InvalidAfter([](Stages&, Plan&) {}), "");
}

TEST(ValidatePlanTest, LayerDropped) {
  EXPECT_THAT(InvalidAfter([](Stages& s, Plan&) { s[1].chunks[0].first = 5; }),
              HasSubstr("plan.json: pipelines[0]: layer 4 is in no stage"));
}

TEST(ValidatePlanTest, LayerTwice) {
  EXPECT_THAT(InvalidAfter([](Stages& s, Plan&) { s[0].chunks[0].last = 4; }),
              HasSubstr("layer 4 is in two stages"));
}

TEST(ValidatePlanTest, LayersOfAnotherModel) {
  EXPECT_THAT(InvalidAfter([](Stages&, Plan&) {}, 5),
              HasSubstr("layers 4..5 are not layers of the model\n  hint: the model has layers "
                        "0..4"));
  EXPECT_THAT(InvalidAfter([](Stages&, Plan&) {}, 7), HasSubstr("layer 6 is in no stage"));
}

TEST(ValidatePlanTest, SharesAndDevices) {
  EXPECT_THAT(InvalidAfter([](Stages& s, Plan&) { s[0].shares = {1}; }),
              HasSubstr("pipelines[0].stages[0].shares: 1 shares for 2 devices"));
  EXPECT_THAT(InvalidAfter([](Stages& s, Plan&) {
                s[0].shares = {0, 0};
              }),
              HasSubstr("stages[0].shares: add up to nothing"));
  EXPECT_THAT(InvalidAfter([](Stages& s, Plan&) { s[1].devices[0] = "a:0"; }),
              HasSubstr("stages[1].devices: a:0 is used twice"));
  EXPECT_THAT(InvalidAfter([](Stages& s, Plan&) { s[1].devices.clear(); }),
              HasSubstr("stages[1].devices: is empty"));
}

std::string InvalidOrder(const std::string& order) {
  return InvalidAfter([&](Stages& s, Plan&) { s[1].order = ParseOrder(order, "").value(); });
}

TEST(ValidatePlanTest, BrokenOrders) {
  EXPECT_THAT(InvalidOrder("(F B)*3 F"),
              HasSubstr("stages[1].order: microbatch 3 of chunk 0 is done as \"F\""));
  EXPECT_THAT(InvalidOrder("(F B)*4 B3"), HasSubstr("is done as \"FBB\""));
  EXPECT_THAT(InvalidOrder("B F (F B)*3"), HasSubstr("microbatch 0 of chunk 0 is done as \"BF\""));
  EXPECT_THAT(InvalidOrder("(F B)*3 F W3 I3"), HasSubstr("is done as \"FWI\""));
  EXPECT_THAT(InvalidOrder("(F B)*5"), HasSubstr("F4.0 is out of range"));
  EXPECT_THAT(InvalidOrder("(F B)*3 F.1 B.1"), HasSubstr("F0.1 is out of range"));
  EXPECT_THAT(InvalidOrder("(F B)*3"),
              HasSubstr("stages[1].order: does not process the microbatches of the stage before"));
  EXPECT_EQ(InvalidOrder("(F I W)*4"), "");
}

TEST(ValidatePlanTest, OrdersThatWaitForEachOther) {
  // Stage 0 does the backward of microbatch 0 before the forward of 2; stage 1 the other way round.
  const auto crossed = [](Stages& s, Plan&) {
    s[0].order = ParseOrder("F*2 B F*2 B*3", "").value();
    s[1].order = ParseOrder("F*3 B F B*3", "").value();
  };
  EXPECT_EQ(InvalidAfter(crossed),
            "plan.json: pipelines[0]: the orders of the stages wait for each other: stage 0 at B, "
            "stage 1 at F2\n  hint: each forward needs that of the layers before, each backward "
            "that of those after");
}

TEST(ValidatePlanTest, EveryChunkOfEveryMicrobatch) {
  EXPECT_THAT(InvalidAfter([](Stages& s, Plan&) {
                s[1].chunks = {{4, 4}, {5, 5}};
              }),
              HasSubstr("some microbatch does not go through all of the stage's layers"));
}

TEST(ValidatePlanTest, EveryMicrobatchInOnePipeline) {
  EXPECT_THAT(InvalidAfter([](Stages&, Plan& plan) { plan.microbatches = 5; }),
              HasSubstr("plan.json: microbatch 4 is processed 0 times"));
  const auto twice = [](Stages&, Plan& plan) {
    plan.pipelines.push_back({{Stage({{0, 5}}, {"b:0"}, {1}, "(F B)*4")}});
  };
  EXPECT_THAT(InvalidAfter(twice), HasSubstr("microbatch 0 is processed 2 times"));
  const auto apart = [](Stages& s, Plan& plan) {
    s[0].order = s[1].order = ParseOrder("F B F B", "").value();
    plan.pipelines.push_back({{Stage({{0, 5}}, {"b:0"}, {1}, "F2 B2 F3 B3")}});
  };
  EXPECT_EQ(InvalidAfter(apart), "");
}

// Replicas that are averaged: what must hold of their numbers.
TEST(PlanJsonTest, LocalPlans) {
  Plan plan = TwoStages();
  plan.microbatches = 1;
  plan.pipelines = {{{Stage({{0, 5}}, {"a:0"}, {1}, "F B")}},
                    {{Stage({{0, 5}}, {"a:1"}, {1}, "F B")}}};
  plan.local = LocalPlan{{5, 3}};
  EXPECT_EQ(TextOf(ParsePlan(TextOf(plan), "p").value()), TextOf(plan));
  EXPECT_TRUE(ValidatePlan(plan, 6, "p").ok());
  EXPECT_EQ(plan.batches_per_iteration(), 8);
  EXPECT_EQ(plan.seconds_per_batch(4), 0.5);
  const auto says = [&](const std::vector<int64_t>& steps) {
    plan.local->steps = steps;
    const Status status = ValidatePlan(plan, 6, "p");
    return status.ok() ? "ok" : status.error().ToString();
  };
  EXPECT_EQ(says({4, 4}), "ok");
  EXPECT_THAT(says({5, 4}), HasSubstr("on average"));
  EXPECT_THAT(says({4}), HasSubstr("1 numbers for 2 replicas"));
  EXPECT_THAT(says({}), HasSubstr("is empty"));
  plan.pipelines.pop_back();
  EXPECT_EQ(says({2, 2, 2}), "ok");
  EXPECT_THAT(says({1, 3}), HasSubstr("take turns"));
  plan.request.clip = 1;
  EXPECT_THAT(says({2, 2}), HasSubstr("clip"));
}

// If all took the same time for a round, who would be done first?
TEST(PlanJsonTest, UpdatesTakeTurns) {
  const std::vector<LocalUpdate> turns = UpdatesInTurn({{3, 1}});
  const std::vector<LocalUpdate> expected = {{0, 0}, {0, 1}, {1, 0}, {0, 2}};
  EXPECT_EQ(turns, expected);
}

}  // namespace
}  // namespace heddle
