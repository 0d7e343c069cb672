// CommPhases: adds up the phases of a communication into one CommCost.
//
//   CommPhases phases(cluster);
//   phases.AddPhase({{a, b, 1000.0}, {b, a, 1000.0}}, 3);    // both at once, three times in a row
//   CommCost cost = std::move(phases).Finish();
//
// A phase takes alpha + max over wires (bytes on the wire / bandwidth of the wire), alpha being
// the longest latency among the routes of its messages.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "cluster/cluster.h"
#include "cost/network_cost.h"

namespace heddle {

struct Message {
  DeviceId from;
  DeviceId to;
  double bytes = 0;
};

// Bytes on wires. Add is cheap; Merged puts each wire once, in order of id.
class WireLoads {
 public:
  void Add(const Route& route, double bytes);
  void Add(const std::vector<WireLoad>& loads, double factor);
  const std::vector<WireLoad>& Merged();
  Seconds Longest(const Cluster& cluster);  // max over wires (bytes / bandwidth)

 private:
  void Merge();

  std::vector<WireLoad> loads_;  // the first merged_ are in order, each wire once
  size_t merged_ = 0;
};

class CommPhases {
 public:
  explicit CommPhases(const Cluster& cluster, bool counts_traffic = false)
      : cluster_(cluster), counts_traffic_(counts_traffic) {}

  // Messages of no bytes, or from a device to itself, are not sent.
  void AddPhase(std::span<const Message> messages, double repeats = 1);

  // All messages at once, cut into pieces small enough that passing them on costs only latency.
  void AddPipelined(std::span<const Message> messages, Seconds latency);

  Seconds LatencyBetween(DeviceId from, DeviceId to) const {
    return cluster_.RouteBetween(from, to).latency;
  }
  const Cluster& cluster() const { return cluster_; }

  CommCost Finish() &&;

 private:
  void AddLoads(WireLoads& loads, Seconds latency, double repeats);
  void Count(const Message& message, double repeats);

  const Cluster& cluster_;
  bool counts_traffic_;
  Seconds latency_;
  Seconds seconds_;
  WireLoads loads_;
  std::map<DeviceId, DeviceTraffic> traffic_;
};

}  // namespace heddle
