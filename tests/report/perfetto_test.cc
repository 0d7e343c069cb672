// The JSON is read back and compared field by field.
#include "report/perfetto.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "pipeline_timeline.h"

namespace heddle {
namespace {

using nlohmann::json;

std::vector<json> EventsOf(const json& trace, const std::string& phase) {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

// "pid/tid name", of the metadata events of this name.
std::vector<std::string> NamesOf(const json& trace, const std::string& what) {
  std::vector<std::string> names;
  for (const json& event : EventsOf(trace, "M")) {
    if (event["name"] != what) continue;
    names.push_back(event["pid"].dump() + "/" + event["tid"].dump() + " " +
                    event["args"]["name"].get<std::string>());
  }
  return names;
}

TEST(PerfettoTest, TheWholeTextOfASmallTimeline) {
  Timeline timeline = EmptyTimeline(1);
  timeline.events = {EventAt(0, EventKind::kForward, 0, 3, 0.0125, 0.01375)};
  EXPECT_EQ(PerfettoJson(timeline),
            R"({"displayTimeUnit":"ms","otherData":{"source":"simulated"},"traceEvents":[
{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"a:0"}},
{"ph":"M","name":"process_sort_index","pid":1,"tid":0,"args":{"sort_index":1}},
{"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"a:0 compute"}},
{"ph":"M","name":"thread_sort_index","pid":1,"tid":1,"args":{"sort_index":1}},
{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"a:0 network"}},
{"ph":"M","name":"thread_sort_index","pid":1,"tid":2,"args":{"sort_index":2}},
{"ph":"X","name":"forward 3","cat":"forward","pid":1,"tid":1,"ts":12.500,"dur":1.250,"args":{"microbatch":3,"repetition":0}}
]}
)");
}

TEST(PerfettoTest, EventsCarryTheirFields) {
  Timeline timeline = EmptyTimeline(2);
  timeline.events = {EventAt(0, EventKind::kForward, 0, 0, 0, 1, 4),
                     EventAt(1, EventKind::kTransfer, 3, 0, 1, 1.5, 4),
                     EventAt(2, EventKind::kBackward, 1, 0, 1.5, 3.5, 4),
                     EventAt(2, EventKind::kUpdate, 2, -1, 3.5, 3.6, 4),
                     EventAt(3, EventKind::kCollective, 4, -1, 3.5, 3.75, 4),
                     EventAt(0, EventKind::kOther, 2, -1, 4, 4, 5)};
  const json trace = json::parse(PerfettoJson(timeline));
  EXPECT_EQ(trace["displayTimeUnit"], "ms");
  EXPECT_EQ(trace["otherData"]["source"], "simulated");
  EXPECT_EQ(NamesOf(trace, "process_name"), (std::vector<std::string>{"1/0 a:0", "2/0 a:1"}));
  EXPECT_EQ(NamesOf(trace, "thread_name"),
            (std::vector<std::string>{"1/1 a:0 compute", "1/2 a:0 network", "2/3 a:1 compute",
                                      "2/4 a:1 network"}));

  const std::vector<json> events = EventsOf(trace, "X");
  ASSERT_EQ(events.size(), timeline.events.size());
  const std::vector<std::string> names = {"forward 0", "activation 0", "backward 0",
                                          "update",    "gradient",     "update"};
  const std::vector<std::string> kinds = {"forward", "transfer",   "backward",
                                          "update",  "collective", "other"};
  for (size_t i = 0; i < events.size(); ++i) {
    const TimelineEvent& event = timeline.events[i];
    EXPECT_EQ(events[i]["name"], names[i]);
    EXPECT_EQ(events[i]["cat"], kinds[i]);
    EXPECT_EQ(events[i]["pid"], event.lane / 2 + 1);
    EXPECT_EQ(events[i]["tid"], event.lane + 1);
    EXPECT_NEAR(events[i]["ts"].get<double>(), event.start.value * 1e6, 5e-4);
    EXPECT_NEAR(events[i]["dur"].get<double>(), (event.end - event.start).value * 1e6, 1e-3);
    EXPECT_EQ(events[i]["args"]["repetition"], event.repetition);
    EXPECT_EQ(events[i]["args"].contains("microbatch"), event.microbatch >= 0);
    EXPECT_EQ(events[i]["args"].value("microbatch", -1), event.microbatch);
  }
}

TEST(PerfettoTest, WhatOverlapsGoesToFurtherThreads) {
  Timeline timeline = EmptyTimeline(2);
  timeline.events = {EventAt(1, EventKind::kTransfer, 3, 0, 0, 4),   // network
                     EventAt(1, EventKind::kTransfer, 3, 1, 1, 2),   // network 2
                     EventAt(3, EventKind::kTransfer, 3, 0, 1, 2),   // of the other device
                     EventAt(1, EventKind::kTransfer, 3, 2, 1, 3),   // network 3
                     EventAt(1, EventKind::kTransfer, 3, 3, 2, 5),   // network 2 is free again
                     EventAt(1, EventKind::kTransfer, 3, 4, 4, 5)};  // and so is network
  const json trace = json::parse(PerfettoJson(timeline));
  EXPECT_EQ(NamesOf(trace, "thread_name"),
            (std::vector<std::string>{"1/1 a:0 compute", "1/2 a:0 network", "1/3 a:0 network 2",
                                      "1/4 a:0 network 3", "2/5 a:1 compute", "2/6 a:1 network"}));
  std::vector<int> threads;
  for (const json& event : EventsOf(trace, "X")) threads.push_back(event["tid"]);
  EXPECT_EQ(threads, (std::vector<int>{2, 3, 6, 4, 3, 2}));
}

TEST(PerfettoTest, NamesAreEscaped) {
  const std::string hard = "quote \" slash \\ line\n tab\t bell\x07 arrow → bad \xff\xfe";
  Timeline timeline = EmptyTimeline(1);
  timeline.source = hard;
  timeline.labels[0] = hard;
  timeline.lanes[0].name = hard;
  timeline.lanes[0].device = hard;
  timeline.events = {EventAt(0, EventKind::kForward, 0, 7, 0, 1)};
  const json trace = json::parse(PerfettoJson(timeline));
  const std::string read = "quote \" slash \\ line\n tab\t bell\x07 arrow → bad \ufffd\ufffd";
  EXPECT_EQ(trace["otherData"]["source"], read);
  EXPECT_EQ(NamesOf(trace, "process_name")[0], "1/0 " + read);
  EXPECT_EQ(NamesOf(trace, "thread_name")[0], "1/1 " + read);
  EXPECT_EQ(EventsOf(trace, "X")[0]["name"], read + " 7");
}

TEST(PerfettoTest, AnEmptyTimelineIsAValidTrace) {
  EXPECT_TRUE(json::parse(PerfettoJson(Timeline{}))["traceEvents"].empty());
}

RC_GTEST_PROP(PerfettoTest, EventsOfAThreadNeverOverlap, ()) {
  Timeline timeline = EmptyTimeline(2);
  for (int i = *rc::gen::inRange(0, 60); i > 0; --i) {
    const double start = *rc::gen::inRange(0, 1000) / 3e3;
    const double length = *rc::gen::inRange(0, 300) / 7e3;
    timeline.events.push_back(
        EventAt(*rc::gen::element(1, 3), EventKind::kTransfer, 3, i, start, start + length));
  }
  std::stable_sort(timeline.events.begin(), timeline.events.end(),
                   [](const auto& a, const auto& b) { return a.start < b.start; });
  const json trace = json::parse(PerfettoJson(timeline));
  std::map<int, int64_t> free_at;  // nanoseconds
  for (const json& event : EventsOf(trace, "X")) {
    const auto start = static_cast<int64_t>(std::llround(event["ts"].get<double>() * 1e3));
    const auto length = static_cast<int64_t>(std::llround(event["dur"].get<double>() * 1e3));
    RC_ASSERT(start >= free_at[event["tid"].get<int>()]);
    free_at[event["tid"].get<int>()] = start + length;
  }
}

TEST(PerfettoTest, AMillionEvents) {
  Timeline timeline = EmptyTimeline(4);
  for (int start = 0; start < 250'000; ++start) {
    for (const int lane : {0, 2, 4, 6}) {
      timeline.events.push_back(
          EventAt(lane, EventKind::kForward, 0, start % 64, start, start + 1));
    }
  }
  const std::string text = PerfettoJson(timeline);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1'000'000 + 2 * 4 + 2 * 8 + 2);
}

}  // namespace
}  // namespace heddle
