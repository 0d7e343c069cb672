#include "turns/fair_share.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace heddle {

std::vector<double> FairRates(std::span<const FairFlow> flows, std::span<const double> bandwidths) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  struct WireState {
    double free;    // bandwidth not yet given away
    double weight;  // of the flows whose rate is still open
    int open;       // how many they are
  };
  std::unordered_map<int32_t, WireState> wires;
  for (const FairFlow& flow : flows) {
    for (const FlowLoad& load : flow.loads) {
      const auto [found, added] =
          wires.try_emplace(load.wire, WireState{bandwidths[static_cast<size_t>(load.wire)], 0, 0});
      found->second.weight += load.weight;
      ++found->second.open;
    }
  }
  std::vector<double> rates(flows.size(), -1);
  size_t open = flows.size();
  while (open > 0) {
    // The level at which the next wire is full, or the next flow meets its own cap.
    double level = kInfinity;
    for (const auto& item : wires) {
      const WireState& wire = item.second;
      if (wire.open > 0) level = std::min(level, std::max(0.0, wire.free) / wire.weight);
    }
    for (size_t f = 0; f < flows.size(); ++f) {
      if (rates[f] < 0) level = std::min(level, flows[f].cap);
    }
    const double reached = level * (1 + 1e-12);
    std::vector<size_t> fixed;
    for (size_t f = 0; f < flows.size(); ++f) {
      if (rates[f] >= 0) continue;
      bool full = flows[f].cap <= reached;
      for (const FlowLoad& load : flows[f].loads) {
        const WireState& wire = wires.at(load.wire);
        full = full || std::max(0.0, wire.free) <= reached * wire.weight;
      }
      if (full || level == kInfinity) fixed.push_back(f);
    }
    for (const size_t f : fixed) {
      rates[f] = level;
      --open;
      for (const FlowLoad& load : flows[f].loads) {
        WireState& wire = wires.at(load.wire);
        wire.free -= level * load.weight;
        wire.weight -= load.weight;
        --wire.open;
      }
    }
  }
  return rates;
}

}  // namespace heddle
