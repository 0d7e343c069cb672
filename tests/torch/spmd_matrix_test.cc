// What the planner itself finds, trained: VGG-, ViT-, BERT- and MoE-shaped models on mixed clusters
// of 2, 3, 4 and 8 devices, each with uneven parts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "plan/spmd/spmd_planner.h"
#include "plan/spmd_cases.h"
#include "run/torch/torch_executor.h"
#include "run/train/train.h"
#include "support/scratch_folder.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

struct Model {
  const char* name;
  const char* spec;
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

constexpr Model kModels[] = {
    {"vgg", "vgg19?width=4&hidden=32&image=32&classes=10"},
    {"vit", "vit?layers=1&hidden=32&heads=4&image=16&patch=4&classes=10&dropout=10"},
    {"bert", "bert-base?layers=1&hidden=32&heads=4&seq=8&vocab=64&dropout=10"},
    {"moe", "tiny-moe?layers=1&every=1&hidden=32&heads=4&seq=8&vocab=64&experts=8"},
};

// So slow that even these models are worth dividing; the second half of the devices, or each
// further one of three, is two and a half times slower.
Cluster MixedCluster(int devices) {
  ClusterNumbers numbers = {.flops = 4e9,
                            .slower = 2.5,
                            .inside = 4e9,
                            .between = 1e9,
                            .latency = 2e-6,
                            .memory = 1e9,
                            .memory_rate = 20e9};
  numbers.nodes = devices == 3 ? 3 : 2;
  numbers.devices = devices / numbers.nodes;
  return ClusterOf(numbers);
}

// Does the plan divide something unevenly, and exchange something?
bool IsUneven(const SpmdPlan& plan) {
  for (const SpmdStep& step : plan.steps) {
    for (size_t axis = 0; axis < kMeshAxes && !step.converts(); ++axis) {
      if (step.rule[axis].letter == 0) continue;
      const auto& ratios = plan.ratios[axis][static_cast<size_t>(step.rule[axis].ratios)];
      const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
      if (*most > 1.5 * *least) return true;
    }
  }
  return false;
}

bool Exchanges(const SpmdPlan& plan) {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [](const SpmdStep& step) {
    return step.converts() && ExchangeOf(step.from, step.to).has_value();
  });
}

// The first plan of the search that has work for all devices, in unequal parts, with exchanges: so
// small a model may be faster on fewer.
Result<Plan> PlanOnAll(const Planning& planning) {
  HEDDLE_ASSIGN(std::vector<SpmdCandidate> candidates, PlanSpmd(planning));
  for (SpmdCandidate& candidate : candidates) {
    Plan plan = planning.Blank("spmd", "");
    plan.spmd = std::move(candidate.plan);
    const bool wanted = plan.devices_used() == planning.cluster->device_count() &&
                        IsUneven(*plan.spmd) && Exchanges(*plan.spmd);
    if (!wanted) continue;
    Best best(planning);
    HEDDLE_RETURN_IF_ERROR(best.Try(std::move(plan)));
    return std::move(best).Take();
  }
  return Infeasible("spmd", "no plan for all devices in unequal parts");
}

class SpmdMatrixTest : public testing::TestWithParam<std::tuple<int, Model>> {};

TEST_P(SpmdMatrixTest, PlansVerifiesAndRuns) {
  const auto& [devices, model] = GetParam();
  const Cluster cluster = MixedCluster(devices);
  PlanRequest options;
  options.model = model.spec;
  options.batch = 16;
  options.clip = 1;
  const Planning planning = Planning::Make(options, cluster, nullptr).value();
  const Result<Plan> found = PlanOnAll(planning);
  ASSERT_TRUE(found.ok()) << found.error().ToString();
  const Plan plan =
      ParsePlan(PlanToJson(found.value(), GraphOf(found.value()).value()).dump(), "plan.json")
          .value();
  ExpectParity(LowerPlan(plan, planning.graph).value(), planning.graph, model.name);

  const ScratchFolder folder;
  RunConfig config;
  config.plan = "plan.json";
  config.directory = folder / "run";
  config.steps = 2;
  config.validation = 0;
  const Result<Training> training =
      PrepareTraining(plan, planning.graph, config, MakeTorchExecutor);
  ASSERT_TRUE(training.ok()) << training.error().ToString();
  const Result<RunResult> run = TrainOnThreads(training.value(), {});
  ASSERT_TRUE(run.ok()) << run.error().ToString();
  ASSERT_EQ(run.value().losses.size(), 2U);
  for (const double loss : run.value().losses) EXPECT_TRUE(std::isfinite(loss));
}

INSTANTIATE_TEST_SUITE_P(Mixed, SpmdMatrixTest,
                         testing::Combine(testing::Values(2, 3, 4, 8), testing::ValuesIn(kModels)),
                         [](const auto& one) {
                           return std::string(std::get<1>(one.param).name) + "_" +
                                  std::to_string(std::get<0>(one.param));
                         });

// --- From the command line -----------------------------------------------------------------------

// The cluster as a file that `heddle plan` reads: that of a plan.
std::string PlanFile(const ScratchFolder& folder, const Model& model, int devices) {
  const Cluster cluster = MixedCluster(devices);
  PlanRequest options;
  options.model = model.spec;
  options.batch = 16;
  const Planning planning = Planning::Make(options, cluster, nullptr).value();
  const std::string path = folder / (std::string(model.name) + ".json");
  const Plan plan = PlanOnAll(planning).value();
  EXPECT_TRUE(WriteFile(path, PlanToJson(plan, GraphOf(plan).value()).dump(1) + "\n").ok());
  return path;
}

Json RunOf(const std::string& plan, const std::string& options) {
  const Ran ran = RunHeddle("run " + plan + " --steps 4 --validation 0 --json " + options);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  return ran.exit_code == 0 ? ParseJson(ran.out, "run").value() : Json::object();
}

// Each device a process of its own, then all of them threads: the same bits.
TEST(SpmdRunsTest, ProcessesOnThreeAndFourDevices) {
  const ScratchFolder folder;
  for (const auto& [model, devices] : {std::pair(kModels[1], 3), std::pair(kModels[3], 4)}) {
    const std::string plan = PlanFile(folder, model, devices);
    const std::string at = folder / model.name;
    const Json processes = RunOf(plan, "--dir " + at + "-processes");
    const Json threads = RunOf(plan, "--threads --dir " + at + "-threads");
    EXPECT_EQ(processes["parameter_hash"], threads["parameter_hash"]) << model.name;
  }
}

// How well the time is kept is bench/emulation_bench's affair; here only that it is.
TEST(SpmdRunsTest, EmulatedOnEightDevices) {
  const ScratchFolder folder;
  const Json run = RunOf(PlanFile(folder, kModels[2], 8), "--emulate --dir " + (folder / "run"));
  ASSERT_TRUE(run.contains("emulated"));
  EXPECT_EQ(run["emulated"], true);
  const double ratio = run["measured_iteration_seconds"].get<double>() /
                       run["predicted_iteration_seconds"].get<double>();
  EXPECT_GT(ratio, 0.9);
  EXPECT_LT(ratio, 2);
}

}  // namespace
}  // namespace heddle
