#include "run/share/turn_order.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace heddle {
namespace {

constexpr std::array<std::pair<TurnOrder, std::string_view>, 3> kNames = {
    {{TurnOrder::kRotation, "rotation"},
     {TurnOrder::kDeficit, "deficit"},
     {TurnOrder::kArrival, "arrival"}}};

bool Waits(const OrderMember& member) { return member.active && member.left > 0; }

// A job a thousand times heavier than another is not visited in vain more often than that.
constexpr double kLargestRatio = 1000;

double Cost(const OrderMember& member) { return member.seconds / member.weight; }

}  // namespace

std::string_view NameOf(TurnOrder order) {
  for (const auto& [value, name] : kNames) {
    if (value == order) return name;
  }
  return "unknown";
}

std::optional<TurnOrder> ParseTurnOrder(std::string_view name) {
  for (const auto& [value, known] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

int32_t NextJob(TurnOrder order, std::span<OrderMember> members, int32_t last) {
  const auto count = static_cast<int32_t>(members.size());
  if (std::none_of(members.begin(), members.end(), Waits)) return -1;
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (const OrderMember& member : members) {
    if (!Waits(member)) continue;
    least = std::min(least, Cost(member));
    most = std::max(most, Cost(member));
  }
  const double quantum = std::max(least, most / kLargestRatio);
  for (int32_t k = (last + 1) % count;; k = (k + 1) % count) {
    OrderMember& member = members[static_cast<size_t>(k)];
    if (!Waits(member)) continue;
    if (order == TurnOrder::kDeficit) {
      constexpr double kRounding = 1e-9;
      member.deficit += quantum * member.weight;
      if (member.deficit < member.seconds * (1 - kRounding)) continue;
      member.deficit = std::min(member.deficit - member.seconds, member.seconds);
    }
    --member.left;
    return k;
  }
}

}  // namespace heddle
