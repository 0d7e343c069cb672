// Schedule: who reads and who updates which block of weights, in the order in which it happens.
//
// An asynchronous 1F1B pipeline never drains. F(s, m) is the forward of microbatch m on stage s: it
// reads block s. B(s, m) is its backward: it changes block s. One tick is one forward; without
// further costs F(s, m) runs at tick 2m + s and B(s, m) at tick 2m + 2S - 1 - s. For S = 4:
//
//   tick     0   1   2   3   4   5   6   7   8   9
//   stage 0  F0      F1      F2      F3  B0  F4  B1
//   stage 1      F0      F1      F2  B0  F3  B1
//   stage 2          F0      F1  B0  F2  B1  F3
//   stage 3              F0  B0  F1  B1  F2  B2
//
// Within a tick the stages act in order of their index. A longer backward and a latency of links
// keep the order on each stage and only move it in time; a forward reads at its first tick, a
// backward changes the weights at its last.
//
//   const Schedule schedule = MakeSchedule({.stages = 4}, /*end=*/1000);
//   for (const Event& event : schedule.events) …
//   SteadyDelays({.stages = 4}).most               ->  14
#pragma once

#include <cstdint>
#include <vector>

namespace heddle {

// What things cost, in ticks.
struct PipelineClock {
  int stages = 1;
  int64_t forward = 1;
  int64_t backward = 1;
  int64_t latency = 0;  // from one stage to the next, either way
};

struct Event {
  int32_t tick = 0;
  int32_t microbatch = 0;
  int16_t stage = 0;
  bool forward = false;  // reads its block; otherwise updates it
};

struct Schedule {
  PipelineClock clock;
  std::vector<Event> events;  // by tick, then stage
  int64_t updates = 0;        // events that are not forwards
};

// All events before tick `end`. REQUIRES: stages >= 1, forward and backward >= 1, latency >= 0.
Schedule MakeSchedule(const PipelineClock& clock, int64_t end);

// Ticks until `microbatches` have gone through an empty 1F1B pipeline and it is empty again:
// 2N + 2(S - 1) if a backward is one tick and links cost nothing.
int64_t DrainedTicks(const PipelineClock& clock, int64_t microbatches);

// When the backwards of each stage have ended in that pipeline, by stage and microbatch.
std::vector<std::vector<int64_t>> BackwardEnds(const PipelineClock& clock, int64_t microbatches);

// As DrainedTicks where all forwards come before all backwards (GPipe).
int64_t FlushTicks(const PipelineClock& clock, int64_t microbatches);

// How old the weights are, over microbatches and all pairs of stages (i, j): the updates of any
// block between the read of block j by F(j, m) and B(i, m).
struct DelayCounts {
  int64_t most = 0;
  double mean = 0;
  std::vector<int64_t> own;  // updates of block s itself between F(s, m) and B(s, m), at most
  // The largest over i of the sum over j of n², n the updates of block j between F(j, m) and
  // B(i, m): what the sharper accounting of the bound counts (theory.h).
  int64_t squares = 0;
};

// Of microbatches `first` … `last`, as far as the schedule has their backwards.
DelayCounts CountDelays(const Schedule& schedule, int64_t first, int64_t last);

// Of the full pipeline: microbatches 2S … 4S - 1, after it filled.
DelayCounts SteadyDelays(const PipelineClock& clock);

}  // namespace heddle
