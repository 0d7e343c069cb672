// The pictures are drawn here as a terminal shows them.
#include "report/gantt.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "base/text.h"
#include "pipeline_timeline.h"
#include "program/golden_programs.h"
#include "report/text_width.h"
#include "simulate/simulator.h"

namespace heddle {
namespace {

// The picture without the newline that a raw string begins with.
std::string Picture(const std::string& text) { return text.substr(1); }

std::string WithoutColour(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
}

StageOrder ForwardsThenBackwards(int microbatches) {
  StageOrder order;
  for (int m = 0; m < microbatches; ++m) order.emplace_back('F', m);
  for (int m = 0; m < microbatches; ++m) order.emplace_back('B', m);
  return order;
}

TEST(GanttTest, TheExampleOfTheHeader) {
  const StageOrder order = ForwardsThenBackwards(4);
  EXPECT_EQ(DrawGantt(PipelineTimeline({order, order}), {.width = 54}), Picture(R"(
simulated, repetition 0: 16.0 ms
a:0 │0░░1░░2░░3░░·········0▓▓▓▓▓1▓▓▓▓▓2▓▓▓▓▓3▓▓▓▓▓███│
a:1 │···0░░1░░2░░3░░0▓▓▓▓▓1▓▓▓▓▓2▓▓▓▓▓3▓▓▓▓▓███······│
    └┬──────────────┬──────────────┬──────────────┬──┘
 ms  0              5              10             15
0░ forward  0▓ backward  █ update  · idle
)"));
}

TEST(GanttTest, OneFOneBAtWidth100) {
  EXPECT_EQ(DrawGantt(PipelineTimeline(OneFOneB(4, 8)), {.width = 100}), Picture(R"(
simulated, repetition 0: 34.0 ms
a:0 │0░░1░░2░3░░·················0▓▓▓▓4░░1▓▓▓▓5░░2▓▓▓▓▓6░░3▓▓▓▓7░░4▓▓▓▓···5▓▓▓▓▓··6▓▓▓▓▓···7▓▓▓▓███│
a:1 │···0░░1░2░░···········0▓▓▓▓▓3░1▓▓▓▓▓4░░2▓▓▓▓5░░3▓▓▓▓▓6░4▓▓▓▓▓7░░5▓▓▓▓···6▓▓▓▓···7▓▓▓▓▓██······│
a:2 │······0░1░░······0▓▓▓▓2░░1▓▓▓▓3░░2▓▓▓▓▓4░3▓▓▓▓▓5░░4▓▓▓▓6░░5▓▓▓▓▓7░6▓▓▓▓▓···7▓▓▓▓███···········│
a:3 │········0░░0▓▓▓▓▓1░1▓▓▓▓▓2░░2▓▓▓▓3░░3▓▓▓▓4░░4▓▓▓▓▓5░░5▓▓▓▓6░░6▓▓▓▓7░░7▓▓▓▓▓██·················│
    └┬─────────────┬─────────────┬────────────┬─────────────┬─────────────┬─────────────┬──────────┘
 ms  0             5             10           15            20            25            30
0░ forward  0▓ backward  █ update  · idle
)"));
}

TEST(GanttTest, OneFOneBAtWidth60) {
  EXPECT_EQ(DrawGantt(PipelineTimeline(OneFOneB(4, 8)), {.width = 60}), Picture(R"(
simulated, repetition 0: 34.0 ms
a:0 │0░12░3··········0▓▓4░1▓▓52▓▓▓63▓▓7░4▓▓··5▓▓·6▓▓▓·7▓▓██│
a:1 │··01░2·······0▓▓31▓▓▓42▓▓5░3▓▓6░4▓▓7░5▓▓·6▓▓··7▓▓██···│
a:2 │···0░1····0▓▓21▓▓3░2▓▓4░3▓▓5░4▓▓65▓▓▓76▓▓··7▓▓██······│
a:3 │·····00▓▓▓11▓▓2░2▓▓3░3▓▓44▓▓▓55▓▓6░6▓▓7░7▓▓█··········│
    └┬───────────────┬───────────────┬───────────────┬─────┘
 ms  0               10              20              30
0░ forward  0▓ backward  █ update  · idle
)"));
}

// A transfer of 0.5 ms takes two columns and shows its microbatch; rounded to one it is a dash.
TEST(GanttTest, NetworkLanes) {
  EXPECT_EQ(DrawGantt(PipelineTimeline(OneFOneB(2, 3), 0.5), {.width = 60, .show_network = true}),
            Picture(R"(
simulated, repetition 0: 15.0 ms
a:0   │0░░1░░░··········0▓▓▓▓▓▓2░░░1▓▓▓▓▓▓·······2▓▓▓▓▓▓███│
  net │···0─··1─···················─·······················│
a:1   │·····0░░░0▓▓▓▓▓▓1░░1▓▓▓▓▓▓···2░░░2▓▓▓▓▓▓███·········│
  net │················─·········1─············2─··········│
      └┬────────────────┬─────────────────┬────────────────┘
   ms  0                5                 10
0░ forward  0▓ backward  █ update  0─ transfer  · idle
)"));
}

TEST(GanttTest, CollectivesAndOtherWork) {
  Timeline timeline = EmptyTimeline(1);
  timeline.events = {EventAt(0, EventKind::kOther, 0, -1, 0, 1),
                     EventAt(0, EventKind::kForward, 0, -1, 1, 2),  // without a microbatch
                     EventAt(0, EventKind::kBackward, 1, 3, 2, 2.5),
                     EventAt(1, EventKind::kCollective, 4, -1, 2.5, 3.5),
                     EventAt(0, EventKind::kUpdate, 2, -1, 3.5, 4)};
  EXPECT_EQ(DrawGantt(timeline, {.width = 16, .show_network = true}), Picture(R"(
simulated,
repetition 0:
4.00 ms
a:0   │###░░▓···█│
  net │······═══·│
      └┬────┬────┘
   ms  0    2
░ forward
▓ backward
█ update
# other
═ collective
· idle
)"));
}

TEST(GanttTest, AShortUpdateIsSeenUnlessItHidesAnother) {
  Timeline timeline = EmptyTimeline(3);
  for (const int lane : {0, 2, 4}) {
    const double end = lane == 0 ? 10 : lane == 2 ? 5 : 0.3;
    timeline.events.push_back(EventAt(lane, EventKind::kForward, 0, 0, 0, end));
    timeline.events.push_back(EventAt(lane, EventKind::kUpdate, 2, -1, end, end + 0.01));
  }
  timeline.events.push_back(EventAt(4, EventKind::kForward, 0, 1, 0.31, 1));
  std::stable_sort(timeline.events.begin(), timeline.events.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  const std::string picture = DrawGantt(timeline, {.width = 26});
  EXPECT_NE(picture.find("a:0 │0░░░░░░░░░░░░░░░░░░█│\n"), std::string::npos) << picture;
  EXPECT_NE(picture.find("a:1 │0░░░░░░░░░█·········│\n"), std::string::npos) << picture;
  EXPECT_NE(picture.find("a:2 │01··················│\n"), std::string::npos) << picture;
}

TEST(GanttTest, ManyDevicesAreFolded) {
  const std::string text = DrawGantt(PipelineTimeline(OneFOneB(20, 16)), {.width = 100});
  const auto lines = SplitAt(text, '\n');
  std::vector<std::string> labels;
  for (size_t i = 1; i <= 13; ++i) labels.emplace_back(lines[i].substr(0, lines[i].find(" │")));
  EXPECT_EQ(Join(labels, "|"), "a:0 |a:1 |a:2 |a:3 |a:4 |a:5 |a:6 |a:7 |   ⋮|a:16|a:17|a:18|a:19");
  EXPECT_EQ(lines[9], "   ⋮ │ 8 more devices");
  EXPECT_EQ(lines[16], "0░ forward  0▓ backward  █ update  · idle  a-f: microbatches 10-15");
  // Sixteen still fit; with their network lanes only 4 and 2 of them do.
  EXPECT_EQ(DrawGantt(PipelineTimeline(OneFOneB(16, 2)), {}).find("more devices"),
            std::string::npos);
  const std::string folded =
      DrawGantt(PipelineTimeline(OneFOneB(16, 2), 0.1), {.show_network = true});
  EXPECT_NE(folded.find("⋮ │ 10 more devices\na:14 "), std::string::npos) << folded;
  EXPECT_EQ(DrawGantt(PipelineTimeline(OneFOneB(3, 2)), {.max_rows = 1}).find("⋮"),
            DrawGantt(PipelineTimeline(OneFOneB(3, 2)), {.max_rows = 2}).find("⋮"));
}

TEST(GanttTest, MoreMicrobatchesThanCharactersShowTheirLastDigit) {
  Timeline timeline = EmptyTimeline(1);
  for (const int m : {7, 40, 1234}) {
    const double start = static_cast<double>(timeline.events.size());
    timeline.events.push_back(EventAt(0, EventKind::kForward, 0, m, start, start + 1));
    if (m == 1234) continue;
    const std::string picture = DrawGantt(timeline, {.width = 36});
    EXPECT_NE(picture.find(m == 7 ? "│7░" : "E░"), std::string::npos) << picture;
  }
  EXPECT_EQ(DrawGantt(timeline, {.width = 36}), Picture(R"(
simulated, repetition 0: 3.00 ms
a:0 │7░░░░░░░░░0░░░░░░░░░4░░░░░░░░░│
    └┬─────────┬─────────┬─────────┘
 ms  0         1         2
0░ forward
digit: the microbatch's last
)"));
}

TEST(GanttTest, ShowsTheAskedRepetitionsAndWhatElseHappensThen) {
  Timeline timeline = EmptyTimeline(2);
  for (int r = 0; r < 3; ++r) {
    const double start = 10 * r;
    timeline.events.push_back(EventAt(0, EventKind::kForward, 0, r, start, start + 10, r));
    timeline.events.push_back(EventAt(2, EventKind::kForward, 0, r, start + 5, start + 15, r));
  }
  EXPECT_EQ(DrawGantt(timeline, {.width = 36, .repetition = 1}), Picture(R"(
simulated, repetition 1: 15.0 ms,
from 10.0 ms
a:0 │1░░░░░░░░░░░░░░░░░░░2░░░░░░░░░│
a:1 │0░░░░░░░░░1░░░░░░░░░░░░░░░░░░░│
    └┬─────────┬─────────┬─────────┘
 ms  0         5         10
0░ forward
)"));
  // An update that takes no time, at the border: it belongs to the repetition before.
  timeline.events.push_back(EventAt(0, EventKind::kUpdate, 2, -1, 10, 10, 0));
  EXPECT_EQ(DrawGantt(timeline, {.repetition = 1}).find("█"), std::string::npos);
  EXPECT_NE(DrawGantt(timeline, {.repetition = 0}).find("█"), std::string::npos);
  const std::string two = DrawGantt(timeline, {.repetition = 1, .repetitions = 9});
  EXPECT_EQ(two.substr(0, two.find('\n')), "simulated, repetitions 1 to 2: 25.0 ms, from 10.0 ms");
  EXPECT_EQ(DrawGantt(timeline, {.repetition = 3}),
            "nothing is computed in repetition 3; the timeline has 0 to 2\n");
  EXPECT_EQ(DrawGantt(EmptyTimeline(2), {}), "the timeline is empty\n");
}

TEST(GanttTest, ColourOnlyAddsToThePicture) {
  const Timeline timeline = PipelineTimeline(OneFOneB(4, 8), 0.5);
  const std::string plain = DrawGantt(timeline, {.width = 80, .show_network = true});
  const std::string colour =
      DrawGantt(timeline, {.width = 80, .colour = true, .show_network = true});
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_EQ(WithoutColour(colour), plain);
  for (const char* part : {"\x1b[34m0░", "\x1b[32m0▓", "\x1b[33m█", "\x1b[35m─", "\x1b[90m·"}) {
    EXPECT_NE(colour.find(part), std::string::npos) << part;
  }
}

// The grid drawn at the head of the golden program, by the simulator.
TEST(GanttTest, ASimulatedProgram) {
  const Program program = GoldenProgram("1-1f1b");
  const Cluster cluster = ParseClusterToml(R"(
schema = "heddle.cluster/1"
[device_type.gpu]
flops = "10 TFLOP/s"
memory = "16 GiB"
memory_bandwidth = "900 GB/s"
[[node]]
name = "a"
devices = [{ type = "gpu", count = 4 }]
link = { bandwidth = "100 GB/s", latency = "1 us" }
)",
                                           "test.toml")
                              .value();
  const SegmentSeconds seconds = CostSegments(program, cluster, nullptr).value();
  const Simulation simulation = Simulate(program, cluster, seconds, {}).value();
  EXPECT_EQ(DrawGantt(simulation.timeline, {.width = 70}), Picture(R"(
simulated, repetition 0: 21.1 ms
a:0 │0░░1░░2░░3░░··················0▓▓▓▓▓···1▓▓▓▓▓····2▓▓▓▓▓···3▓▓▓▓█│
a:1 │···0░░1░░2░░············0▓▓▓▓▓3░░1▓▓▓▓▓···2▓▓▓▓▓▓···3▓▓▓▓█······│
a:2 │······0░░1░░······0▓▓▓▓▓2░░1▓▓▓▓▓3░░2▓▓▓▓▓····3▓▓▓▓█············│
a:3 │·········0░░0▓▓▓▓▓1░░1▓▓▓▓▓2░░2▓▓▓▓▓3░░3▓▓▓▓▓█··················│
    └┬──────────────┬──────────────┬──────────────┬───────────────┬──┘
 ms  0              5              10             15              20
0░ forward  0▓ backward  █ update  · idle
)"));
}

RC_GTEST_PROP(GanttTest, EveryLineKeepsToTheWidth, ()) {
  const int devices = *rc::gen::inRange(1, 30);
  const GanttOptions options{.width = *rc::gen::inRange(40, 200),
                             .show_network = *rc::gen::arbitrary<bool>(),
                             .max_rows = *rc::gen::inRange(1, 40)};
  Timeline timeline = EmptyTimeline(devices);
  for (int lane = 0; lane < 2 * devices; ++lane) {
    double now = 0;
    for (int i = *rc::gen::inRange(0, 9); i > 0; --i) {
      const double start = now + *rc::gen::inRange(0, 50);
      now = start + *rc::gen::inRange(0, 50);
      const auto kind = static_cast<EventKind>(*rc::gen::inRange(0, 6));
      timeline.events.push_back(
          EventAt(lane, kind, 0, *rc::gen::inRange(-1, 80), start, now, *rc::gen::inRange(0, 2)));
    }
  }
  const std::string text = DrawGantt(timeline, options);
  for (const std::string_view line : SplitAt(text, '\n')) {
    if (line.starts_with("nothing is computed")) continue;
    RC_ASSERT(DisplayWidth(line) <= options.width);
    if (line.ends_with("│")) RC_ASSERT(DisplayWidth(line) == options.width);
  }
}

}  // namespace
}  // namespace heddle
