#include "plan/pipeline/device_line.h"

#include <algorithm>

namespace heddle {
namespace {

constexpr int64_t kMuch = int64_t{1} << 30;  // bytes, of which latency is a small part

}  // namespace

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
template <typename Visit>
void DeviceLine::ForEachPair(const DeviceRange& from, const DeviceRange& to,
                             const Visit& visit) const {
  const auto interval = [&](const DeviceRange& range, int k) {
    const double all = speed_before(range.end()) - speed_before(range.at);
    return std::pair((speed_before(k) - speed_before(range.at)) / all,
                     (speed_before(k + 1) - speed_before(range.at)) / all);
  };
  for (int a = from.at, b = to.at; a < from.end() && b < to.end();) {
    const auto [a_first, a_last] = interval(from, a);
    const auto [b_first, b_last] = interval(to, b);
    const double part = std::min(a_last, b_last) - std::max(a_first, b_first);
    for (const std::vector<int>& file : files_) {
      visit(DeviceId{file[static_cast<size_t>(a)]}, DeviceId{file[static_cast<size_t>(b)]}, part);
    }
    // On to whoever ends first.
    if (a_last <= b_last) ++a;
    if (b_last <= a_last) ++b;
  }
}

ChannelWires DeviceLine::WiresBetween(const DeviceRange& from, const DeviceRange& to) const {
  const Cluster& cluster = *table_.planning().cluster;
  std::map<WireId, double> forward, backward;
  ForEachPair(from, to, [&](DeviceId sender, DeviceId receiver, double part) {
    for (const WireId wire : cluster.RouteBetween(sender, receiver).wires) forward[wire] += part;
    for (const WireId wire : cluster.RouteBetween(receiver, sender).wires) backward[wire] += part;
  });
  const auto seconds = [&](const std::map<WireId, double>& parts) {
    std::vector<WireSeconds> wires;
    for (const auto& [wire, part] : parts) {
      const Wire& one = cluster.wires()[static_cast<size_t>(wire.value)];
      wires.push_back({wire, part / one.bandwidth.value});
    }
    return wires;
  };
  return {seconds(forward), seconds(backward)};
}

LineChannel DeviceLine::FindChannel(const DeviceRange& from, const DeviceRange& to) const {
  const Cluster& cluster = *table_.planning().cluster;
  LineChannel channel;
  ForEachPair(from, to, [&](DeviceId sender, DeviceId receiver, double) {
    const double latency = cluster.RouteBetween(sender, receiver).latency.value;
    channel.latency = std::max(channel.latency, latency);
  });
  const ChannelWires wires = WiresBetween(from, to);
  for (const WireSeconds& wire : wires.backward) {
    channel.backward_per_byte = std::max(channel.backward_per_byte, wire.per_byte);
  }
  auto back = wires.backward.begin();  // both lists are in order of wires
  for (const WireSeconds& wire : wires.forward) {
    channel.forward_per_byte = std::max(channel.forward_per_byte, wire.per_byte);
    while (back != wires.backward.end() && back->wire < wire.wire) ++back;
    channel.half_duplex |= back != wires.backward.end() && back->wire == wire.wire;
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

std::vector<WireSeconds> DeviceLine::WiresOfAllReduce(const DeviceRange& range) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = all_reduce_wires_.find(range);
    if (found != all_reduce_wires_.end()) return found->second;
  }
  std::vector<WireSeconds> wires = FindWiresOfAllReduce(range);
  const std::lock_guard lock(mutex_);
  return all_reduce_wires_[range] = std::move(wires);
}

std::vector<WireSeconds> DeviceLine::FindWiresOfAllReduce(const DeviceRange& range) const {
  const std::vector<DeviceId> group = DevicesOf({range});
  if (group.size() < 2) return {};
  const Cluster& cluster = *table_.planning().cluster;
  const NetworkCost network(cluster);
  const std::vector<Bytes> sizes = {Bytes{kMuch}};
  CollectiveRequest request{CollectiveKind::kAllReduce, group, sizes, CollectiveAlgorithm::kRing,
                            0};
  request.algorithm = network.Cheapest(request);
  std::vector<WireSeconds> wires;
  for (const WireLoad& load : network.Collective(request).loads) {
    const Wire& wire = cluster.wires()[static_cast<size_t>(load.wire.value)];
    wires.push_back({load.wire, load.bytes / wire.bandwidth.value / static_cast<double>(kMuch)});
  }
  return wires;
}

LineAllReduce DeviceLine::FindAllReduce(const std::vector<DeviceRange>& ranges) const {
  const std::vector<DeviceId> group = DevicesOf(ranges);
  if (group.size() < 2) return {};
  const NetworkCost network(*table_.planning().cluster);
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
