// DeviceLine: devices in an order, how fast runs of them are together, and what lies between them.
// Nothing here depends on the number of microbatches: all searches along one order share it.
//
// A sender and a receiver of neighbouring stages exchange what their shares overlap; the most
// loaded wire decides. Several files of devices, of the same types place by place, are pipelines
// side by side: their messages share wires, and gradients are summed over all of them.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "cost/network_cost.h"
#include "plan/pipeline/layer_table.h"

namespace heddle {

// Devices order[at..at+count-1].
struct DeviceRange {
  int at = 0;
  int count = 1;
  int end() const { return at + count; }
  auto operator<=>(const DeviceRange&) const = default;
};

// Between two ranges.
struct LineChannel {
  double latency = 0;
  double forward_per_byte = 0;  // seconds
  double backward_per_byte = 0;
  bool half_duplex = false;  // both directions share a wire
};

// Seconds of an all-reduce by the cheapest algorithm.
struct LineAllReduce {
  double fixed = 0, per_byte = 0;
};

// What a wire does for each byte.
struct WireSeconds {
  WireId wire;
  double per_byte = 0;
};

struct ChannelWires {
  std::vector<WireSeconds> forward, backward;
};

class DeviceLine {
 public:
  // The table must outlive it. REQUIRES: files of one length, types alike place by place.
  DeviceLine(const LayerTable& table, std::vector<std::vector<int>> files);

  const std::vector<std::vector<int>>& files() const { return files_; }
  const std::vector<int>& order() const { return files_[0]; }
  int size() const { return static_cast<int>(files_[0].size()); }
  // The devices of these ranges in all files.
  std::vector<DeviceId> DevicesOf(const std::vector<DeviceRange>& ranges) const;
  const std::vector<int>& types() const { return types_; }  // by place in the order
  double speed_before(int at) const { return speed_sums_[static_cast<size_t>(at)]; }

  // Remembered, and safe from several threads.
  LineChannel ChannelBetween(const DeviceRange& from, const DeviceRange& to) const;
  LineAllReduce AllReduceOver(const std::vector<DeviceRange>& ranges) const;
  // The wires that these use, in all files: with shares by the speed in the whole model, or with
  // the samples that each has.
  ChannelWires WiresBetween(const DeviceRange& from, const DeviceRange& to) const;
  ChannelWires WiresBetween(const DeviceRange& from, const std::vector<int64_t>& from_rows,
                            const DeviceRange& to, const std::vector<int64_t>& to_rows) const;
  std::vector<WireSeconds> WiresOfAllReduce(const DeviceRange& range) const;

 private:
  LineChannel FindChannel(const DeviceRange& from, const DeviceRange& to) const;
  LineAllReduce FindAllReduce(const std::vector<DeviceRange>& ranges) const;
  std::vector<WireSeconds> FindWiresOfAllReduce(const DeviceRange& range) const;
  // Where the shares of a range's members end, as parts of a microbatch.
  std::vector<double> EndsBySpeed(const DeviceRange& range) const;
  // The parts of a microbatch that members of two ranges exchange.
  template <typename Visit>
  void ForEachPair(const DeviceRange& from, const std::vector<double>& from_ends,
                   const DeviceRange& to, const std::vector<double>& to_ends,
                   const Visit& visit) const;
  ChannelWires FindWires(const DeviceRange& from, const std::vector<double>& from_ends,
                         const DeviceRange& to, const std::vector<double>& to_ends) const;

  const LayerTable& table_;
  std::vector<std::vector<int>> files_;
  std::vector<int> types_;
  std::vector<double> speed_sums_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<DeviceRange, DeviceRange>, LineChannel> channels_;
  mutable std::map<std::vector<DeviceRange>, LineAllReduce> all_reduces_;
  mutable std::map<DeviceRange, std::vector<WireSeconds>> all_reduce_wires_;
};

}  // namespace heddle
