// Completion: when jobs are done, one after the other or together.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace heddle {

struct Completion {
  std::vector<Seconds> done;  // by job
  Seconds makespan;           // the last
  Seconds mean;               // weighted
};

struct JobLength {
  double steps = 1;
  Seconds alone;  // of one step
  double weight = 1;
  int64_t priority = 0;

  Seconds length() const { return alone * steps; }
};

// One after the other: the more urgent first, of those the shorter in proportion to its weight,
// which no other order beats in the mean.
Completion OneAfterTheOther(std::span<const JobLength> jobs);

// Seconds per step of jobs that are at work together, in their order.
using PaceOf = std::function<Result<std::vector<Seconds>>(const std::vector<size_t>& active)>;

// All from the beginning; whenever one is done the others go on at a new pace.
Result<Completion> Together(std::span<const JobLength> jobs, const PaceOf& pace);

}  // namespace heddle
