#include "plan/pipeline/stage_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "program/plan/row_shares.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

StageCosts::StageCosts(const LayerTable& table, std::vector<int> order, int64_t microbatches,
                       double memory_factor)
    : table_(table),
      order_(std::move(order)),
      microbatches_(microbatches),
      rows_((table.planning().options.batch + microbatches - 1) / microbatches),
      memory_factor_(memory_factor),
      speed_sums_{0} {
  for (const int device : order_) {
    types_.push_back(table.planning().cluster->devices()[static_cast<size_t>(device)].type);
    speed_sums_.push_back(speed_sums_.back() + table_.SpeedOf(types_.back()));
  }
  alike_until_.assign(order_.size(), devices());
  for (size_t k = order_.size() - 1; k-- > 0;) {
    alike_until_[k] = types_[k] == types_[k + 1] ? alike_until_[k + 1] : static_cast<int>(k) + 1;
  }
  times_.assign(order_.size() + 1, nullptr);
  for (size_t count = 1; count < times_.size(); ++count) {
    const auto divisor = static_cast<int64_t>(count);
    if (divisor <= rows_) times_[count] = &table_.TimesFor((rows_ + divisor - 1) / divisor);
  }
}

const std::vector<StageCosts::Members>& StageCosts::MembersOf(const DeviceRange& range) const {
  const int64_t key = int64_t{range.at} * (devices() + 1) + range.count;
  const auto [found, is_new] = members_.try_emplace(key);
  if (is_new) {
    std::map<int, int> counts;
    for (int k = range.at; k < range.end(); ++k) ++counts[TypeAt(k)];
    for (const auto& [type, count] : counts) found->second.push_back({type, count});
  }
  return found->second;
}

// Of a microbatch, for one member: seconds are levelled, at what a sample costs when all have the
// same number.
double StageCosts::MemberRows(const std::vector<Members>& members, const Members& member, int first,
                              int end) const {
  int count = 0;
  for (const Members& other : members) count += other.count;
  const LayerTable::Times& times = *times_[static_cast<size_t>(count)];
  double rate = 0;
  for (const Members& other : members) {
    rate += other.count / times.Of(other.type, first, end).whole();
  }
  return static_cast<double>(rows_) / (rate * times.Of(member.type, first, end).whole());
}

bool StageCosts::Fits(const LayerTable::Memory& memory, int type, double rows, int depth,
                      bool recompute) const {
  const auto in_flight = static_cast<double>(std::min<int64_t>(microbatches_, depth));
  const auto capacity = static_cast<double>(
      table_.planning().cluster->types()[static_cast<size_t>(type)].memory.value);
  return memory_factor_ * memory.Peak(rows, in_flight, recompute) <= capacity;
}

StageCosts::Stage StageCosts::StageOf(int first, int end, const DeviceRange& range,
                                      int depth) const {
  if (times_[static_cast<size_t>(range.count)] == nullptr) return {kInfinity, false};
  const LayerTable::Memory memory = table_.MemoryOf(first, end);
  bool recompute = false;
  const auto fits = [&](int type, double rows) {
    recompute |= !Fits(memory, type, rows, depth, false);
    return !recompute || Fits(memory, type, rows, depth, true);
  };
  if (AllAlike(range)) {
    const double rows = std::ceil(static_cast<double>(rows_) / range.count);
    if (!fits(TypeAt(range.at), rows)) return {kInfinity, false};
  } else {
    const std::vector<Members>& members = MembersOf(range);
    for (const Members& member : members) {
      const double rows = std::ceil(MemberRows(members, member, first, end));
      if (!fits(member.type, rows)) return {kInfinity, false};
    }
  }
  const LayerTable::Work work = WorkOf(first, end, range);
  return {work.whole() + (recompute ? work.forward : 0), recompute};
}

LayerTable::Work StageCosts::WorkOf(int first, int end, const DeviceRange& range) const {
  const LayerTable::Times& times = *times_[static_cast<size_t>(range.count)];
  if (AllAlike(range)) return times.Of(TypeAt(range.at), first, end);
  const std::vector<Members>& members = MembersOf(range);
  const LayerTable::Work work = times.Of(members[0].type, first, end);
  const double equal = std::ceil(static_cast<double>(rows_) / range.count);
  const double part = MemberRows(members, members[0], first, end) / equal;
  return {work.forward * part, work.input * part, work.weight * part};
}

std::vector<double> StageCosts::SharesOf(int first, int end, const DeviceRange& range) const {
  if (AllAlike(range)) return std::vector<double>(static_cast<size_t>(range.count), 1);
  const std::vector<Members>& members = MembersOf(range);
  std::vector<double> shares;
  for (int k = range.at; k < range.end(); ++k) {
    shares.push_back(MemberRows(members, {TypeAt(k), 1}, first, end));
  }
  return shares;
}

// Ranges have the shares of the whole model here: which layers they will hold is not known yet.
StageCosts::Channel StageCosts::ChannelBetween(const DeviceRange& from,
                                               const DeviceRange& to) const {
  const auto interval = [&](const DeviceRange& range, int k) {
    const double all = speed_before(range.end()) - speed_before(range.at);
    return std::pair((speed_before(k) - speed_before(range.at)) / all,
                     (speed_before(k + 1) - speed_before(range.at)) / all);
  };
  const Cluster& cluster = *table_.planning().cluster;
  std::map<WireId, double> forward, backward;  // parts of a microbatch
  Channel channel;
  for (int a = from.at, b = to.at; a < from.end() && b < to.end();) {
    const auto [a_first, a_last] = interval(from, a);
    const auto [b_first, b_last] = interval(to, b);
    const double part = std::min(a_last, b_last) - std::max(a_first, b_first);
    const DeviceId sender{order_[static_cast<size_t>(a)]};
    const DeviceId receiver{order_[static_cast<size_t>(b)]};
    const Route& there = cluster.RouteBetween(sender, receiver);
    const Route& back = cluster.RouteBetween(receiver, sender);
    channel.latency = std::max(channel.latency, there.latency.value);
    for (const WireId wire : there.wires) forward[wire] += part;
    for (const WireId wire : back.wires) backward[wire] += part;
    // On to whoever ends first.
    if (a_last <= b_last) ++a;
    if (b_last <= a_last) ++b;
  }
  for (const auto& [wire, part] : forward) {
    const double bandwidth = cluster.wires()[static_cast<size_t>(wire.value)].bandwidth.value;
    channel.forward_per_byte = std::max(channel.forward_per_byte, part / bandwidth);
    channel.half_duplex |= backward.contains(wire);
  }
  for (const auto& [wire, part] : backward) {
    const double bandwidth = cluster.wires()[static_cast<size_t>(wire.value)].bandwidth.value;
    channel.backward_per_byte = std::max(channel.backward_per_byte, part / bandwidth);
  }
  return channel;
}

double StageCosts::ForwardSeconds(const Channel& channel, int end) const {
  return channel.latency +
         channel.forward_per_byte * static_cast<double>(rows_) * table_.ForwardBytes(end);
}

double StageCosts::BackwardSeconds(const Channel& channel, int end) const {
  return channel.latency +
         channel.backward_per_byte * static_cast<double>(rows_) * table_.BackwardBytes(end);
}

double StageCosts::ChannelSeconds(const Channel& channel, int end) const {
  const double forward = ForwardSeconds(channel, end), backward = BackwardSeconds(channel, end);
  return channel.half_duplex ? forward + backward : std::max(forward, backward);
}

StageCosts::Line StageCosts::AllReduceOver(const DeviceRange& range) const {
  return AllReduceOver(std::vector<DeviceRange>{range});
}

StageCosts::Line StageCosts::AllReduceOver(const std::vector<DeviceRange>& ranges) const {
  std::vector<DeviceId> group;
  for (const DeviceRange& range : ranges) {
    for (int k = range.at; k < range.end(); ++k) {
      group.push_back(DeviceId{order_[static_cast<size_t>(k)]});
    }
  }
  if (group.size() < 2) return {};
  const NetworkCost network(*table_.planning().cluster);
  constexpr int64_t kMuch = int64_t{1} << 30;
  const auto seconds = [&](CollectiveAlgorithm algorithm, int64_t bytes) {
    const std::vector<Bytes> sizes = {Bytes{bytes}};
    return network.Collective({CollectiveKind::kAllReduce, group, sizes, algorithm, 0})
        .seconds.value;
  };
  const std::vector<Bytes> sizes = {Bytes{kMuch}};
  const CollectiveAlgorithm best =
      network.Cheapest({CollectiveKind::kAllReduce, group, sizes, CollectiveAlgorithm::kRing, 0});
  const double fixed = seconds(best, 0);
  return {fixed, (seconds(best, kMuch) - fixed) / static_cast<double>(kMuch)};
}

}  // namespace heddle
