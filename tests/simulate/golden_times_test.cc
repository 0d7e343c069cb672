// The golden Programs on small clusters, against times computed by hand (milliseconds).
#include "simulated.h"

namespace heddle {

static void PrintTo(LinkModel links, std::ostream* out) { *out << NameOf(links); }

namespace {

constexpr double kMs = 1e-3;
constexpr double kSlack = 1e-6;  // what the quick links of these clusters take

Simulation Golden(const std::string& name, const Cluster& cluster,
                  const SimulateOptions& options = {}) {
  return SimulationOf(GoldenProgram(name), cluster, options);
}

//   device 0   F0 F1 F2 F3                B0··· B1··· B2··· B3··· U
//   device 1      F0 F1 F2       B0··· F3 B1··· B2··· B3··· U
//   device 2         F0 F1 B0··· F2 B1··· F3 B2··· B3··· U            (F 1, B 2, U 0.1)
//   device 3            F0 B0··· F1 B1··· F2 B2··· F3 B3··· U
TEST(GoldenTimesTest, OneForwardOneBackward) {
  const Simulation sim = Golden("1-1f1b", MeshOf(4, "1000 TB/s"));
  EXPECT_EQ(LaneText(sim, "a:0 compute"),
            "F0#0 0-1, F0#1 1-2, F0#2 2-3, F0#3 3-4, B0#0 10-12, B0#1 13-15, B0#2 16-18, "
            "B0#3 19-21, U0 21-21.1");
  EXPECT_EQ(LaneText(sim, "a:3 compute"),
            "F3#0 3-4, B3#0 4-6, F3#1 6-7, B3#1 7-9, F3#2 9-10, B3#2 10-12, F3#3 12-13, "
            "B3#3 13-15, U3 15-15.1");
  EXPECT_NEAR(sim.makespan.value, 21.1 * kMs, kSlack);
  EXPECT_NEAR(sim.iteration.value, 21.1 * kMs, kSlack);
  EXPECT_NEAR(sim.devices[2].busy.value, 12.1 * kMs, kSlack);
  EXPECT_EQ(sim.devices[1].sent.value, 8 * 1024);
  EXPECT_EQ(sim.devices[0].received.value, 4 * 1024);
}

// A row (256 bytes) takes 1 ms between the nodes. Rows 0 1 2 are on a:0, row 3 on a:1; rows 0 1 go
// to b:0, rows 2 3 to b:1. Under `channels` a microbatch is one job of 4 ms, and the channel half
// duplex:
//   a:0, a:1   F0 0-3  F1 3-6                                  B0 17-20        B1 23-26
//   channel          x#0 3-7   x#1 7-11       d#0 13-17               d#1 19-23
//   b:0, b:1            F0 7-9  B0 9-13  F1 13-15  B1 15-19
TEST(GoldenTimesTest, UnevenSharesOverAChannel) {
  const Simulation sim =
      Golden("2-uneven-shares", TwoNodes("256 kB/s"), {.links = LinkModel::kChannels});
  EXPECT_EQ(LaneText(sim, "a:0 compute"),
            "F0.0#0 0-3, F0.0#1 3-6, B0.0#0 17-20, B0.0#1 23-26, U0 26-26");
  EXPECT_EQ(LaneText(sim, "b:1 compute"),
            "F1.1#0 7-9, B1.1#0 9-13, F1.1#1 13-15, B1.1#1 15-19, U1 23-23");
  EXPECT_EQ(LaneText(sim, "a:1 network"), "x1#0 3-7, x1#1 6-11, g0 26-26");
  EXPECT_NEAR(sim.iteration.value, 26 * kMs, kSlack);
}

// Shared, both directions: three flows of 512, 256 and 256 bytes start at 3, three more at 6.
//   from 3: 1/3 each, the short ones end at 6;   from 6: the rest of the long one and two short
//   ones, 1/3 each, until 9; the second long one, behind the first till then, alone until 11.
// Back: b:1 at 12 and at 18 (two flows of 1 ms, together 2), b:0 at 15 and 21 (2 ms alone).
TEST(GoldenTimesTest, UnevenSharesOverASharedLink) {
  const Simulation sim = Golden("2-uneven-shares", TwoNodes("256 kB/s"));
  EXPECT_EQ(LaneText(sim, "a:0 network"), "x1#0 3-6, x1#0 3-9, x1#1 6-9, x1#1 6-11, g0 26-26");
  EXPECT_EQ(LaneText(sim, "b:0 compute"),
            "F1.0#0 9-11, B1.0#0 11-15, F1.0#1 15-17, B1.0#1 17-21, U1 23-23");
  EXPECT_EQ(LaneText(sim, "b:1 compute"),
            "F1.1#0 6-8, B1.1#0 8-12, F1.1#1 12-14, B1.1#1 14-18, U1 21-21");
  EXPECT_EQ(LaneText(sim, "a:0 compute"),
            "F0.0#0 0-3, F0.0#1 3-6, B0.0#0 17-20, B0.0#1 23-26, U0 26-26");
  EXPECT_EQ(LaneText(sim, "a:1 compute"),
            "F0.1#0 0-3, F0.1#1 3-6, B0.1#0 14-17, B0.1#1 20-23, U0 26-26");
  EXPECT_NEAR(sim.makespan.value, 26 * kMs, kSlack);
}

// Exclusive: one flow after the other in the order they were posted.
//   a->b   x#0 [0:2] 3-5, [2:3] 5-6, [3:4] 6-7,   x#1 [0:2] 7-9, [2:3] 9-10, [3:4] 10-11
TEST(GoldenTimesTest, UnevenSharesOverAnExclusiveLink) {
  const Simulation sim =
      Golden("2-uneven-shares", TwoNodes("256 kB/s"), {.links = LinkModel::kExclusive});
  EXPECT_EQ(LaneText(sim, "b:0 compute"),
            "F1.0#0 5-7, B1.0#0 7-11, F1.0#1 11-13, B1.0#1 13-17, U1 19-19");
  EXPECT_EQ(LaneText(sim, "b:1 compute"),
            "F1.1#0 7-9, B1.1#0 9-13, F1.1#1 13-15, B1.1#1 15-19, U1 21-21");
  EXPECT_EQ(LaneText(sim, "a:0 compute"),
            "F0.0#0 0-3, F0.0#1 3-6, B0.0#0 14-17, B0.0#1 20-23, U0 24-24");
  EXPECT_EQ(LaneText(sim, "a:1 compute"),
            "F0.1#0 0-3, F0.1#1 3-6, B0.1#0 15-18, B0.1#1 21-24, U0 24-24");
}

// Shards of 80, 48 and 0 bytes go round the ring of three in pieces: 80 bytes take 1 ms, and the
// two broadcasts follow each other's wires, 1.6 ms in all where both pass.
TEST(GoldenTimesTest, SpmdMatmul) {
  const Cluster cluster = MeshOf(3, "80 kB/s");
  const Simulation sim = Golden("3-spmd-matmul", cluster);
  std::vector<DeviceId> group = {DeviceId{0}, DeviceId{1}, DeviceId{2}};
  const std::vector<Bytes> sizes = {Bytes{80}, Bytes{48}, Bytes{0}};
  const CommCost gather = NetworkCost(cluster).Collective(
      {CollectiveKind::kAllGather, group, sizes, CollectiveAlgorithm::kGrouped});
  EXPECT_GT(gather.seconds.value, 0.9 * kMs);
  EXPECT_NEAR(sim.makespan.value, 0.5 * kMs + gather.seconds.value, kSlack);
  EXPECT_NEAR(sim.iteration.value, sim.makespan.value, kSlack);  // the next body frees y first
  EXPECT_EQ(sim.devices[2].busy.value, 0);
}

//   device 0   F0 F1    B0 F2 B1 F3 B2 …       every piece 1 ms; the body is two of them on both
//   device 1      F0 B0 F1 B1 F2 B2 …
TEST(GoldenTimesTest, AsyncSteadyPeriod) {
  const Simulation sim = Golden("4-async-versions", MeshOf(2, "1000 TB/s"));
  EXPECT_EQ(LaneText(sim, "a:1 compute", kMs, 1), "F1#2 5-6, B1#2 6-7, U1#2 7-7");
  EXPECT_NEAR(sim.makespan.value, 6 * kMs, kSlack);
  EXPECT_NEAR(sim.iteration.value, 2 * kMs, kSlack);
  EXPECT_TRUE(sim.steady);
  EXPECT_NEAR(sim.devices[0].idle.value, 0, kSlack);
  // One activation and one gradient a body; what prologue and epilogue send does not count.
  EXPECT_EQ(sim.devices[0].sent.value, 1024);
  EXPECT_EQ(sim.devices[0].received.value, 1024);
}

// With messages of 1 ms the round trip of F, x, F, B, d, B takes 6 ms and spans two bodies, so a
// body takes 3 on average: in turns 2 and 4.
TEST(GoldenTimesTest, AsyncOverASlowLink) {
  const Simulation sim = Golden("4-async-versions", MeshOf(2, "1024 kB/s"));
  EXPECT_NEAR(sim.iteration.value, 3 * kMs, kSlack);
  EXPECT_TRUE(sim.steady);
  EXPECT_LE(sim.repetitions, 12);
}

// Two local steps of 3.1 ms, the scaling 0.1, then 4096 bytes summed over two: 1 ms.
TEST(GoldenTimesTest, LocalSgdRound) {
  const Simulation sim = Golden("5-local-sgd", MeshOf(2, "4096 kB/s"));
  EXPECT_EQ(LaneText(sim, "a:1 compute"),
            "F#1 0-1, B#1 1-3, U 3-3.1, F#3 3.1-4.1, B#3 4.1-6.1, U 6.1-6.2, half 6.2-6.3");
  EXPECT_EQ(LaneText(sim, "a:1 network"), "w 6.3-7.3");
  EXPECT_NEAR(sim.makespan.value, 7.3 * kMs, kSlack);
  EXPECT_NEAR(sim.iteration.value, 7.3 * kMs, kSlack);
}

//   compute   F0 F1 I1 I0 W1 W1 W0 W0   U1 U0
//   network                     b1    b0               buckets of 16640 bytes
TEST(GoldenTimesTest, BucketsOverlapWithBackward) {
  const Simulation quick = Golden("6-split-backward", MeshOf(2, "16640 kB/s"));  // 1 ms a bucket
  EXPECT_EQ(LaneText(quick, "a:0 network"), "gw1 10-11, gw0 12-13");
  EXPECT_NEAR(quick.makespan.value, 13.1 * kMs, kSlack);
  const Simulation slow = Golden("6-split-backward", MeshOf(2, "5546.6666 kB/s"));  // 3 ms
  EXPECT_EQ(LaneText(slow, "a:0 network"), "gw1 10-13, gw0 13-16");
  EXPECT_EQ(LaneText(slow, "a:0 compute").substr(83), "W0.0#1 11-12, U1 13-13.1, U0 16-16.1");
}

TEST(GoldenTimesTest, OnComputeHoldsUpTheWalk) {
  std::string text = GoldenText("6-split-backward");
  for (size_t at = text.find(" over dp ring"); at != std::string::npos;
       at = text.find(" over dp ring", at + 20)) {
    text.insert(at + 13, " on compute");
  }
  const Simulation sim = SimulationOf(text, MeshOf(2, "5546.6666 kB/s"));
  EXPECT_EQ(LaneText(sim, "a:1 network"), "gw1 10-13, gw0 15-18");
  EXPECT_NEAR(sim.makespan.value, 18.2 * kMs, kSlack);
}

class EveryGolden : public testing::TestWithParam<std::tuple<std::string, LinkModel>> {
 protected:
  Simulation Run() const {
    const auto& [name, links] = GetParam();
    const bool two_nodes = name == "2-uneven-shares";
    return Golden(name, two_nodes ? TwoNodes("1 MB/s", "10 us") : MeshOf(4, "1 MB/s", "10 us"),
                  {.links = links});
  }
};

TEST_P(EveryGolden, BusyAndIdleMakeThePeriod) {
  const Simulation sim = Run();
  EXPECT_TRUE(sim.steady);
  for (const DeviceUse& use : sim.devices) {
    EXPECT_NEAR((use.busy + use.idle).value, sim.iteration.value, 1e-12) << use.device;
  }
  EXPECT_LE(sim.iteration, sim.makespan + Seconds{1e-12});
}

TEST_P(EveryGolden, TimelinesAreValidAndTheSameEveryTime) {
  const Simulation first = Run();
  const Simulation second = Run();
  EXPECT_TRUE(Validate(first.timeline).ok()) << Validate(first.timeline).error().ToString();
  EXPECT_EQ(first.timeline.source, "simulated");
  for (const Lane& lane : first.timeline.lanes) {
    for (int i = 0; i < first.repetitions; ++i) {
      EXPECT_EQ(LaneText(first, lane.name, 1e-12, i), LaneText(second, lane.name, 1e-12, i));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryGolden,
                         testing::Combine(testing::ValuesIn(GoldenPrograms()),
                                          testing::Values(LinkModel::kShared, LinkModel::kExclusive,
                                                          LinkModel::kChannels)),
                         [](const auto& param) {
                           std::string name = std::get<0>(param.param) + "-" +
                                              std::string(NameOf(std::get<1>(param.param)));
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace heddle
