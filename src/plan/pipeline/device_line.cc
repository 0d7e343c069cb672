#include "plan/pipeline/device_line.h"

#include <algorithm>

namespace heddle {

DeviceLine::DeviceLine(const LayerTable& table, std::vector<std::vector<int>> files)
    : table_(table), files_(std::move(files)), speed_sums_{0} {
  for (const int device : order()) {
    types_.push_back(table.planning().cluster->devices()[static_cast<size_t>(device)].type);
    speed_sums_.push_back(speed_sums_.back() + table.SpeedOf(types_.back()));
  }
}

LineChannel DeviceLine::ChannelBetween(const DeviceRange& from, const DeviceRange& to) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = channels_.find({from, to});
    if (found != channels_.end()) return found->second;
  }
  const LineChannel channel = FindChannel(from, to);
  const std::lock_guard lock(mutex_);
  return channels_[{from, to}] = channel;
}

LineAllReduce DeviceLine::AllReduceOver(const std::vector<DeviceRange>& ranges) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = all_reduces_.find(ranges);
    if (found != all_reduces_.end()) return found->second;
  }
  const LineAllReduce seconds = FindAllReduce(ranges);
  const std::lock_guard lock(mutex_);
  return all_reduces_[ranges] = seconds;
}

// Ranges have the shares of the whole model here: which layers they will hold is not known yet.
LineChannel DeviceLine::FindChannel(const DeviceRange& from, const DeviceRange& to) const {
  const auto interval = [&](const DeviceRange& range, int k) {
    const double all = speed_before(range.end()) - speed_before(range.at);
    return std::pair((speed_before(k) - speed_before(range.at)) / all,
                     (speed_before(k + 1) - speed_before(range.at)) / all);
  };
  const Cluster& cluster = *table_.planning().cluster;
  std::map<WireId, double> forward, backward;  // parts of a microbatch
  LineChannel channel;
  for (int a = from.at, b = to.at; a < from.end() && b < to.end();) {
    const auto [a_first, a_last] = interval(from, a);
    const auto [b_first, b_last] = interval(to, b);
    const double part = std::min(a_last, b_last) - std::max(a_first, b_first);
    const DeviceId sender{order()[static_cast<size_t>(a)]};
    const DeviceId receiver{order()[static_cast<size_t>(b)]};
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

std::vector<DeviceId> DeviceLine::DevicesOf(const std::vector<DeviceRange>& ranges) const {
  std::vector<DeviceId> devices;
  for (const std::vector<int>& file : files_) {
    for (const DeviceRange& range : ranges) {
      for (int k = range.at; k < range.end(); ++k) {
        devices.push_back(DeviceId{file[static_cast<size_t>(k)]});
      }
    }
  }
  return devices;
}

LineAllReduce DeviceLine::FindAllReduce(const std::vector<DeviceRange>& ranges) const {
  const std::vector<DeviceId> group = DevicesOf(ranges);
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
