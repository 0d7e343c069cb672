// The simulator: gives a Program a clock.
//
//   HEDDLE_ASSIGN(SegmentSeconds seconds, CostSegments(program, cluster, &cost));
//   HEDDLE_ASSIGN(Simulation sim, Simulate(program, cluster, seconds, {}));
//   sim.iteration        // steady-state period of the body
//
// Event driven and deterministic. It follows the rules of program.h to the letter: devices walk
// their lists, communication overlaps compute, messages move once both ends have posted them, and
// compete under the chosen model (network.h). The body is repeated until its period is steady.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"
#include "program/program.h"
#include "program/segment_cost.h"
#include "simulate/network.h"
#include "timeline/timeline.h"

namespace heddle {

struct SimulateOptions {
  LinkModel links = LinkModel::kShared;
  bool keep_events = true;
  int repetitions = 0;  // 0: until the period is steady
};

struct DeviceUse {
  std::string device;
  Seconds busy;      // computing, in one body
  Seconds updating;  // of that, in update segments
  Seconds idle;      // the rest of the period
  Bytes sent;        // in one body, messages and its part in collectives
  Bytes received;    //
};

struct WireUse {
  WireId wire;
  double bytes = 0;  // in one body, collectives included
};

struct Simulation {
  Seconds iteration;    // period of the body once it is steady
  Seconds makespan;     // end of the first body and of the communication it started
  bool steady = true;   // false: the period still changed when we gave up
  int repetitions = 0;  // of the body that were simulated
  int64_t instructions = 0;
  std::vector<DeviceUse> devices;
  std::vector<WireUse> wires;  // those used
  Timeline timeline;           // empty unless keep_events
};

// REQUIRES: the Program passes CheckProgram. A Program that cannot go on is reported as an error,
// never an endless loop.
Result<Simulation> Simulate(const Program& program, const Cluster& cluster,
                            const SegmentSeconds& seconds, const SimulateOptions& options);

}  // namespace heddle
