#include "turns/turn_order.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace heddle {
namespace {

// A job a thousand times heavier than another is not visited in vain more often than that.
constexpr double kLargestRatio = 1000;

// Of a turn: sums of seconds in another order must not decide.
constexpr double kRounding = 1e-9;

double Cost(const OrderMember& member) { return member.seconds / member.weight; }

// Gives the member its part; whether it has saved up enough for a turn, which is then paid.
bool Visit(OrderMember& member, double quantum) {
  member.deficit += quantum * member.weight;
  if (member.deficit < member.seconds * (1 - kRounding)) return false;
  member.deficit = std::min(member.deficit - member.seconds, member.seconds);
  // Nothing is left over of a turn that was paid exactly: errors do not add up over the cycles.
  if (std::abs(member.deficit) < member.seconds * kRounding) member.deficit = 0;
  return true;
}

}  // namespace

int32_t NextJob(TurnOrder order, std::span<OrderMember> members, int32_t last) {
  const auto count = static_cast<int32_t>(members.size());
  if (std::none_of(members.begin(), members.end(), [](const auto& m) { return m.waits(); })) {
    return -1;
  }
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const OrderMember& member : members) {
    if (!member.waits()) continue;
    least = std::min(least, Cost(member));
    most = std::max(most, Cost(member));
  }
  const double quantum = std::max(least, most / kLargestRatio);
  for (int32_t k = (last + 1) % count;; k = (k + 1) % count) {
    OrderMember& member = members[static_cast<size_t>(k)];
    if (!member.waits()) continue;
    if (order == TurnOrder::kDeficit && !Visit(member, quantum)) continue;
    --member.left;
    return k;
  }
}

}  // namespace heddle
