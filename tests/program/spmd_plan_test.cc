#include "program/plan/spmd_plan.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

std::vector<int64_t> Sizes(int64_t extent, const std::vector<double>& ratios) {
  std::vector<int64_t> sizes;
  int64_t begin = 0;
  for (const Range& range : ShardRanges(extent, ratios)) {
    EXPECT_EQ(range.begin, begin);
    begin = range.end;
    sizes.push_back(range.size());
  }
  EXPECT_EQ(begin, extent);
  return sizes;
}

using Int64s = std::vector<int64_t>;

TEST(ShardRangesTest, LargestRemainder) {
  EXPECT_EQ(Sizes(10, {0.5, 0.3, 0.2}), (Int64s{5, 3, 2}));
  EXPECT_EQ(Sizes(10, {0.48, 0.33, 0.19}), (Int64s{5, 3, 2}));
  EXPECT_EQ(Sizes(3, {0.5, 0.5}), (Int64s{2, 1}));
  EXPECT_EQ(Sizes(12, {0.8, 0.2, 0}), (Int64s{10, 2, 0}));
  EXPECT_EQ(Sizes(1, {0.2, 0.7, 0.1}), (Int64s{0, 1, 0}));
  EXPECT_EQ(Sizes(7, {1.0 / 7, 2.0 / 7, 4.0 / 7}), (Int64s{1, 2, 4}));
}

TEST(ShardOfTest, TwoAxes) {
  SpmdPlan plan;
  plan.mesh = {{"a:0", "a:1"}, {"b:0", "b:1"}};
  plan.ratios = {{{{0.75, 0.25}}, {{0.5, 0.5}}}};
  const std::vector<int64_t> shape = {8, 6};
  const auto all = ShardState::Replicated();
  EXPECT_EQ(ShardOf(shape, {all, ShardState::Partial()}, plan, {1, 1}), (Slice{{0, 8}, {0, 6}}));
  EXPECT_EQ(ShardOf(shape, {ShardState::Sharded(0), ShardState::Sharded(1)}, plan, {0, 1}),
            (Slice{{0, 6}, {3, 6}}));
  EXPECT_EQ(ShardOf(shape, {ShardState::Sharded(0), ShardState::Sharded(0)}, plan, {1, 1}),
            (Slice{{7, 8}, {0, 6}}));
}

}  // namespace
}  // namespace heddle
