#include "program/plan/order_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace heddle {
namespace {

using testing::HasSubstr;

// "F0 B0 F1.1": every item with its number.
std::string Spelled(const WorkOrder& order) {
  std::string text;
  for (const WorkItem& item : order) {
    if (!text.empty()) text += ' ';
    text += static_cast<char>(item.kind) + std::to_string(item.microbatch);
    if (item.chunk != 0) text += "." + std::to_string(item.chunk);
  }
  return text;
}

std::string Read(const std::string& text) {
  const Result<WorkOrder> order = ParseOrder(text, "stage");
  return order.ok() ? Spelled(order.value()) : order.error().ToString();
}

TEST(OrderTextTest, OneForwardOneBackward) {
  // The first of four stages, eight microbatches.
  const std::string text = "F*3 (F B)*5 B*3";
  EXPECT_EQ(Read(text), "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
  // The same order, and as short.
  EXPECT_EQ(PrintOrder(ParseOrder(text, "").value()), "F*4 (B F)*4 B*4");
}

TEST(OrderTextTest, SplitBackward) {
  const std::string text = "F*2 (F I W)*2 (I W)*2";
  EXPECT_EQ(Read(text), "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
}

TEST(OrderTextTest, ChunksCountByThemselves) {
  EXPECT_EQ(Read("F*2 F.1*2 (B.1 B)*2"), "F0 F1 F0.1 F1.1 B0.1 B0 B1.1 B1");
  EXPECT_EQ(PrintOrder(ParseOrder("F F F.1 F.1 B.1 B B.1 B", "").value()), "F*2 F.1*2 (B.1 B)*2");
}

TEST(OrderTextTest, GivenNumbersAreGoneOnFrom) {
  EXPECT_EQ(Read("F4 F*2 B6 B4 B"), "F4 F5 F6 B6 B4 B5");
  EXPECT_EQ(Read("F1*2"), "F1 F1");
  EXPECT_EQ(PrintOrder(ParseOrder("F4 F5 F6 B6 B4 B5", "").value()), "F4 F*2 B6 B4 B");
}

TEST(OrderTextTest, BracketsNest) {
  EXPECT_EQ(Read("((F B)*2 F)*2"), "F0 B0 F1 B1 F2 F3 B2 F4 B3 F5");
  EXPECT_EQ(Read(""), "");
  EXPECT_EQ(Read("  F   B "), "F0 B0");
}

TEST(OrderTextTest, Errors) {
  EXPECT_THAT(Read("F X"), HasSubstr("stage: expected F, B, I or W at character 3 of the order"));
  EXPECT_THAT(Read("F X"), HasSubstr("e.g. \"F*3 (F B)*5 B*3\""));
  EXPECT_THAT(Read("(F B"), HasSubstr("missing ')'"));
  EXPECT_THAT(Read("F) B"), HasSubstr("unexpected ')'"));
  EXPECT_THAT(Read("F*"), HasSubstr("expected a number"));
  EXPECT_THAT(Read("F*-1"), HasSubstr("expected a number"));
  EXPECT_THAT(Read("F*0"), HasSubstr("nothing is done 0 times"));
  EXPECT_THAT(Read("F.B"), HasSubstr("expected a number"));
  EXPECT_THAT(Read("F99999999999999999999"), HasSubstr("expected a number"));
  EXPECT_THAT(Read("f"), HasSubstr("expected F, B, I or W"));
  EXPECT_THAT(Read("(((((((((F)))))))))"), HasSubstr("nested too deeply"));
}

// A few characters must not ask for gigabytes, nor for minutes.
TEST(OrderTextTest, HostileRepetitions) {
  EXPECT_THAT(Read("F*16000000"), HasSubstr("too long"));
  EXPECT_THAT(Read("(F*2000)*16000000"), HasSubstr("too long"));
  EXPECT_THAT(Read("((((F*60)*60)*60)*60)*60"), HasSubstr("too long"));
  std::string nothing;
  for (int k = 0; k < 2000; ++k) nothing += "()*16000000 ";
  EXPECT_THAT(Read(nothing), HasSubstr("nothing to repeat"));
}

RC_GTEST_PROP(OrderTextProperty, ParseAfterPrintIsIdentity, ()) {
  const auto item = rc::gen::build<WorkItem>(
      rc::gen::set(&WorkItem::kind, rc::gen::element(WorkKind::kForward, WorkKind::kBackward,
                                                     WorkKind::kInput, WorkKind::kWeight)),
      rc::gen::set(&WorkItem::chunk, rc::gen::inRange(0, 3)),
      rc::gen::set(&WorkItem::microbatch, rc::gen::inRange(0, 4)));
  const WorkOrder order = *rc::gen::container<WorkOrder>(item);
  const Result<WorkOrder> parsed = ParseOrder(PrintOrder(order), "");
  RC_ASSERT(parsed.ok());
  RC_ASSERT(parsed.value() == order);
}

// Orders as planners make them: warm-up, a steady part, cool-down.
RC_GTEST_PROP(OrderTextProperty, RegularOrdersArePrintedShort, ()) {
  const int warm = *rc::gen::inRange(0, 40);
  const int steady = *rc::gen::inRange(2, 400);
  WorkOrder order;
  int32_t forward = 0, backward = 0;
  for (int k = 0; k < warm; ++k) order.push_back({WorkKind::kForward, 0, forward++});
  for (int k = 0; k < steady; ++k) {
    order.push_back({WorkKind::kForward, 0, forward++});
    order.push_back({WorkKind::kBackward, 0, backward++});
  }
  while (backward < forward) order.push_back({WorkKind::kBackward, 0, backward++});
  const std::string text = PrintOrder(order);
  RC_ASSERT(text.size() < 40U);
  RC_ASSERT(ParseOrder(text, "").value() == order);
}

}  // namespace
}  // namespace heddle
