// Chunk memory: what a run of layers needs on one device, before a Program is made of it. Planners
// use it to discard what cannot fit; the checker has the last word.
//
//   const ChunkMemory memory = MemoryOf(graph, chain, {.layers = {0, 3}});
//   Bytes peak = memory.Peak(/*rows=*/4, /*in_flight=*/3);
//
// Weights, optimizer state and gradients live throughout; every microbatch in flight keeps the
// activations that backward reads and those that cross the ends; and the one at work needs, in its
// hungriest segment, what is live before it and what the segment takes inside.
#pragma once

#include <vector>

#include "base/units.h"
#include "program/lower/chunk_segments.h"

namespace heddle {

struct ChunkMemory {
  Bytes weights;
  Bytes states;
  Bytes gradients;
  Bytes in_flight;   // of one sample, from its forward to its backward
  Bytes statistics;  // of one microbatch in flight, however many samples it has
  struct Line {
    Bytes fixed;
    Bytes per_sample;
  };
  std::vector<Line> at_work;  // by segment: of the microbatch it works on, an upper bound

  // An upper bound on what a device needs with so many microbatches of `rows` samples in flight;
  // receives posted ahead count as in flight.
  Bytes Peak(int64_t rows, int64_t microbatches_in_flight) const;
};

ChunkMemory MemoryOf(const Graph& graph, const LayerChain& chain, const ChunkOptions& options);

// Of one sample: what the weight part of a layer's backward reads, and so must be kept after the
// input part.
Bytes ReadByWeightPart(const Graph& graph, const LayerChain& chain, int layer);

}  // namespace heddle
