// Peaks computed by hand.
#include "mutant.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// "peak held" of every device.
std::string MemoryOf(const Verdict& verdict) {
  EXPECT_EQ(FindingsOf(verdict), "");
  std::string text;
  for (const DeviceMemory& memory : verdict.memory) {
    text += std::to_string(memory.peak.value) + " " + std::to_string(memory.held.value) + "\n";
  }
  return text;
}

// A weight or its gradient has 256*256*4 = 262144 bytes, an activation or its gradient 1024.
//   device 0, at B0 #0: w, g, x1#0..3, d1#0..1             device 1, at B1 #1: w, g, x1#1..3,
//   device 2, at B2 #1: w, g, x2#1..3, x3#1..2, d3#1,        x2#1..3, d2#1..2, d1#0..1
//             d2#0..1                                      device 3, at B3 #2: w, g, x3#2..3,
//             d3#1..2
TEST(CheckMemoryTest, OneForwardOneBackward) {
  EXPECT_EQ(MemoryOf(Mutant("1-1f1b").Check()),
            "530432 262144\n"
            "534528 262144\n"
            "532480 262144\n"
            "528384 262144\n");
}

// A weight or its gradient has 64*64*4 = 16384 bytes, a row of an activation 256.
//   device 0, at B0.0 #0: w, g, three rows of x1#0, x1#1, d1#0, d1#1: 12 rows
//   device 1: the same with one row each: 4        device 2, at B1.0 #0: x1#0, x1#1, d1#0: 6 rows
TEST(CheckMemoryTest, UnevenShares) {
  EXPECT_EQ(MemoryOf(Mutant("2-uneven-shares").Check()),
            "35840 16384\n"
            "33792 16384\n"
            "34304 16384\n"
            "34304 16384\n");
}

// Shards of w: 6*5*4, 6*3*4 and 0 bytes; of y: 4*5*4, 4*3*4, 0; the whole y: 4*8*4.
TEST(CheckMemoryTest, Shards) {
  EXPECT_EQ(MemoryOf(Mutant("3-spmd-matmul").Check()),
            "328 120\n"
            "248 72\n"
            "128 0\n");
}

// A weight, a version of it or its gradient has 65536 bytes, an activation 1024.
//   device 0, at B0 #i+1: w0@i, w0@i+1, g0#i+1, x1#i+1, x1#i+2, d1#i+1
//   device 1, at B1 #i+1: w1, g1#i+1, x1#i+1, x1#i+2, d1#i, d1#i+1
TEST(CheckMemoryTest, Versions) {
  EXPECT_EQ(MemoryOf(Mutant("4-async-versions").Check()),
            "199680 65536\n"
            "135168 65536\n");
}

// w 16384, b 256, twice: 33280 held. A microbatch's row: 256.
//   at W0.0 #0: x1#1, d1#0, d1#1 … after both W1: d1#0, d1#1 and all four gradients: 512 + 33280
TEST(CheckMemoryTest, SplitBackward) {
  EXPECT_EQ(MemoryOf(Mutant("6-split-backward").Check()),
            "67072 33280\n"
            "67072 33280\n");
}

// Scratch is what a segment needs inside beyond what is live before it: before I.0 #1 there are
// x1#0, x1#1, x2#1, d1#0, d2#0 (1280 bytes).
TEST(CheckMemoryTest, ScratchCountsBeyondWhatIsLive) {
  EXPECT_EQ(MemoryOf(Mutant("6-split-backward")
                         .Replace("segment I.0 backward_input layers 0..1 rows 0:1 time 0.002 s",
                                  "segment I.0 backward_input layers 0..1 rows 0:1 time 0.002 s "
                                  "scratch 40000")
                         .Check()),
            "74560 33280\n"
            "67072 33280\n");
}

// Weight gradients that appear in a segment and stay come on top of its scratch: before W0.0 #0
// 33280 held, 16640 of layer 1's gradients, 512 of d1; then 16640 more and 100 of scratch.
TEST(CheckMemoryTest, ScratchOfASegmentThatAddsGradients) {
  EXPECT_EQ(MemoryOf(Mutant("6-split-backward")
                         .Replace("segment W0.0 backward_weight layers 0..0 rows 0:1 time 0.001 s",
                                  "segment W0.0 backward_weight layers 0..0 rows 0:1 time 0.001 s "
                                  "scratch 100")
                         .Check()),
            "67172 33280\n"
            "67072 33280\n");
}

// With scratch stated, outputs replace what is consumed: 4 KiB in, 4 KiB out, 4 KiB inside.
TEST(CheckMemoryTest, ScratchStatesTheInsideExactly) {
  const std::string text = R"(heddle-program 1
strategy none
samples 1 as 1
updates 0
layers 0

device 0 "a:0"

tensor x f32[1024] activation
tensor y f32[1024] activation

segment X other
  writes x
segment Y other scratch 100
  consumes x
  writes y

body
on 0
  compute X
  compute Y
  free y
)";
  EXPECT_EQ(MemoryOf(Mutant::OfText(text).Check()), "4196 0\n");
  EXPECT_EQ(MemoryOf(Mutant::OfText(text).Replace(" scratch 100", "").Check()), "8192 0\n");
}

// A broadcast makes the buffer where it is not; a flattened reduce-scatter leaves each its part.
TEST(CheckMemoryTest, BroadcastAndReduceScatter) {
  const std::string text = R"(heddle-program 1
strategy none
samples 1 as 1
updates 0
layers 0

device 0 "a:0" holds x
device 1 "a:1"

group g 0 1

tensor x f32[8,8] state
tensor y f32[8,8] state

body
on 0
  broadcast x over g root 0 ring
  reduce-scatter x -> x~s over g sizes 48,16 ring
  free x~s
on 1
  broadcast x over g root 0 ring
  reduce-scatter x -> x~s over g sizes 48,16 ring
  free x x~s
)";
  EXPECT_EQ(MemoryOf(Mutant::OfText(text).Check()),
            "448 256\n"
            "320 0\n");
  // Along an axis instead: 6 rows and 2.
  Mutant rows = Mutant::OfText(text);
  for (const int device : {0, 1}) {
    rows.On(device, "reduce-scatter x -> x~s over g sizes 48,16 ring",
            "reduce-scatter x -> x~s over g dim 0 sizes 6,2 ring");
  }
  EXPECT_EQ(MemoryOf(rows.Check()),
            "448 256\n"
            "320 0\n");
}

TEST(CheckMemoryTest, MoreThanTheDeviceHas) {
  CheckOptions options;
  options.capacity = {Bytes{600000}, Bytes{600000}, Bytes{532480}, Bytes{500000}};
  EXPECT_EQ(Mutant("1-1f1b").Findings(options),
            "out of memory: device 3 (a:3) needs 516 KiB and has 488 KiB: 27.7 KiB too much\n");
}

TEST(CheckMemoryTest, PeaksAreBoundedNumbers) {
  Mutant m = Mutant::OfText(R"(heddle-program 1
strategy none
samples 1 as 1
updates 0
layers 0

device 0 "a:0"

tensor x f64[100000000,1000000000] activation

segment X other
  writes x#

body
on 0
)");
  std::string lines;
  for (int k = 0; k < 20; ++k) lines += "  compute X #" + std::to_string(k) + "\n";
  const std::string found = Mutant::OfText(m.text() + lines).Findings();
  EXPECT_THAT(found, HasSubstr("out of memory: device 0 (a:0) needs more than 2.00 EiB"));
}

}  // namespace
}  // namespace heddle
