#include "simulate/joint.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "joint_jobs.h"

namespace heddle {
namespace {

using testing::HasSubstr;

std::vector<SimpleJob> AnyJobs(int most) {
  const auto count = *rc::gen::inRange<size_t>(1, static_cast<size_t>(most) + 1);
  std::vector<SimpleJob> jobs(count);
  for (SimpleJob& job : jobs) {
    job.compute = *rc::gen::inRange(1, 2000) / 10.0;
    job.communicate = *rc::gen::inRange(0, 200);
  }
  return jobs;
}

// The first that happened on a lane, by job, in milliseconds: "A 0-1, B 1-3".
std::string JobLaneText(const JointSimulation& simulation, const std::string& lane, int most) {
  const Timeline& timeline = simulation.timeline.timeline;
  std::string text;
  for (size_t e = 0; e < timeline.events.size() && most > 0; ++e) {
    const TimelineEvent& event = timeline.events[e];
    if (timeline.lanes[static_cast<size_t>(event.lane)].name != lane) continue;
    --most;
    text += fmt::format("{}{} {:g}-{:g}", text.empty() ? "" : ", ", simulation.timeline.JobOf(e),
                        std::round(event.start.value * 1e6) / 1e3,
                        std::round(event.end.value * 1e6) / 1e3);
  }
  return text;
}

TEST(JointTest, OneComputesWhileTheOtherCommunicates) {
  const JointFixture two = FixtureOf({{2, 3}, {3, 2}});
  JointOptions options;
  options.keep_events = true;
  const JointSimulation simulation = two.Simulate(options);
  EXPECT_EQ(JobLaneText(simulation, "a:0 compute", 5), "A 0-2, B 2-5, A 5-7, B 7-10, A 10-12");
  EXPECT_EQ(JobLaneText(simulation, "a:1 network", 4), "A 2-5, B 5-7, A 7-10, B 10-12");
  EXPECT_NEAR(simulation.cycle.value, 5e-3, 1e-12);
  EXPECT_TRUE(simulation.steady);
  EXPECT_TRUE(Validate(simulation.timeline.timeline).ok());
}

TEST(JointTest, OneJobIsAsFastAsAlone) {
  const JointFixture one = FixtureOf({{2, 3}});
  EXPECT_NEAR(one.Simulate().cycle.value, 5e-3, 1e-12);
  EXPECT_NEAR(SimulationOf(TextOf({2, 3}), MillisecondCluster()).iteration.value, 5e-3, 1e-12);
}

TEST(JointTest, ASwitchCostsItsTime) {
  const JointFixture two = FixtureOf({{4, 1}, {4, 1}});
  JointOptions options;
  options.switch_cost = Seconds{0.5e-3};
  EXPECT_NEAR(two.Simulate(options).cycle.value, 9e-3, 1e-12);
  const JointFixture one = FixtureOf({{4, 1}});
  EXPECT_NEAR(one.Simulate(options).cycle.value, 5e-3, 1e-12);  // to no other job
}

RC_GTEST_PROP(JointTest, TicketsReachTheBestPeriodForAnyNumberOfJobs, ()) {
  const std::vector<SimpleJob> jobs = AnyJobs(6);
  const JointSimulation simulation = FixtureOf(jobs).Simulate();
  RC_ASSERT(simulation.steady);
  RC_ASSERT(std::abs(simulation.cycle.value / BestPeriod(jobs) - 1) < 1e-9);
}

RC_GTEST_PROP(JointTest, FairSharingOfTheNetworkIsNeverBetter, ()) {
  const std::vector<SimpleJob> jobs = AnyJobs(4);
  JointOptions fair;
  fair.network = NetworkSharing::kFair;
  const double ratio = FixtureOf(jobs).Simulate(fair).cycle.value / BestPeriod(jobs);
  RC_ASSERT(ratio > 1 - 1e-9);
  RC_ASSERT(ratio < 2);  // device or network is at work at any time
}

// The worst that a search found: the three that compute little all send at once, and the fourth
// computes only after its own part of that is through. One by one, it computes meanwhile.
TEST(JointTest, FairSharingCanCostThreeQuarters) {
  const std::vector<SimpleJob> jobs = {{1, 40}, {1, 40}, {1, 40}, {120, 42}};
  JointOptions fair;
  fair.network = NetworkSharing::kFair;
  EXPECT_NEAR(FixtureOf(jobs).Simulate(fair).cycle.value / BestPeriod(jobs), 1.74, 0.01);
  EXPECT_NEAR(FixtureOf(jobs).Simulate().cycle.value / BestPeriod(jobs), 1, 1e-9);
}

// The fixed order of turns matters to nobody: compare with the order reversed.
RC_GTEST_PROP(JointTest, AnyFixedOrderIsAsGood, ()) {
  const std::vector<SimpleJob> jobs = AnyJobs(5);
  JointOptions options;
  for (size_t j = jobs.size(); j-- > 0;) options.sequence.push_back(static_cast<int32_t>(j));
  std::rotate(options.sequence.begin(),
              options.sequence.begin() + static_cast<std::ptrdiff_t>(jobs.size() / 2),
              options.sequence.end());
  const JointSimulation simulation = FixtureOf(jobs).Simulate(options);
  RC_ASSERT(simulation.steady);
  RC_ASSERT(std::abs(simulation.cycle.value / BestPeriod(jobs) - 1) < 1e-9);
}

// The network is the limit by a hair: the devices go on at their own speed for hundreds of turns
// before they feel it.
TEST(JointTest, MessagesThatPileUpAreSeen) {
  const std::vector<SimpleJob> jobs = {{56.2, 60}, {59.9, 89}, {43.4, 81}, {120, 50}};
  EXPECT_NEAR(FixtureOf(jobs).Simulate().cycle.value, 0.280, 1e-12);
}

TEST(JointTest, NaiveColocationSharesDevicesEvenly) {
  // Nothing to send: two computations of 1 ms side by side take 2 ms each.
  const JointFixture two = FixtureOf({{1, 0}, {1, 0}});
  JointOptions naive;
  naive.devices = DeviceSharing::kFair;
  naive.network = NetworkSharing::kFair;
  const JointSimulation simulation = two.Simulate(naive);
  EXPECT_NEAR(simulation.iteration[0].value, 2e-3, 1e-9);
  EXPECT_NEAR(simulation.iteration[1].value, 2e-3, 1e-9);
}

TEST(JointTest, NaiveColocationOfEqualJobsHidesNothing) {
  // Both compute at once, then both communicate at once: as slow as one after the other.
  const JointFixture two = FixtureOf({{10, 10}, {10, 10}});
  JointOptions naive;
  naive.devices = DeviceSharing::kFair;
  naive.network = NetworkSharing::kFair;
  EXPECT_NEAR(two.Simulate(naive).cycle.value, 40e-3, 1e-9);
  EXPECT_NEAR(two.Simulate().cycle.value, 20e-3, 1e-9);
}

TEST(JointTest, UnequalTurnsKeepTheirProportion) {
  const JointFixture two = FixtureOf({{1, 1}, {8, 1}});
  JointOptions options;
  options.sequence = {0, 1, 0};
  const JointSimulation simulation = two.Simulate(options);
  EXPECT_NEAR(simulation.iteration[0].value * 2, simulation.iteration[1].value, 1e-12);
  // A computes twice and waits for itself once, unless B is at work: 1, 1 (waits), 1, 8 …
  EXPECT_NEAR(simulation.cycle.value, 11e-3, 1e-9);
}

TEST(JointTest, FirstComeServesJobsThatCommunicateInTheMiddle) {
  // Two stages, a message each way: forward here, forward and backward there, backward here.
  const std::string pipeline = R"(heddle-program 1
strategy test
samples 1 as 1
updates 0
layers 0
device 0 "a:0" holds w
device 1 "a:1"
tensor w f32[1] state
tensor h f32[1] activation
tensor d f32[1] activation
segment F other time 0.002 s
  reads w
  writes h
segment M other time 0.004 s
  consumes h
  writes d
segment B other time 0.002 s
  consumes d
  changes w
body
on 0
  compute F
  send h to 1
  free h
  recv d from 1
  compute B
on 1
  recv h from 0
  compute M
  send d to 0
  free d
)";
  const JointFixture two({pipeline, pipeline}, MillisecondCluster(), /*whole_turns=*/false);
  JointOptions options;
  options.devices = DeviceSharing::kFirstCome;
  const JointSimulation simulation = two.Simulate(options);
  const double alone = SimulationOf(pipeline, MillisecondCluster()).iteration.value;
  EXPECT_NEAR(alone, 10e-3, 1e-9);
  EXPECT_LT(simulation.cycle.value, 1.2 * alone);
  EXPECT_GE(simulation.cycle.value, 10e-3 - 1e-9);
}

// Between two devices 20 times in a body, and at each the other job's turn is waited for: it must
// not be taken for as fast as it is once the other is done.
TEST(JointTest, AJobThatIsHardlyServedIsSlow) {
  std::string there, back;
  for (int hop = 0; hop < 10; ++hop) {
    there += "  compute F\n  send x to 1\n  free x\n  recv d from 1\n  compute B\n";
    back += "  recv x from 0\n  compute M\n  send d to 0\n  free d\n";
  }
  const std::string hops = R"(heddle-program 1
strategy test
samples 1 as 1
updates 0
layers 0
device 0 "a:0"
device 1 "a:1"
tensor x f32[1] activation
tensor d f32[1] activation
segment F other time 0.0001 s
  writes x
segment M other time 0.0001 s
  consumes x
  writes d
segment B other time 0.0001 s
  consumes d
body
on 0
)" + there + "on 1\n" + back;
  const JointFixture two({hops, TextOf({20, 1})}, MillisecondCluster(), /*whole_turns=*/false);
  JointOptions options;
  options.devices = DeviceSharing::kFirstCome;
  const JointSimulation simulation = two.Simulate(options);
  EXPECT_GT(simulation.iteration[0].value, 10 * 20e-3);
  EXPECT_NEAR(simulation.iteration[1].value, 21e-3, 1e-3);
}

TEST(JointTest, ADeadlockNamesItsJob) {
  const std::string stuck = R"(heddle-program 1
strategy test
samples 1 as 1
updates 0
layers 0
device 0 "a:0"
device 1 "a:1"
tensor x f32[1] activation
segment R other time 1 s
  consumes x
body
on 0
  recv x from 1
  compute R
)";
  const Result<Program> program = ParseProgram(stuck, "stuck.heddle");
  ASSERT_TRUE(program.ok());
  const Cluster cluster = MillisecondCluster();
  const Result<SegmentSeconds> seconds = CostSegments(program.value(), cluster, nullptr);
  ASSERT_TRUE(seconds.ok());
  const std::vector<JointJob> jobs = {{"lost", &program.value(), &seconds.value(), true}};
  const Result<JointSimulation> simulation = SimulateJoint(jobs, cluster, {});
  ASSERT_FALSE(simulation.ok());
  EXPECT_THAT(simulation.error().ToString(), HasSubstr("job lost: deadlock"));
}

}  // namespace
}  // namespace heddle
