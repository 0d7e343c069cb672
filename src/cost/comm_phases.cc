#include "cost/comm_phases.h"

#include <algorithm>

namespace heddle {
namespace {

constexpr size_t kMergeEvery = 1 << 16;  // keeps the loads of a million messages in cache

}  // namespace

void WireLoads::Add(const Route& route, double bytes) {
  for (const WireId wire : route.wires) loads_.push_back({wire, bytes});
  if (loads_.size() >= 2 * merged_ + kMergeEvery) Merge();
}

void WireLoads::Add(const std::vector<WireLoad>& loads, double factor) {
  for (const WireLoad& load : loads) loads_.push_back({load.wire, load.bytes * factor});
}

void WireLoads::Merge() {
  if (merged_ == loads_.size()) return;
  std::stable_sort(loads_.begin(), loads_.end(),
                   [](const WireLoad& a, const WireLoad& b) { return a.wire < b.wire; });
  size_t kept = 0;
  for (size_t i = 1; i < loads_.size(); ++i) {
    if (loads_[i].wire == loads_[kept].wire) {
      loads_[kept].bytes += loads_[i].bytes;
    } else {
      loads_[++kept] = loads_[i];
    }
  }
  loads_.resize(kept + 1);
  merged_ = loads_.size();
}

const std::vector<WireLoad>& WireLoads::Merged() {
  Merge();
  return loads_;
}

Seconds WireLoads::Longest(const Cluster& cluster) {
  Seconds longest;
  for (const WireLoad& load : Merged()) {
    const Wire& wire = cluster.wires()[static_cast<size_t>(load.wire.value)];
    longest = std::max(longest, Seconds{load.bytes / wire.bandwidth.value});
  }
  return longest;
}

void CommPhases::AddPhase(std::span<const Message> messages, double repeats) {
  WireLoads loads;
  Seconds alpha;
  for (const Message& message : messages) {
    if (message.bytes <= 0) continue;
    const Route& route = cluster_.RouteBetween(message.from, message.to);
    alpha = std::max(alpha, route.latency);
    loads.Add(route, message.bytes);
    Count(message, repeats);
  }
  AddLoads(loads, alpha, repeats);
}

void CommPhases::AddPipelined(std::span<const Message> messages, Seconds latency) {
  WireLoads loads;
  for (const Message& message : messages) {
    if (message.bytes <= 0) continue;
    loads.Add(cluster_.RouteBetween(message.from, message.to), message.bytes);
    Count(message, 1);
  }
  AddLoads(loads, latency, 1);
}

void CommPhases::AddLoads(WireLoads& loads, Seconds latency, double repeats) {
  latency_ += latency * repeats;
  seconds_ += (latency + loads.Longest(cluster_)) * repeats;
  loads_.Add(loads.Merged(), repeats);
}

void CommPhases::Count(const Message& message, double repeats) {
  if (!counts_traffic_ || message.from == message.to) return;
  traffic_[message.from].sent += message.bytes * repeats;
  traffic_[message.to].received += message.bytes * repeats;
}

CommCost CommPhases::Finish() && {
  // The sum is at least both others, but for rounding.
  const Seconds seconds = std::max({seconds_, latency_, loads_.Longest(cluster_)});
  CommCost cost{latency_, seconds, loads_.Merged(), {}};
  for (auto& [device, traffic] : traffic_) {
    traffic.device = device;
    cost.traffic.push_back(traffic);
  }
  return cost;
}

}  // namespace heddle
