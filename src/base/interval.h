// Interval: a mean and how well it is known, by Student's t over independent values.
//
//   MeanInterval({1, 2, 3})                       ->  mean 2, low -0.48, high 4.48
//   FitSlope(log_stages, log_distances)           ->  an exponent and its interval
//
// Both hold with a probability of 95% if what varies is normal.
#pragma once

#include <span>

namespace heddle {

struct Interval {
  double mean = 0;
  double low = 0;
  double high = 0;
};

// The t with P(|T| <= t) = 0.95 for T of `freedom` degrees of freedom. REQUIRES: freedom >= 1.
double StudentQuantile(int freedom);

// P(|T| > t) for T of `freedom` degrees of freedom. REQUIRES: freedom >= 1, t >= 0.
double BeyondStudent(double t, int freedom);

// Infinite if a value is. REQUIRES: two values at least.
Interval MeanInterval(std::span<const double> values);

// The slope of the least-squares line y = a + slope · x. REQUIRES: three points at least, not all
// at the same x.
Interval FitSlope(std::span<const double> x, std::span<const double> y);

}  // namespace heddle
