// A Program in SimGrid: the same instruction lists, costs and wires as in our simulator, but the
// clock and the sharing of wires are SimGrid's.
//
//   HEDDLE_ASSIGN(double seconds, SimGridSeconds(program, cluster, segment_seconds));
//
// One actor per device walks its list by the rules of program.h. SimGrid runs its plain max-min
// model as in tests/simulate/simgrid_test.cc: CM02 without corrections for TCP, latencies waited
// for before a flow starts, the messages of a device pair one after the other.
//
// A collective is one flow for each wire its algorithm loads, with the bytes the algorithm puts on
// that wire, at most at the rate at which all of them would take as long as the collective takes
// alone; it is over when the last flow is. So alone it takes what our cost model says, and in
// company every wire is shared with whatever else uses it. (In our simulator a collective is one
// flow over all its wires, and slows down on all when it does on one.)
#pragma once

#include "base/result.h"
#include "cluster/cluster.h"
#include "program/program.h"
#include "program/segment_cost.h"

namespace heddle {

// Whether SimGrid was there when this was built: without, there is no SimGridSeconds.
#ifdef HEDDLE_SIMGRID
inline constexpr bool kHasSimGrid = true;
#else
inline constexpr bool kHasSimGrid = false;
#endif

// The steady period of the body. A process can have one SimGrid engine only: each run is a child
// process of its own. REQUIRES: the Program passes CheckProgram; no other thread is running.
Result<double> SimGridSeconds(const Program& program, const Cluster& cluster,
                              const SegmentSeconds& seconds);

}  // namespace heddle
