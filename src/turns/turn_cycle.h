// Turn cycle: how often each job has its turn, and one pass of the order that results. The planner
// simulates this pass, the board (run/share/board.h) hands out its turns over and over.
//
//   const TurnJob jobs[] = {{times_of_a, 1}, {times_of_b, 1}};      // a is twice as fast as b
//   TurnCycle(TurnOrder::kDeficit, jobs, Seconds{1e-3})             // 0 0 1
//
// Under `deficit`, jobs have turns in proportion to their fair rates (period_model.h): n_i of at
// most 32 in all. With c_i the seconds of a turn, weights n_i c_i make the deficit round robin give
// job i exactly n_i turns in max n rounds, after which nobody has a deficit and all begins anew: a
// visit adds n_i / max n of a turn.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "turns/period_model.h"
#include "turns/turn_order.h"

namespace heddle {

inline constexpr int kLongestCycle = 32;  // turns, unless there are more jobs

// What decides how often a job has its turn.
struct TurnJob {
  JobTimes times;  // modelled, alone
  double weight = 1;
};

// Turns in proportion to the rates, as nearly as `most` of them allow; each job has at least one.
std::vector<int32_t> TurnCounts(std::span<const double> rates, int most);

// Gives the members that wait for turns the weights of a cycle among them, which begins with the
// next turn after -1. Returns how many turns it has.
int32_t BeginCycle(std::span<const TurnJob> jobs, Seconds switch_cost,
                   std::span<OrderMember> members);

// One cycle of jobs that are all at work, as places in `jobs`. Not for kArrival, which has none.
std::vector<int32_t> TurnCycle(TurnOrder order, std::span<const TurnJob> jobs, Seconds switch_cost);

}  // namespace heddle
