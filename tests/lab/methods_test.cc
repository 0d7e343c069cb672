// What holds for every method.

#include "lab/methods.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ground.h"

namespace heddle {
namespace {

TEST(MethodsTest, DivergenceIsSaidNotPrinted) {
  for (const Method& method : Methods()) {
    Ground ground(SmallQuadratic(), {.stages = 4}, 0.1, 2000);
    ground.step_size = 50;
    const Curve curve = method.run(ground.trial());
    EXPECT_TRUE(curve.diverged) << method.name;
    EXPECT_EQ(curve.losses.size(), 7U);
    EXPECT_TRUE(std::isinf(curve.last())) << method.name;
    for (const double loss : curve.losses) EXPECT_FALSE(std::isnan(loss)) << method.name;
  }
}

TEST(MethodsTest, NamesAreOfferedWhenMistyped) {
  const auto found = FindMethod("gpip");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().hint.find("\"gpipe\""), std::string::npos);
}

}  // namespace
}  // namespace heddle
