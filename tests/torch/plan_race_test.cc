// The lab's methods on the model of a plan, against the references that `verify` trains with: equal
// in every bit.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "lab/methods.h"
#include "lab/network_objective.h"
#include "run/torch/plan_network.h"
#include "run/torch/reference.h"
#include "support/scratch_folder.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr char kGpt[] = "tiny-gpt?layers=6&hidden=16&seq=8&vocab=32&tied=0";
constexpr int64_t kBatch = 4;
constexpr double kStep = 0.3;

// Layers divided about evenly over stages of one device.
Plan LineOf(const Planning& planning, int stages) {
  const std::vector<std::string> devices = {"a:0", "a:1", "b:0", "b:1"};
  PipelinePlan pipeline;
  const int layers = planning.chain.size();
  for (int s = 0; s < stages; ++s) {
    pipeline.stages.push_back(Stage({{layers * s / stages, layers * (s + 1) / stages - 1}},
                                    {devices[static_cast<size_t>(s)]}, {1}, "(F B)*1"));
  }
  Plan plan = HandMade(planning, 1, {pipeline});
  plan.async = AsyncPlan{WeightVersions::kStash};
  return plan;
}

// Remembers the last point whose loss was asked for: where a trial ended.
class Watched final : public Objective {
 public:
  explicit Watched(const Objective& inner) : inner_(inner) {}
  int64_t dimension() const override { return inner_.dimension(); }
  double smoothness() const override { return inner_.smoothness(); }
  double lowest() const override { return inner_.lowest(); }
  bool sampled() const override { return inner_.sampled(); }
  double Loss(const double* x) const override {
    last_.assign(x, x + dimension());
    return inner_.Loss(x);
  }
  std::vector<Block> Blocks(int stages) const override { return inner_.Blocks(stages); }
  Pass MakePass() const override { return inner_.MakePass(); }
  void Begin(Pass& pass) const override { inner_.Begin(pass); }
  void Forward(const Block& block, const double* values, Pass& pass) const override {
    inner_.Forward(block, values, pass);
  }
  void Turn(Pass& pass) const override { inner_.Turn(pass); }
  void Backward(const Block& block, Pass& pass, double* gradient) const override {
    inner_.Backward(block, pass, gradient);
  }
  void Reread(const Block& block, const double* values, Pass& pass) const override {
    inner_.Reread(block, values, pass);
  }
  void Descend(const Block& block, const double* gradient, double step, double* x) const override {
    inner_.Descend(block, gradient, step, x);
  }
  const NearGradient* near() const override { return inner_.near(); }
  std::vector<double> Start(uint64_t seed) const override { return inner_.Start(seed); }

  const std::vector<double>& last() const { return last_; }

 private:
  const Objective& inner_;
  mutable std::vector<double> last_;
};

// Where a method is after so many ticks, with seed 0.
std::vector<double> EndOf(const std::string& method, const Objective& objective, int stages,
                          int64_t ticks, int64_t microbatches = 0) {
  const Watched watched(objective);
  const Schedule schedule = MakeSchedule({.stages = stages}, ticks);
  TrialOptions options;
  options.ticks = ticks;
  options.points = 1;
  options.microbatches = microbatches;
  const Noise noise;
  const Trial trial{watched, schedule, options, noise, 0, kStep, 0};
  FindMethod(method).value()->run(trial);
  return watched.last();
}

TrainOptions ReferenceOptions() {
  TrainOptions options;
  options.seed = 1;
  options.learning_rate = kStep;
  return options;
}

// The reference's weights after `steps[s]` updates of each stage, in the order of blocks.
std::vector<double> Expected(const Planning& planning, const PlanNetwork& made,
                             const std::vector<LayerAge>& ages, const std::vector<int64_t>& steps) {
  std::vector<double> x;
  for (size_t s = 0; s < made.stages.size(); ++s) {
    const Trained trained =
        TrainDirectly(planning.graph, ReferenceOptions(), steps[s], {}, ages, nullptr);
    std::map<std::string, at::Tensor> values = trained.parameters;
    for (const Parameter& parameter : made.graph->parameters()) {
      const int layer = parameter.layers[0].value;
      if (layer < made.stages[s].first || layer > made.stages[s].last) continue;
      const at::Tensor value = values.at(made.graph->tensor(parameter.tensor).name).contiguous();
      x.insert(x.end(), value.data_ptr<double>(), value.data_ptr<double>() + value.numel());
    }
  }
  return x;
}

TEST(PlanRace, PipeDreamIsTheAsynchronousPlansOwnReference) {
  const Planning planning = MakePlanning(kGpt, kBatch, Optimizer::kSgd);
  for (const int stages : {2, 4}) {
    const Plan plan = LineOf(planning, stages);
    const PlanNetwork made = NetworkOfPlan(plan).value();
    const NetworkObjective objective(*made.network);
    constexpr int64_t kTicks = 31;
    std::vector<int64_t> steps;  // B(s, m) is done after tick 2m + 2S - 1 - s
    for (int s = 0; s < stages; ++s) steps.push_back((kTicks - 2 * stages + s) / 2 + 1);
    ASSERT_GT(steps[0], stages) << "weights are stale by then";
    const std::vector<double> expected =
        Expected(planning, made, WeightAges(plan, planning.chain.size()), steps);
    EXPECT_EQ(EndOf("pd", objective, stages, kTicks), expected) << stages;
    EXPECT_NE(EndOf("gpipe", objective, stages, kTicks), expected) << stages;
  }
}

TEST(PlanRace, RandomizedWithPipeDreamsDelaysIsPipeDream) {
  const Planning planning = MakePlanning(kGpt, kBatch, Optimizer::kSgd);
  const PlanNetwork made = NetworkOfPlan(LineOf(planning, 4)).value();
  const NetworkObjective objective(*made.network);
  const std::vector<double> pd = EndOf("pd", objective, 4, 40);
  EXPECT_EQ(EndOf("rpd-replay", objective, 4, 40), pd);
  EXPECT_NE(EndOf("rpd", objective, 4, 40), pd);
  EXPECT_EQ(EndOf("rpd", objective, 4, 40), EndOf("rpd", objective, 4, 40));
}

// One block and no delay, a batch of one microbatch: plain SGD.
TEST(PlanRace, WithoutDelayItIsPlainSgd) {
  const Planning planning = MakePlanning(kGpt, kBatch, Optimizer::kSgd);
  constexpr int64_t kSteps = 6;
  const PlanNetwork one = NetworkOfPlan(LineOf(planning, 1)).value();
  const NetworkObjective whole(*one.network);
  const std::vector<double> sgd = Expected(planning, one, {}, {kSteps});
  EXPECT_EQ(EndOf("rpd-zero", whole, 1, 2 * kSteps), sgd);
  EXPECT_EQ(EndOf("pd", whole, 1, 2 * kSteps), sgd) << "one stage never waits";
  EXPECT_EQ(EndOf("gpipe", whole, 1, 2 * kSteps, 1), sgd);
  const PlanNetwork four = NetworkOfPlan(LineOf(planning, 4)).value();
  const NetworkObjective parts(*four.network);
  // A flush of one microbatch through four stages takes 2 + 2 · 3 ticks.
  EXPECT_EQ(EndOf("gpipe", parts, 4, 8 * kSteps, 1),
            Expected(planning, four, {}, std::vector<int64_t>(4, kSteps)));
}

TEST(PlanRace, PlansThatAreNoLineOfBlocksAreRefused) {
  const auto refused = [](const Plan& plan) {
    const Result<PlanNetwork> made = NetworkOfPlan(plan);
    EXPECT_FALSE(made.ok());
    return made.ok() ? "" : made.error().ToString();
  };
  const Planning tied =
      MakePlanning("tiny-gpt?layers=6&hidden=16&seq=8&vocab=32", kBatch, Optimizer::kSgd);
  EXPECT_THAT(refused(LineOf(tied, 4)), HasSubstr("belongs to several stages"));
  const Planning planning = MakePlanning(kGpt, kBatch, Optimizer::kSgd);
  Plan twice = LineOf(planning, 1);
  twice.pipelines.push_back(twice.pipelines[0]);
  EXPECT_THAT(refused(twice), HasSubstr("has 2 pipelines"));
}

TEST(PlanRace, FromTheCommandLine) {
  const ScratchFolder folder;
  const std::string plan = folder / "plan.json";
  ASSERT_EQ(RunHeddle("plan --strategy async --model 'mlp?layers=4&hidden=8&inputs=8' --batch 4 "
                      "--cluster " +
                      ClusterFile("mixed4") + " -o " + plan)
                .exit_code,
            0);
  const std::string race = "lab race --objective plan:" + plan +
                           " --methods pd,rpd,rpd-replay,gpipe --ticks 24 --points 2 "
                           "--step-sizes 3 --refine 0";
  const Ran ran = RunHeddle(race + " --json");
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = ParseJson(ran.out, "race").value();
  ASSERT_EQ(json["rows"].size(), 4U);
  EXPECT_EQ(json["rows"][0]["loss_mean"], json["rows"][2]["loss_mean"]) << "pd and its replay";
  EXPECT_EQ(json["rows"][0]["staleness_mean"], json["rows"][2]["staleness_mean"]);
  EXPECT_GT(json["rows"][1]["staleness_mean"], 0);
  EXPECT_FALSE(json["rows"][3].contains("staleness_mean"));
  EXPECT_GT(json["update_work"]["ratio"], 0);
  const Ran text = RunHeddle(race);
  EXPECT_THAT(text.out, HasSubstr("‖x - z‖²"));
  EXPECT_THAT(text.out, HasSubstr("times as much"));
  const Ran none = RunHeddle("lab race --objective plan:/nonexistent.json");
  EXPECT_EQ(none.exit_code, 4) << none.err;
  EXPECT_THAT(none.err, HasSubstr("/nonexistent.json"));
}

}  // namespace
}  // namespace heddle
