// BlockNetwork: a model's loss as a function of one long vector of weights, computed block by block
// as a pipeline's stages would: reads, forwards and backwards of one microbatch, each when the
// caller says, at the weights the caller gives.
//
//   std::shared_ptr<BlockPass> pass = network.Begin({seed, microbatch});
//   for (int b = 0; b < network.blocks(); ++b) network.Forward(b, weights_of(b), *pass);
//   for (int b = network.blocks() - 1; b >= 0; --b) network.Backward(b, *pass, gradient_of(b));
//   network.Descend(0, gradient, 0.1, x);
//
// src/run/torch implements it with the kernels that run and verify train with, in fp64. Weights lie
// block after block, in a block as the graph lists them. Immutable; used by many threads at once,
// each with passes of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace heddle {

// What one microbatch carries.
class BlockPass {
 public:
  virtual ~BlockPass() = default;
};

// Which samples, and which start.
struct BlockDraw {
  uint64_t seed = 0;
  int64_t microbatch = 0;
};

class BlockNetwork {
 public:
  virtual ~BlockNetwork() = default;

  // Of the first element of each block; the last is the number of all.
  virtual const std::vector<int64_t>& offsets() const = 0;
  int blocks() const { return static_cast<int>(offsets().size()) - 1; }

  virtual std::vector<double> Start(uint64_t seed) const = 0;
  virtual std::shared_ptr<BlockPass> Begin(const BlockDraw& draw) const = 0;
  // Blocks ascending.
  virtual void Forward(int block, const double* weights, BlockPass& pass) const = 0;
  // Other weights in place of those the forward read, as far as the block's backward uses them.
  virtual void Reread(int block, const double* weights, BlockPass& pass) const = 0;
  // Blocks descending, none left out. Without `gradient` (null) only what blocks below need.
  virtual void Backward(int block, BlockPass& pass, double* gradient) const = 0;
  // x ← x - step · gradient, as plain SGD of a run does it, to the bit.
  virtual void Descend(int block, const double* gradient, double step, double* x) const = 0;
  // The mean loss over samples that no pass sees, nothing dropped.
  virtual double Loss(const double* x) const = 0;
};

}  // namespace heddle
