#include "run/gradient_noise.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/philox.h"

namespace heddle {
namespace {

// Pairs of updates whose gradients are `signal` in each of 50 elements and normal noise.
std::vector<GradientPair> Pairs(int count, double signal, double sigma, uint64_t seed) {
  const RandomStream stream(seed, "gradient noise");
  uint64_t next = 0;
  std::vector<double> before;
  std::vector<GradientPair> pairs;
  for (int k = 0; k <= count; ++k) {
    std::vector<double> gradient(50);
    for (double& element : gradient) element = signal + sigma * stream.Normal(next++);
    GradientPair pair;
    for (size_t e = 0; e < before.size(); ++e) {
      pair.shared += gradient[e] * before[e];
      pair.square += (gradient[e] * gradient[e] + before[e] * before[e]) / 2;
    }
    if (k > 0) pairs.push_back(pair);
    before = gradient;
  }
  return pairs;
}

TEST(GradientNoiseTest, FindsTheRatioThatIsThere) {
  for (const double sigma : {0.0, 0.5, 1.0, 3.0}) {
    int inside = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const NoiseEstimate found = EstimateNoise(Pairs(400, 1, sigma, seed)).value();
      EXPECT_EQ(found.pairs, 400);
      EXPECT_NEAR(found.ratio, sigma * sigma, 0.4 * sigma * sigma + 1e-9);
      inside += found.low <= sigma * sigma + 1e-9 && sigma * sigma <= found.high + 1e-9 ? 1 : 0;
    }
    EXPECT_GE(inside, 34) << sigma;  // 38 expected
  }
}

// No gradient, all noise: that is what is said.
TEST(GradientNoiseTest, SaysWhenItCannotTell) {
  int unsure = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const NoiseEstimate found = EstimateNoise(Pairs(100, 0, 1, seed)).value();
    unsure += std::isinf(found.high) ? 1 : 0;
    EXPECT_GT(found.low, 3) << seed;
  }
  EXPECT_GE(unsure, 17);
  EXPECT_EQ(EstimateNoise(Pairs(19, 1, 1, 0)), std::nullopt);
}

}  // namespace
}  // namespace heddle
