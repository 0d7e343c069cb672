#include "run/meet/store_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle {
namespace {

using testing::HasSubstr;

TEST(StoreTableTest, SetGetCheckDeleteCount) {
  StoreTable table;
  EXPECT_EQ(table.Apply({.op = StoreOp::kGet, .keys = {"a"}})->answer, StoreAnswer::kNo);
  EXPECT_EQ(table.Apply({.op = StoreOp::kSet, .keys = {"a"}, .value = "1"})->answer,
            StoreAnswer::kDone);
  EXPECT_EQ(table.Apply({.op = StoreOp::kGet, .keys = {"a"}})->value, "1");
  EXPECT_EQ(table.Apply({.op = StoreOp::kCheck, .keys = {"a", "b"}})->answer, StoreAnswer::kNo);
  EXPECT_FALSE(table.Apply({.op = StoreOp::kWait, .keys = {"a", "b"}}).has_value());
  EXPECT_EQ(table.Apply({.op = StoreOp::kWait, .keys = {"a"}})->answer, StoreAnswer::kDone);
  EXPECT_EQ(table.Apply({.op = StoreOp::kCount})->number, 1);
  EXPECT_EQ(table.Apply({.op = StoreOp::kDelete, .keys = {"a"}})->answer, StoreAnswer::kDone);
  EXPECT_EQ(table.Apply({.op = StoreOp::kDelete, .keys = {"a"}})->answer, StoreAnswer::kNo);
  EXPECT_EQ(table.bytes(), 0U);
}

TEST(StoreTableTest, NumbersAreAdded) {
  StoreTable table;
  const auto add = [&](int64_t number) {
    return *table.Apply({.op = StoreOp::kAdd, .keys = {"n"}, .number = number});
  };
  EXPECT_EQ(add(3).number, 3);
  EXPECT_EQ(add(-5).number, -2);
  EXPECT_EQ(add(INT64_MIN).answer, StoreAnswer::kRefused);
  table.Apply({.op = StoreOp::kSet, .keys = {"n"}, .value = "x"});
  EXPECT_THAT(add(1).value, HasSubstr("is no number"));
}

TEST(StoreTableTest, OneOfManyIsTheFirst) {
  StoreTable table;
  const auto claim = [&](const std::string& name) {
    return table.Apply({.op = StoreOp::kCompareSet, .keys = {"k"}, .value = name})->value;
  };
  EXPECT_EQ(claim("a"), "a");
  EXPECT_EQ(claim("b"), "a");
  table.SetIfAbsent("k", "c");
  EXPECT_EQ(table.Apply({.op = StoreOp::kGet, .keys = {"k"}})->value, "a");
}

TEST(StoreTableTest, ItHoldsNoMoreThanItMay) {
  StoreTable table;
  const std::string large(StoreLimits::kValueBytes, 'v');
  std::optional<StoreReply> last;
  for (int k = 0; k < 300; ++k) {
    last = table.Apply({.op = StoreOp::kSet, .keys = {std::to_string(k)}, .value = large});
    if (last->answer == StoreAnswer::kRefused) break;
  }
  EXPECT_EQ(last->value, "the store is full");
  EXPECT_LE(table.bytes(), StoreLimits::kStoreBytes);
  // What is there may be replaced.
  EXPECT_EQ(table.Apply({.op = StoreOp::kSet, .keys = {"0"}, .value = large})->answer,
            StoreAnswer::kDone);
}

}  // namespace
}  // namespace heddle
