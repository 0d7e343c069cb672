// LocalSGD equals replicas that step and are averaged, written directly on the graph, in fp64.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "torch/verify_fixture.h"

namespace heddle {
namespace {

constexpr char kGpt[] = "tiny-gpt?layers=4&hidden=16&heads=2&seq=6&vocab=32&tied=0&dropout=10";

// A replica on each of the devices of the cluster, with so many updates.
Plan Whole(const Planning& planning, const std::vector<int64_t>& steps, int64_t microbatches = 1) {
  const std::string names[] = {"a:0", "a:1", "b:0", "b:1"};
  std::vector<PipelinePlan> pipelines;
  for (size_t r = 0; r < steps.size(); ++r) {
    pipelines.push_back({{Stage({{0, planning.chain.size() - 1}}, {names[r]}, {1},
                                fmt::format("(F B)*{}", microbatches))}});
  }
  Plan plan = HandMade(planning, microbatches, std::move(pipelines));
  plan.local = LocalPlan{steps};
  return plan;
}

// So many replicas, all on each of four stages.
Plan Pipelined(const Planning& planning, size_t replicas, int64_t every) {
  const std::string names[] = {"a:0", "b:0", "a:1", "b:1"};
  const int layers = planning.chain.size();
  PipelinePlan pipeline;
  for (int s = 0; s < 4; ++s) {
    pipeline.stages.push_back(
        Stage({{layers * s / 4, layers * (s + 1) / 4 - 1}}, {names[s]}, {1}, "F B"));
  }
  Plan plan = HandMade(planning, 1, {pipeline});
  plan.local = LocalPlan{std::vector<int64_t>(replicas, every)};
  return plan;
}

void ExpectLocalParity(const Planning& planning, const Plan& plan, const std::string& what) {
  const Status valid = ValidatePlan(plan, planning.chain.size(), what);
  ASSERT_TRUE(valid.ok()) << valid.error().ToString();
  const Result<Program> program = LowerPlan(plan, planning.graph);
  ASSERT_TRUE(program.ok()) << program.error().ToString();
  ExpectParity(program.value(), planning.graph, what, {}, plan.local);
}

TEST(LocalVerifyTest, WholeReplicas) {
  for (const Optimizer optimizer : {Optimizer::kSgd, Optimizer::kMomentum, Optimizer::kAdamW}) {
    const Planning planning = MakePlanning(kGpt, 4, optimizer);
    ExpectLocalParity(planning, Whole(planning, {2, 2, 2, 2}), "even");
    ExpectLocalParity(planning, Whole(planning, {5, 3, 1}), "by speed");
    ExpectLocalParity(planning, Whole(planning, {3, 1}, 2), "an update of two microbatches");
  }
}

TEST(LocalVerifyTest, ReplicasThatShareAPipeline) {
  for (const Optimizer optimizer : {Optimizer::kSgd, Optimizer::kAdamW}) {
    const Planning planning = MakePlanning(kGpt, 4, optimizer);
    for (const size_t replicas : {1, 3, 4, 6}) {
      ExpectLocalParity(planning, Pipelined(planning, replicas, 3),
                        fmt::format("{} replicas", replicas));
    }
  }
}

// Weights tied within a device are fine; between stages that do not wait they are refused.
TEST(LocalVerifyTest, TiedWeights) {
  const Planning planning =
      MakePlanning("tiny-gpt?layers=4&hidden=16&heads=2&seq=6&vocab=32&tied=1", 4, Optimizer::kSgd);
  ExpectLocalParity(planning, Whole(planning, {2, 2}), "tied");
  const Result<Program> program = LowerPlan(Pipelined(planning, 4, 2), planning.graph);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().kind, ErrorKind::kInfeasible);
}

// Each of the ways to do it wrong must show.
TEST(LocalVerifyTest, MutantsAreNoticed) {
  const Planning planning = MakePlanning(kGpt, 4, Optimizer::kAdamW);
  const auto differs = [&](const Program& program, const LocalPlan& local) {
    VerifyOptions options;
    options.local = local;
    options.train.learning_rate = 0.05;
    return !VerifyProgram(program, planning.graph, options).value().ok;
  };
  const Plan whole = Whole(planning, {3, 1});
  const Program program = LowerPlan(whole, planning.graph).value();
  EXPECT_FALSE(differs(program, *whole.local));

  Program scaled = program;
  for (Segment& segment : scaled.segments) {
    if (segment.scale != 1) segment.scale = 0.5;  // not by samples
  }
  EXPECT_TRUE(differs(scaled, *whole.local));

  Program uncounted = program;
  for (Instruction& in : uncounted.devices[0].sections[1]) in.version = {};  // Adam counts updates
  EXPECT_TRUE(differs(uncounted, *whole.local));

  const Plan shared = Pipelined(planning, 2, 2);
  Program forgotten = LowerPlan(shared, planning.graph).value();
  EXPECT_FALSE(differs(forgotten, *shared.local));
  for (Instruction& in : forgotten.devices[0].sections[1]) {
    const bool gives = in.code == OpCode::kCompute && in.replica == 1 &&
                       forgotten.segment(in.target).name.starts_with("G");
    if (gives) in.replica = 0;  // the second replica goes on with its own weights
  }
  EXPECT_TRUE(differs(forgotten, *shared.local));
}

}  // namespace
}  // namespace heddle
