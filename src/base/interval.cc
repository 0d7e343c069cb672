#include "base/interval.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "base/check.h"

namespace heddle {
namespace {

// P(|T| <= t), Abramowitz & Stegun 26.7.3 and 26.7.4, with θ = atan(t / √ν).
double WithinStudent(double t, int freedom) {
  const double angle = std::atan(t / std::sqrt(freedom));
  const double cosine = std::cos(angle), sine = std::sin(angle);
  const bool odd = freedom % 2 == 1;
  double term = odd ? cosine : 1, sum = freedom == 1 ? 0 : term;
  for (int k = odd ? 3 : 2; k <= freedom - 2; k += 2) {
    term *= cosine * cosine * (k - 1) / k;
    sum += term;
  }
  return odd ? 2 / std::numbers::pi * (angle + sine * sum) : sine * sum;
}

Interval Around(double mean, double error, int freedom) {
  const double reach = StudentQuantile(freedom) * error;
  return {mean, mean - reach, mean + reach};
}

double Mean(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

double StudentQuantile(int freedom) {
  HEDDLE_CHECK(freedom >= 1);
  double low = 0, high = 20;  // 12.7 for one degree
  for (int halving = 0; halving < 100; ++halving) {
    const double middle = (low + high) / 2;
    (WithinStudent(middle, freedom) < 0.95 ? low : high) = middle;
  }
  return high;
}

double BeyondStudent(double t, int freedom) {
  HEDDLE_CHECK(freedom >= 1);
  return std::isinf(t) ? 0 : 1 - WithinStudent(std::abs(t), freedom);
}

Interval MeanInterval(std::span<const double> values) {
  HEDDLE_CHECK(values.size() >= 2);
  const double mean = Mean(values);
  if (!std::isfinite(mean)) {
    const double infinity = std::numeric_limits<double>::infinity();
    return {infinity, infinity, infinity};
  }
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(values.size());
  return Around(mean, std::sqrt(squares / (count - 1) / count),
                static_cast<int>(values.size()) - 1);
}

Interval FitSlope(std::span<const double> x, std::span<const double> y) {
  HEDDLE_CHECK(x.size() == y.size() && x.size() >= 3);
  const double mean_x = Mean(x), mean_y = Mean(y);
  double xx = 0, xy = 0, rest = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    xx += (x[k] - mean_x) * (x[k] - mean_x);
    xy += (x[k] - mean_x) * (y[k] - mean_y);
  }
  HEDDLE_CHECK(xx > 0);
  const double slope = xy / xx;
  for (size_t k = 0; k < x.size(); ++k) {
    const double off = y[k] - mean_y - slope * (x[k] - mean_x);
    rest += off * off;
  }
  const int freedom = static_cast<int>(x.size()) - 2;
  return Around(slope, std::sqrt(rest / freedom / xx), freedom);
}

}  // namespace heddle
