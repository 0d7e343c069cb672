// A trace: a stream of training jobs, one line of a CSV file each, for heddle share --trace.
//
//   num_gpu,submit_time,iterations,resource_time_1,resource_time_2
//   4,6000,34273,85,73
//
// Columns are found by their names; others are passed over. Times are in milliseconds: arrival, and
// per iteration the computing of a device, its communication and, where given, reading of input and
// the whole iteration alone. docs/share.md lists the names.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace heddle {

// What an iteration needs of three things that one job uses at a time.
enum class TraceResource : uint8_t { kDevice, kNetwork, kInput };
inline constexpr size_t kTraceResourceCount = 3;

struct TraceJob {
  std::string name;
  int line = 0;        // of the file
  double arrival = 0;  // seconds, as all times here
  int devices = 1;     //
  double iterations = 1;
  std::array<double, kTraceResourceCount> needs{};  // seconds per iteration
  double alone = 0;                                 // one iteration, with nobody else

  double length() const { return iterations * alone; }
};

// In order of arrival; ties as in the file. At least one.
Result<std::vector<TraceJob>> ParseTrace(const std::string& text, const std::string& file);
Result<std::vector<TraceJob>> LoadTrace(const std::string& path);

}  // namespace heddle
