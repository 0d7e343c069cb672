// PipeShape: what the order of a pipeline depends on, and nothing else. Chunks of layers lie along
// a line of places; each is on a stage; messages go between neighbouring places. Times and memory
// are in any unit.
//
//   PipeShape shape;                                 // two stages, eight microbatches
//   shape.stages = 2, shape.microbatches = 8;
//   shape.chunks = {{0, 1.0, 1.2, 0.8}, {1, 1.0, 1.2, 0.8}};
//   shape.cuts = {{0.1, 0.1}};
//
// Layouts of two stages: straight 0 1, interleaved 0 1 0 1, V-shaped 0 1 1 0.
#pragma once

#include <limits>
#include <vector>

#include "base/result.h"
#include "program/plan/order_text.h"

namespace heddle {

// One piece of work. A WorkItem counts the chunks of its own stage, a PlacedWork all of them.
struct PlacedWork {
  WorkKind kind = WorkKind::kForward;
  int place = 0;
  int microbatch = 0;
};

struct PipeShape {
  // A forward takes `kept` when it starts. A whole backward gives it back at its end; split, its
  // input part gives back all but `kept_for_weight`, which the weight part gives back.
  struct Chunk {
    int stage = 0;
    double forward = 0;
    double input = 0;   // backward with respect to inputs
    double weight = 0;  // backward with respect to weights; the whole backward is their sum
    double kept = 1;
    double kept_for_weight = 0;
  };
  // Time of the message after a chunk and of the gradient that comes back. Nothing between chunks
  // of one stage.
  struct Cut {
    double forward = 0;
    double backward = 0;
  };
  enum class Layout { kStraight, kInterleaved, kVShaped, kOther };

  int stages = 1;
  int microbatches = 1;
  bool split = false;        // may backward be done in two parts?
  bool half_duplex = false;  // between two stages: one channel, or one for each direction
  std::vector<Chunk> chunks;
  std::vector<Cut> cuts;       // cuts[k] is between the chunks k and k + 1
  std::vector<double> limits;  // of memory by stage; empty: none

  int places() const { return static_cast<int>(chunks.size()); }
  double limit(int stage) const {
    return limits.empty() ? std::numeric_limits<double>::infinity() : limits[stage];
  }
  double Seconds(WorkKind kind, int place) const;
  double CutSeconds(int cut, bool backward) const;
  // What the work does to its stage's memory when it ends.
  double Released(WorkKind kind, int place) const;

  // By stage: the places of its chunks, in their order along the layers.
  std::vector<std::vector<int>> PlacesByStage() const;
  // By stage: what one microbatch keeps in all its chunks.
  std::vector<double> KeptByStage() const;
  Layout LayoutOf() const;
  // Whether every stage has room for one microbatch.
  bool HasRoom() const;
};

// Sums of memory are compared with this much tolerance, relative to the limit.
bool FitsLimit(double used, double limit);

// REQUIRES of everything that takes a shape: sizes agree, stages exist, nothing is negative.
void CheckShape(const PipeShape& shape);

}  // namespace heddle
