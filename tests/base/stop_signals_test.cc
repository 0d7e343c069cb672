#include "base/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <vector>

#include "base/child_process.h"

namespace heddle {
namespace {

// The exit code of a process that listens in this manner and then is sent these, one by one.
int CodeOf(const StopManner& manner, const std::vector<int>& signals,
           const std::function<int()>& then) {
  const auto life = [&] {
    ListenForStops(manner);
    for (const int signal : signals) raise(signal);
    return then();
  };
  return ChildProcess::Fork(life, "child").value().Wait().code;
}

TEST(StopSignalsTest, TheFirstIsNotedAndTheOthersMeanTheSame) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EQ(CodeOf({}, {signal, SIGTERM, SIGHUP}, &FirstStop), signal);
    EXPECT_EQ(CodeOf({}, {signal, SIGTERM, SIGHUP}, &InterruptsSince), 0);
  }
  EXPECT_EQ(CodeOf({}, {}, &FirstStop), 0);
}

TEST(StopSignalsTest, InterruptsAfterItAreCounted) {
  EXPECT_EQ(CodeOf({}, {SIGTERM, SIGINT, SIGHUP, SIGINT}, &InterruptsSince), 2);
}

TEST(StopSignalsTest, ASecondInterruptEndsWhoWantsThat) {
  const StopManner manner{.second_ends = true};
  const auto here = [] { return 9; };
  EXPECT_EQ(CodeOf(manner, {SIGTERM, SIGTERM, SIGHUP}, here), 9);
  EXPECT_EQ(CodeOf(manner, {SIGINT}, here), 9);
  EXPECT_EQ(CodeOf(manner, {SIGTERM, SIGINT}, here), 128 + SIGINT);
}

TEST(StopSignalsTest, WhereThereIsNothingToSaveEachEnds) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    EXPECT_EQ(CodeOf({.ends = true}, {signal}, [] { return 9; }), 128 + signal);
  }
}

TEST(StopSignalsTest, AnotherIsToldInstead) {
  static std::atomic<int> told{0};
  const auto what = [] { return told == SIGHUP && FirstStop() == 0 ? 1 : 2; };
  EXPECT_EQ(CodeOf({.tell = &told}, {SIGHUP, SIGTERM}, what), 1);
}

TEST(StopSignalsTest, NohupIsKept) {
  const auto life = [] {
    signal(SIGHUP, SIG_IGN);
    ListenForStops({});
    raise(SIGHUP);
    return FirstStop();
  };
  EXPECT_EQ(ChildProcess::Fork(life, "child").value().Wait().code, 0);
}

TEST(StopSignalsTest, HeldOnesComeLater) {
  const auto life = [] {
    ListenForStops({});
    int before = 0;
    {
      const StopsHeld held;
      ListenForStops({});  // holds and releases by itself: not the outer one
      raise(SIGTERM);
      before = FirstStop();
    }
    return before == 0 ? FirstStop() : 99;
  };
  EXPECT_EQ(ChildProcess::Fork(life, "child").value().Wait().code, SIGTERM);
}

TEST(StopSignalsTest, PeopleAreTold) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto life = [&] {
    dup2(ends[1], STDERR_FILENO);
    ListenForStops({.say = "stopping\n"});
    raise(SIGINT);
    raise(SIGTERM);
    return 0;
  };
  ChildProcess child = ChildProcess::Fork(life, "child").value();
  close(ends[1]);
  char text[64] = {};
  EXPECT_EQ(read(ends[0], text, sizeof text), 9);
  EXPECT_STREQ(text, "stopping\n");
  EXPECT_EQ(read(ends[0], text, sizeof text), 0) << "once";
  child.Wait();
  close(ends[0]);
}

}  // namespace
}  // namespace heddle
