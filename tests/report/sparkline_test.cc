#include "report/sparkline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace heddle {
namespace {

TEST(SparklineTest, FromHighToLow) {
  EXPECT_EQ(Sparkline(std::vector<double>{4, 3, 2, 1}, 4), "█▆▃▁");
  EXPECT_EQ(Sparkline(std::vector<double>{1, 1, 1}, 10), "▁▁▁");
  EXPECT_EQ(Sparkline(std::vector<double>{}, 10), "");
  EXPECT_EQ(Sparkline(std::vector<double>{1, 2}, 0), "");
}

TEST(SparklineTest, ManyValuesShareAColumn) {
  EXPECT_EQ(Sparkline(std::vector<double>{0, 0, 1, 1, 2, 2}, 3), "▁▅█");
}

TEST(SparklineTest, WhatIsNoNumberShows) {
  EXPECT_EQ(Sparkline(std::vector<double>{1, NAN, 0, INFINITY}, 4), "█?▁?");
}

}  // namespace
}  // namespace heddle
