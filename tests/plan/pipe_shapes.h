// Shapes for tests of orders.
#pragma once

#include <cstdint>

#include "base/philox.h"
#include "plan/order/pipe_shape.h"

namespace heddle {

// Times of a stage. Half of what a forward keeps (2) goes with the input part of backward, as in
// the zero-bubble papers.
struct StageTimes {
  double forward = 1;
  double input = 1;
  double weight = 1;
  double channel = 0;  // each way
};

inline PipeShape StraightShape(int stages, int microbatches, const StageTimes& times = {}) {
  PipeShape shape;
  shape.stages = stages;
  shape.microbatches = microbatches;
  shape.split = true;
  shape.half_duplex = true;
  for (int s = 0; s < stages; ++s) {
    shape.chunks.push_back({s, times.forward, times.input, times.weight, 2, 1});
  }
  shape.cuts.assign(shape.chunks.size() - 1, {times.channel, times.channel});
  return shape;
}

// The same work in two chunks per stage, there and back.
inline PipeShape VShape(int stages, int microbatches, const StageTimes& times = {}) {
  PipeShape shape = StraightShape(stages, microbatches, times);
  for (PipeShape::Chunk& chunk : shape.chunks) {
    chunk = {chunk.stage, chunk.forward / 2, chunk.input / 2, chunk.weight / 2, 1, 0.5};
  }
  for (int s = stages; s-- > 0;) shape.chunks.push_back(shape.chunks[s]);
  shape.cuts.assign(shape.chunks.size() - 1, {times.channel, times.channel});
  return shape;
}

// Whole backwards, with `in_flight` microbatches of memory on each stage.
inline PipeShape WholeShape(int stages, int microbatches, const StageTimes& times, int in_flight) {
  PipeShape shape = StraightShape(stages, microbatches, times);
  shape.split = false;
  shape.limits.assign(stages, 2 * in_flight);
  return shape;
}

// Any small pipeline: times that differ, channels that may cost nothing, memory from one microbatch
// to plenty, straight or V-shaped.
inline PipeShape RandomShape(uint64_t seed, int most_stages, int most_microbatches) {
  const RandomStream random(seed, "pipe shape");
  uint64_t draws = 0;
  const auto below = [&](int bound) {
    return static_cast<int>(random.Below(draws++, static_cast<uint64_t>(bound)));
  };
  const int stages = 1 + below(most_stages);
  const int microbatches = 1 + below(most_microbatches);
  const bool v_shaped = stages > 1 && below(5) == 0;
  PipeShape shape = v_shaped ? VShape(stages, microbatches) : StraightShape(stages, microbatches);
  shape.split = below(2) == 0;
  shape.half_duplex = below(2) == 0;
  for (PipeShape::Chunk& chunk : shape.chunks) {
    chunk.forward = 1 + below(8);
    chunk.input = 1 + below(8);
    chunk.weight = below(8);
  }
  const int slowest = below(6);
  for (PipeShape::Cut& cut : shape.cuts) cut = {below(slowest + 1) * 1.0, below(slowest + 1) * 1.0};
  for (int s = 0; s < stages; ++s) shape.limits.push_back(2 + below(2 * stages + 2));
  return shape;
}

}  // namespace heddle
