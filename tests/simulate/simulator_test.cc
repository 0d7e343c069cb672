// The simulator's rules one by one, on Programs of a few lines.
#include "simulate/simulator.h"

#include "simulated.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// The header and four devices on two nodes; `rest` has tensors, segments and lists.
std::string FourDevices(const std::string& rest) {
  return R"(heddle-program 1
strategy test
samples 1 as 1
updates 0
layers 0
device 0 "a:0" holds x y
device 1 "a:1" holds x y
device 2 "b:0"
device 3 "b:1"
group all 0 1 2 3
group pair 0 1
tensor x f32[250] state
tensor y f32[125] state
tensor z f32[250] activation
segment One other time 1 s
segment Z other time 1 s
  reads x
  writes z
)" + rest;
}

// 1000 bytes a second between the nodes.
Cluster Slow(const std::string& more = "") { return TwoNodes("1 kB/s", "0 s", more); }

// x (1000 bytes) and y (500) cross the link at once.
constexpr char kTwoMessages[] = R"(body
on 0
  send x to 2
on 1
  send y to 3
on 2
  recv x from 0
  free x
on 3
  recv y from 1
  free y
)";

// Devices that move their messages themselves: busy first, then the message goes.
TEST(SimulatorTest, MessageBandwidth) {
  const Cluster cluster = ClusterOf(R"(message_bandwidth = "500 B/s"
[[node]]
name = "a"
devices = [{ type = "gpu", count = 2 }]
link = { bandwidth = "1 kB/s" }
)");
  const std::string text = R"(heddle-program 1
strategy test
samples 1 as 1
updates 0
layers 0
device 0 "a:0" holds x
device 1 "a:1" holds x
group both 0 1
tensor x f32[250] state
segment One other time 1 s
body
on 0
  all-reduce x over both ring
  compute One
on 1
  all-reduce x over both ring
  compute One
)";
  // Each sends and receives 1000 bytes twice by half: 2000 in all, 4 seconds; then 1 on the wire.
  const Simulation sim = SimulationOf(text, cluster, {.repetitions = 1});
  EXPECT_EQ(LaneText(sim, "a:0 compute", 1), "x 0-4, One 4-5");
  EXPECT_EQ(LaneText(sim, "a:0 network", 1), "x 4-5");
}

TEST(SimulatorTest, MessageBandwidthOfMessages) {
  const Cluster cluster = ClusterOf(R"(message_bandwidth = "500 B/s"
[[node]]
name = "a"
devices = [{ type = "gpu", count = 2 }]
link = { bandwidth = "1 kB/s" }
)");
  const std::string text = R"(heddle-program 1
strategy test
samples 1 as 1
updates 0
layers 0
device 0 "a:0" holds x
device 1 "a:1"
tensor x f32[250] state
segment One other time 1 s
body
on 0
  send x to 1
  compute One
on 1
  recv x from 0
  free x
)";
  const Simulation sim = SimulationOf(text, cluster, {.repetitions = 1});
  EXPECT_EQ(LaneText(sim, "a:0 compute", 1), "x 0-2, One 2-3");
  EXPECT_EQ(LaneText(sim, "a:0 network", 1), "x 0-1");
}

TEST(SimulatorTest, LinkModels) {
  const std::string text = FourDevices(kTwoMessages);
  const auto first = [&](LinkModel links) {
    const Simulation sim = SimulationOf(text, Slow(), {.links = links, .repetitions = 1});
    return LaneText(sim, "a:0 network", 1) + ", " + LaneText(sim, "a:1 network", 1);
  };
  EXPECT_EQ(first(LinkModel::kShared), "x 0-1.5, y 0-1");
  EXPECT_EQ(first(LinkModel::kExclusive), "x 0-1, y 0-1.5");
  EXPECT_EQ(first(LinkModel::kChannels), "x 0-1, y 0-0.5");
}

TEST(SimulatorTest, BothDirectionsAtOnceUnlessHalfDuplex) {
  const std::string text = FourDevices(R"(segment M other
  writes z
body
on 0
  send x to 2
  recv z from 2
  free z
on 2
  recv x from 0
  compute M
  send z to 0
  free x z
)");
  const SimulateOptions once{.repetitions = 1};
  EXPECT_NEAR(SimulationOf(text, Slow(), once).makespan.value, 1, 1e-9);
  EXPECT_NEAR(SimulationOf(text, Slow("duplex = \"half\""), once).makespan.value, 2, 1e-9);
}

// A message moves once both ends have posted it.
TEST(SimulatorTest, TheReceiverMustBeThere) {
  const Simulation sim = SimulationOf(FourDevices(R"(body
on 0
  send x to 2
on 2
  compute One
  recv x from 0
  compute One
  free x
)"),
                                      Slow(), {.repetitions = 1});
  EXPECT_EQ(LaneText(sim, "a:0 network", 1), "x 1-2");
  EXPECT_EQ(LaneText(sim, "b:0 compute", 1), "One 0-1, One 1-2");  // goes on meanwhile
}

// A buffer that is being sent may be read and sent elsewhere, but not changed.
TEST(SimulatorTest, ReadersDoNotWaitForEachOther) {
  const Simulation sim = SimulationOf(FourDevices(R"(segment Change other time 1 s
  changes x
body
on 0
  send x to 2
  send x to 3
  compute Z
  compute Change
  free z
on 2
  recv x from 0
  free x
on 3
  recv x from 0
  free x
)"),
                                      Slow(), {.repetitions = 1});
  EXPECT_EQ(LaneText(sim, "a:0 network", 1), "x 0-2, x 0-2");
  EXPECT_EQ(LaneText(sim, "a:0 compute", 1), "Z 0-1, Change 2-3");
}

TEST(SimulatorTest, WaitAndFreeStopTheWalk) {
  const auto compute = [](const std::string& before) {
    const Simulation sim =
        SimulationOf(FourDevices("body\non 0\n  compute Z\n  send z to 2\n" + before + R"(
  compute One
  free z
on 2
  recv z from 0
  free z
)"),
                     Slow(), {.repetitions = 1});
    return LaneText(sim, "a:0 compute", 1);
  };
  EXPECT_EQ(compute(""), "Z 0-1, One 1-2");
  EXPECT_EQ(compute("  wait z"), "Z 0-1, One 2-3");
  EXPECT_EQ(compute("  alias z~b = z\n  free z~b"), "Z 0-1, One 2-3");
}

TEST(SimulatorTest, OnCompute) {
  const std::string text = FourDevices(R"(body
on 0
  send x to 2 on compute
  compute One
on 2
  recv x from 0
  compute One
  free x
)");
  const Simulation sim = SimulationOf(text, Slow(), {.repetitions = 1});
  EXPECT_EQ(LaneText(sim, "a:0 compute", 1), "One 1-2");
  EXPECT_EQ(LaneText(sim, "b:0 compute", 1), "One 0-1");
}

// Collectives of one group follow each other; those of two groups run side by side.
TEST(SimulatorTest, CollectivesOfAGroupFollowEachOther) {
  const auto network = [](const std::string& second) {
    std::string lists = "body\n";
    for (const int device : {0, 1}) {
      lists += fmt::format("on {}\n  all-reduce x over pair ring\n  all-reduce y over {} ring\n",
                           device, second);
    }
    const Simulation sim = SimulationOf(FourDevices("group other 1 0\n" + lists),
                                        TwoNodes("1 kB/s", "0 s", "", "1 kB/s"),
                                        {.links = LinkModel::kChannels, .repetitions = 1});
    return LaneText(sim, "a:0 network", 1);
  };
  EXPECT_EQ(network("pair"), "x 0-1, y 1-1.5");
  EXPECT_EQ(network("other"), "y 0-0.5, x 0-1");
}

TEST(SimulatorTest, BytesOnWires) {
  const Simulation sim = SimulationOf(FourDevices(kTwoMessages), Slow());
  ASSERT_EQ(sim.wires.size(), 1U);
  EXPECT_NEAR(sim.wires[0].bytes, 1500, 1e-9);
  EXPECT_EQ(sim.devices[0].sent.value, 1000);
  EXPECT_EQ(sim.devices[3].received.value, 500);
  EXPECT_EQ(sim.devices[3].sent.value, 0);
}

// A ring of two: each sends half of the sums, then half of the result.
TEST(SimulatorTest, BytesOfCollectives) {
  const Simulation sim = SimulationOf(FourDevices(R"(body
on 0
  all-reduce x over pair ring
on 1
  all-reduce x over pair ring
)"),
                                      Slow());
  for (const size_t device : {0, 1}) {
    EXPECT_EQ(sim.devices[device].sent.value, 1000);
    EXPECT_EQ(sim.devices[device].received.value, 1000);
  }
  EXPECT_EQ(sim.devices[2].sent.value, 0);
}

TEST(SimulatorTest, EventsAreKeptOnRequest) {
  const Simulation sim = SimulationOf(FourDevices(kTwoMessages), Slow(), {.keep_events = false});
  EXPECT_TRUE(sim.timeline.events.empty());
  EXPECT_EQ(sim.instructions, 6 * sim.repetitions);
  EXPECT_GT(sim.iteration.value, 0);
}

TEST(SimulatorTest, ADeadlockIsAnErrorNotALoop) {
  const Program program = ParseProgram(FourDevices(R"(body
on 0
  send x to 2 on compute
  send y to 1
on 1
  recv y from 0 on compute
  send x to 2 tag 1
on 2
  recv x from 1 tag 1 on compute
  recv x from 0
)"),
                                       "p")
                              .value();
  const Result<Simulation> sim =
      Simulate(program, Slow(), CostSegments(program, Slow(), nullptr).value(), {});
  ASSERT_FALSE(sim.ok());
  EXPECT_THAT(sim.error().ToString(),
              HasSubstr("deadlock: device 0 (a:0) waits forever at instruction 1: send y to 1"));
}

TEST(SimulatorTest, ErrorsNameWhatDoesNotFit) {
  const auto error = [](const std::string& lists, const Cluster& cluster) {
    const Program program = ParseProgram(FourDevices(lists), "p").value();
    const Result<SegmentSeconds> seconds = CostSegments(program, cluster, nullptr);
    if (!seconds.ok()) return seconds.error().ToString();
    const Result<Simulation> sim = Simulate(program, cluster, seconds.value(), {});
    return sim.ok() ? "" : sim.error().ToString();
  };
  EXPECT_THAT(error("body\non 0\n  compute One\n", MeshOf(2, "1 kB/s")),
              HasSubstr("the cluster has no device \"b:0\""));
  EXPECT_THAT(error("body\non 0\n  all-reduce x over pair hierarchical\non 1\n  all-reduce x over "
                    "pair hierarchical\n",
                    Slow()),
              HasSubstr("device a:0: all-reduce x over pair hierarchical: there is no hierarchical "
                        "all-reduce over this group"));
  EXPECT_THAT(error("body\non 0\n  all-reduce x over pair grouped\non 1\n  all-reduce x over pair "
                    "grouped\n",
                    Slow()),
              HasSubstr("there is no grouped all-reduce"));
}

// A segment that states its time does not lend it to others.
TEST(SegmentCostTest, StatedTimesAreNotShared) {
  const Program program = ParseProgram(FourDevices(R"(segment Quick other
segment Ops other
  ops fc0
body
on 0
  compute One
  compute Quick
)"),
                                       "p")
                              .value();
  const SegmentSeconds seconds = CostSegments(program, Slow(), nullptr).value();
  const auto of = [&](const std::string& name) {
    for (size_t k = 0; k < program.segments.size(); ++k) {
      if (program.segments[k].name == name) return seconds.Of(0, static_cast<int32_t>(k));
    }
    return -2.0;
  };
  EXPECT_EQ(of("One"), 1);
  EXPECT_EQ(of("Quick"), 0);
}

TEST(SegmentCostTest, OpsNeedAModel) {
  const Program program = ParseProgram(FourDevices(R"(segment Ops other
  ops fc0
body
on 0
  compute Ops
)"),
                                       "p")
                              .value();
  EXPECT_THAT(CostSegments(program, Slow(), nullptr).error().ToString(),
              HasSubstr("segment Ops states no time\n  hint: add \"time 0.001 s\" to it"));
}

}  // namespace
}  // namespace heddle
