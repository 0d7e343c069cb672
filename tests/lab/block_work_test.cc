#include "lab/block_work.h"

#include <gtest/gtest.h>

#include <vector>

namespace heddle {
namespace {

TEST(BlockWork, EqualStages) {
  for (const int stages : {1, 2, 8, 32}) {
    const double s = stages;
    // A backward in one piece, as long as a forward: ticks.
    const std::vector<BlockWork> ticks(static_cast<size_t>(stages), {1, 1, 0});
    EXPECT_DOUBLE_EQ(WorkOfUpdates(ticks).pipedream, 2);
    EXPECT_DOUBLE_EQ(WorkOfUpdates(ticks).ratio(), (s + (s + 1) / 2) / 2) << "0.75 S + 0.25";
    const std::vector<BlockWork> halves(static_cast<size_t>(stages), {1, 1, 1});
    EXPECT_DOUBLE_EQ(WorkOfUpdates(halves).ratio(), (s + (s - 1) / 2 + 2) / 3);
  }
}

TEST(BlockWork, UnequalStagesByHand) {
  const std::vector<BlockWork> blocks = {{1, 0, 3}, {2, 4, 5}};
  const UpdateWork work = WorkOfUpdates(blocks);
  EXPECT_DOUBLE_EQ(work.pipedream, (4 + 11) / 2.0);
  // Block 0: both forwards, the input of block 1, its own. Block 1: both forwards, its own.
  EXPECT_DOUBLE_EQ(work.randomized, ((3 + 4 + 3) + (3 + 9)) / 2.0);
}

}  // namespace
}  // namespace heddle
