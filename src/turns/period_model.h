// The period model: how fast jobs that take turns on the same devices can go at best.
//
//   const JobTimes jobs[] = {{2e-3, 3e-3, 3e-3}, {3e-3, 2e-3, 2e-3}};
//   BestPeriod(jobs, Seconds{0})          // 5 ms, where one after the other takes 10
//
// Device and network are two exclusive resources. In one period each job computes once and
// communicates once, and computes again only after that, so no order is faster than
//
//   T* = max( sum of c, sum of m, max of (c + e) )
//
// c  compute of one iteration, with the cost of going over to the job
// m  communication of one iteration
// e  the part of it that the job waits for: all of it, unless gradients go while backward goes on
//
// and without such overlap (e = m) rotation in any order reaches it, if the network serves who
// comes first (tests/simulate/joint_test.cc).
#pragma once

#include <span>
#include <vector>

#include "base/units.h"

namespace heddle {

struct JobTimes {
  Seconds compute;
  Seconds communicate;
  Seconds exposed;

  Seconds alone() const { return compute + exposed; }  // one iteration
};

// T* of jobs that each have one turn per period. Of one job: its time alone, for nothing is
// switched.
Seconds BestPeriod(std::span<const JobTimes> jobs, Seconds switch_cost);

// Iterations per second when each job gets on at the same part of its speed alone, times its
// weight, until device or network are full; who is not held up by the full one goes on (max-min
// fair):
//   sum of x c <= 1,  sum of x m <= 1,  x <= 1 / (c + e).
std::vector<double> FairJobRates(std::span<const JobTimes> jobs, std::span<const double> weights,
                                 Seconds switch_cost);

}  // namespace heddle
