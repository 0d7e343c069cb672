// The well-known ways to divide training, each where it is best; and what every plan must satisfy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "model/random_graph.h"
#include "plan/spmd/axis_descent.h"
#include "plan/spmd/estimate.h"
#include "plan/spmd/folded_sweep.h"
#include "plan/spmd/step_list.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

std::string RuleText(const AxisRule& rule) {
  if (rule.letter != 0) return {rule.letter};
  return rule.partial != 0 ? "P" : "R";
}

// A plan found, with the rules of its ops by name: "b.f" is b between nodes, f inside.
class FoundPlan {
 public:
  FoundPlan(const Graph& graph, const ClusterNumbers& numbers, bool two_axes)
      : graph_(graph),
        cluster_(ClusterOf(numbers)),
        mesh_(two_axes ? NodeMesh(cluster_) : FlatMesh(cluster_)),
        cost_(graph, nullptr),
        problem_(cost_, cluster_, mesh_),
        found_(two_axes ? SearchByAxis(problem_)[0] : SearchFolded(problem_)) {}

  std::string RuleOf(const std::string& name) {
    const int op = graph_.FindOp(name).value().value;
    const OpRule rule = problem_.choice(op, found_.choices[static_cast<size_t>(op)]).rule;
    return mesh_.flat() ? RuleText(rule[1]) : RuleText(rule[0]) + "." + RuleText(rule[1]);
  }

  // The exchanges of a tensor, as "S0>R".
  std::vector<std::string> ExchangesOf(const std::string& tensor) {
    std::vector<std::string> texts;
    for (const SpmdStep& step : StepsOf(problem_, found_.choices).steps) {
      if (!step.converts() || graph_.tensor(step.tensor).name != tensor) continue;
      if (ExchangeOf(step.from, step.to)) {
        texts.push_back(NameOf(step.from[1]).substr(0, 2) + ">" + NameOf(step.to[1]).substr(0, 2));
      }
    }
    return texts;
  }

 private:
  const Graph& graph_;
  Cluster cluster_;
  SpmdMesh mesh_;
  OpCost cost_;
  SpmdProblem problem_;
  SpmdChoices found_;
};

// 16384 samples through three products of 256 x 256: computing takes long, the weights are small.
TEST(SpmdPlans, DataParallel) {
  const Graph graph =
      BuildModel("mlp?layers=3&inputs=256&hidden=256&outputs=16", {.batch = 16384}).value();
  FoundPlan plan(graph, {.nodes = 1, .devices = 4, .flops = 1e12, .inside = 1e9}, false);
  for (const char* op : {"fc0", "fc1", "fc2", "fc0.db", "fc1.db", "fc1.da"}) {
    EXPECT_EQ(plan.RuleOf(op), "b") << op;
  }
  EXPECT_THAT(plan.ExchangesOf("g.fc1.w"), testing::SizeIs(1));
}

// Two weights of 64 MB and 32 samples of 4 KB: the first is divided by columns, the second by rows,
// so that what is between them is never exchanged; the sums of the second are 128 KB.
TEST(SpmdPlans, ColumnsThenRows) {
  const Graph graph =
      BuildModel("mlp?layers=2&inputs=1024&hidden=16384&outputs=1024", {.batch = 32}).value();
  FoundPlan plan(graph, {.nodes = 1, .devices = 4, .flops = 1e13, .inside = 10e9}, false);
  for (const char* op : {"fc0", "fc0.db"}) EXPECT_EQ(plan.RuleOf(op), "n") << op;
  for (const char* op : {"fc1", "fc1.da", "fc1.db"}) EXPECT_EQ(plan.RuleOf(op), "k") << op;
  for (const char* tensor : {"fc0.y", "fc0.relu.y", "g.fc0.w", "g.fc1.w", "fc0.w", "fc1.w"}) {
    EXPECT_THAT(plan.ExchangesOf(tensor), testing::IsEmpty()) << tensor;
  }
  EXPECT_THAT(plan.ExchangesOf("fc1.y"), testing::SizeIs(1));
}

// Two samples on four devices, which samples cannot divide, and weights of 50 MB a layer: each
// device has four of the sixteen heads.
TEST(SpmdPlans, HeadParallel) {
  const Graph graph =
      BuildModel("gpt?layers=2&hidden=1024&heads=16&seq=256&vocab=256", {.batch = 2}).value();
  FoundPlan plan(graph, {.nodes = 1, .devices = 4, .flops = 1e13, .inside = 20e9}, false);
  for (const char* op : {"qkv", "attn", "proj", "qkv.db", "attn.dqkv", "proj.db"}) {
    EXPECT_EQ(plan.RuleOf(std::string("block1.") + op), "a") << op;
  }
  EXPECT_THAT(plan.ExchangesOf("g.block1.qkv.w"), testing::IsEmpty());
}

// Samples divided, and Adam at 20 GB/s of memory: an update of all 4 million weights everywhere
// would take 6 ms. Each device updates its part; sending is the same as for a sum everywhere.
TEST(SpmdPlans, ZeroStoresParts) {
  const Graph graph = BuildModel("mlp?layers=4&inputs=1024&hidden=1024&outputs=1024",
                                 {.batch = 16384, .optimizer = Optimizer::kAdam})
                          .value();
  FoundPlan plan(
      graph, {.nodes = 1, .devices = 4, .flops = 1e12, .inside = 10e9, .memory_rate = 20e9}, false);
  for (const char* op : {"fc0", "fc1", "fc2", "fc1.da", "fc1.db"}) {
    EXPECT_EQ(plan.RuleOf(op), "b") << op;
  }
  EXPECT_NE(plan.RuleOf("fc1.w.update"), "R");
  EXPECT_THAT(plan.ExchangesOf("g.fc1.w"), testing::ElementsAre(testing::StartsWith("P>S")));
  EXPECT_THAT(plan.ExchangesOf("fc1.w"), testing::ElementsAre(testing::EndsWith(">R")));
}

// A weight of 16 MB and 32 samples, 100 us to the next device: its gradient is made everywhere from
// gathered factors (128 KB) instead of being summed. With 256 samples that computes too much.
TEST(SpmdPlans, SufficientFactors) {
  const ClusterNumbers slow = {
      .nodes = 1, .devices = 4, .flops = 1e12, .inside = 1e9, .latency = 1e-4};
  const Graph small = ConvolutionsThenProduct(32, 128, 4096);
  FoundPlan wins(small, slow, false);
  EXPECT_EQ(wins.RuleOf("conv1"), "b");
  EXPECT_EQ(wins.RuleOf("big.db"), "R");
  EXPECT_EQ(wins.RuleOf("big.w.update"), "R");
  EXPECT_THAT(wins.ExchangesOf("mean.y"), testing::ElementsAre("S0>R"));
  EXPECT_THAT(wins.ExchangesOf("g.big.w"), testing::IsEmpty());
  const Graph large = ConvolutionsThenProduct(256, 128, 4096);
  EXPECT_NE(FoundPlan(large, slow, false).RuleOf("big.db"), "R");
}

// 200 GB/s inside nodes, 20 GB/s between them: the wide layer's columns, then its rows inside;
// samples across.
TEST(SpmdPlans, TensorParallelInsideAndDataParallelAcross) {
  const Graph graph =
      BuildModel("gpt?layers=2&hidden=1024&heads=16&seq=128&vocab=1024&tied=0", {.batch = 48})
          .value();
  FoundPlan plan(graph, {.nodes = 2, .devices = 4, .flops = 1e13, .inside = 200e9, .between = 20e9},
                 true);
  EXPECT_EQ(plan.RuleOf("block0.fc1"), "b.f");
  EXPECT_EQ(plan.RuleOf("block0.gelu"), "b.t");
  EXPECT_EQ(plan.RuleOf("block0.fc2"), "b.f");
  EXPECT_EQ(plan.RuleOf("block0.fc1.db"), "b.f");
  EXPECT_EQ(plan.RuleOf("block0.qkv").substr(0, 1), "b");
}

// 512 tokens and a vocabulary of 50000: the output's weights are 50 MB, their gradient is never
// exchanged.
TEST(SpmdPlans, VocabularyParallel) {
  const Graph graph =
      BuildModel("gpt?layers=2&hidden=256&heads=4&seq=32&vocab=50000&tied=0", {.batch = 16})
          .value();
  FoundPlan plan(graph, {.nodes = 1, .devices = 4, .flops = 1e13, .inside = 10e9}, false);
  EXPECT_EQ(plan.RuleOf("head.logits"), "v");
  EXPECT_EQ(plan.RuleOf("head.logits.db"), "v");
  EXPECT_THAT(plan.ExchangesOf("g.head.w"), testing::IsEmpty());
}

TEST(SpmdPlans, ExpertParallel) {
  const Graph graph =
      BuildModel("bert-moe?layers=2&experts=8&hidden=512&seq=64&heads=8&vocab=1000", {.batch = 32})
          .value();
  FoundPlan plan(graph, {.nodes = 1, .devices = 4, .flops = 1e13, .inside = 10e9}, false);
  EXPECT_EQ(plan.RuleOf("block1.fc1"), "e");
  EXPECT_EQ(plan.RuleOf("block1.fc2"), "e");
  EXPECT_EQ(plan.RuleOf("block1.dispatch"), "b");
  EXPECT_THAT(plan.ExchangesOf("g.block1.fc1.w"), testing::IsEmpty());
}

// Replays the steps: everything that a step reads is there, every op is there once, in order, and
// parameters are updated where they are stored.
void ExpectSound(const Graph& graph, const SpmdPlan& plan) {
  std::set<std::pair<int, Layout>> there;
  std::map<int, Layout> storage;
  for (const SpmdStorage& one : plan.storage) {
    storage[one.parameter.value] = one.layout;
    there.insert({one.parameter.value, one.layout});
  }
  int next_op = 0;
  std::map<int, Layout> sums;
  for (const SpmdStep& step : plan.steps) {
    if (step.converts()) {
      EXPECT_TRUE(there.contains({step.tensor.value, step.from})) << graph.tensor(step.tensor).name;
      EXPECT_NE(step.from, step.to);
      there.insert({step.tensor.value, step.to});
      continue;
    }
    ASSERT_EQ(step.op.value, next_op++);
    const Op& op = graph.op(step.op);
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      const Tensor& tensor = graph.tensor(op.inputs[k].tensor);
      if (tensor.role == Role::kInput || tensor.role == Role::kState) continue;
      const Layout layout = InputLayout(op, k, step.rule);
      EXPECT_TRUE(there.contains({op.inputs[k].tensor.value, layout}))
          << op.name << " wants " << tensor.name << " in " << NameOf(layout);
    }
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      const TensorId id = op.outputs[k].tensor;
      const Layout layout = OutputLayout(op, k, step.rule);
      const Role role = graph.tensor(id).role;
      if (role == Role::kParameter) {
        EXPECT_EQ(layout, storage.at(id.value)) << op.name;
      }
      if (role == Role::kWeightGradient) {
        EXPECT_EQ(sums.try_emplace(id.value, layout).first->second, layout) << op.name;
      }
      there.insert({id.value, layout});
    }
  }
  EXPECT_EQ(next_op, static_cast<int>(graph.ops().size()));
}

TEST(SpmdPlans, AreSound) {
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    const Graph graph =
        RandomGraph(random, {.batch = 6, .clip = round % 2 == 0 ? 1.0 : 0.0}).Make();
    const Cluster cluster = ClusterOf(RandomCluster(random));
    SpmdMesh mesh = round % 3 == 0 ? NodeMesh(cluster) : FlatMesh(cluster);
    if (round % 2 == 1) SetRandomRatios(random, mesh);
    const OpCost cost(graph, nullptr);
    SpmdProblem problem(cost, cluster, mesh);
    const SpmdChoices found =
        mesh.flat() ? SearchFolded(problem, {.most_states = 500}) : SearchByAxis(problem)[0];
    for (const bool again : {false, true}) {
      const SpmdPlan plan = StepsOf(problem, found.choices, {.gather_again = again});
      ExpectSound(graph, plan);
      const SpmdEstimate estimate = EstimateOf(problem, plan);
      EXPECT_LE(estimate.stage_seconds, estimate.additive_seconds * (1 + 1e-9));
      if (again) {
        EXPECT_GE(estimate.additive_seconds, found.seconds * (1 - 1e-9));
      } else {
        EXPECT_NEAR(estimate.additive_seconds, found.seconds, 1e-9 * found.seconds);
      }
    }
  }
}

// Gradients go on their way as soon as they are complete.
TEST(SpmdPlans, GradientsAreReducedAtOnce) {
  const Graph graph =
      BuildModel("mlp?layers=3&inputs=256&hidden=256&outputs=16", {.batch = 16384}).value();
  const Cluster cluster = ClusterOf({.nodes = 1, .devices = 4});
  const SpmdMesh mesh = FlatMesh(cluster);
  const OpCost cost(graph, nullptr);
  SpmdProblem problem(cost, cluster, mesh);
  const SpmdPlan plan = StepsOf(problem, SearchFolded(problem).choices);
  for (size_t k = 1; k < plan.steps.size(); ++k) {
    const SpmdStep& step = plan.steps[k];
    if (!step.converts() || graph.tensor(step.tensor).role != Role::kWeightGradient) continue;
    const SpmdStep& before = plan.steps[k - 1];
    const bool follows = before.converts() ? before.tensor == step.tensor
                                           : graph.op(before.op).outputs[0].tensor == step.tensor;
    EXPECT_TRUE(follows) << graph.tensor(step.tensor).name;
  }
}

}  // namespace
}  // namespace heddle
