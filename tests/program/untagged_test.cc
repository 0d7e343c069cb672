// Which Programs libraries without message tags can carry, and how lowering makes its own so.
#include "program/check/untagged.h"

#include <rapidcheck/gtest.h>

#include "mutant.h"
#include "program/lower/post_order.h"
#include "program/walk.h"
#include "random_plan.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// Two tensors go from one device to the other; {} is the receiver's list.
constexpr char kTwo[] = R"(heddle-program 1
strategy none
samples 1 as 1
updates 0
layers 0

device 0 "a:0" holds p q
device 1 "a:1"

tensor p f32[4] state
tensor q f32[4] state

body
on 0
  send p to 1 tag 1
  send q to 1 tag 2
on 1
)";

Program Two(const std::string& receiver) { return ParseProgram(kTwo + receiver, "two").value(); }

std::string ReceiverOf(const Program& program) {
  std::string text;
  for (const Instruction& in : program.devices[1].list(Section::kBody)) {
    text += PrintInstruction(program, program.devices[1], in) + "; ";
  }
  return text;
}

TEST(UntaggedTest, TheSameOrderNeedsNoTags) {
  const Program program = Two("  recv p from 0 tag 1\n  recv q from 0 tag 2\n  free q\n  free p\n");
  EXPECT_EQ(FindingsOf(CheckProgram(program, {})), "");
  EXPECT_EQ(NeedsTags(program), std::nullopt);
}

TEST(UntaggedTest, AnotherOrderDoes) {
  const Program program = Two("  recv q from 0 tag 2\n  recv p from 0 tag 1\n  free q\n  free p\n");
  EXPECT_EQ(FindingsOf(CheckProgram(program, {})), "");
  EXPECT_THAT(NeedsTags(program).value(),
              HasSubstr("device 0 (a:0), body 0, instruction 0: send p to 1 tag 1 would meet "
                        "device 1 (a:1), body 0, instruction 0: recv q from 0 tag 2"));
}

TEST(UntaggedTest, ReceivesAreBroughtForward) {
  Program program = Two("  recv q from 0 tag 2\n  free q\n  recv p from 0 tag 1\n  free p\n");
  ASSERT_TRUE(NeedsTags(program));
  OrderReceives(program);
  EXPECT_EQ(NeedsTags(program), std::nullopt);
  EXPECT_EQ(FindingsOf(CheckProgram(program, {})), "");
  EXPECT_EQ(ReceiverOf(program), "recv p from 0 tag 1; recv q from 0 tag 2; free q; free p; ");
}

TEST(UntaggedTest, WhatIsInOrderStaysAsItIs) {
  for (const std::string& name : GoldenPrograms()) {
    Program program = GoldenProgram(name);
    if (NeedsTags(program)) continue;
    OrderReceives(program);
    EXPECT_EQ(PrintProgram(program), PrintProgram(GoldenProgram(name))) << name;
  }
}

// Orders of work that no planner would choose may cross in ways that receives alone cannot mend;
// whatever is done, the Program stays as good as it was.
RC_GTEST_PROP(UntaggedProperty, OrderingHarmsNoProgram, ()) {
  const auto seed = *rc::gen::arbitrary<uint32_t>();
  for (const PlanKind kind :
       {PlanKind::kFlush, PlanKind::kServed, PlanKind::kAsync, PlanKind::kLocal}) {
    const RandomPlan random(seed, kind);
    Program program = LowerPlan(random.plan(), random.graph()).value();
    OrderReceives(program);
    RC_ASSERT(FindingsOf(CheckProgram(program, {&random.graph(), {}})) == "");
  }
}

}  // namespace
}  // namespace heddle
