// Faults in the life of buffers, planted into the golden Programs.
#include "mutant.h"

namespace heddle {
namespace {

using testing::HasSubstr;

TEST(CheckBuffersTest, ReadBeforeWrite) {
  EXPECT_THAT(Mutant("1-1f1b").On(0, "compute F0 #0", "").Findings(),
              HasSubstr("read before write: device 0 (a:0), body 0, instruction 0: send x1#0 to 1: "
                        "x1#0 is used before it is written"));
}

TEST(CheckBuffersTest, ReadOfAPartThatNobodyWrote) {
  const std::string found = Mutant("2-uneven-shares")
                                .On(3, "recv x1#0[3:4] from 1", "")
                                .On(1, "send x1#0[3:4] to 3", "")
                                .Findings();
  EXPECT_THAT(found, HasSubstr("read before write: device 3 (b:1), body 0, instruction 3: compute "
                               "F1.1 #0: x1#0[2:4] is not wholly written yet"));
}

TEST(CheckBuffersTest, GradientAddedToNothing) {
  EXPECT_THAT(Mutant("1-1f1b").On(3, "compute B3 #0", "compute B3 #0 acc").Findings(),
              HasSubstr("read before write: device 3 (a:3), body 0, instruction 3: compute B3 #0 "
                        "acc: g3 is used before it is written"));
}

TEST(CheckBuffersTest, UseAfterFree) {
  EXPECT_THAT(Mutant("1-1f1b")
                  .On(2, "send d2#1 to 1 tag 1", "")
                  .On(2, "free d2#1", "free d2#1\nsend d2#1 to 1 tag 1")
                  .Findings(),
              HasSubstr("use after free: device 2 (a:2), body 0, instruction 23: send d2#1 to 1 "
                        "tag 1: d2#1 is used after it was freed"));
}

TEST(CheckBuffersTest, FreedTwice) {
  EXPECT_THAT(Mutant("1-1f1b").On(3, "free d3#3", "free d3#3 d3#3").Findings(),
              HasSubstr("use after free: device 3 (a:3)"));
}

TEST(CheckBuffersTest, ConsumedThenUsed) {
  // B1.0 consumes its input: it cannot run twice on one microbatch.
  EXPECT_THAT(Mutant("2-uneven-shares")
                  .On(2, "compute B1.0 #0", "compute B1.0 #0\ncompute F1.0 #0")
                  .Findings(),
              HasSubstr("use after free: device 2 (b:0), body 0, instruction 4: compute F1.0 #0: "
                        "x1#0[0:2] is used after it was freed"));
}

TEST(CheckBuffersTest, VersionUsedAfterItWasFreed) {
  EXPECT_THAT(Mutant("4-async-versions")
                  .On(0, "free w0@i", "")
                  .On(0, "recv d1#i+1 from 1", "recv d1#i+1 from 1\nfree w0@i")
                  .Findings(),
              HasSubstr("stale version: device 0 (a:0), body 0, instruction 4: compute B0 #i+1 @i: "
                        "w0@i is a version that was freed before"));
}

TEST(CheckBuffersTest, VersionThatDoesNotExistYet) {
  EXPECT_THAT(
      Mutant("4-async-versions").On(0, "compute F0 #i+2 @i+1", "compute F0 #i+2 @i+2").Findings(),
      HasSubstr("read before write: device 0 (a:0), body 0, instruction 1: compute F0 "
                "#i+2 @i+2: w0@i+2 is used before it is written"));
}

TEST(CheckBuffersTest, Overwrite) {
  EXPECT_THAT(Mutant("1-1f1b").On(3, "compute B3 #1 acc", "compute B3 #1").Findings(),
              HasSubstr("overwrite: device 3 (a:3), body 0, instruction 7: compute B3 #1: g3 is "
                        "written while still live; was it not freed?"));
}

// What a body does not free is in the way of its next repetition.
TEST(CheckBuffersTest, LeftBehindByTheBody) {
  EXPECT_THAT(Mutant("1-1f1b").On(1, "free d1#3", "").Findings(),
              HasSubstr("leak: device 1 (a:1): d1#3 is still live at the end of the body"));
}

TEST(CheckBuffersTest, PartReceivedTwice) {
  const std::string found =
      Mutant("2-uneven-shares")
          .On(3, "recv x1#0[2:3] from 0", "recv x1#0[2:3] from 0\nrecv x1#0[2:3] from 0")
          .On(0, "send x1#0[2:3] to 3", "send x1#0[2:3] to 3\nsend x1#0[2:3] to 3")
          .Findings();
  EXPECT_THAT(found, HasSubstr("overwrite: device 3 (b:1), body 0, instruction 1: recv x1#0[2:3] "
                               "from 0: x1#0[2:3] is written while still live"));
}

TEST(CheckBuffersTest, HeldTwice) {
  EXPECT_THAT(Mutant("1-1f1b").Replace("holds w2", "holds w2 w2").Findings(),
              HasSubstr("overwrite: the held buffer w2 of device 2 is listed twice"));
}

TEST(CheckBuffersTest, Leak) {
  EXPECT_THAT(Mutant("4-async-versions").On(0, "free w0@i", "").Findings(),
              HasSubstr("leak: device 0 (a:0): 64.0 KiB more after each repetition"));
  EXPECT_THAT(Mutant("4-async-versions").On(1, "free d1#i", "").Findings(),
              HasSubstr("leak: device 1 (a:1): 1.00 KiB more after each repetition"));
}

// A body that is repeated must leave what it found, to the byte and by name.
TEST(CheckBuffersTest, FreedForTheNextRepetition) {
  EXPECT_THAT(Mutant("1-1f1b").On(0, "compute U0", "compute U0\nfree w0").Findings(),
              HasSubstr("use after free: device 0 (a:0): the body frees w0, which its next "
                        "repetition needs"));
  EXPECT_THAT(
      Mutant("1-1f1b")
          .Replace("tensor x0", "tensor v0 f32[256,256] state\ntensor x0")
          .Replace("changes w0\n", "changes w0\nsegment V other\n  consumes w0\n  writes v0\n")
          .On(0, "compute U0", "compute U0\ncompute V")
          .Findings(),
      HasSubstr("leak: device 0 (a:0): v0 is still live at the end of the body"));
}

// What a prologue makes may stay for the bodies.
TEST(CheckBuffersTest, MadeByThePrologue) {
  EXPECT_EQ(Mutant("1-1f1b")
                .Replace("holds w0", "")
                .Replace("tensor x0", "tensor b f32[4] state\ntensor x0")
                .Replace("body\n", "prologue\non 0\n  compute Make\n\nbody\n")
                .Replace("segment F0", "segment Make other\n  writes w0\nsegment F0")
                .Findings(),
            "");
}

TEST(CheckBuffersTest, WaitForNothing) {
  EXPECT_THAT(Mutant("6-split-backward").On(0, "wait gw1 gb1", "wait gw1 d1#0").Findings(),
              HasSubstr("use after free: device 0 (a:0), body 0, instruction 10: wait gw1 d1#0"));
}

TEST(CheckBuffersTest, CollectiveOfWhatIsNotThere) {
  EXPECT_THAT(Mutant("6-split-backward")
                  .On(0, "compute W1.0 #0", "")
                  .On(0, "compute W1.0 #1 acc", "")
                  .Findings(),
              HasSubstr("read before write: device 0 (a:0), body 0, instruction 4: all-reduce gw1 "
                        "gb1 over dp ring: gw1 is used before it is written"));
}

// alias: a second name for the same memory.
constexpr char kAlias[] = R"(heddle-program 1
strategy none
samples 1 as 1
updates 0
layers 0

device 0 "a:0"

tensor x f32[4] activation
tensor y f32[4] activation
tensor z f32[2,2] activation
tensor h f16[4] activation

segment X other
  writes x
segment Y other
  reads y

body
on 0
  compute X
  alias y = x
  free x
  compute Y
  free y
)";

TEST(CheckBuffersTest, AliasKeepsTheMemoryAlive) {
  const Verdict verdict = Mutant::OfText(kAlias).Check();
  EXPECT_EQ(FindingsOf(verdict), "");
  EXPECT_EQ(verdict.memory[0].peak.value, 16);
}

TEST(CheckBuffersTest, AliasFaults) {
  EXPECT_THAT(Mutant::OfText(kAlias).On(0, "alias y = x", "").Findings(),
              HasSubstr("compute Y: y is used before it is written"));
  EXPECT_THAT(Mutant::OfText(kAlias).On(0, "free y", "").Findings(),
              HasSubstr("leak: device 0 (a:0): y is still live at the end of the body"));
  EXPECT_THAT(Mutant::OfText(kAlias).On(0, "alias y = x", "alias y = x\nalias y = x").Findings(),
              HasSubstr("overwrite: device 0 (a:0), body 0, instruction 2: alias y = x: y is live "
                        "already"));
  EXPECT_THAT(Mutant::OfText(kAlias).On(0, "compute X", "").Findings(),
              HasSubstr("alias y = x: x is used before it is written"));
}

TEST(CheckBuffersTest, AliasesHaveOneShapeAndType) {
  EXPECT_THAT(Mutant::OfText(kAlias).On(0, "alias y = x", "alias z = x").ParseError(),
              HasSubstr("z and x differ in type or shape"));
  EXPECT_THAT(Mutant::OfText(kAlias).On(0, "alias y = x", "alias h = x").ParseError(),
              HasSubstr("h and x differ in type or shape"));
}

}  // namespace
}  // namespace heddle
