#include "plan/baseline/spmd_baselines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/pipeline/baselines.h"
#include "plan/spmd/spmd_planner.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

using testing::Each;
using testing::HasSubstr;

class Case {
 public:
  Case(const std::string& model, int64_t batch, const ClusterNumbers& numbers)
      : cluster_(ClusterOf(numbers)),
        planning_(Planning::Make(OptionsOf(model, batch), cluster_, nullptr).value()) {}

  const Planning& planning() const { return planning_; }

  std::string RuleOf(const SpmdPlan& plan, const std::string& op) const {
    const OpId id = planning_.graph.FindOp(op).value();
    for (const SpmdStep& step : plan.steps) {
      if (step.op == id) return NameOf(step.rule);
    }
    return "";
  }

  std::string StorageOf(const SpmdPlan& plan, const std::string& parameter) const {
    for (const SpmdStorage& storage : plan.storage) {
      if (planning_.graph.tensor(storage.parameter).name == parameter) {
        return NameOf(storage.layout);
      }
    }
    return "";
  }

 private:
  static PlanRequest OptionsOf(const std::string& model, int64_t batch) {
    PlanRequest options;
    options.model = model;
    options.batch = batch;
    return options;
  }

  Cluster cluster_;
  Planning planning_;
};

double PeakOf(const Plan& plan) {
  double most = 0;
  for (const Estimate::Memory& memory : plan.estimate.memory) {
    most = std::max(most, static_cast<double>(memory.peak_bytes));
  }
  return most;
}

void ExpectEven(const SpmdPlan& plan) {
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    const auto places = static_cast<double>(axis == 0 ? plan.mesh.size() : plan.mesh[0].size());
    for (const std::vector<double>& ratios : plan.ratios[axis]) {
      EXPECT_THAT(ratios, Each(testing::DoubleEq(1 / places)));
    }
  }
}

const std::string kWide = "mlp?layers=4&inputs=1024&hidden=1024&outputs=1024";

// Devices of different speed get even parts all the same, and a quarter of each weight.
TEST(Zero, DividesSamplesAndStoresPartsOfWeights) {
  const Case one(kWide, 64, {.nodes = 1, .devices = 4});
  const Result<Plan> plan = PlanZero(one.planning());
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  const SpmdPlan& spmd = *plan.value().spmd;
  EXPECT_EQ(plan.value().strategy, "zero");
  EXPECT_EQ(spmd.mesh.size(), 1U);
  for (const char* op : {"fc0", "fc3", "fc1.da", "fc2.db"}) {
    EXPECT_EQ(one.RuleOf(spmd, op), "-.b") << op;
  }
  for (const char* weight : {"fc0.w", "fc1.w", "fc2.w", "fc3.w"}) {
    EXPECT_THAT(one.StorageOf(spmd, weight), HasSubstr("R.S")) << weight;
  }
  ExpectEven(spmd);
  // Weights, gradients and two moments are most of what data parallelism keeps.
  EXPECT_LT(PeakOf(plan.value()), 0.75 * PeakOf(PlanDataParallel(one.planning()).value()));
}

// The other way: parts inside each node, every node with all of them.
TEST(Zero, TriesPartsInsideNodesToo) {
  const Case one(kWide, 512, {.nodes = 2, .devices = 4, .slower = 2});
  const auto found = PlanFamily(one.planning(), {}, SpmdFamily::kZero, "zero");
  ASSERT_TRUE(found.ok()) << found.error().ToString();
  ASSERT_EQ(found.value().size(), 2U);
  EXPECT_EQ(found.value()[0].plan.mesh.size(), 1U);
  const SpmdPlan& spmd = found.value()[1].plan;
  EXPECT_EQ(spmd.mesh.size(), 2U);
  EXPECT_EQ(one.RuleOf(spmd, "fc1"), "b.b");
  EXPECT_THAT(one.StorageOf(spmd, "fc1.w"), HasSubstr("R.S"));
  ExpectEven(spmd);
}

// Heads and the middle of the feed-forward inside a node: one sum after each, none of activations
// between nodes.
TEST(TensorParallel, DividesHeadsColumnsAndRowsInsideNodes) {
  const Case one("gpt?layers=2&hidden=512&heads=8&seq=64&vocab=1000", 32,
                 {.nodes = 2, .devices = 4, .inside = 100e9});
  const Result<Plan> plan = PlanTensorParallel(one.planning());
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  const SpmdPlan& spmd = *plan.value().spmd;
  EXPECT_GT(spmd.mesh.size(), 1U);
  EXPECT_GT(spmd.mesh[0].size(), 1U);
  EXPECT_EQ(one.RuleOf(spmd, "block1.qkv"), "b.a'1");
  EXPECT_EQ(one.RuleOf(spmd, "block1.proj"), "b.a'1");
  EXPECT_EQ(one.RuleOf(spmd, "block1.fc1"), "b.f'1");
  EXPECT_EQ(one.RuleOf(spmd, "block1.fc2"), "b.f'1");
  EXPECT_EQ(one.StorageOf(spmd, "block1.fc1.w"), "R.S1'1");
  EXPECT_EQ(one.StorageOf(spmd, "block1.fc2.w"), "R.S0'1");
  for (const SpmdStep& step : spmd.steps) {
    if (step.converts() || step.rule[1].letter == 0) continue;
    EXPECT_NE(step.rule[1].letter, 'b');
  }
  ExpectEven(spmd);
}

TEST(TensorParallel, NeedsDevicesThatShareANode) {
  const Case one(kWide, 64, {.nodes = 3, .devices = 1});
  const Result<Plan> plan = PlanTensorParallel(one.planning());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().kind, ErrorKind::kInfeasible);
  EXPECT_THAT(plan.error().what, HasSubstr("nodes of 1, 1, 1 devices"));
}

// Tokens travel to their experts and back; nothing of the experts' weights does.
TEST(ExpertParallel, DividesExpertsAndNothingElse) {
  const Case one("bert-moe?layers=2&experts=8&hidden=256&seq=64&heads=4&vocab=1000", 32,
                 {.nodes = 1, .devices = 4});
  const Result<Plan> plan = PlanExpertParallel(one.planning());
  ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  const SpmdPlan& spmd = *plan.value().spmd;
  for (const char* op : {"block1.fc1", "block1.fc2", "block1.fc1.da", "block1.fc2.db"}) {
    EXPECT_EQ(one.RuleOf(spmd, op), "-.e'1") << op;
  }
  for (const char* op : {"block1.dispatch", "block1.combine", "block1.gate", "block0.fc1"}) {
    EXPECT_EQ(one.RuleOf(spmd, op), "-.b") << op;
  }
  for (const char* weight : {"block1.fc1.w", "block1.fc1.bias", "block1.fc2.w"}) {
    EXPECT_EQ(one.StorageOf(spmd, weight), "R.S0'1") << weight;
  }
  for (const char* weight : {"block0.fc1.w", "block1.gate.w", "embed.tokens"}) {
    EXPECT_EQ(one.StorageOf(spmd, weight), "R.R") << weight;
  }
  int travels = 0;
  for (const SpmdStep& step : spmd.steps) {
    const bool sharded = step.converts() && step.from[1].kind == ShardKind::kSharded &&
                         step.to[1].kind == ShardKind::kSharded;
    travels += sharded ? 1 : 0;
  }
  EXPECT_EQ(travels, 4);  // there and back, forward and backward
  ExpectEven(spmd);
}

TEST(ExpertParallel, NeedsExperts) {
  const Case dense(kWide, 64, {.nodes = 1, .devices = 4});
  const Result<Plan> none = PlanExpertParallel(dense.planning());
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().kind, ErrorKind::kInfeasible);
  EXPECT_THAT(none.error().what, HasSubstr("has no experts"));
  const Case few("tiny-moe?experts=2", 64, {.nodes = 3, .devices = 1});
  const Result<Plan> fewer = PlanExpertParallel(few.planning());
  ASSERT_FALSE(fewer.ok());
  EXPECT_THAT(fewer.error().what, HasSubstr("2 experts are fewer than the 3 devices"));
}

TEST(SpmdBaselines, LeaveNobodyWithoutASample) {
  const Case one("tiny-moe", 2, {.nodes = 1, .devices = 4});
  for (const auto& plan_as : {&PlanZero, &PlanExpertParallel}) {
    const Result<Plan> plan = plan_as(one.planning());
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().kind, ErrorKind::kInfeasible);
    EXPECT_THAT(plan.error().what, HasSubstr("a batch of 2 leaves some of 4 devices"));
  }
}

// Without room even for parts.
TEST(SpmdBaselines, SayWhatLacks) {
  const Case one(kWide, 64, {.nodes = 1, .devices = 2, .memory = 10e6});
  const Result<Plan> plan = PlanZero(one.planning());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().kind, ErrorKind::kInfeasible);
  EXPECT_EQ(plan.error().where, "zero");
  EXPECT_THAT(plan.error().what, HasSubstr("too much"));
}

}  // namespace
}  // namespace heddle
