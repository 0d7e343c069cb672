// A plan of many microbatches judged by one of few of the same size.
//
// Between the first microbatch, which gathers weights, and the last, which updates them, all do the
// same. Devices are deterministic: once every event of a microbatch, compute or exchange, comes the
// same time d after that of the one before, it does so for all that follow, up to the last. So
//   seconds(M) = seconds(K) + (M - K) d
// and the memory at each place of the lists is that of K microbatches.
//
//   microbatch   0    1    2    3            0    1    2    2    2    3
//               ├─g──┼────┼────┼──u─┤   →   ├─g──┼────┼────┼────┼────┼──u─┤
//                    └─ d ┴─ d ┘                      └─ d ┴─ d ┴─ d ┘
//
//   const Plan few = WithMicrobatches(plan, 4);            // of 64
//   … lower and simulate it …
//   if (!AddMicrobatches(program, 60, simulation)) …        // no such d: simulate all 64
#pragma once

#include <array>
#include <cstdint>

#include "program/plan/plan.h"
#include "program/program.h"
#include "simulate/simulator.h"

namespace heddle {

// The plan with so many microbatches of the size it has, and a batch of as many samples.
Plan WithMicrobatches(const Plan& plan, int64_t microbatches);

// Of so many microbatches it is tried, in turn.
inline constexpr std::array<int64_t, 2> kFewMicrobatches = {4, 8};

// Gives the simulation so many more microbatches: `iteration`, `makespan` and how long devices are
// busy and idle; its events are gone. False where the two microbatches before the last differ by
// more than a shift in time.
// REQUIRES: an SPMD Program of four microbatches or more, simulated with its events.
bool AddMicrobatches(const Program& program, int64_t more, Simulation& simulation);

}  // namespace heddle
