#include "run/heartbeat.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "run/departure.h"
#include "run/told_error.h"
#include "run/worker.h"

namespace heddle {
namespace {

RC_GTEST_PROP(HeartbeatTest, WhatIsPrintedIsRead, ()) {
  WorkerProgress progress;
  progress.Store({*rc::gen::inRange<int64_t>(0, 1 << 30),
                  static_cast<Section>(*rc::gen::inRange(0, kSectionCount)),
                  *rc::gen::inRange<int64_t>(0, 1 << 20), *rc::gen::arbitrary<bool>()});
  const Heartbeat beat{*rc::gen::inRange<int64_t>(-1, INT64_MAX), progress.packed(),
                       *rc::gen::inRange<int64_t>(0, INT64_MAX)};
  RC_ASSERT(ParseHeartbeat(PrintHeartbeat(beat)) == beat);
}

// An empty one once ended the first rank by SIGSEGV.
TEST(HeartbeatTest, WhatNoRankWouldSayIsNothing) {
  for (const char* text : {"", " ", "1", "1 2", "1 2 3 4", "x 0 0", "1 x 0", "1 0 x", "-2 0 0",
                           "1 0 -1", "1 -2 0", "1 9223372036854775808 0", "1,0,0"}) {
    EXPECT_FALSE(ParseHeartbeat(text)) << text;
  }
  EXPECT_TRUE(ParseHeartbeat("-1 -1 0"));
  // A section that no program has.
  EXPECT_FALSE(ParseHeartbeat("1 " + std::to_string(int64_t{3} << 26) + " 0"));
  EXPECT_FALSE(ParseHeartbeat(std::string(1000, '1')));
}

RC_GTEST_PROP(HeartbeatTest, AnyTextIsReadOrNot, (const std::string& text)) {
  (void)ParseHeartbeat(text);
  (void)ParseDeparture(text, 4);
  (void)HearError(text);
}

TEST(DepartureTest, SaysWhoAndWhy) {
  const Error why = BadInput("data.txt", "is \xff empty", "give another");
  const auto with = ParseDeparture(PrintDeparture({3, why}), 4);
  ASSERT_TRUE(with && with->error);
  EXPECT_EQ(with->rank, 3);
  EXPECT_EQ(with->error->kind, ErrorKind::kBadInput);
  EXPECT_EQ(with->error->where, "data.txt");
  const auto without = ParseDeparture(PrintDeparture({0, {}}), 4);
  ASSERT_TRUE(without);
  EXPECT_FALSE(without->error);
  for (const char* text : {"", "4 ", "-1 ", "x ", "1", "1 {}", "1 []", "1 {\"kind\":99}"}) {
    EXPECT_FALSE(ParseDeparture(text, 4)) << text;
  }
}

}  // namespace
}  // namespace heddle
