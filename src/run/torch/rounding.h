// Rounding: what the arithmetic of a training step cannot promise, put in on purpose.
//
//   Rounding rounding(graph, options, {.draw = 2});
//   TrainDirectly(graph, options, steps, groups, ages, &rounding);
//
// A kernel that sums n terms, in whatever order and on whatever processor, gives the exact result
// of inputs and outputs that are off by about √n units in the last place. So a run in which every
// op's inputs and outputs are off by that much, each element up or down by chance, lands about as
// far from the plain one as rounding may carry any other order of the same sums: by tensor, through
// every cancellation, every division by a small number and every step. How far that is, is a
// measure (verify.h); docs/decisions/0019 derives it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/philox.h"
#include "model/graph.h"
#include "run/train_options.h"

namespace heddle {

// Half the spacing of numbers at 1: what one rounding may do to them.
double UnitRoundoff(DType dtype);

class Rounding {
 public:
  struct Options {
    int64_t draw = 0;     // another one: other directions
    bool halves = false;  // gradients of weights travel as f16 (rank_order_sum.h)
  };
  Rounding(const Graph& graph, const TrainOptions& train, const Options& options);

  // How far an element may be off.
  struct Error {
    double relative = 0;
    double absolute = 0;
  };
  // Each element of the op's operands.
  Error Of(const Op& op) const;
  // A value that was rounded once more.
  Error Once() const { return {unit_, 0}; }

  // Whole numbers stay as they are.
  at::Tensor Disturbed(const at::Tensor& x, const Error& error);
  void Disturb(at::Tensor& x, const Error& error);

 private:
  at::Tensor NextSigns(const at::Tensor& like);

  const Graph& graph_;
  bool halves_;
  double unit_;
  RandomStream stream_;
  at::Tensor signs_;  // +1 and -1; a tensor takes a run of them, from anywhere
  uint64_t taken_ = 0;
};

}  // namespace heddle
