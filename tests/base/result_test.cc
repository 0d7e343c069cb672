#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace heddle {
namespace {

Result<int> Half(int number) {
  if (number % 2 != 0) return BadInput("f.txt:3", "odd", "use an even number");
  return number / 2;
}

Result<int> Quarter(int number) {
  HEDDLE_ASSIGN(const int half, Half(number));
  HEDDLE_RETURN_IF_ERROR(Half(half));
  return Half(half);
}

TEST(ResultTest, ValueOrError) {
  EXPECT_EQ(Quarter(8).value(), 2);
  ASSERT_FALSE(Quarter(6).ok());
  EXPECT_EQ(Quarter(6).error().ToString(), "f.txt:3: odd\n  hint: use an even number");
}

TEST(ResultTest, MessagesLeaveOutWhatIsEmpty) {
  EXPECT_EQ(BadInput("", "odd").ToString(), "odd");
  EXPECT_EQ(BadInput("f", "odd").ToString(), "f: odd");
}

TEST(ResultTest, KindsAreExitCodes) {
  EXPECT_EQ(static_cast<int>(BadInput("", "").kind), 4);
  EXPECT_EQ(static_cast<int>(Infeasible("", "").kind), 3);
  EXPECT_EQ(static_cast<int>(Usage("").kind), 2);
  EXPECT_EQ(static_cast<int>(Error{}.kind), 1);
}

TEST(ResultTest, ValuesMoveOut) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> value = std::move(result).value();
  EXPECT_EQ(*value, 7);
}

TEST(ResultDeathTest, TheWrongHalfIsAProgrammersError) {
  EXPECT_DEATH((void)Half(3).value(), "check failed: ok\\(\\)");
  EXPECT_DEATH((void)Half(4).error(), "check failed");
}

}  // namespace
}  // namespace heddle
