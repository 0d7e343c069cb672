// WorkTimes: when the work of a pipeline would be done if every piece took one unit of time and
// messages none. It says whether the orders of the stages fit together at all, and which of two
// pieces on different stages surely comes first.
//
//   stage 0   F0 F1 .. B0 B1        times  0 1 3 4
//   stage 1   F0 B0 F1 B1           times  1 2 3 4
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "program/plan/plan.h"

namespace heddle {

class WorkTimes {
 public:
  // By stage and place in its order.
  const std::vector<std::vector<int32_t>>& starts() const { return starts_; }

  // When the backward of a microbatch starts in a chunk, chunks numbered along the layers.
  int32_t BackwardStart(size_t chunk, int32_t microbatch) const {
    return backward_[chunk].at(microbatch);
  }

 private:
  friend Result<WorkTimes> TimesOf(const PipelinePlan& pipeline, const std::string& where);
  std::vector<std::vector<int32_t>> starts_;
  std::vector<std::unordered_map<int32_t, int32_t>> backward_;  // by chunk and microbatch
};

// An error when the stages wait for each other for ever.
// REQUIRES: every order names each of its microbatches once per chunk and kind of work.
Result<WorkTimes> TimesOf(const PipelinePlan& pipeline, const std::string& where);

// For each stage and each of its chunks: the chunk's place along the layers of the pipeline.
std::vector<std::vector<size_t>> ChunkPlaces(const PipelinePlan& pipeline);

}  // namespace heddle
