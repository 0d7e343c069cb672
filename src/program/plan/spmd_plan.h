// SpmdPlan: one program for all devices of a mesh, each with its part of the tensors (sharding.h).
//
// The steps are those of one training step in order, the same on every device: an op computed
// under a rule, or a tensor brought from one layout into another. A tensor may be there in several
// layouts at once; an op reads the layouts its rule asks for.
//
// With several microbatches (Plan::microbatches) forward and backward are repeated for each, and
// gradients add up in the layout in which they are made; what follows, their conversions and the
// updates, comes once, after the last. Copies of weights are made for the first and kept, unless
// the steps make them more than once.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cost/network_cost.h"
#include "model/sharding.h"
#include "program/program.h"

namespace heddle {

struct SpmdStep {
  OpId op;          // computed under `rule`; invalid: a conversion
  OpRule rule;      //
  TensorId tensor;  // a conversion of this tensor
  Layout from, to;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;  // of its exchange, if it has one

  bool converts() const { return !op.valid(); }
};

// Where a parameter, its gradient and its optimizer state are between steps.
struct SpmdStorage {
  TensorId parameter;
  Layout layout;  // no partial sums
};

struct SpmdPlan {
  // Nodes of equal size, devices by name. One node: a flat mesh, where axis 0 has a single place.
  std::vector<std::vector<std::string>> mesh;
  // By axis and number: one weight for each place on the axis, adding up to 1. Vectors of axis 1
  // hold for every node.
  std::array<std::vector<std::vector<double>>, kMeshAxes> ratios;
  std::vector<SpmdStorage> storage;  // of every parameter, in the graph's order
  std::vector<SpmdStep> steps;
  // With microbatches: gradients are converted after each of them and add up in the layout in which
  // the parameter is stored. More is sent, but no device keeps whole gradients of sharded weights.
  bool converts_each = false;
};

// Parts of `extent` in proportion to the ratios, by largest remainder; ties go to the first.
std::vector<Range> ShardRanges(int64_t extent, std::span<const double> ratios);

// What the device at `place` (node, place in the node) has of a tensor of this shape. Where both
// axes shard one dimension, the inner one divides what the outer one left.
Slice ShardOf(std::span<const int64_t> shape, const Layout& layout, const SpmdPlan& plan,
              std::array<size_t, kMeshAxes> place);

}  // namespace heddle
