#include "report/tried_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<TriedPlan> TwoPlans() {
  return {{"ratios by compute", 10e-3, 8e-3, "b:0", 3 << 20, 12 << 20},
          {"even ratios", 12.5e-3, 12e-3, "a:0", 6 << 20, 12 << 20}};
}

TEST(TriedPlansTest, TheWholeText) {
  EXPECT_EQ(TriedText(TwoPlans(), {.width = 90}, false),
            R"(tried              simulated  computes    waits  fullest memory
─────────────────  ─────────  ────────  ───────  ──────────────
ratios by compute    10.0 ms   8.00 ms  2.00 ms  b:0 25%
even ratios          12.5 ms   12.0 ms   500 us  a:0 50%
The runner-up (even ratios) takes 2.50 ms longer (25.0%): its busiest device computes 4.00
  ms longer, and waits 1.50 ms less for exchanges and for others.
)");
}

TEST(TriedPlansTest, WhatDoesNotFit) {
  std::vector<TriedPlan> tried = TwoPlans();
  tried[1].peak_bytes = 24 << 20;
  EXPECT_THAT(TriedText(tried, {}, false),
              HasSubstr("The runner-up (even ratios) would take 12.5 ms, but "
                        "needs 24.0 MiB on a:0, which has 12.0 MiB."));
}

TEST(TriedPlansTest, MemoryThatNobodyAskedFor) {
  std::vector<TriedPlan> tried = TwoPlans();
  tried[1].fullest.clear();
  tried[1].peak_bytes = tried[1].capacity_bytes = 0;
  EXPECT_THAT(TriedText(tried, {}, false), HasSubstr("12.5 ms   12.0 ms   500 us  -\n"));
}

TEST(TriedPlansTest, NoDifference) {
  std::vector<TriedPlan> tried = TwoPlans();
  tried[1].iteration_seconds = tried[0].iteration_seconds;
  EXPECT_THAT(TriedText(tried, {}, false), HasSubstr("The runner-up (even ratios) takes as long."));
}

TEST(TriedPlansTest, OfManyTheBest) {
  std::vector<TriedPlan> tried = TwoPlans();
  tried.resize(40, tried[1]);
  EXPECT_THAT(TriedText(tried, {}, false), HasSubstr("\n… 35 slower ones\n"));
  EXPECT_THAT(TriedText(tried, {}, true), Not(HasSubstr("slower ones")));
}

}  // namespace
}  // namespace heddle
