// Unequal pipelines side by side, and that no plan of earlier systems is left behind.
#include "plan/pipeline/side_by_side.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>
#include <set>
#include <utility>

#include "plan/baseline/earlier_systems.h"
#include "plan/baseline/stage_plans.h"
#include "plan/pipeline/spp.h"
#include "plan/random_cluster.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

// Eight layers whose weights no device holds alone, with large activations: between the two nodes
// only sums of gradients are worth sending.
std::string WideProfile() {
  std::string text;
  for (int k = 1; k <= 8; ++k) {
    text += fmt::format(
        "node{} -- Linear -- forward_compute_time=40.000, backward_compute_time=80.000, "
        "activation_size=512000000, parameter_size=25000000\n",
        k);
  }
  for (int k = 1; k < 8; ++k) text += fmt::format("\tnode{} -- node{}\n", k, k + 1);
  return text;
}

constexpr char kTwoAndThree[] = R"(schema = "heddle.cluster/1"
[device_type.fast]
flops = "14 TFLOP/s"
memory = "400 MB"
memory_bandwidth = "900 GB/s"
[device_type.slow]
flops = "7 TFLOP/s"
memory = "400 MB"
memory_bandwidth = "500 GB/s"
[[node]]
name = "a"
devices = [{ type = "fast", count = 2 }]
link = { bandwidth = "50 GB/s", latency = "3 us" }
[[node]]
name = "b"
devices = [{ type = "slow", count = 3 }]
link = { bandwidth = "50 GB/s", latency = "5 us" }
[[link]]
between = ["a", "b"]
bandwidth = "5 Gbit/s"
latency = "25 us"
)";

size_t MicrobatchesOf(const PipelinePlan& pipeline) {
  std::set<int32_t> all;
  for (const WorkItem& item : pipeline.stages[0].order) all.insert(item.microbatch);
  return all.size();
}

TEST(SideBySideTest, EachGroupHasStagesAndMicrobatchesOfItsOwn) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/wide.txt";
  std::ofstream(path) << WideProfile();
  const Cluster cluster = ParseClusterToml(kTwoAndThree, "two-three.toml").value();
  PlanRequest options;
  options.model = path;
  options.profile_batch = 64;
  options.batch = 512;
  options.optimizer = Optimizer::kSgd;
  const Planning planning = Planning::Make(options, cluster, nullptr).value();
  const Plan ours = PlanPipeline(planning).value();
  ASSERT_EQ(ours.pipelines.size(), 2u);
  EXPECT_EQ(ours.pipelines[0].stages.size(), 2u);
  EXPECT_EQ(ours.pipelines[1].stages.size(), 3u);
  // The fast ones are 4/7 of all speed; stages of the slow ones are not quite even.
  EXPECT_GT(MicrobatchesOf(ours.pipelines[0]), MicrobatchesOf(ours.pipelines[1]));
  EXPECT_EQ(MicrobatchesOf(ours.pipelines[0]) + MicrobatchesOf(ours.pipelines[1]),
            static_cast<size_t>(ours.microbatches));
  // HetPipe deals in equal numbers.
  const Plan theirs = PlanHetPipe(planning).value();
  EXPECT_LT(ours.estimate.iteration_seconds, 0.9 * theirs.estimate.iteration_seconds);
}

// ---- the bound before a simulation --------------------------------------------------------------

// Stages of random lengths and numbers of replicas; the devices divided between pipelines.
StageDecision RandomDecision(const Planning& planning, std::mt19937& random) {
  const int devices = planning.cluster->device_count(), layers = planning.chain.size();
  StageDecision decision;
  decision.depth = static_cast<int>(random() % 2) + 1;
  const int pipelines = devices > 3 && random() % 2 == 0 ? 2 : 1;
  decision.microbatches = pipelines * static_cast<int64_t>(random() % 5 + 1);
  int next = 0;
  for (int p = 0; p < pipelines; ++p) {
    const int mine = p + 1 == pipelines ? devices - next : devices / 2;
    const int stages = static_cast<int>(random() % static_cast<size_t>(std::min(mine, layers))) + 1;
    std::vector<StageChoice>& choices = decision.pipelines.emplace_back();
    for (int s = 0, first = 0; s < stages; ++s) {
      const bool last = s + 1 == stages;
      const int most_layers = layers - first - (stages - 1 - s);
      const int end =
          last ? layers : first + 1 + static_cast<int>(random() % static_cast<size_t>(most_layers));
      StageChoice choice{{first, end - 1}, {next++}};
      if (last) {
        while (std::ssize(choice.devices) < mine - s) choice.devices.push_back(next++);
      }
      choices.push_back(std::move(choice));
      first = end;
    }
  }
  return decision;
}

// Best keeps what it is given first: a plan of the decision alone.
double SimulatedSeconds(const Planning& planning, const StageDecision& decision) {
  Best best(planning);
  const LayerTable table(planning);
  Attempts attempts(table, "any", best);
  bool added = false;
  const Status ran = attempts.Run([&](int64_t) {
    if (!std::exchange(added, true)) attempts.Add(decision, "early-backward", 1);
  });
  EXPECT_TRUE(ran.ok());
  return best.seconds();
}

TEST(DecisionBoundTest, NothingIsFaster) {
  std::mt19937 random(5);
  int compared = 0;
  for (int round = 0; round < 60; ++round) {
    const Cluster cluster = RandomCluster(random, static_cast<int>(random() % 5 + 2));
    PlanRequest options;
    options.model = round % 2 == 0 ? "tiny-gpt?layers=4" : "mlp?layers=6&hidden=256";
    options.batch = static_cast<int64_t>(random() % 60 + 20);
    options.links = round % 3 == 0 ? LinkModel::kChannels : LinkModel::kShared;
    options.microbatches = 1;  // of the planner's numbers: one proposal is enough
    const Planning planning = Planning::Make(options, cluster, nullptr).value();
    const LayerTable table(planning);
    GradientSums sums(planning);
    const StageDecision decision = RandomDecision(planning, random);
    const double seconds = SimulatedSeconds(planning, decision);
    if (std::isinf(seconds)) continue;
    ++compared;
    const DecisionBound bound(table);
    EXPECT_LE(bound.Of(decision), seconds * (1 + 1e-9)) << round;
    EXPECT_LE(bound.WithWires(decision, sums), seconds * (1 + 1e-9)) << round;
  }
  EXPECT_GT(compared, 40);
}

}  // namespace
}  // namespace heddle
