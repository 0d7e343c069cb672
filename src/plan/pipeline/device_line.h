// DeviceLine: devices in an order, how fast runs of them are together, and what lies between them.
// Nothing here depends on the number of microbatches: all searches along one order share it.
//
// A sender and a receiver of neighbouring stages exchange what their shares overlap; the most
// loaded wire decides.
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

class DeviceLine {
 public:
  // The table must outlive it.
  DeviceLine(const LayerTable& table, std::vector<int> order);

  const std::vector<int>& order() const { return order_; }
  int size() const { return static_cast<int>(order_.size()); }
  const std::vector<int>& types() const { return types_; }  // by place in the order
  double speed_before(int at) const { return speed_sums_[static_cast<size_t>(at)]; }

  // Remembered, and safe from several threads.
  LineChannel ChannelBetween(const DeviceRange& from, const DeviceRange& to) const;
  LineAllReduce AllReduceOver(const std::vector<DeviceRange>& ranges) const;

 private:
  LineChannel FindChannel(const DeviceRange& from, const DeviceRange& to) const;
  LineAllReduce FindAllReduce(const std::vector<DeviceRange>& ranges) const;

  const LayerTable& table_;
  std::vector<int> order_;
  std::vector<int> types_;
  std::vector<double> speed_sums_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<DeviceRange, DeviceRange>, LineChannel> channels_;
  mutable std::map<std::vector<DeviceRange>, LineAllReduce> all_reduces_;
};

}  // namespace heddle
