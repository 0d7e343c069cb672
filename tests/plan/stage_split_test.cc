// Stages as programs on meshes: cutting a program into them, their text, and what is refused.
#include "plan/stage_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_field.h"
#include "model/zoo.h"
#include "plan/stage_plans.h"
#include "program/check/check.h"
#include "program/lower/lower.h"
#include "program/plan/body_check.h"
#include "program/plan/body_json.h"
#include "program/plan/spmd_check.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr char kGpt[] = "tiny-gpt?layers=2&hidden=8&heads=2&seq=4&vocab=12&tied=0";

Graph Model(int64_t batch, const std::string& model = kGpt) {
  return BuildModel(model, {batch, DType::kF64, Optimizer::kAdam, 0}).value();
}

// Columns inside a replica for what is wide, and rows for what takes it in.
Layout Columns(const Tensor& tensor) {
  const auto has = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
  if (has("fc1.w")) return Inner(1);
  if (has("fc1.b") || has("fc2.w")) return Inner(0);
  return kEverywhere;
}

SpmdPlan Square(const Graph& part, const std::string& name) {
  return RowsAndColumns(part, NamedMesh(name, 2, 2), {{{{0.5, 0.5}}, {{0.5, 0.5}}}}, Columns);
}

Plan TwoStages(const Graph& graph, const Graph& part, std::vector<int32_t> again = {}) {
  return StagesPlan(
      graph, {{{{0, 1}}, Square(part, "a"), std::move(again)}, {{{2, 3}}, Square(part, "b")}}, 4);
}

Status Checked(const Plan& plan, const Graph& graph) {
  HEDDLE_RETURN_IF_ERROR(ValidatePlan(plan, static_cast<int>(graph.layers().size()), "plan"));
  return CheckBodies(plan, graph, "plan");
}

TEST(StageSplitTest, EveryStageComputesItsLayersFromWhatArrives) {
  const Graph graph = Model(8), part = Model(2);
  const Plan plan = TwoStages(graph, part);
  const Status checked = Checked(plan, graph);
  ASSERT_TRUE(checked.ok()) << checked.error().ToString();
  for (const StagePlan& stage : plan.pipelines[0].stages) {
    ASSERT_EQ(stage.body->shape.chunks.size(), 1U);
    const std::vector<BodyArrival>& arrivals = stage.body->shape.chunks[0].arrivals;
    ASSERT_EQ(arrivals.size(), 1U);
    EXPECT_EQ(arrivals[0].layout[0], ShardState::Sharded(0));  // samples stay with their replica
  }
  const Program program = LowerPlan(plan, graph).value();
  EXPECT_TRUE(CheckProgram(program, {&graph, {}}).ok());
  EXPECT_EQ(program.devices.size(), 8U);
}

// Messages between stages carry each element that is lacking once: here each device has a twin.
TEST(StageSplitTest, BoundaryBytes) {
  const Graph graph = Model(8), part = Model(2);
  const Program program = LowerPlan(TwoStages(graph, part), graph).value();
  int64_t bytes = 0, whole = 0;
  for (size_t d = 0; d < 4; ++d) {
    for (const Instruction& in : program.devices[d].list(Section::kBody)) {
      if (in.code != OpCode::kSend) continue;
      const BufferRef& ref = program.devices[d].operands[static_cast<size_t>(in.first_operand)];
      bytes += program.BytesOf(ref.tensor, ref.slice).value;
      whole = program.BytesOf(ref.tensor, -1).value;
    }
  }
  EXPECT_EQ(bytes, 4 * 2 * whole);  // microbatches, and both halves of a replica keep all of it
}

TEST(StageSplitTest, TextOfABody) {
  const Graph graph = Model(8), part = Model(2);
  const Plan plan = TwoStages(graph, part, {1});
  for (const StagePlan& stage : plan.pipelines[0].stages) {
    Json json;
    AddBody(*stage.body, graph, json);
    StagePlan again;
    again.chunks = stage.chunks;
    const Status read = ReadBody(JsonField(json, "plan"), graph, again);
    ASSERT_TRUE(read.ok()) << read.error().ToString();
    EXPECT_EQ(again.devices, stage.devices);
    EXPECT_EQ(again.body->shape.again, stage.body->shape.again);
    Json written;
    AddBody(*again.body, graph, written);
    EXPECT_EQ(written.dump(2), json.dump(2));
  }
}

std::string WhyNot(const Plan& plan, const Graph& graph) {
  const Status checked = Checked(plan, graph);
  return checked.ok() ? "ok" : checked.error().ToString();
}

TEST(StageSplitTest, EditedBodiesAreRefused) {
  const Graph graph = Model(8), part = Model(2);
  const Plan good = TwoStages(graph, part);
  const auto edited = [&](const std::function<void(Plan&)>& edit) {
    Plan plan = good;
    edit(plan);
    return WhyNot(plan, graph);
  };
  const auto second = [](Plan& plan) -> StageBody& { return *plan.pipelines[0].stages[1].body; };
  EXPECT_EQ(edited([](Plan&) {}), "ok");
  EXPECT_THAT(edited([&](Plan& plan) { second(plan).shape.chunks[0].arrivals.clear(); }),
              HasSubstr("stages[1]"));
  EXPECT_THAT(edited([&](Plan& plan) {
                second(plan).shape.chunks[0].arrivals[0].layout[1] = ShardState::Partial();
              }),
              HasSubstr("would arrive as a partial sum"));
  EXPECT_THAT(edited([&](Plan& plan) {
                second(plan).shape.chunks[0].arrivals[0].layout[1] = ShardState::Sharded(7);
              }),
              HasSubstr("has no dimension 7"));
  EXPECT_THAT(edited([&](Plan& plan) {
                second(plan).program.ratios[0][0] = {0.5, 0.4};
              }),
              HasSubstr("adds up to 0.9"));
  EXPECT_THAT(edited([&](Plan& plan) { second(plan).program.storage.pop_back(); }),
              HasSubstr("storage"));
  EXPECT_THAT(edited([&](Plan& plan) { second(plan).program.mesh[0][0] = "a0:0"; }),
              HasSubstr("not those of its mesh"));
  EXPECT_THAT(edited([&](Plan& plan) {
                second(plan).program.mesh[0][0] = "a0:0";
                plan.pipelines[0].stages[1].devices[0] = "a0:0";
              }),
              HasSubstr("a0:0 is used twice"));
  EXPECT_THAT(edited([&](Plan& plan) { second(plan).shape.updates -= 1; }),
              HasSubstr("out of order"));
  EXPECT_THAT(edited([&](Plan& plan) { second(plan).shape.chunks[0].backward += 1; }),
              HasSubstr("stands in another part"));
  EXPECT_THAT(edited([&](Plan& plan) {
                std::swap(plan.pipelines[0].stages[0].chunks, plan.pipelines[0].stages[1].chunks);
              }),
              HasSubstr("wait for each other"));
  EXPECT_THAT(edited([](Plan& plan) { plan.microbatches = 3; }), HasSubstr("microbatches"));
}

// Every conversion matters: without it some op, or the next stage, does not find what it needs.
TEST(StageSplitTest, NoStepCanBeLeftOut) {
  const Graph graph = Model(8), part = Model(2);
  const Plan good = TwoStages(graph, part);
  for (size_t s = 0; s < 2; ++s) {
    for (size_t k = 0; k < good.pipelines[0].stages[s].body->program.steps.size(); ++k) {
      Plan plan = good;
      StageBody& body = *plan.pipelines[0].stages[s].body;
      body.program.steps.erase(body.program.steps.begin() + static_cast<std::ptrdiff_t>(k));
      for (size_t* at :
           {&body.shape.chunks[0].backward, &body.shape.chunks[0].end, &body.shape.updates}) {
        if (*at > k) --*at;
      }
      EXPECT_NE(WhyNot(plan, graph), "ok") << "stage " << s << ", step " << k;
    }
  }
}

TEST(StageSplitTest, WhatDoesNotComposeSaysWhy) {
  const Graph graph = Model(8), part = Model(2);
  const Plan good = TwoStages(graph, part);
  const auto with = [&](const std::function<void(Plan&)>& edit) {
    Plan plan = good;
    edit(plan);
    const Status valid = ValidatePlan(plan, static_cast<int>(graph.layers().size()), "plan");
    return valid.ok() ? "ok" : valid.error().ToString();
  };
  EXPECT_THAT(with([](Plan& plan) { plan.request.clip = 1; }), HasSubstr("norm"));
  EXPECT_THAT(with([](Plan& plan) { plan.request.sync = GradientSync::kServers; }),
              HasSubstr("collectives"));
  EXPECT_THAT(with([](Plan& plan) { plan.request.compress = true; }), HasSubstr("full precision"));
  EXPECT_THAT(with([](Plan& plan) { plan.async = AsyncPlan{}; }), HasSubstr("update together"));
  EXPECT_THAT(with([](Plan& plan) {
                plan.local = LocalPlan{{1, 1}};
              }),
              HasSubstr("update together"));
  EXPECT_THAT(with([](Plan& plan) { plan.pipelines.push_back(plan.pipelines[0]); }),
              HasSubstr("several pipelines"));
  EXPECT_THAT(with([](Plan& plan) { plan.pipelines[0].stages[0].body.reset(); }),
              HasSubstr("some have a body"));
  EXPECT_THAT(with([](Plan& plan) { plan.pipelines[0].stages[0].recompute = true; }),
              HasSubstr("by layer"));
  EXPECT_THAT(with([](Plan& plan) {
                plan.pipelines[0].stages[1].order = ParseOrder("(F I W)*4", "").value();
              }),
              HasSubstr("one part"));
}

TEST(StageSplitTest, TiedWeightsOnMeshesOfOneShapeOnly) {
  const std::string tied = "tiny-gpt?layers=2&hidden=8&heads=2&seq=4&vocab=12&tied=1";
  const Graph graph = Model(8, tied), part = Model(4, tied);
  const SpmdPlan row =
      RowsAndColumns(part, NamedMesh("b", 1, 3), {{{{1.0}}, {{0.5, 0.25, 0.25}}}}, Columns);
  const Plan plan = StagesPlan(graph, {{{{0, 1}}, Square(part, "a")}, {{{2, 3}}, row}}, 2);
  EXPECT_THAT(WhyNot(plan, graph), HasSubstr("is shared with stage 0"));
}

}  // namespace
}  // namespace heddle
