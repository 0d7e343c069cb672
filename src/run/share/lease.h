// Leases: how long a job of a share may keep the others waiting before it counts as hung.
//
//   Habit turns{.expected = 80'000'000};     // nanoseconds that a turn should take; 0: not known
//   turns.Learn(95'000'000);                 // one that took so long
//   const Lease lease{now, LeaseTime(turns, false), starved_so_far};
//   if (IsOver(lease, starved_by_now, last_beat)) …
//
// A lease is a few times what the thing should take, or took of late, and a constant that leaves
// the others waiting for less than 2 s. Time in which the machine was too busy to let the holder
// run does not count; and it ends only at a sign of life that came later: who gives none is not
// judged by its lease.
#pragma once

#include <algorithm>
#include <cstdint>

namespace heddle {

// What something takes; in nanoseconds.
struct Habit {
  int64_t expected = 0;
  int64_t longest = 0;  // of late: one that was longer by chance is forgotten again

  void Learn(int64_t took) { longest = std::max(took, longest - longest / 8); }
};

struct Lease {
  int64_t since = 0;    // 0: none runs
  int64_t time = 0;     // that it lasts; 0: half written by somebody who died
  int64_t starved = 0;  // that its holder had wanted to run and could not, when it began
};

// `cold`: the holder does it for the first time, and may have to warm up.
inline int64_t LeaseTime(const Habit& habit, bool cold) {
  constexpr int64_t kTimes = 3, kConstant = 1'200'000'000, kWarmUp = 5'000'000'000;
  return kTimes * std::max(habit.expected, habit.longest) + kConstant + (cold ? kWarmUp : 0);
}

inline bool IsOver(const Lease& lease, int64_t starved, int64_t last_beat) {
  return lease.since > 0 && lease.time > 0 &&
         last_beat > lease.since + lease.time + (starved - lease.starved);
}

}  // namespace heddle
