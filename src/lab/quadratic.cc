#include "lab/quadratic.h"

#include <algorithm>

namespace heddle {
namespace {

template <bool noisy>
[[gnu::always_inline]] inline void TakeStep(double diagonal, const NearStep& step, const double* x,
                                            double* next) {
  const double* z = step.read;
  const float* noise = step.noise;
  const double size = step.step_size, sigma = step.sigma;
  const auto at = [=](int64_t k, double left, double right) {
    double gradient = diagonal * z[k] - (left + right);
    if constexpr (noisy) gradient += sigma * static_cast<double>(noise[k]);
    next[k] = x[k] - size * gradient;
  };
  const int64_t last = step.size - 1;
  if (last == 0) return at(0, step.before, step.after);
  at(0, step.before, z[1]);
#ifndef __clang__
#pragma GCC ivdep  // x and next are the same, or apart
#endif
  for (int64_t k = 1; k < last; ++k) at(k, z[k - 1], z[k + 1]);
  at(last, z[last - 1], step.after);
}

[[gnu::always_inline]] inline void TakeAnyStep(double diagonal, const NearStep& step,
                                               const double* x, double* next) {
  step.sigma == 0 ? TakeStep<false>(diagonal, step, x, next)
                  : TakeStep<true>(diagonal, step, x, next);
}

#ifdef __x86_64__
// Four elements at a time. Products and sums are rounded apart, as everywhere: the same bits.
[[gnu::target("avx2")]] void TakeWideStep(double diagonal, const NearStep& step, const double* x,
                                          double* next) {
  TakeAnyStep(diagonal, step, x, next);
}
const bool kWide = __builtin_cpu_supports("avx2") != 0;
#endif

}  // namespace

double Quadratic::Loss(const double* x) const {
  // xᵀAx = x_0² + x_{d-1}² + Σ (x_k - x_{k+1})² + shift Σ x_k²
  double steps = x[0] * x[0] + x[dimension_ - 1] * x[dimension_ - 1];
  double squares = 0;
  for (int64_t k = 0; k + 1 < dimension_; ++k) steps += (x[k] - x[k + 1]) * (x[k] - x[k + 1]);
  for (int64_t k = 0; k < dimension_; ++k) squares += x[k] * x[k];
  return 0.5 * (steps + shift_ * squares);
}

std::vector<double> Quadratic::Start(uint64_t seed) const {
  if (start_ == QuadraticStart::kNormal) return Objective::Start(seed);
  // Ax = -1 by elimination: x_k = right_k + above_k x_{k+1}.
  const auto size = static_cast<size_t>(dimension_);
  std::vector<double> above(size), x(size);
  for (size_t k = 0; k < size; ++k) {
    const double pivot = 2 + shift_ - (k == 0 ? 0 : above[k - 1]);
    above[k] = 1 / pivot;
    x[k] = (-1 + (k == 0 ? 0 : x[k - 1])) / pivot;
  }
  for (size_t k = size - 1; k-- > 0;) x[k] += above[k] * x[k + 1];
  return x;
}

Pass Quadratic::MakePass() const {
  Pass pass;
  pass.point.assign(static_cast<size_t>(dimension_), 0.0);
  return pass;
}

void Quadratic::Forward(const Block& block, const double* values, Pass& pass) const {
  std::copy(values, values + block.size(), pass.point.data() + block.begin);
}

void Quadratic::Reread(const Block& block, const double* values, Pass& pass) const {
  Forward(block, values, pass);
}

void Quadratic::Backward(const Block& block, Pass& pass, double* gradient) const {
  const double* z = pass.point.data() + block.begin;
  const double diagonal = 2 + shift_;
  const int64_t last = block.size() - 1;
  const double left = block.begin > 0 ? z[-1] : 0;
  const double right = block.end < dimension_ ? z[last + 1] : 0;
  if (last == 0) {
    gradient[0] = diagonal * z[0] - (left + right);
    return;
  }
  gradient[0] = diagonal * z[0] - (left + z[1]);
  for (int64_t k = 1; k < last; ++k) gradient[k] = diagonal * z[k] - (z[k - 1] + z[k + 1]);
  gradient[last] = diagonal * z[last] - (z[last - 1] + right);
}

void Quadratic::Take(const NearStep& step, const double* x, double* next) const {
#ifdef __x86_64__
  if (kWide) return TakeWideStep(2 + shift_, step, x, next);
#endif
  TakeAnyStep(2 + shift_, step, x, next);
}

}  // namespace heddle
