#include "plan/pipeline/device_line.h"

#include <algorithm>
#include <numeric>

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

// Of the whole model, where it is not known which layers they will hold.
std::vector<double> DeviceLine::EndsBySpeed(const DeviceRange& range) const {
  const double all = speed_before(range.end()) - speed_before(range.at);
  std::vector<double> ends;
  for (int k = range.at; k < range.end(); ++k) {
    ends.push_back((speed_before(k + 1) - speed_before(range.at)) / all);
  }
  return ends;
}

template <typename Visit>
void DeviceLine::ForEachPair(const DeviceRange& from, const std::vector<double>& from_ends,
                             const DeviceRange& to, const std::vector<double>& to_ends,
                             const Visit& visit) const {
  double done = 0;
  for (size_t a = 0, b = 0; a < from_ends.size() && b < to_ends.size();) {
    const double part = std::min(from_ends[a], to_ends[b]) - done;
    for (const std::vector<int>& file : files_) {
      if (part <= 0) break;
      visit(DeviceId{file[static_cast<size_t>(from.at) + a]},
            DeviceId{file[static_cast<size_t>(to.at) + b]}, part);
    }
    done += part;
    // On to whoever ends first.
    const double a_end = from_ends[a], b_end = to_ends[b];
    if (a_end <= b_end) ++a;
    if (b_end <= a_end) ++b;
  }
}

ChannelWires DeviceLine::WiresBetween(const DeviceRange& from, const DeviceRange& to) const {
  return FindWires(from, EndsBySpeed(from), to, EndsBySpeed(to));
}

ChannelWires DeviceLine::WiresBetween(const DeviceRange& from,
                                      const std::vector<int64_t>& from_rows, const DeviceRange& to,
                                      const std::vector<int64_t>& to_rows) const {
  const auto ends = [](const std::vector<int64_t>& rows) {
    const auto all = static_cast<double>(std::accumulate(rows.begin(), rows.end(), int64_t{0}));
    std::vector<double> parts;
    int64_t end = 0;
    for (const int64_t mine : rows) parts.push_back(static_cast<double>(end += mine) / all);
    return parts;
  };
  return FindWires(from, ends(from_rows), to, ends(to_rows));
}

ChannelWires DeviceLine::FindWires(const DeviceRange& from, const std::vector<double>& from_ends,
                                   const DeviceRange& to,
                                   const std::vector<double>& to_ends) const {
  const Cluster& cluster = *table_.planning().cluster;
  std::map<WireId, double> forward, backward;
  ForEachPair(from, from_ends, to, to_ends, [&](DeviceId sender, DeviceId receiver, double part) {
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
  ForEachPair(from, EndsBySpeed(from), to, EndsBySpeed(to),
              [&](DeviceId sender, DeviceId receiver, double) {
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
