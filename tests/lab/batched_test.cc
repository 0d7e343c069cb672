// GPipe and 2BW.

#include "lab/batched.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ground.h"

namespace heddle {
namespace {

TEST(BatchedTest, GpipeIsSgdOnMeanGradients) {
  for (const double sigma : {0.0, 0.3}) {
    Ground ground(SmallQuadratic(), {.stages = 3}, sigma);
    EXPECT_EQ(RunNamed("gpipe", ground).losses, SgdReference(ground, 2 * 3 + 2 * 2, 3).losses);
    ground.options.microbatches = 5;
    EXPECT_EQ(RunNamed("gpipe", ground).losses, SgdReference(ground, 2 * 5 + 2 * 2, 5).losses);
  }
  const Ground ground(SmallLogistic(), {.stages = 4, .backward = 2}, 0.1);
  EXPECT_EQ(RunNamed("gpipe", ground).losses, SgdReference(ground, 7 * 3, 4).losses);
}

// W(t+1) = W(t) - γ g(W(t-1)); stage s ends its update of batch t at tick 2((t+1)M - 1) + 2S - s.
TEST(BatchedTest, TwoVersionsAreOneBatchOld) {
  for (const int64_t batch : {4, 6}) {
    Ground ground(SmallQuadratic(), {.stages = 4}, 0.3);
    ground.options.microbatches = batch;
    const Ground quiet(SmallQuadratic(), {.stages = 4}, 0);
    const auto blocks = SplitBlocks(ground.objective->dimension(), 4);
    std::vector<std::vector<double>> versions = {ground.objective->Start(kSeed)};
    for (int64_t t = 0; 2 * t * batch < ground.options.ticks; ++t) {
      const std::vector<double>& read = versions[static_cast<size_t>(std::max<int64_t>(0, t - 1))];
      std::vector<double> next = versions.back();
      const auto gradient = quiet.FullGradient(read, 0);
      for (size_t k = 0; k < next.size(); ++k) {
        double sum = 0;
        for (int64_t m = t * batch; m < (t + 1) * batch; ++m) {
          const int64_t index = m * ground.objective->dimension() + static_cast<int64_t>(k);
          if (index >= ground.noise.size()) break;  // beyond the end of the race
          sum += ground.sigma * static_cast<double>(*ground.noise.At(index));
        }
        next[k] -= ground.step_size * (gradient[k] + sum / static_cast<double>(batch));
      }
      versions.push_back(next);
    }
    const Curve curve = RunNamed("2bw", ground);
    for (int point = 0; point < ground.options.points; ++point) {
      std::vector<double> at;
      for (int s = 0; s < 4; ++s) {
        const int64_t late = PointTick(ground.options, point) - (2 * (batch - 1) + 8 - s);
        const int64_t updates = late < 0 ? 0 : late / (2 * batch) + 1;
        const auto& version = versions[static_cast<size_t>(updates)];
        const Block& block = blocks[static_cast<size_t>(s)];
        at.insert(at.end(), version.begin() + block.begin, version.begin() + block.end);
      }
      EXPECT_EQ(curve.losses[static_cast<size_t>(point)], ground.objective->Loss(at.data()));
    }
  }
}

}  // namespace
}  // namespace heddle
