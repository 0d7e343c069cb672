// Faults in messages and collectives, planted into the golden Programs.
#include "mutant.h"

namespace heddle {
namespace {

using testing::HasSubstr;

TEST(CheckMessagesTest, SendWithoutReceive) {
  EXPECT_THAT(Mutant("1-1f1b").On(3, "recv x3#2 from 2 tag 2", "").Findings(),
              HasSubstr("unmatched send: device 2 (a:2), body 0, instruction 12: "
                        "send x3#2 to 3 tag 2 has no receive"));
}

TEST(CheckMessagesTest, ReceiveWithoutSend) {
  EXPECT_THAT(Mutant("1-1f1b").On(1, "send d1#3 to 0 tag 3", "").Findings(),
              HasSubstr("unmatched receive: device 0 (a:0), body 0, instruction 13: "
                        "recv d1#3 from 1 tag 3 has no send"));
}

TEST(CheckMessagesTest, SendToTheWrongDevice) {
  const std::string found =
      Mutant("1-1f1b").On(1, "send d1#3 to 0 tag 3", "send d1#3 to 3 tag 3").Findings();
  EXPECT_THAT(found, HasSubstr("unmatched send: device 1 (a:1)"));
  EXPECT_THAT(found, HasSubstr("unmatched receive: device 0 (a:0)"));
}

TEST(CheckMessagesTest, WrongTag) {
  const std::string found =
      Mutant("1-1f1b").On(0, "send x1#1 to 1 tag 1", "send x1#1 to 1 tag 7").Findings();
  EXPECT_THAT(found, HasSubstr("unmatched send: device 0 (a:0), body 0, instruction 3: "
                               "send x1#1 to 1 tag 7"));
  EXPECT_THAT(found, HasSubstr("unmatched receive: device 1 (a:1), body 0, instruction 1: "
                               "recv x1#1 from 0 tag 1"));
}

TEST(CheckMessagesTest, MicrobatchesSwappedOnOneEnd) {
  const std::string found = Mutant("2-uneven-shares")
                                .On(2, "recv x1#0[0:2] from 0", "recv x1#9[0:2] from 0")
                                .On(2, "recv x1#1[0:2] from 0", "recv x1#0[0:2] from 0")
                                .On(2, "recv x1#9[0:2] from 0", "recv x1#1[0:2] from 0")
                                .Findings();
  EXPECT_THAT(found, HasSubstr("message mismatch: device 0 (a:0), body 0, instruction 1: "
                               "send x1#0[0:2] to 2 meets device 2 (b:0), body 0, instruction 0: "
                               "recv x1#1[0:2] from 0"));
}

TEST(CheckMessagesTest, SlicesDiffer) {
  EXPECT_THAT(
      Mutant("2-uneven-shares").On(3, "recv x1#0[2:3] from 0", "recv x1#0[0:1] from 0").Findings(),
      HasSubstr("message mismatch: device 0 (a:0), body 0, instruction 2: "
                "send x1#0[2:3] to 3 meets device 3 (b:1)"));
}

TEST(CheckMessagesTest, TensorsDiffer) {
  EXPECT_THAT(Mutant("1-1f1b").On(1, "send d1#0 to 0", "send x2#0 to 0").Findings(),
              HasSubstr("send x2#0 to 0 meets device 0 (a:0), body 0, instruction 6: "
                        "recv d1#0 from 1"));
}

// In the asynchronous golden the fault shows in the repetition after the one that makes it.
TEST(CheckMessagesTest, RelativeMicrobatchesDiffer) {
  EXPECT_THAT(
      Mutant("4-async-versions").On(1, "recv x1#i+2 from 0", "recv x1#i+3 from 0").Findings(),
      HasSubstr("message mismatch: device 0 (a:0), body 0, instruction 2: "
                "send x1#i+2 to 1 meets device 1 (a:1), body 0, instruction 0: "
                "recv x1#i+3 from 0"));
}

TEST(CheckMessagesTest, FormsMayDiffer) {
  EXPECT_EQ(Mutant("2-uneven-shares")
                .Replace("reads x1#[0:2] w1", "reads x1~in#[0:2] w1")
                .Replace("consumes x1#[0:2]\n", "consumes x1~in#[0:2]\n", "segment B1.0")
                .On(2, "recv x1#0[0:2] from 0", "recv x1~in#0[0:2] from 0")
                .On(2, "recv x1#1[0:2] from 0", "recv x1~in#1[0:2] from 0")
                .Findings(),
            "");
}

constexpr char kReduce1[] = "all-reduce gw1 gb1 over dp ring";

TEST(CheckMessagesTest, CollectiveOfAnotherKind) {
  EXPECT_THAT(
      Mutant("6-split-backward")
          .On(1, kReduce1, "broadcast gw1 gb1 over dp root 0 ring")
          .Findings(),
      HasSubstr("collective disagrees: device 0 (a:0), body 0, instruction 6: "
                "all-reduce gw1 gb1 over dp ring meets device 1 (a:1), body 0, instruction 6: "
                "broadcast gw1 gb1 over dp root 0 ring: they disagree on the kind"));
}

TEST(CheckMessagesTest, CollectiveByAnotherAlgorithm) {
  EXPECT_THAT(
      Mutant("6-split-backward").On(1, kReduce1, "all-reduce gw1 gb1 over dp tree").Findings(),
      HasSubstr("they disagree on the algorithm"));
}

TEST(CheckMessagesTest, CollectiveOfOtherSizes) {
  EXPECT_THAT(Mutant("3-spmd-matmul")
                  .On(1, "all-gather y~s#0 -> y#0 over all dim 1 sizes 5,3,0 grouped",
                      "all-gather y~s#0 -> y#0 over all dim 1 sizes 4,4,0 grouped")
                  .Findings(),
              HasSubstr("meets device 1 (a:1), body 0, instruction 1: all-gather y~s#0 -> y#0 over "
                        "all dim 1 sizes 4,4,0 grouped: they disagree on the sizes"));
}

TEST(CheckMessagesTest, CollectiveOfOtherBuffers) {
  Mutant order("6-split-backward");
  order.On(1, kReduce1, "all-reduce gb1 gw1 over dp ring");
  EXPECT_THAT(order.Findings(), HasSubstr("they disagree on the buffer"));
  Mutant fewer("6-split-backward");
  fewer.On(1, kReduce1, "all-reduce gw1 over dp ring");
  EXPECT_THAT(fewer.Findings(), HasSubstr("they disagree on the number of buffers"));
}

TEST(CheckMessagesTest, CollectiveRootsDiffer) {
  EXPECT_THAT(Mutant("6-split-backward")
                  .On(0, kReduce1, "broadcast gw1 gb1 over dp root 0 ring")
                  .On(1, kReduce1, "broadcast gw1 gb1 over dp root 1 ring")
                  .Findings(),
              HasSubstr("they disagree on the root"));
}

TEST(CheckMessagesTest, CollectiveWithAMissingMember) {
  EXPECT_THAT(Mutant("2-uneven-shares").On(3, "all-reduce g1 over s1 ring", "").Findings(),
              HasSubstr("collective disagrees: device 2 (b:0), body 0, instruction 8: all-reduce "
                        "g1 over s1 ring: device 3 of group s1 does not take part"));
  EXPECT_THAT(Mutant("2-uneven-shares").On(2, "all-reduce g1 over s1 ring", "").Findings(),
              HasSubstr("collective disagrees: device 3 (b:1), body 0, instruction 12: all-reduce "
                        "g1 over s1 ring: device 2 of group s1 does not take part"));
}

TEST(CheckMessagesTest, CollectiveOfANonMember) {
  EXPECT_THAT(Mutant("2-uneven-shares")
                  .On(1, "all-reduce g0 over s0 ring",
                      "all-reduce g0 over s0 ring\nall-reduce g0 over s1 ring")
                  .Findings(),
              HasSubstr("collective disagrees: device 1 (a:1), body 0, instruction 9: all-reduce "
                        "g0 over s1 ring: the device is not in group s1"));
}

TEST(CheckMessagesTest, CollectivesInAnotherOrder) {
  EXPECT_THAT(Mutant("6-split-backward")
                  .On(1, kReduce1, "")
                  .On(1, "all-reduce gw0 gb0 over dp ring",
                      "all-reduce gw0 gb0 over dp ring\nall-reduce gw1 gb1 over dp ring")
                  .Findings(),
              HasSubstr("they disagree on the buffer"));
}

// What a member brings must have the size that the collective states for it.
TEST(CheckMessagesTest, ShardOfAnotherSize) {
  const std::string found =
      Mutant("3-spmd-matmul").Replace("writes y~s#[:,0:5]", "writes y~s#[:,0:4]").Findings();
  EXPECT_THAT(found, HasSubstr("collective disagrees: device 0 (a:0), body 0, instruction 1"));
  EXPECT_THAT(found, HasSubstr("y~s#0 holds 4 along axis 1, not 5"));
}

// The sizes divide the whole tensor.
TEST(CheckMessagesTest, SizesThatDoNotAddUp) {
  Mutant m("3-spmd-matmul");
  for (const int device : {0, 1, 2}) {
    m.On(device, "all-gather y~s#0 -> y#0 over all dim 1 sizes 5,3,0 grouped",
         "all-gather y~s#0 -> y#0 over all dim 1 sizes 5,3,1 grouped");
  }
  EXPECT_THAT(m.Findings(),
              HasSubstr("collective disagrees: device 0 (a:0), body 0, instruction 1: all-gather "
                        "y~s#0 -> y#0 over all dim 1 sizes 5,3,1 grouped: the sizes add up to 9, "
                        "not to the 8 of y"));
}

// Parts that came one by one beside each other along one axis are as long as one of them along the
// other.
TEST(CheckMessagesTest, PartsBesideEachOtherInACollective) {
  const std::string text = R"(heddle-program 1
strategy by-hand

device 0 "a:0"
device 1 "a:1"
device 2 "b:0"

group pair 0 1

tensor x f32[4,6] activation

segment make1 other time 0.001 s
  writes x~s[:,4:6]
segment make2 other time 0.001 s
  writes x

body
on 0
  recv x~s[0:2,0:4] from 2
  recv x~s[2:4,0:4] from 2
  all-gather x~s[:,0:4] -> x over pair dim 1 sizes 4,2 ring
  free x~s x
on 1
  compute make1
  all-gather x~s[:,4:6] -> x over pair dim 1 sizes 4,2 ring
  free x~s x
on 2
  compute make2
  send x[0:2,0:4] to 0
  send x[2:4,0:4] to 0
  free x
)";
  EXPECT_EQ(Mutant::OfText(text).Findings(), "");
  Mutant shorter = Mutant::OfText(text);
  shorter.On(0, "recv x~s[2:4,0:4] from 2", "recv x~s[2:4,0:3] from 2")
      .On(2, "send x[2:4,0:4] to 0", "send x[2:4,0:3] to 0");
  EXPECT_THAT(shorter.Findings(), HasSubstr("has a hole between the parts that came"));
}

}  // namespace
}  // namespace heddle
