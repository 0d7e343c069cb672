// Objective: a function of one long vector, in the steps in which a pipeline would compute it.
//
// The vector is cut into S blocks, one for each stage. A Pass is what one microbatch carries: every
// stage's forward reads its block and adds to the signal, the last stage turns, every backward
// yields the gradient of its block. So a gradient may be taken at weights of different ages:
//
//   Pass pass = objective.MakePass();
//   objective.Begin(pass);
//   for (const Block& block : blocks) objective.Forward(block, x.data() + block.begin, pass);
//   objective.Turn(pass);
//   objective.Backward(blocks[2], pass, gradient);      // ∇_2 f(z), z what the forwards read
//
// An objective is immutable, and is used by many threads at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

class BlockPass;

// Elements begin … end - 1.
struct Block {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
};

// Contiguous blocks whose sizes differ by one at most. REQUIRES: 1 <= stages <= dimension.
std::vector<Block> SplitBlocks(int64_t dimension, int stages);

int64_t WidestBlock(const std::vector<Block>& blocks);

// Which samples a microbatch has, where an objective draws them: a function of these alone.
struct Draw {
  uint64_t seed = 0;
  int64_t microbatch = 0;
};

struct Pass {
  Draw draw;                     // to be set before Begin
  std::vector<double> point;     // z: each block as it was read
  std::vector<double> signal;    // what the forwards add up to
  std::vector<double> response;  // what the last stage sends back
  std::vector<double> scratch;
  std::vector<uint8_t> symbols;  // of a language model: what is read, then what is to be predicted
  std::vector<int64_t> rows;     // of a minibatch: its samples
  int64_t returned = 0;          // of a network: the first unit whose backward has been
  std::shared_ptr<BlockPass> network;  // of a model that is computed elsewhere
};

// A step of a block whose gradient depends on that block and one element on either side only.
struct NearStep {
  int64_t size = 0;
  const double* read = nullptr;  // the block's values that the gradient is taken at
  double before = 0, after = 0;  // the elements beside it, as they were read; 0 beyond the ends
  double step_size = 0;
  double sigma = 0;              // of the noise; 0: none
  const float* noise = nullptr;  // for each element
};

// What an objective with such gradients offers beside passes: a step in one go over the block, with
// the bits of Backward, noise and Descend.
class NearGradient {
 public:
  virtual ~NearGradient() = default;
  // next = x - γ (∇ + σ ξ), for the block's elements, which both point to; they may be the same,
  // and `read` may be x, but not `next`.
  virtual void Take(const NearStep& step, const double* x, double* next) const = 0;
};

class Objective {
 public:
  virtual ~Objective() = default;

  virtual int64_t dimension() const = 0;
  // L: the gradient's Lipschitz constant, or a little more. Where there is none: 2/L is the largest
  // step size that a race tries first.
  virtual double smoothness() const = 0;
  virtual double lowest() const = 0;  // f at its minimum, or a bound
  // Whether smoothness and lowest are more than a convention.
  virtual bool has_constants() const { return true; }
  virtual double Loss(const double* x) const = 0;
  // The loss on samples that training does not see, if there are any.
  virtual std::optional<double> HeldOutLoss(const double*) const { return std::nullopt; }

  // Whether microbatches are samples of the data, as `draw` says; otherwise each is all of them.
  virtual bool sampled() const { return false; }
  // The most stages it can be cut into.
  virtual int64_t most_stages() const { return dimension(); }
  // A block for each stage, in order; unless overridden as even as can be.
  virtual std::vector<Block> Blocks(int stages) const;

  virtual Pass MakePass() const = 0;
  virtual void Begin(Pass& pass) const = 0;
  // `values` are those of the block.
  virtual void Forward(const Block& block, const double* values, Pass& pass) const = 0;
  virtual void Turn(Pass& pass) const = 0;
  // In networks a backward needs what those of the blocks above left in the pass: blocks come in
  // descending order, and those left out are passed through.
  virtual void Backward(const Block& block, Pass& pass, double* gradient) const = 0;
  // After Turn: puts other values in place of those that the block's forward read, as far as the
  // backwards use them.
  virtual void Reread(const Block& block, const double* values, Pass& pass) const = 0;
  // x ← x - step · gradient, for the block's elements, which both point to.
  virtual void Descend(const Block& block, const double* gradient, double step, double* x) const;
  // Where a block's gradient depends on that block and the elements beside it only; else null.
  virtual const NearGradient* near() const { return nullptr; }

  // Where a race starts; unless overridden standard normal, so that every direction takes part.
  virtual std::vector<double> Start(uint64_t seed) const;
  // ∇f(x), as one block; of the samples that pass.draw names.
  void Gradient(const double* x, Pass& pass, double* gradient) const;
};

}  // namespace heddle
