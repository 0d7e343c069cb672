#include "share/share_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "run/share/board.h"
#include "run/share/share_config.h"
#include "share/baselines.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr char kFolder[] = "examples/jobs.toml";  // where paths of the texts below start

ShareInputs Inputs(const std::string& jobs, const std::string& share = "") {
  Result<JobsFile> file = ParseJobs(
      "schema = \"heddle.jobs/1\"\n"
      "cluster = \"clusters/slow-lan.toml\"\n" +
          share + jobs,
      kFolder);
  EXPECT_TRUE(file.ok()) << file.error().ToString();
  Result<ShareInputs> inputs = LoadShareInputs(std::move(file).value());
  EXPECT_TRUE(inputs.ok()) << inputs.error().ToString();
  return std::move(inputs).value();
}

SharePlan Planned(const ShareInputs& inputs) {
  Result<SharePlan> plan = MakeSharePlan(inputs);
  EXPECT_TRUE(plan.ok()) << plan.error().ToString();
  return std::move(plan).value();
}

std::string Job(const std::string& name, const std::string& more = "") {
  return "[[job]]\nname = \"" + name +
         "\"\nmodel = \"mlp?hidden=2048\"\nbatch = 32768\nsteps = 100\noverlap = false\n" + more;
}

// Two of them spend about as much time on gradients as on the rest.
ShareInputs TwoAlike(const std::string& share = "") { return Inputs(Job("a") + Job("b"), share); }

TEST(SharePlanTest, AJobIsMeasuredBySimulatingIt) {
  const ShareInputs inputs = TwoAlike();
  const PlannedJob& job = inputs.jobs[0];
  EXPECT_TRUE(job.whole_turns);
  EXPECT_GT(job.times.compute.value, 0);
  // Nothing overlaps: it waits for all of its communication.
  EXPECT_NEAR(job.times.exposed.value, job.times.communicate.value,
              1e-9 * job.times.communicate.value);
  // The plan's own estimate is with overlap.
  EXPECT_GE(job.times.alone().value * (1 + 1e-9), job.plan.estimate.iteration_seconds);
  const double ratio = job.times.communicate.value / job.times.compute.value;
  EXPECT_GT(ratio, 1.0 / 3);  // the tests below rely on it
  EXPECT_LT(ratio, 3);
}

TEST(SharePlanTest, OverlapHidesCommunication) {
  const ShareInputs inputs = TwoAlike();
  const Result<PlannedJob> overlapped = WithOverlap(inputs.jobs[0], true);
  ASSERT_TRUE(overlapped.ok());
  EXPECT_LE(overlapped.value().times.exposed, inputs.jobs[0].times.exposed);
}

TEST(SharePlanTest, TwoThatWaitHalfTheTimeShareAndReachTheBestPeriod) {
  const ShareInputs inputs = TwoAlike();
  const SharePlan plan = Planned(inputs);
  ASSERT_EQ(plan.groups.size(), 1U);
  const ShareGroup& group = plan.groups[0];
  EXPECT_EQ(group.jobs, (std::vector<size_t>{0, 1}));
  EXPECT_NEAR(group.period.value / group.best_period.value, 1, 1e-9);
  const JobTimes& times = inputs.jobs[0].times;
  const double best = std::max({2 * times.compute.value, 2 * times.communicate.value,
                                times.compute.value + times.communicate.value});
  EXPECT_NEAR(group.best_period.value, best, 1e-12);
  EXPECT_NEAR(group.gain, 2 * times.alone().value / best - 1, 1e-9);
  EXPECT_NEAR(plan.predicted_gain, group.gain, 1e-9);
  EXPECT_LT(plan.shared.mean, plan.alone.mean);
  EXPECT_FALSE(group.timeline.timeline.events.empty());
  EXPECT_TRUE(Validate(group.timeline.timeline).ok());
}

TEST(SharePlanTest, SwitchesThatCostMoreThanTheyWinAreNotMade) {
  ShareInputs inputs = TwoAlike();
  inputs.file.share.switch_cost = inputs.jobs[0].times.communicate * 1.01;
  const SharePlan plan = Planned(inputs);
  EXPECT_EQ(plan.groups.size(), 2U);
  ASSERT_EQ(plan.refusals.size(), 1U);
  EXPECT_THAT(plan.refusals[0].reason, HasSubstr("gain "));
  EXPECT_NEAR(plan.predicted_gain, 0, 1e-12);
}

TEST(SharePlanTest, ASlowdownThatIsNotToleratedIsRefused) {
  ShareInputs inputs = TwoAlike();
  inputs.jobs[1].spec.tolerated_slowdown = 1.01;
  const SharePlan plan = Planned(inputs);
  EXPECT_EQ(plan.groups.size(), 2U);
  ASSERT_EQ(plan.refusals.size(), 1U);
  EXPECT_THAT(plan.refusals[0].reason, HasSubstr("a step of b would take"));
  EXPECT_THAT(plan.refusals[0].reason, HasSubstr("it tolerates 1.01"));
  inputs.jobs[1].spec.tolerated_slowdown = 3;
  EXPECT_EQ(Planned(inputs).groups.size(), 1U);
}

// A pipeline that waits for a whole turn of the other at every message.
TEST(SharePlanTest, WhoStatesNothingIsNotSlowedBeyondAllMeasure) {
  ShareInputs inputs = Inputs(
      "[[job]]\nname = \"pipe\"\nmodel = \"bert-base\"\nbatch = 64\nmicrobatches = 4\n"
      "strategy = \"gpipe\"\nsteps = 4000\n"
      "[[job]]\nname = \"dp\"\nmodel = \"vgg19\"\nbatch = 128\nsteps = 1000\noverlap = false\n");
  const SharePlan careful = Planned(inputs);
  EXPECT_EQ(careful.groups.size(), 2U);
  ASSERT_EQ(careful.refusals.size(), 1U);
  EXPECT_THAT(careful.refusals[0].reason, HasSubstr("a step of pipe would take 10."));
  EXPECT_THAT(careful.refusals[0].reason, HasSubstr("most_slowdown is 4.00"));

  inputs.file.share.most_slowdown = 20;
  const SharePlan bold = Planned(inputs);
  ASSERT_EQ(bold.groups.size(), 1U) << bold.refusals.at(0).reason;
  EXPECT_GT(bold.groups[0].slowdown[0], 4);
  EXPECT_LT(bold.shared.mean, bold.alone.mean);

  // What the job itself says goes before, either way.
  inputs.jobs[0].spec.tolerated_slowdown = 5;
  EXPECT_EQ(Planned(inputs).groups.size(), 2U);
  inputs.file.share.most_slowdown = 4;
  inputs.jobs[0].spec.tolerated_slowdown = 20;
  EXPECT_EQ(Planned(inputs).groups.size(), 1U);
}

TEST(SharePlanTest, TheUrgentIsNotSlowedByOthers) {
  ShareInputs inputs = TwoAlike();
  inputs.jobs[1].spec.priority = 5;
  const SharePlan plan = Planned(inputs);
  ASSERT_EQ(plan.groups.size(), 2U);
  EXPECT_EQ(plan.groups[0].jobs[0], 1U);  // and goes first
  EXPECT_THAT(plan.refusals.at(0).reason, HasSubstr("b has priority"));
  inputs.jobs[1].spec.tolerated_slowdown = 3;
  EXPECT_EQ(Planned(inputs).groups.size(), 1U);
}

TEST(SharePlanTest, TooLittleMemoryNamesDeviceAndBytes) {
  ShareInputs inputs = TwoAlike();
  const Bytes has = inputs.cluster->type_of(DeviceId{2}).memory;
  // Activations of one at a time fit, what both keep does not.
  inputs.jobs[0].memory[2] = {has - Bytes{1000}, Bytes{0}};
  inputs.jobs[1].memory[2] = {Bytes{1000}, Bytes{7}};
  const SharePlan plan = Planned(inputs);
  EXPECT_EQ(plan.groups.size(), 2U);
  EXPECT_THAT(plan.refusals.at(0).reason, HasSubstr("on device n2:0"));
  EXPECT_THAT(plan.refusals.at(0).reason, HasSubstr("(7 bytes) too much"));
  inputs.jobs[1].memory[2].passing = Bytes{0};
  EXPECT_EQ(Planned(inputs).groups.size(), 1U);
}

TEST(SharePlanTest, ActivationsOfTurnsDoNotAddUpButOthersDo) {
  ShareInputs inputs = TwoAlike();
  for (PlannedJob& job : inputs.jobs) job.memory[0] = {Bytes{100}, Bytes{10}};
  inputs.jobs[1].memory[0].passing = Bytes{30};
  EXPECT_EQ(GroupMemory(inputs, {0, 1})[0].value, 230);
  inputs.jobs[0].whole_turns = false;
  EXPECT_EQ(GroupMemory(inputs, {0, 1})[0].value, 240);
}

TEST(SharePlanTest, GradientsAreKeptBetweenTurns) {
  const ShareInputs inputs = TwoAlike();
  const PlannedJob& job = inputs.jobs[0];
  // Adam: weights, two moments and gradients, four bytes each.
  int64_t parameters = 0;
  for (const ProgramTensor& tensor : job.program.tensors) {
    if (tensor.role != Role::kParameter) continue;
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    parameters += elements;
  }
  EXPECT_GE(job.memory[0].kept.value, 16 * parameters);
  EXPECT_LT(job.memory[0].kept.value, 17 * parameters);
}

TEST(SharePlanTest, DeficitGivesMoreTurnsToWhoWeighsMore) {
  const ShareInputs inputs =
      Inputs(Job("heavy", "weight = 2\n") + Job("light"), "[share]\norder = \"deficit\"\n");
  const SharePlan plan = Planned(inputs);
  ASSERT_EQ(plan.groups.size(), 1U) << plan.refusals.at(0).reason;
  EXPECT_GT(plan.groups[0].sequence.size(), 2U);
  EXPECT_LT(plan.groups[0].iteration[0], plan.groups[0].iteration[1]);
}

// What the runtime is told of the jobs is enough for the turns that were planned.
TEST(SharePlanTest, TheBoardHandsOutTheTurnsThatWerePlanned) {
  ShareInputs inputs = Inputs(Job("heavy", "weight = 3\n") + Job("light", "weight = 2\n"),
                              "[share]\norder = \"deficit\"\nswitch = \"3 ms\"\n");
  inputs.jobs[1] = WithOverlap(inputs.jobs[1], true).value();
  const SharePlan plan = Planned(inputs);
  ASSERT_EQ(plan.groups.size(), 1U) << plan.refusals.at(0).reason;
  const ShareGroup& group = plan.groups[0];
  ASSERT_GT(group.sequence.size(), 2U);
  ShareConfig config;
  config.order = inputs.file.share.order;
  config.switch_cost = inputs.file.share.switch_cost;
  for (const size_t j : group.jobs) {
    config.jobs.push_back({.name = inputs.jobs[j].spec.name,
                           .plan = "plan.json",
                           .profile = "",
                           .weight = inputs.jobs[j].spec.weight,
                           .times = inputs.jobs[j].times});
  }
  const Json json = ShareConfigToJson(config);
  config = ShareConfigFromJson(JsonField(json, "config")).value();
  Board board = Board::Create({config.order, {0}, config.switch_cost}).value();
  std::vector<int32_t> numbers;
  for (const ShareJobConfig& job : config.jobs) {
    numbers.push_back(board
                          .AddJob({.name = job.name,
                                   .devices = {0},
                                   .turns = 1000,
                                   .times = job.times.value(),
                                   .weight = job.weight})
                          .value());
    board.Enter(numbers.back(), 0);
  }
  board.Activate(numbers);
  for (size_t turn = 0; turn < 3 * group.sequence.size(); ++turn) {
    const int32_t job = numbers[static_cast<size_t>(group.sequence[turn % group.sequence.size()])];
    const Result<std::optional<Grant>> grant = board.TryAcquire(job, 0);
    ASSERT_TRUE(grant.ok() && grant.value()) << "turn " << turn;
    board.Release(job, 0, *grant.value());
  }
}

ShareInputs SmallBesideLarge(int large_batch, const std::string& order) {
  return Inputs(
      "[[job]]\nname = \"small\"\nmodel = \"mlp?hidden=4096\"\nbatch = 65536\nsteps = 3000\n"
      "overlap = false\nweight = 3\n"
      "[[job]]\nname = \"large\"\nmodel = \"vgg19\"\nsteps = 100\noverlap = false\nbatch = " +
          std::to_string(large_batch) + "\n",
      "[share]\nmost_slowdown = 100\norder = \"" + order + "\"\n");
}

TEST(SharePlanTest, ANoteNamesAnAllReduceThatIsInTheWay) {
  ShareInputs inputs = SmallBesideLarge(256, "deficit");
  const SharePlan plan = Planned(inputs);
  ASSERT_EQ(plan.groups.size(), 1U) << plan.refusals.at(0).reason;
  ASSERT_EQ(plan.groups[0].notes.size(), 1U);
  EXPECT_THAT(plan.groups[0].notes[0], HasSubstr("small has 6"));
  EXPECT_THAT(plan.groups[0].notes[0],
              HasSubstr("it waits behind the undivided all-reduce of large; overlap = true"));
  // With what it advises it is as fast as it says, and there is nothing left to note.
  inputs.jobs[1] = WithOverlap(inputs.jobs[1], true).value();
  const SharePlan divided = Planned(inputs);
  ASSERT_EQ(divided.groups.size(), 1U);
  EXPECT_TRUE(divided.groups[0].notes.empty());
  EXPECT_THAT(plan.groups[0].notes[0],
              HasSubstr("a step takes " + ToText(divided.groups[0].iteration[0])));
}

TEST(SharePlanTest, NothingIsNotedWhereOverlapWouldNotHelp) {
  for (const ShareInputs& inputs :
       {SmallBesideLarge(64, "deficit"), SmallBesideLarge(256, "rotation"), TwoAlike()}) {
    for (const ShareGroup& group : Planned(inputs).groups) EXPECT_TRUE(group.notes.empty());
  }
}

TEST(SharePlanTest, BaselinesAreSlowerThanCrossoverAndThatIsTheBest) {
  const ShareInputs inputs = TwoAlike();
  const SharePlan plan = Planned(inputs);
  const Result<std::vector<ShareBaseline>> baselines = BaselinesOf(inputs, plan.groups.at(0));
  ASSERT_TRUE(baselines.ok()) << baselines.error().ToString();
  ASSERT_EQ(baselines.value().size(), 5U);
  const auto gain = [&](size_t k) { return baselines.value()[k].gain; };
  EXPECT_EQ(gain(0), 0);
  EXPECT_NEAR(gain(1), 0, 0.01);  // equal jobs go in step: both compute, then both send
  EXPECT_GT(gain(3), gain(1));
  EXPECT_NEAR(gain(3), gain(4), 1e-9);
}

TEST(SharePlanTest, AParameterServerWaitsInMidStep) {
  const ShareInputs inputs = Inputs(Job("a", "sync = \"ps\"\n") + Job("b"));
  EXPECT_FALSE(inputs.jobs[0].whole_turns);
  EXPECT_TRUE(inputs.jobs[1].whole_turns);
  const SharePlan plan = Planned(inputs);
  for (const ShareGroup& group : plan.groups) {
    const bool turns = group.devices == DeviceSharing::kTurns;
    EXPECT_TRUE(group.jobs.size() == 1 || !turns);
  }
}

TEST(SharePlanTest, CompressedGradientsTakeLessTime) {
  const ShareInputs inputs = Inputs(Job("a", "compress = \"fp16\"\n") + Job("b"));
  EXPECT_LT(inputs.jobs[0].times.communicate.value, 0.6 * inputs.jobs[1].times.communicate.value);
}

}  // namespace
}  // namespace heddle
