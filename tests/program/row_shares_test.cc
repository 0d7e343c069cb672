#include "program/plan/row_shares.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <numeric>

namespace heddle {
namespace {

using Rows = std::vector<int64_t>;

// "0:3 3:4"
std::string Divided(int64_t rows, const std::vector<double>& shares) {
  std::string text;
  for (const Range& range : DivideRows(rows, shares)) {
    if (!text.empty()) text += ' ';
    text += std::to_string(range.begin) + ":" + std::to_string(range.end);
  }
  return text;
}

TEST(RowSharesTest, MicrobatchesOfABatch) {
  EXPECT_EQ(MicrobatchRows(8, 4), (Rows{2, 2, 2, 2}));
  // [0,2) [2,4) [4,7) and [7,10) of ten: the floors of multiples of 2.5.
  EXPECT_EQ(MicrobatchRows(10, 4), (Rows{2, 3, 2, 3}));
  EXPECT_EQ(MicrobatchRows(3, 3), (Rows{1, 1, 1}));
  EXPECT_EQ(MicrobatchRows(1, 3), (Rows{0, 0, 1}));
}

TEST(RowSharesTest, LargestRemainder) {
  EXPECT_EQ(Divided(4, {3, 1}), "0:3 3:4");
  EXPECT_EQ(Divided(4, {1, 1}), "0:2 2:4");
  // 5/3 and 10/3: floors 1 and 3, the rest to the larger remainder.
  EXPECT_EQ(Divided(5, {1, 2}), "0:2 2:5");
  // 7 * (0.5, 0.3, 0.2) = 3.5, 2.1, 1.4
  EXPECT_EQ(Divided(7, {5, 3, 2}), "0:4 4:6 6:7");
}

TEST(RowSharesTest, TiesGoToTheEarlierDevice) {
  EXPECT_EQ(Divided(1, {1, 1}), "0:1 1:1");
  EXPECT_EQ(Divided(5, {1, 1, 1}), "0:2 2:4 4:5");
}

TEST(RowSharesTest, NothingForSome) {
  EXPECT_EQ(Divided(4, {1, 0, 1}), "0:2 2:2 2:4");
  EXPECT_EQ(Divided(2, {10, 1}), "0:2 2:2");
  EXPECT_EQ(Divided(0, {1, 1}), "0:0 0:0");
}

TEST(RowSharesTest, SharesAreRelative) {
  EXPECT_EQ(Divided(10, {0.7, 0.3}), Divided(10, {7e11, 3e11}));
  EXPECT_EQ(Divided(10, {0.7, 0.3}), "0:7 7:10");
}

RC_GTEST_PROP(RowSharesProperty, MicrobatchesAddUpAndAreAlike, ()) {
  const auto batch = *rc::gen::inRange<int64_t>(1, 5000);
  const auto count = *rc::gen::inRange<int64_t>(1, 300);
  const Rows rows = MicrobatchRows(batch, count);
  RC_ASSERT(std::accumulate(rows.begin(), rows.end(), int64_t{0}) == batch);
  const auto [least, most] = std::minmax_element(rows.begin(), rows.end());
  RC_ASSERT(*most - *least <= 1);
}

// Contiguous, complete, and each within one row of its exact share.
RC_GTEST_PROP(RowSharesProperty, EveryRowOnce, ()) {
  const auto rows = *rc::gen::inRange<int64_t>(0, 1000);
  const auto weights = *rc::gen::nonEmpty<std::vector<int>>(
      rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 50)));
  std::vector<double> shares(weights.begin(), weights.end());
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  RC_PRE(total > 0);
  const std::vector<Range> ranges = DivideRows(rows, shares);
  RC_ASSERT(ranges.size() == shares.size());
  int64_t at = 0;
  for (size_t k = 0; k < ranges.size(); ++k) {
    RC_ASSERT(ranges[k].begin == at);
    at = ranges[k].end;
    const double exact = static_cast<double>(rows) * shares[k] / total;
    RC_ASSERT(std::abs(static_cast<double>(ranges[k].size()) - exact) < 1);
    if (shares[k] == 0) RC_ASSERT(ranges[k].size() == 0);
  }
  RC_ASSERT(at == rows);
}

}  // namespace
}  // namespace heddle
