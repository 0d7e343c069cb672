// Clipping by the norm of all gradients: each device squares what it is the first to hold, all add
// up, everyone updates with the sum.
#include <gmock/gmock.h>

#include "hand_plans.h"
#include "model/zoo.h"

namespace heddle {
namespace {

using testing::HasSubstr;

Graph Mlp(int64_t batch, double clip = 1) {
  return BuildModel("mlp?layers=2&inputs=3&hidden=4&outputs=5",
                    {.batch = batch, .optimizer = Optimizer::kSgd, .clip = clip})
      .value();
}

// Layer 0 on device 0, layer 1 on devices 1 and 2.
Plan Three() {
  return PlanOf(4, 1,
                {{{StageOf({{0, 0}}, {1}, "(F B)*1"), StageOf({{1, 1}}, {1, 1}, "(F B)*1")}}});
}

const Segment& SegmentOf(const Program& program, const std::string& name) {
  for (const Segment& segment : program.segments) {
    if (segment.name == name) return segment;
  }
  ADD_FAILURE() << "no segment " << name;
  return program.segments[0];
}

bool HasSegment(const Program& program, const std::string& name) {
  return std::any_of(program.segments.begin(), program.segments.end(),
                     [&](const Segment& segment) { return segment.name == name; });
}

// "fc0.w.square fc0.bias.square"
std::string OpsOf(const Program& program, const std::string& segment) {
  std::string text;
  for (const SegmentOp& op : SegmentOf(program, segment).ops) {
    text += (text.empty() ? "" : " ") + program.NameOf(op);
  }
  return text;
}

std::string PortsOf(const Program& program, const std::string& segment, PortUse use) {
  std::string text;
  for (const Port& port : SegmentOf(program, segment).ports) {
    if (port.use == use) text += (text.empty() ? "" : " ") + program.tensor(port.tensor).name;
  }
  return text;
}

// The end of a device's list: its last lines.
std::string EndOf(const Program& program, size_t device, int lines) {
  std::string text = ListOf(program, device);
  size_t at = text.size() - 1;
  for (; lines > 0 && at != std::string::npos; --lines) at = text.rfind('\n', at - 1);
  return text.substr(at + 1);
}

TEST(ClipLoweringTest, NothingWithoutIt) {
  const Program program = LowerPlan(Three(), Mlp(4, 0)).value();
  EXPECT_EQ(PrintProgram(program).find("clip"), std::string::npos);
  EXPECT_FALSE(HasSegment(program, "N0"));
}

TEST(ClipLoweringTest, SquaresAreAddedUpOverAllDevices) {
  const Graph graph = Mlp(4);
  ASSERT_EQ(FaultsOf(Three(), graph), "");
  const Program program = LowerPlan(Three(), graph).value();
  EXPECT_EQ(EndOf(program, 0, 4), R"(compute N0
all-reduce clip.square over g0 ring
compute U1
free clip.square
)");
  EXPECT_THAT(ListOf(program, 1), HasSubstr(R"(compute N1
all-reduce clip.square over g0 ring
compute U0
free clip.square
)"));
  EXPECT_THAT(ListOf(program, 2), HasSubstr(R"(compute N2
all-reduce clip.square over g0 ring
compute U0
free clip.square
)"));
  EXPECT_EQ(program.groups[0].devices, (std::vector<int32_t>{0, 1, 2}));
}

// Devices 1 and 2 hold the same gradients, after their sum: only the first squares them.
TEST(ClipLoweringTest, EveryGradientIsSquaredOnce) {
  const Program program = LowerPlan(Three(), Mlp(4)).value();
  EXPECT_EQ(OpsOf(program, "N0"), "fc0.w.square fc0.bias.square");
  EXPECT_EQ(OpsOf(program, "N1"), "fc1.w.square fc1.bias.square");
  EXPECT_EQ(OpsOf(program, "N2"), "");
  EXPECT_EQ(SegmentOf(program, "N2").time, Seconds{0});
  EXPECT_EQ(SegmentOf(program, "N1").time, std::nullopt);
  EXPECT_EQ(PortsOf(program, "N1", PortUse::kRead), "g.fc1.w g.fc1.bias");
  EXPECT_EQ(PortsOf(program, "N1", PortUse::kWrite), "clip.square");
  EXPECT_EQ(PortsOf(program, "N2", PortUse::kRead), "");
  EXPECT_EQ(PortsOf(program, "N2", PortUse::kWrite), "clip.square");
}

// The norm is of the whole batch's gradients: squared behind their sums over devices.
TEST(ClipLoweringTest, SquaresComeBehindTheSums) {
  const std::string list = ListOf(LowerPlan(Three(), Mlp(4)).value(), 1);
  const size_t sum = list.find("all-reduce g.fc1.w"), square = list.find("compute N1");
  ASSERT_NE(sum, std::string::npos) << list;
  EXPECT_LT(sum, square) << list;
}

TEST(ClipLoweringTest, UpdatesReadTheNormAndKeepIt) {
  const Program program = LowerPlan(Three(), Mlp(4)).value();
  EXPECT_EQ(PortsOf(program, "U0", PortUse::kRead), "clip.square");
  EXPECT_EQ(PortsOf(program, "U1", PortUse::kRead), "clip.square");
}

TEST(ClipLoweringTest, OneDeviceNeedsNoSum) {
  const Plan plan = PlanOf(4, 2, {{{StageOf({{0, 1}}, {1}, "(F B)*2")}}});
  ASSERT_EQ(FaultsOf(plan, Mlp(4)), "");
  const Program program = LowerPlan(plan, Mlp(4)).value();
  EXPECT_EQ(EndOf(program, 0, 3), "compute N0\ncompute U0\nfree clip.square\n");
  EXPECT_EQ(OpsOf(program, "N0"), "fc1.w.square fc1.bias.square fc0.w.square fc0.bias.square");
}

// A device without samples takes part in the sum; a table in two stages is squared once.
TEST(ClipLoweringTest, DevicesWithoutSamplesAndTiedTables) {
  const Graph graph =
      BuildModel("tiny-gpt?layers=2&hidden=8&heads=2&vocab=16&seq=4", {.batch = 2, .clip = 1})
          .value();
  const Plan plan = PlanOf(
      2, 1, {{{StageOf({{0, 1}}, {1, 0}, "(F B)*1"), StageOf({{2, 3}}, {1, 1, 1}, "(F B)*1")}}});
  EXPECT_EQ(FaultsOf(plan, graph), "");
  const Program program = LowerPlan(plan, graph).value();
  std::string all;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    all += OpsOf(program, "N" + std::to_string(d)) + " ";
  }
  for (const Parameter& p : graph.parameters()) {
    const std::string square = graph.tensor(p.tensor).name + ".square ";
    ASSERT_NE(all.find(square), std::string::npos) << square;
    EXPECT_EQ(all.find(square), all.rfind(square)) << square;
  }
}

// The checker misses what is left out.
TEST(ClipLoweringTest, EveryStepMatters) {
  const Graph graph = Mlp(4);
  const std::string text = PrintProgram(LowerPlan(Three(), graph).value());
  const auto without = [&](int device, const std::string& line) {
    return Mutant::OfText(text).On(device, line, "").Findings({&graph, {}});
  };
  EXPECT_NE(without(0, "compute N0"), "");
  EXPECT_NE(without(2, "compute N2"), "");
  EXPECT_NE(without(0, "all-reduce clip.square over g0 ring"), "");
  EXPECT_NE(without(1, "free clip.square"), "");
}

}  // namespace
}  // namespace heddle
