// Who waits for whom: deadlocks, and what is none.
#include <fmt/format.h>

#include "mutant.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// Two devices exchange what they hold.
constexpr char kExchange[] = R"(heddle-program 1
strategy none
samples 1 as 1
updates 0
layers 0

device 0 "a:0" holds p
device 1 "a:1" holds q

group g 0 1
group h 1 0

tensor p f32[4] state
tensor q f32[4] state

body
on 0
  send p to 1
  recv q from 1
  free q
on 1
  send q to 0
  recv p from 0
  free p
)";

Mutant Exchange() { return Mutant::OfText(kExchange); }

TEST(CheckProgressTest, AnExchangeIsNoDeadlock) { EXPECT_EQ(Exchange().Findings(), ""); }

TEST(CheckProgressTest, OneEndMayHoldUp) {
  EXPECT_EQ(Exchange().On(0, "send p to 1", "send p to 1 on compute").Findings(), "");
}

TEST(CheckProgressTest, BothEndsHoldUp) {
  EXPECT_THAT(Exchange()
                  .On(0, "send p to 1", "send p to 1 on compute")
                  .On(1, "send q to 0", "send q to 0 on compute")
                  .Findings(),
              HasSubstr("deadlock: no device can go on: device 0 (a:0), body 0, instruction 1: "
                        "recv q from 1 waits for p; device 1 (a:1), body 0, instruction 1: "
                        "recv p from 0 waits for q"));
}

TEST(CheckProgressTest, BothWaitBeforeTheyPostTheReceive) {
  EXPECT_THAT(Exchange()
                  .On(0, "send p to 1", "send p to 1\nwait p")
                  .On(1, "send q to 0", "send q to 0\nwait q")
                  .Findings(),
              HasSubstr("deadlock: no device can go on: device 0 (a:0), body 0, instruction 1: "
                        "wait p waits for p"));
}

// Freeing waits for the send: device 1 must take x before device 0 can go on to what it waits for.
TEST(CheckProgressTest, FreeBeforeTheReceiveIsPosted) {
  const std::string text = R"(heddle-program 1
strategy none
samples 1 as 1
updates 0
layers 0

device 0 "a:0"
device 1 "a:1"

tensor x f32[4] activation
tensor y f32[4] activation

segment X other
  writes x
segment Y other
  writes y

body
on 0
  compute X
  compute Y
  send x to 1
  free x
  send y to 1 tag 1
  free y
on 1
  recv x from 0
  recv y from 0 tag 1
  free x y
)";
  EXPECT_EQ(Mutant::OfText(text).Findings(), "");
  EXPECT_THAT(Mutant::OfText(text)
                  .On(1, "recv x from 0", "")
                  .On(1, "recv y from 0 tag 1", "recv y from 0 tag 1\nwait y\nrecv x from 0")
                  .Findings(),
              HasSubstr("deadlock: no device can go on: device 0 (a:0), body 0, instruction 3: "
                        "free x waits for x; device 1 (a:1), body 0, instruction 1: wait y waits "
                        "for y"));
}

TEST(CheckProgressTest, CollectivesOfTwoGroupsCrossed) {
  const auto crossed = [](const std::string& first, const std::string& second) {
    return Mutant::OfText(kExchange)
        .Replace("holds q", "holds p q")
        .On(0, "send p to 1", "all-reduce p over g ring" + first + "\nall-reduce p over h ring")
        .On(0, "recv q from 1", "")
        .On(0, "free q", "")
        .On(1, "send q to 0", "all-reduce p over h ring" + second + "\nall-reduce p over g ring")
        .On(1, "recv p from 0", "")
        .On(1, "free p", "")
        .Findings();
  };
  // Each holds p until its first sum is done, and that needs the other's second.
  EXPECT_THAT(crossed("", ""), HasSubstr("deadlock"));
  EXPECT_THAT(crossed(" on compute", " on compute"), HasSubstr("deadlock"));
}

// Device 2 waits for the gradient of microbatch 1 before it has run its forward.
TEST(CheckProgressTest, OneWaitTooEarlyStopsTheWholePipeline) {
  const std::string found =
      Mutant("1-1f1b")
          .On(2, "recv d3#1 from 3 tag 1", "")
          .On(2, "recv d3#0 from 3", "recv d3#0 from 3\nrecv d3#1 from 3 tag 1\nwait d3#1")
          .Findings();
  EXPECT_THAT(found, HasSubstr("device 0 (a:0), body 0, instruction 10: compute B0 #0 waits for "
                               "d1#0"));
  EXPECT_THAT(found, HasSubstr("device 2 (a:2), body 0, instruction 6: wait d3#1 waits for d3#1"));
}

TEST(CheckProgressTest, ThreeInACircle) {
  const std::string text = R"(heddle-program 1
strategy none
samples 1 as 1
updates 0
layers 0

device 0 "a:0" holds p
device 1 "a:1" holds q
device 2 "a:2" holds r

tensor p f32[4] state
tensor q f32[4] state
tensor r f32[4] state

body
on 0
  send p to 1 on compute
  recv r from 2
  free r
on 1
  send q to 2 on compute
  recv p from 0
  free p
on 2
  send r to 0 on compute
  recv q from 1
  free q
)";
  EXPECT_THAT(Mutant::OfText(text).Findings(), HasSubstr("device 2 (a:2), body 0, instruction 1"));
  // One receive posted early breaks the circle.
  EXPECT_EQ(Mutant::OfText(text)
                .On(1, "recv p from 0", "")
                .On(1, "send q to 2 on compute", "recv p from 0\nsend q to 2 on compute")
                .Findings(),
            "");
}

// A buffer may be sent to several devices at once: the walk waits for none of them.
TEST(CheckProgressTest, TwoSendsOfOneBufferDoNotWaitForEachOther) {
  const std::string text = R"(heddle-program 1
strategy none
samples 1 as 1
updates 0
layers 0

device 0 "a:0" holds p
device 1 "a:1"
device 2 "a:2" holds q

tensor p f32[4] state
tensor q f32[4] state

body
on 0
  send p to 1
  send p to 2
on 1
  recv q from 2
  wait q
  recv p from 0
  free p q
on 2
  recv p from 0
  free p
  send q to 1
)";
  EXPECT_EQ(Mutant::OfText(text).Findings(), "");
}

// A compute that only reads a buffer does not wait until it has been sent.
TEST(CheckProgressTest, ReadingWhatIsBeingSentDoesNotWait) {
  const std::string text = R"(heddle-program 1
strategy none
samples 1 as 1
updates 0
layers 0

device 0 "a:0" holds p
device 1 "a:1"

tensor p f32[4] state
tensor r f32[4] activation

segment R other
  reads p
  writes r

body
on 0
  send p to 1
  compute R
  send r to 1 tag 1
  free r
on 1
  recv r from 0 tag 1
  wait r
  recv p from 0
  free p r
)";
  EXPECT_EQ(Mutant::OfText(text).Findings(), "");
  // One that changes it must wait.
  EXPECT_THAT(Mutant::OfText(text).Replace("reads p", "changes p").Findings(),
              HasSubstr("device 0 (a:0), body 0, instruction 1: compute R waits for p"));
}

// A file of a megabyte must not keep the checker busy for minutes: one compute that waits for
// thousands of messages, one buffer in thousands of parts.
TEST(CheckProgressTest, ThousandsOfMessagesForOneCompute) {
  constexpr int kMessages = 20000;
  std::string tensors, ports, sends, receives, frees;
  for (int k = 0; k < kMessages; ++k) {
    tensors += fmt::format("tensor t{} f32[1] state\n", k);
    ports += fmt::format(" t{}", k);
    sends += fmt::format("  send t{0} to 1 tag {0}\n", k);
    receives += fmt::format("  recv t{0} from 0 tag {0}\n", k);
  }
  EXPECT_EQ(Mutant::OfText("heddle-program 1\nsamples 1 as 1\nlayers 0\ndevice 0 \"a\" holds" +
                           ports + "\ndevice 1 \"b\"\n" + tensors + "segment S other\n  consumes" +
                           ports + "\nbody\non 0\n" + sends + "on 1\n" + receives + "  compute S\n")
                .Findings(),
            "");
}

TEST(CheckProgressTest, ABufferInThousandsOfParts) {
  std::string sends, receives;
  for (int k = 0; k < 20000; ++k) {
    sends += fmt::format("  send x[{}:{}] to 1\n", k, k + 1);
    receives += fmt::format("  recv x[{}:{}] from 0\n", k, k + 1);
  }
  EXPECT_THAT(
      Mutant::OfText("heddle-program 1\nsamples 1 as 1\nlayers 0\ndevice 0 \"a\" holds x\n"
                     "device 1 \"b\"\ntensor x f32[20000] state\nbody\non 0\n" +
                     sends + "on 1\n" + receives + "  free x\n")
          .Findings(),
      HasSubstr("bad segment: device 1 (b), body 0, instruction 2048: recv x[2048:2049] from "
                "0: x[2048:2049] has more than 2048 parts"));
}

}  // namespace
}  // namespace heddle
