// Layers, samples and updates: once each.
#include "mutant.h"

namespace heddle {
namespace {

using testing::HasSubstr;

TEST(CheckCoverageTest, LayerMissing) {
  EXPECT_THAT(Mutant("1-1f1b").Replace("layers 4\n", "layers 5\n").Findings(),
              HasSubstr("layer missing: layer 4, forward, of microbatch 0 is not computed for all "
                        "samples"));
  EXPECT_THAT(Mutant("1-1f1b").Replace("layers 4\n", "layers 1000000\n").Findings(),
              HasSubstr("layer missing: layers 4..999999, backward (weight), of microbatch 0"));
}

TEST(CheckCoverageTest, BackwardOfALayerMissing) {
  // Device 1 passes the gradient on without computing the weight's part of layer 1.
  EXPECT_THAT(
      Mutant("1-1f1b").Replace("segment B1 backward layers 1..1", "segment B1 other").Findings(),
      HasSubstr("layer missing: layer 1, backward (input), of microbatch 0"));
}

TEST(CheckCoverageTest, LayerTwice) {
  EXPECT_THAT(Mutant("1-1f1b")
                  .Replace("segment F1 forward layers 1..1", "segment F1 forward layers 1..2")
                  .Findings(),
              HasSubstr("layer twice: layer 2, forward, of microbatch 0 is computed twice for some "
                        "samples"));
}

TEST(CheckCoverageTest, MicrobatchComputedTwice) {
  EXPECT_THAT(
      Mutant("5-local-sgd").On(1, "compute F #3 ^1", "compute F #3 ^1\ncompute F #3 ^1").Findings(),
      HasSubstr("layer twice: layer 0, forward, of microbatch 3"));
}

TEST(CheckCoverageTest, MicrobatchNotComputedAtAll) {
  EXPECT_THAT(Mutant("5-local-sgd").Replace("samples 8 as 2*4", "samples 10 as 2*5").Findings(),
              HasSubstr("layer missing: microbatch 4 is not computed at all"));
}

TEST(CheckCoverageTest, AMicrobatchWithoutItsBackward) {
  // The gradient of microbatch 2 is that of microbatch 0 once more.
  EXPECT_THAT(Mutant("5-local-sgd").On(0, "compute B #2 ^0", "compute B #0 ^0").Findings(),
              HasSubstr("layer missing: layer 0, backward (input), of microbatch 2"));
}

TEST(CheckCoverageTest, RowsMissing) {
  EXPECT_THAT(Mutant("2-uneven-shares").Replace("samples 8 as 4*2", "samples 10 as 5*2").Findings(),
              HasSubstr("layer missing: layer 0, forward, of microbatch 0 is not computed for all "
                        "samples"));
}

TEST(CheckCoverageTest, SharesWithAGap) {
  EXPECT_THAT(Mutant("2-uneven-shares")
                  .Replace("segment F0.0 forward layers 0..0 rows 0:3",
                           "segment F0.0 forward layers 0..0 rows 0:2")
                  .Findings(),
              HasSubstr("layer missing: layer 0, forward, of microbatch 0"));
}

TEST(CheckCoverageTest, SharesThatOverlap) {
  EXPECT_THAT(Mutant("2-uneven-shares")
                  .Replace("segment F0.0 forward layers 0..0 rows 0:3",
                           "segment F0.0 forward layers 0..0 rows 0:4")
                  .Findings(),
              HasSubstr("layer twice: layer 0, forward, of microbatch 0"));
}

TEST(CheckCoverageTest, JointWorkCountsOnce) {
  // Without the mark three devices compute the same rows.
  EXPECT_THAT(
      Mutant("3-spmd-matmul").Replace("rows 0:4 joint", "rows 0:4", "segment mm.1").Findings(),
      HasSubstr("layer twice: layer 0, forward, of microbatch 0"));
}

TEST(CheckCoverageTest, RecomputationIsNotASecondForward) {
  const std::string text = R"(heddle-program 1
strategy none
samples 2 as 2
updates 0
layers 1

device 0 "a:0"

tensor x f32[2,4] input
tensor y f32[2,4] activation

segment F forward layers 0..0 rows 0:2
  reads x#
segment R forward layers 0..0 rows 0:2 recompute
  reads x#
  writes y#
segment B backward layers 0..0 rows 0:2
  consumes y#

body
on 0
  compute F #0
  compute R #0
  compute B #0
)";
  EXPECT_EQ(Mutant::OfText(text).Findings(), "");
  EXPECT_THAT(Mutant::OfText(text).Replace(" recompute", "").Findings(), HasSubstr("layer twice"));
}

TEST(CheckCoverageTest, UpdateMissing) {
  EXPECT_THAT(Mutant("1-1f1b").On(2, "compute U2", "free g2").Findings(),
              HasSubstr("update missing: device 2 (a:2) updates w2 0 times in the body, not 1"));
  EXPECT_THAT(Mutant("5-local-sgd").Replace("updates 2", "updates 3").Findings(),
              HasSubstr("update missing: device 0 (a:0) updates w 2 times in the body, not 3"));
  EXPECT_THAT(Mutant("4-async-versions").Replace("updates 1", "updates 0").Findings(),
              HasSubstr("update missing: device 1 (a:1) updates w1 1 times in the body, not 0"));
}

// Both parts of a split backward count, and a layer may lack one of them.
TEST(CheckCoverageTest, SplitBackward) {
  EXPECT_THAT(Mutant("6-split-backward")
                  .Replace("segment W0.1 backward_weight layers 0..0", "segment W0.1 other")
                  .Findings(),
              HasSubstr("layer missing: layer 0, backward (weight), of microbatch 0"));
  EXPECT_THAT(Mutant("6-split-backward")
                  .Replace("segment W0.1 backward_weight", "segment W0.1 backward")
                  .Findings(),
              HasSubstr("layer twice: layer 0, backward (input), of microbatch 0"));
}

TEST(CheckCoverageTest, AMicrobatchThatIsNeverDrained) {
  // Forward runs ahead by two microbatches; the epilogue must bring both back.
  EXPECT_THAT(Mutant("4-async-versions")
                  .On(0, "recv d1#i+1 from 1", "", "epilogue")
                  .On(0, "compute B0 #i+1 @i", "free x1#i+1", "epilogue")
                  .On(0, "compute U0 #i+1 @i+1", "", "epilogue")
                  .On(1, "compute F1 #i+1", "", "epilogue")
                  .On(1, "compute B1 #i+1", "free x1#i+1", "epilogue")
                  .On(1, "send d1#i+1 to 0", "", "epilogue")
                  .On(1, "compute U1 #i+1", "", "epilogue")
                  .On(1, "free d1#i+1", "", "epilogue")
                  .Findings(),
              HasSubstr("layer missing: layer 1, forward, of microbatch 4"));
}

TEST(CheckCoverageTest, AMicrobatchWithoutAnyBackward) {
  // Everything that microbatch 1 does is forward: nothing is left behind that would tell.
  const std::string text = R"(heddle-program 1
strategy none
samples 2 as 1*2
updates 1
layers 1

device 0 "a:0" holds w

tensor x f32[1,4] input
tensor loss f32[] loss
tensor w f32[4] parameter
tensor g f32[4] weight_gradient

segment F forward layers 0..0 rows 0:1
  reads x# w
  writes loss#
segment B backward layers 0..0 rows 0:1
  reads x# w
  adds g
segment U update layers 0..0
  consumes g
  changes w

body
on 0
  compute F #0
  compute B #0
  compute F #1
  compute B #1 acc
  compute U
)";
  EXPECT_EQ(Mutant::OfText(text).Findings(), "");
  EXPECT_THAT(Mutant::OfText(text).On(0, "compute B #1 acc", "").Findings(),
              HasSubstr("layer missing: layer 0, backward (input), of microbatch 1"));
}

}  // namespace
}  // namespace heddle
