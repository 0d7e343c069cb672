// Fair share: the rates of flows that compete for wires, max-min fair.
//
// All rates grow together until some wire is full; its flows keep that rate, the others go on
// (progressive filling; Bertsekas, Gallager, Data Networks, 1992, 6.5.2). A flow that puts several
// bytes on a wire for each byte of its own (a collective) counts as often there.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heddle {

struct FlowLoad {
  int32_t wire;
  double weight;  // bytes on the wire for each unit of the flow's rate
};

struct FairFlow {
  std::span<const FlowLoad> loads;
  double cap;  // its rate alone can be no more; infinite when only wires limit it
};

// Rates in the order of the flows. Bandwidths are indexed by wire.
std::vector<double> FairRates(std::span<const FairFlow> flows, std::span<const double> bandwidths);

}  // namespace heddle
