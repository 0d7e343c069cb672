#include "timeline/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace heddle {
namespace {

using testing::HasSubstr;

// One device: lane 0 computes, lane 1 communicates. Events as {lane, start, end}.
struct Span {
  int32_t lane;
  double start;
  double end;
};

Timeline TimelineOf(const std::vector<Span>& spans) {
  Timeline timeline;
  timeline.lanes = {{"a:0 compute", "a:0", LaneKind::kCompute},
                    {"a:0 network", "a:0", LaneKind::kNetwork}};
  timeline.labels = {"F0"};
  for (const Span& span : spans) {
    timeline.events.push_back(
        {span.lane, EventKind::kForward, 0, -1, 0, Seconds{span.start}, Seconds{span.end}});
  }
  return timeline;
}

std::string FaultOf(const std::vector<Span>& spans) {
  const Status status = Validate(TimelineOf(spans));
  return status.ok() ? "" : status.error().ToString();
}

TEST(TimelineTest, OneAfterTheOther) {
  EXPECT_EQ(FaultOf({}), "");
  EXPECT_EQ(FaultOf({{0, 0, 1}, {0, 1, 2}, {0, 2, 2}, {0, 2, 3}}), "");
  EXPECT_EQ(FaultOf({{0, 1, 2}, {0, 0, 1}}), "");  // in any order
}

TEST(TimelineTest, ADeviceComputesOneThingAtATime) {
  EXPECT_THAT(FaultOf({{0, 0, 1}, {0, 0.5, 2}}),
              HasSubstr("two events of a:0 compute overlap at 500 ms"));
  EXPECT_THAT(FaultOf({{0, 0, 3}, {0, 1, 2}}), HasSubstr("overlap"));
}

TEST(TimelineTest, CommunicationMayOverlap) {
  EXPECT_EQ(FaultOf({{1, 0, 1}, {1, 0.5, 2}, {0, 0, 2}}), "");
}

TEST(TimelineTest, RoundingIsNoOverlap) {
  EXPECT_EQ(FaultOf({{0, 0, 0.1 + 0.2}, {0, 0.3, 1}}), "");
}

TEST(TimelineTest, EventsThatMakeNoSense) {
  EXPECT_THAT(FaultOf({{0, 2, 1}}), HasSubstr("an event of a:0 compute ends before it starts"));
  EXPECT_THAT(FaultOf({{0, 2, NAN}}), HasSubstr("ends before it starts"));
  EXPECT_THAT(FaultOf({{7, 0, 1}}), HasSubstr("an event names lane 7"));
  EXPECT_THAT(FaultOf({{-1, 0, 1}}), HasSubstr("an event names lane -1"));
}

TEST(TimelineTest, End) {
  EXPECT_EQ(TimelineOf({{0, 0, 1}, {1, 0, 4}, {0, 1, 3}}).end().value, 4);
  EXPECT_EQ(TimelineOf({}).end().value, 0);
}

}  // namespace
}  // namespace heddle
