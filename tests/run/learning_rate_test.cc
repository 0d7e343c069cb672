#include "run/learning_rate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

LearningRate Parsed(const std::string& spec) {
  const auto rate = ParseLearningRate(spec);
  EXPECT_TRUE(rate.ok()) << rate.error().ToString();
  return rate.ok() ? rate.value() : LearningRate{};
}

std::string Refusal(const std::string& spec) {
  const auto rate = ParseLearningRate(spec);
  EXPECT_FALSE(rate.ok()) << spec;
  if (rate.ok()) return "";
  EXPECT_FALSE(rate.error().hint.empty()) << spec;
  EXPECT_THAT(rate.error().where, HasSubstr(spec));
  return rate.error().ToString();
}

TEST(LearningRateTest, Constant) {
  const LearningRate rate = Parsed("constant");
  for (const int64_t step : {0, 5, 1000}) EXPECT_DOUBLE_EQ(rate.At(step, 10, 0.3), 0.3);
}

TEST(LearningRateTest, WarmUpClimbsToTheBase) {
  const LearningRate rate = Parsed("constant:warmup=4");
  EXPECT_DOUBLE_EQ(rate.At(0, 100, 2), 0.5);
  EXPECT_DOUBLE_EQ(rate.At(1, 100, 2), 1);
  EXPECT_DOUBLE_EQ(rate.At(3, 100, 2), 2);
  EXPECT_DOUBLE_EQ(rate.At(4, 100, 2), 2);
  EXPECT_DOUBLE_EQ(rate.At(99, 100, 2), 2);
}

TEST(LearningRateTest, LinearByHand) {
  const LearningRate rate = Parsed("linear:warmup=2,floor=0.2");
  EXPECT_DOUBLE_EQ(rate.At(0, 12, 1), 0.5);
  EXPECT_DOUBLE_EQ(rate.At(2, 12, 1), 1);
  EXPECT_DOUBLE_EQ(rate.At(7, 12, 1), 0.6);    // half of the way from 1 to 0.2
  EXPECT_DOUBLE_EQ(rate.At(11, 12, 1), 0.28);  // nine tenths
  EXPECT_DOUBLE_EQ(rate.At(12, 12, 1), 0.2);
  EXPECT_DOUBLE_EQ(rate.At(500, 12, 1), 0.2);
  EXPECT_DOUBLE_EQ(Parsed("linear").At(5, 10, 8), 4);
}

TEST(LearningRateTest, CosineByHand) {
  const LearningRate rate = Parsed("cosine:warmup=100,floor=0.1");
  EXPECT_DOUBLE_EQ(rate.At(49, 700, 1), 0.5);
  EXPECT_DOUBLE_EQ(rate.At(100, 700, 1), 1);
  EXPECT_NEAR(rate.At(300, 700, 1), 0.1 + 0.9 * 0.75, 1e-15);  // cos(pi / 3) = 1/2
  EXPECT_NEAR(rate.At(400, 700, 1), 0.55, 1e-15);
  EXPECT_NEAR(rate.At(500, 700, 1), 0.1 + 0.9 * 0.25, 1e-15);
  EXPECT_NEAR(rate.At(700, 700, 1), 0.1, 1e-15);
  EXPECT_NEAR(Parsed("cosine").At(1, 4, 4), 2 + std::sqrt(2.0), 1e-15);
}

TEST(LearningRateTest, RunsThatEndWithinTheWarmUp) {
  const LearningRate rate = Parsed("cosine:warmup=10");
  EXPECT_DOUBLE_EQ(rate.At(4, 5, 1), 0.5);
  EXPECT_DOUBLE_EQ(rate.At(10, 10, 1), 1);
  EXPECT_DOUBLE_EQ(rate.At(0, 0, 1), 0.1);
}

TEST(LearningRateTest, SpecsThatAreNone) {
  EXPECT_THAT(Refusal("cosin"), AllOf(HasSubstr("did you mean \"cosine\""), HasSubstr("linear")));
  EXPECT_THAT(Refusal(""), HasSubstr("known: constant, linear, cosine"));
  EXPECT_THAT(Refusal("cosine:warmpu=3"), HasSubstr("did you mean \"warmup\""));
  EXPECT_THAT(Refusal("cosine:warmup"), HasSubstr("not key=value"));
  EXPECT_THAT(Refusal("cosine:"), HasSubstr("not key=value"));
  EXPECT_THAT(Refusal("cosine:warmup=3,"), HasSubstr("not key=value"));
  EXPECT_THAT(Refusal("cosine:warmup=3,warmup=4"), HasSubstr("given twice"));
  EXPECT_THAT(Refusal("constant:floor=0.1"), HasSubstr("no floor"));
  for (const char* value : {"", "-1", "1.5", "x", "9223372036854775807"}) {
    EXPECT_THAT(Refusal(std::string("linear:warmup=") + value), HasSubstr("number of steps"));
  }
  for (const char* value : {"", "-0.1", "1.1", "x", "nan"}) {
    EXPECT_THAT(Refusal(std::string("linear:floor=") + value), HasSubstr("from 0 to 1"));
  }
}

TEST(LearningRateTest, TheShortestText) {
  EXPECT_EQ(Parsed("cosine:floor=0.10,warmup=7").ToString(), "cosine:warmup=7,floor=0.1");
  EXPECT_EQ(Parsed("linear:warmup=0,floor=0").ToString(), "linear");
}

// Up to the base, then down to the floor, never outside; and the text says it all.
RC_GTEST_PROP(LearningRateProperty, UpThenDown, ()) {
  LearningRate rate;
  rate.decay = *rc::gen::element(Decay::kConstant, Decay::kLinear, Decay::kCosine);
  rate.warmup = *rc::gen::inRange<int64_t>(0, 50);
  if (rate.decay != Decay::kConstant) rate.floor = *rc::gen::inRange(0, 100) / 100.0;
  const auto total = *rc::gen::inRange<int64_t>(0, 200);
  double before = 0;
  for (int64_t step = 0; step < total + 10; ++step) {
    const double now = rate.At(step, total, 1);
    RC_ASSERT(now > 0 || rate.floor == 0);
    RC_ASSERT(now <= 1);
    const bool climbs = step < rate.warmup;
    if (step > 0) RC_ASSERT((climbs ? now >= before : now <= before + 1e-15));
    if (step >= rate.warmup) RC_ASSERT(now >= rate.floor - 1e-15);
    before = now;
  }
  const LearningRate again = Parsed(rate.ToString());
  RC_ASSERT(again.decay == rate.decay && again.warmup == rate.warmup && again.floor == rate.floor);
}

}  // namespace
}  // namespace heddle
