// Quadratic: f(x) = ½ xᵀAx with A = tridiagonal(-1, 2, -1) + shift · I, a chain of springs.
//
//   const Quadratic quadratic(512, 0.01);
//   quadratic.smoothness()                        ->  4.01
//
// The gradient of a block needs the block and one element on either side: O(d / S). The
// minimum is 0, at 0.
#pragma once

#include "lab/objective.h"

namespace heddle {

class Quadratic : public Objective {
 public:
  // REQUIRES: dimension >= 1, shift > 0.
  Quadratic(int64_t dimension, double shift) : dimension_(dimension), shift_(shift) {}

  int64_t dimension() const override { return dimension_; }
  double smoothness() const override { return 4 + shift_; }
  double lowest() const override { return 0; }
  double Loss(const double* x) const override;

  Pass MakePass() const override;
  void Begin(Pass&) const override {}
  void Forward(const Block& block, const double* values, Pass& pass) const override;
  void Turn(Pass&) const override {}
  void Backward(const Block& block, const Pass& pass, double* gradient) const override;
  void Reread(const Block& block, const double* values, Pass& pass) const override;
  bool neighbours_only() const override { return true; }

 private:
  int64_t dimension_;
  double shift_;
};

}  // namespace heddle
