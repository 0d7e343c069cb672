#include "turns/turn_order.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace heddle {
namespace {

std::string Sequence(TurnOrder order, std::vector<OrderMember> members, int count) {
  std::string text;
  int32_t last = -1;
  for (int k = 0; k < count; ++k) {
    last = NextJob(order, members, last);
    if (last < 0) return text + ".";
    text += static_cast<char>('A' + last);
  }
  return text;
}

OrderMember Job(double seconds, double weight = 1, int64_t turns = 1000) {
  return {true, turns, seconds, weight, 0};
}

TEST(TurnOrder, RotationGoesRound) {
  EXPECT_EQ(Sequence(TurnOrder::kRotation, {Job(1), Job(5), Job(2)}, 7), "ABCABCA");
}

TEST(TurnOrder, RotationLeavesOutTheDone) {
  EXPECT_EQ(Sequence(TurnOrder::kRotation, {Job(1, 1, 2), Job(1, 1, 4), Job(1, 1, 1)}, 9),
            "ABCABBB.");
}

TEST(TurnOrder, DeficitGivesEqualSecondsNotEqualTurns) {
  EXPECT_EQ(Sequence(TurnOrder::kDeficit, {Job(1), Job(3)}, 8), "AAABAAAB");
}

TEST(TurnOrder, DeficitInterleavesEqualJobs) {
  EXPECT_EQ(Sequence(TurnOrder::kDeficit, {Job(2), Job(2)}, 6), "ABABAB");
}

TEST(TurnOrder, WeightCounts) {
  EXPECT_EQ(Sequence(TurnOrder::kDeficit, {Job(1, 2), Job(1, 1)}, 9), "AABAABAAB");
}

TEST(TurnOrder, NamesAreReadAsWritten) {
  for (const TurnOrder order : {TurnOrder::kRotation, TurnOrder::kDeficit, TurnOrder::kArrival}) {
    EXPECT_EQ(ParseChoice<TurnOrder>(NameOf(order)), order);
  }
  EXPECT_FALSE(ParseChoice<TurnOrder>("round"));
}

// However jobs are weighted, each has after any number of turns the seconds due to it, up to a turn
// of its own and one of the other's.
RC_GTEST_PROP(TurnOrder, DeficitIsFair, ()) {
  const auto count = *rc::gen::inRange<size_t>(2, 6);
  std::vector<OrderMember> members;
  for (size_t k = 0; k < count; ++k) {
    members.push_back(Job(*rc::gen::inRange(1, 40) * 0.01, *rc::gen::inRange(1, 6)));
  }
  std::vector<double> served(count, 0);
  int32_t last = -1;
  for (int turn = 0; turn < 300; ++turn) {
    last = NextJob(TurnOrder::kDeficit, members, last);
    RC_ASSERT(last >= 0);
    const auto k = static_cast<size_t>(last);
    served[k] += members[k].seconds;
    for (size_t a = 0; a < count; ++a) {
      for (size_t b = 0; b < count; ++b) {
        const double lead = served[a] / members[a].weight - served[b] / members[b].weight;
        RC_ASSERT(lead <= members[a].seconds / members[a].weight +
                              2 * members[b].seconds / members[b].weight + 1e-9);
      }
    }
  }
}

}  // namespace
}  // namespace heddle
