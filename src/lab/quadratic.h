// Quadratic: f(x) = ½ xᵀAx with A = tridiagonal(-1, 2, -1) + shift · I, a chain of springs.
//
//   const Quadratic quadratic(512, 0.01);
//   quadratic.smoothness()                        ->  4.01
//
// With QuadraticStart::kAtRest it is the same chain under an even load, f(x) = ½ xᵀAx - Σ x_k from
// x = 0, in the coordinates of its minimum: the start is -A⁻¹1, whatever the seed, all of it in
// slow modes.
//
// The gradient of a block needs the block and one element on either side: O(d / S). The
// minimum is 0, at 0.
#pragma once

#include "lab/objective.h"

namespace heddle {

enum class QuadraticStart : uint8_t { kNormal, kAtRest };

class Quadratic : public Objective, private NearGradient {
 public:
  // REQUIRES: dimension >= 1, shift > 0.
  Quadratic(int64_t dimension, double shift, QuadraticStart start = QuadraticStart::kNormal)
      : dimension_(dimension), shift_(shift), start_(start) {}

  int64_t dimension() const override { return dimension_; }
  double smoothness() const override { return 4 + shift_; }
  double lowest() const override { return 0; }
  double Loss(const double* x) const override;
  std::vector<double> Start(uint64_t seed) const override;

  Pass MakePass() const override;
  void Begin(Pass&) const override {}
  void Forward(const Block& block, const double* values, Pass& pass) const override;
  void Turn(Pass&) const override {}
  void Backward(const Block& block, Pass& pass, double* gradient) const override;
  void Reread(const Block& block, const double* values, Pass& pass) const override;
  const NearGradient* near() const override { return this; }

 private:
  void Take(const NearStep& step, const double* x, double* next) const override;

  int64_t dimension_;
  double shift_;
  QuadraticStart start_;
};

}  // namespace heddle
