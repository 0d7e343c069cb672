#include "lab/replay.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

// The law, out of the Program and the simulator: max ⌊S² - S/2⌋, mean (S² - 1)/2, own S - 1 - s.
TEST(ReplayTest, TheLawOfDelays) {
  for (int s = 1; s <= 32; ++s) {
    ReplayOptions options;
    options.clock.stages = s;
    const Result<DelayCounts> counts = ReplayedDelays(options);
    ASSERT_TRUE(counts.ok()) << s << ": " << counts.error().ToString();
    EXPECT_EQ(counts.value().most, s * s - (s + 1) / 2) << s;
    EXPECT_NEAR(counts.value().mean, (s * s - 1) / 2.0, 1e-9) << s;
    for (int k = 0; k < s; ++k) {
      EXPECT_EQ(counts.value().own[static_cast<size_t>(k)], s - 1 - k) << s;
    }
  }
}

// Where no closed form is known, the lab's own schedule must find the same.
TEST(ReplayTest, LongerBackwardsAndLatency) {
  for (const int s : {2, 3, 5, 8}) {
    for (const auto& [backward, latency] : {std::pair{2, 0}, {1, 1}, {2, 1}, {3, 2}}) {
      ReplayOptions options;
      options.clock = {s, 1, backward, latency};
      const Result<DelayCounts> replayed = ReplayedDelays(options);
      ASSERT_TRUE(replayed.ok());
      const DelayCounts expected = SteadyDelays(options.clock);
      EXPECT_EQ(replayed.value().most, expected.most) << s << " " << backward << " " << latency;
      EXPECT_NEAR(replayed.value().mean, expected.mean, 1e-9)
          << s << " " << backward << " " << latency;
    }
  }
}

TEST(ReplayTest, AStageThatIsSlow) {
  ReplayOptions options;
  options.clock.stages = 4;
  options.slowness = {1, 3, 1, 1};
  const Result<DelayCounts> counts = ReplayedDelays(options);
  ASSERT_TRUE(counts.ok());
  EXPECT_EQ(counts.value().own, (std::vector<int64_t>{3, 2, 1, 0}));
}

}  // namespace
}  // namespace heddle
