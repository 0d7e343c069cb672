#include "run/share/turn_count.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "program/text/program_text.h"
#include "support/places.h"

namespace heddle {
namespace {

// Two replicas; gradients in two sums, the first of which goes while backward goes on.
constexpr char kDataParallel[] = R"(heddle-program 1
strategy by-hand
samples 4 as 4
updates 1
layers 2

device 0 "a:0" holds w0 w1
device 1 "b:0" holds w0 w1

group g 0 1

tensor x f32[4,8] input
tensor h f32[4,8] activation
tensor dh f32[4,8] gradient
tensor loss f32[] loss
tensor w0 f32[8,8] parameter
tensor w1 f32[8,8] parameter
tensor g0 f32[8,8] weight_gradient
tensor g1 f32[8,8] weight_gradient

segment F forward layers 0..1 rows 0:2 time 0.001 s
  reads x#[0:2] w0 w1
  writes h#[0:2] loss#
segment B1 backward layers 1..1 rows 0:2 time 0.001 s
  consumes h#[0:2]
  writes dh#[0:2] g1
segment B0 backward layers 0..0 rows 0:2 time 0.001 s
  consumes dh#[0:2]
  writes g0
segment U1 update time 0.001 s
  consumes g1
  changes w1
segment U0 update time 0.001 s
  consumes g0
  changes w0

body
)";

constexpr char kLists[] = R"(on 0
  compute F #0
  compute B1 #0
  all-reduce g1 over g ring
  compute B0 #0
  all-reduce g0 over g ring
  compute U1
  compute U0
on 1
  compute F #0
  compute B1 #0
  all-reduce g1 over g ring
  compute B0 #0
  all-reduce g0 over g ring
  compute U1
  compute U0
)";

Program Parse(const std::string& text) {
  Result<Program> program = ParseProgram(text, "test");
  EXPECT_TRUE(program.ok()) << (program.ok() ? "" : program.error().ToString());
  return program.ok() ? std::move(program).value() : Program{};
}

TEST(TurnCount, ADataParallelStepIsOneTurnHoweverManySums) {
  const Program program = Parse(std::string(kDataParallel) + kLists);
  ASSERT_EQ(program.devices.size(), 2U);
  EXPECT_TRUE(TakesWholeSteps(program));
  // Forward and backward of the first step; then update, forward and backward; the last update.
  EXPECT_EQ(CountTurns(program, 0, 1).value(), 2);
  EXPECT_EQ(CountTurns(program, 1, 2).value(), 3);
  EXPECT_EQ(CountTurns(program, 0, 100).value(), 101);
}

TEST(TurnCount, APipelineTakesDevicesAsTheyCome) {
  const Program program =
      Parse(ReadFile(SourceDir() + "/examples/04-hand-written-program.heddle").value());
  EXPECT_FALSE(TakesWholeSteps(program));
  EXPECT_GT(CountTurns(program, 0, 1).value(), 1);
}

}  // namespace
}  // namespace heddle
