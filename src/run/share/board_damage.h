// Damage: what is never on a board that heddle alone has written.
//
//   if (const auto what = FindDamage(memory, BoardNow())) WriteOff(memory, *what, BoardNow());
//
// A board lies in memory that every process of a share may write, and one found by name
// (Board::Open) in a file that every program of the user may. Whoever takes the board's mutex looks
// it over first: numbers that lead outside of the records, times that nobody has lived through,
// turns that would never come. A board that fails is written off: its jobs are struck and told why,
// and what is left is an empty board on which others may begin. So the rest of the board may
// believe what it reads.
//
// Not looked at here: the mutex, which is the C library's and believed; the futex words, the beats,
// the sequence and the devices that are used side by side, where every value is borne when it is
// read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "run/share/board_memory.h"

namespace heddle {

// Nanoseconds: 36 years, so that a few of them can be added.
inline constexpr int64_t kLongestTime = INT64_MAX / 8;
inline constexpr double kLongestUse = 1e17;  // nanoseconds on a device that is used side by side

// Of seconds that somebody asked for; what is no number is the longest.
inline int64_t BoardTime(double seconds) {
  constexpr double kMost = static_cast<double>(kLongestTime) * 1e-9;
  if (!(seconds < kMost)) return kLongestTime;
  return static_cast<int64_t>(std::max(0.0, seconds) * 1e9);
}

// What decides how often a job has its turn: finite, and within what sums of it can bear.
bool IsTurnJob(const TurnJob& job);

// REQUIRES: the mutex is held, or nobody else has the memory. Looks at what is in use only: 0.1 us
// for two jobs on four devices, 5 us for as many of both as there may be (bench/board_bench.cc).
std::optional<std::string> FindDamage(const BoardMemory& memory, int64_t now);

// Afterwards nothing is damaged, nobody has a device or a place, and no job runs.
void WriteOff(BoardMemory& memory, const std::string& what, int64_t now);

}  // namespace heddle
