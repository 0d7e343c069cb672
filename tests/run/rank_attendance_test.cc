// Ranks that are known before they are ready: here they are objects of one process.

#include "run/rank_attendance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

#include "run/departure.h"
#include "run/run_identity.h"

namespace heddle {
namespace {

using testing::HasSubstr;

class RankAttendanceTest : public testing::Test {
 protected:
  static std::unique_ptr<RankAttendance> Come(int32_t rank) {
    LaunchedRank launched;
    launched.launcher = "torchrun";
    launched.rank = rank;
    launched.ranks = 3;
    launched.address = "127.0.0.1";
    launched.port = static_cast<uint16_t>(getpid() % 60000 + 2000);
    launched.all_here = true;
    MeetingOptions options;
    options.meet_within = std::chrono::hours(1);
    return RankAttendance::Begin(launched, options).value();
  }
  static std::string Agree(const RankAttendance& rank) {
    const auto store = rank.Store();
    const Status agreed = AgreeOnIdentity(
        *store.value(), rank.launched().rank, rank.launched().ranks, RunIdentity{{{"a", "b"}}},
        [](int32_t r) { return "device " + std::to_string(r); }, std::chrono::hours(1));
    return agreed.ok() ? "agreed" : agreed.error().ToString();
  }
  // What the other two are told.
  static void ExpectTold(const RankAttendance& one, const RankAttendance& other,
                         const std::string& text) {
    auto told = std::async(std::launch::async, [&] { return Agree(other); });
    EXPECT_THAT(Agree(one), HasSubstr(text));
    EXPECT_THAT(told.get(), HasSubstr(text));
  }
};

TEST_F(RankAttendanceTest, WhatOneSaysWhenItLeavesTheOthersHear) {
  const auto first = Come(0), other = Come(1), leaves = Come(2);
  leaves->Leave(BadInput("plan.json", "is not there"));
  ExpectTold(*first, *other, "device 2: left before the meeting: plan.json: is not there");
}

TEST_F(RankAttendanceTest, WhoGoesWithoutAWordIsMissed) {
  const auto first = Come(0), other = Come(1);
  {
    const auto goes = Come(2);
    ASSERT_TRUE(goes->Store().ok());
  }
  ExpectTold(*first, *other, "device 2: is gone");
}

TEST_F(RankAttendanceTest, TheFirstStaysUntilTheOthersHaveHeard) {
  auto first = Come(0);
  const auto one = Come(1), other = Come(2);
  auto left = std::async(std::launch::async, [&] {
    first->Leave(BadInput("data.txt", "is empty"));
    first.reset();
  });
  ExpectTold(*one, *other, "device 0: left before the meeting: data.txt: is empty");
  one->Leave(BadInput("", ""));
  other->Leave(BadInput("", ""));
  left.get();
}

// Also one that nobody waits for, and that would have waited for an hour.
TEST_F(RankAttendanceTest, NobodyThereIsNoReasonToStay) {
  const auto alone = Come(1);
  EXPECT_EQ(alone->launched().rank, 1);
}

// Then somebody else tells the others, who may have ended well.
TEST_F(RankAttendanceTest, OnceTheyHaveMetItSaysNothing) {
  const auto first = Come(0), other = Come(1), third = Come(2);
  auto others = std::async(std::launch::async, [&] { return Agree(*other); });
  auto thirds = std::async(std::launch::async, [&] { return Agree(*third); });
  EXPECT_EQ(Agree(*first), "agreed");
  EXPECT_EQ(others.get(), "agreed");
  EXPECT_EQ(thirds.get(), "agreed");
  third->HasMet();
  third->Leave(BadInput("plan.json", "is not there"));
  EXPECT_FALSE(LookWhoLeft(*first->Store().value(), 3).value());
}

}  // namespace
}  // namespace heddle
