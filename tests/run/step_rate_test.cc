#include "run/step_rate.h"

#include <gtest/gtest.h>

namespace heddle {
namespace {

TEST(StepRateTest, IsThatOfTheStepsAfterTheFirst) {
  StepRate rate;
  EXPECT_EQ(rate.per_second(), 0);
  rate.Add(0.5);
  EXPECT_EQ(rate.per_second(), 2);
  for (int step = 0; step < 3; ++step) rate.Add(0.125);
  EXPECT_EQ(rate.per_second(), 8);
}

TEST(StepRateTest, StepsWithoutTimeHaveNone) {
  StepRate rate;
  rate.Add(0);
  rate.Add(0);
  EXPECT_EQ(rate.per_second(), 0);
}

}  // namespace
}  // namespace heddle
