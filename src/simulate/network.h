// Network: how communications in flight share the wires, under one of three models.
//
//   shared     max-min fair sharing of every wire (turns/fair_share.h); the messages of one stream,
//   from
//              one device to another, go one after the other, as on a connection
//   exclusive  a flow has all its wires to itself; flows are served in the order they became ready,
//              and a flow that waits keeps later ones off its wires
//   channels   as the pipeline papers assume: a channel between two stages carries one microbatch
//              at a time; nothing else competes
//
// A flow first waits its latency, then moves its work. Deterministic: equal times are served in the
// order of the calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cluster/cluster.h"
#include "cost/link_model.h"
#include "cost/network_cost.h"
#include "turns/fair_share.h"

namespace heddle {

// What a flow needs. Loads must outlive the flow.
struct FlowSpec {
  const std::vector<FlowLoad>* loads = nullptr;
  double work = 0;       // in units of the loads' weights: bytes for a transfer
  double latency = 0;    // seconds before it moves
  double cap = 0;        // rate when alone; 0: only the wires limit it
  double seconds = 0;    // latency and movement when alone
  int32_t channel = -1;  // channels model: the exclusive resource it uses, -1: none
  int32_t stream = -1;   // shared model: flows of one stream move in the order they started
};

// What a communication of this cost needs of the wires. Its loads are written into `loads`, which
// the result points to.
FlowSpec FlowOf(const CommCost& cost, std::vector<FlowLoad>& loads);

class Network {
 public:
  virtual ~Network() = default;

  // Starts a flow; `id` comes back when it is done.
  virtual void Start(int32_t id, const FlowSpec& flow, double now) = 0;
  // When something happens next; infinite when nothing is in flight.
  virtual double NextTime() const = 0;
  // Moves the clock to `now`, which is NextTime(), and appends the flows that are done.
  virtual void Advance(double now, std::vector<int32_t>& done) = 0;
};

std::vector<double> WireBandwidths(const Cluster& cluster);
std::unique_ptr<Network> MakeNetwork(LinkModel model, std::vector<double> bandwidths,
                                     size_t channels);

}  // namespace heddle
