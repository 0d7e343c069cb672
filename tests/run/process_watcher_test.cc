// Who is named when processes end, fall silent or get stuck; with processes that are none, in time
// that passes when all wait. Real ones are in processes_test.cc.

#include "run/process_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <memory>
#include <vector>

#include "support/fake_clock.h"
#include "support/fake_process.h"

namespace heddle {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

// Processes that beat ten times a second, until the test's plan for them says otherwise.
class ProcessWatcherTest : public testing::Test {
 protected:
  ProcessWatcherTest() {
    watch_.name = [](int32_t rank) { return "device " + std::to_string(rank); };
    watch_.place = [](const WorkerProgress&, int32_t) { return std::string(); };
    watch_.silence = seconds(4);
    watch_.clock = &clock_;
    clock_.AfterEachJump([this] {
      const Clock::Duration now = clock_.Now() - start_;
      for (size_t k = 0; k < slots_.size(); ++k) {
        if (!processes_[k].end && now < silent_from_[k]) slots_[k].beats = now / milliseconds(100);
      }
      if (happens_) happens_(now);
    });
  }

  // Watches so many, while this happens to them.
  Status Watch(size_t count, std::function<void(Clock::Duration now)> happens) {
    slots_ = std::vector<ProcessSlot>(count);
    silent_from_.assign(count, hours(1000));
    happens_ = std::move(happens);
    std::vector<std::unique_ptr<Process>> processes;
    for (size_t k = 0; k < count; ++k) processes.push_back(processes_.Make());
    start_ = clock_.Now();
    ProcessWatcher watcher(slots_, std::move(processes), watch_);
    const Status status = watcher.Watch();
    took_ = clock_.Now() - start_;
    end_ = watcher.End();
    return status;
  }
  void EndsWell(size_t rank) {
    slots_[rank].done = true;
    processes_[rank].end = ProcessExit{};
  }

  // As processes.cc does it in the child.
  void Fails(size_t rank, const Error& error, bool lost_a_peer = false) {
    if (processes_[rank].end) return;
    ProcessSlot& slot = slots_[rank];
    WriteText(slot.where, error.where);
    WriteText(slot.what, error.what);
    WriteText(slot.hint, error.hint);
    slot.lost_a_peer = lost_a_peer;
    slot.failed = static_cast<int>(error.kind);
    processes_[rank].end = ProcessExit{.code = static_cast<int>(error.kind)};
  }
  static Error Failed(const std::string& what) { return {ErrorKind::kRunFailed, "", what, ""}; }

  FakeClock clock_;
  FakeProcesses processes_;
  ProcessWatch watch_;
  std::vector<ProcessSlot> slots_;
  std::vector<Clock::Duration> silent_from_;
  std::function<void(Clock::Duration)> happens_;
  Clock::Time start_;
  Clock::Duration took_{};
  ProcessesEnd end_;
};

TEST_F(ProcessWatcherTest, AnHourOfWorkIsNobodysFault) {
  const Status status = Watch(3, [&](Clock::Duration now) {
    for (size_t k = 0; k < 3; ++k) {
      if (now >= hours(1) + seconds(k)) EndsWell(k);
    }
  });
  EXPECT_TRUE(status.ok()) << status.error().ToString();
  EXPECT_GE(took_, hours(1) + seconds(2));
  EXPECT_FALSE(end_.lost);
}

// Within the silence, the time to gather causes, and a look or two.
TEST_F(ProcessWatcherTest, TheSilentOneIsNamedAndAllAreEnded) {
  const Status status = Watch(3, [&](Clock::Duration) { silent_from_[1] = seconds(10); });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().ToString(), "device 1: does not answer: it is stopped or hangs");
  EXPECT_EQ(end_.lost, 1);
  EXPECT_GT(took_, seconds(10 + 4) - milliseconds(200));
  EXPECT_LT(took_, seconds(10 + 4) + milliseconds(500));
  for (size_t k = 0; k < 3; ++k) EXPECT_TRUE(processes_[k].killed) << k;
}

// A suspended machine: nobody beats, and nobody looks.
TEST_F(ProcessWatcherTest, APauseOfAllCountsAgainstNobody) {
  bool slept = false;
  const Status status = Watch(2, [&](Clock::Duration now) {
    if (now >= seconds(5) && !slept) {
      slept = true;
      clock_.Skip(hours(8));
    }
    if (now >= hours(8) + seconds(20)) {
      for (size_t k = 0; k < 2; ++k) EndsWell(k);
    }
  });
  EXPECT_TRUE(status.ok()) << status.error().ToString();
  EXPECT_GE(took_, hours(8) + seconds(20));
}

TEST_F(ProcessWatcherTest, OneThatStaysSilentAfterThePauseIsNamed) {
  bool slept = false;
  const Status status = Watch(2, [&](Clock::Duration now) {
    if (now < seconds(5) || slept) return;
    slept = true;
    silent_from_[0] = now;
    clock_.Skip(hours(8));
  });
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("device 0: does not answer"));
  EXPECT_LT(took_, hours(8) + seconds(5 + 4 + 1));
}

TEST_F(ProcessWatcherTest, AStuckOneIsNamedThoughItAnswers) {
  watch_.patience = 10;
  watch_.work = [](const WorkerProgress&, int32_t rank) {
    return rank == 1 ? WorkAt{7, /*predicted=*/2} : WorkAt{};
  };
  const Status status = Watch(2, [](Clock::Duration) {});
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("device 1: does not get on: it is stuck"));
  EXPECT_GT(took_, seconds(20));
  EXPECT_LT(took_, seconds(21));
}

// Those who lose a peer end too, often sooner than the cause is seen.
TEST_F(ProcessWatcherTest, TheCauseIsNamedNotTheEffect) {
  const Status status = Watch(3, [&](Clock::Duration now) {
    if (now >= seconds(1)) Fails(0, Failed("connection closed"), /*lost_a_peer=*/true);
    if (now >= seconds(1) + milliseconds(200) && !processes_[2].end) {
      processes_[2].end = ProcessExit{.signal = SIGSEGV};
    }
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().ToString(), "device 2: was killed by signal 11 (Segmentation fault)");
  EXPECT_TRUE(processes_[1].killed);
  EXPECT_FALSE(processes_[0].killed) << "it had ended";
}

TEST_F(ProcessWatcherTest, WhatComesAfterTheTimeToGatherIsNoCause) {
  const Status status = Watch(2, [&](Clock::Duration now) {
    if (now >= seconds(1)) Fails(0, Failed("out of memory"));
    if (now >= seconds(1) + milliseconds(400)) processes_[1].end = ProcessExit{.signal = SIGSEGV};
  });
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("device 0: failed: out of memory"));
}

// So do those that give up loudly.
TEST_F(ProcessWatcherTest, AKilledOneIsNamedBeforeOneThatAborted) {
  const Status status = Watch(2, [&](Clock::Duration now) {
    if (now >= seconds(1)) processes_[0].end = ProcessExit{.signal = SIGABRT};
    if (now >= seconds(1) + milliseconds(100)) processes_[1].end = ProcessExit{.signal = SIGKILL};
  });
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("device 1: was killed by signal 9"));
}

// Among equals the order is that in which they left.
TEST_F(ProcessWatcherTest, OfTwoThatFailTheFirstIsNamed) {
  const Status status = Watch(2, [&](Clock::Duration now) {
    if (now >= seconds(1)) Fails(1, Failed("the first"));
    if (now >= seconds(1) + milliseconds(100)) Fails(0, Failed("the second"));
  });
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("device 1: failed: the first"));
}

TEST_F(ProcessWatcherTest, AnErrorOfOneAloneNamesIt) {
  const Error error = BadInput("data.txt", "is empty");
  const Status one = Watch(3, [&](Clock::Duration) { Fails(1, error); });
  ASSERT_FALSE(one.ok());
  EXPECT_EQ(one.error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(one.error().what, "is empty, at device 1");
}

TEST_F(ProcessWatcherTest, AnErrorOfAllNamesNobody) {
  const Error error = BadInput("data.txt", "is empty");
  const Status all = Watch(3, [&](Clock::Duration) {
    for (size_t k = 0; k < 3; ++k) Fails(k, error);
  });
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.error().what, "is empty");
}

// Also one that failed in the middle, when it says what it is about.
TEST_F(ProcessWatcherTest, AFailureWithAPlaceKeepsItsWords) {
  const Error error{ErrorKind::kRunFailed, "step 3", "fc0.w is not finite", "a smaller rate"};
  const Status status = Watch(2, [&](Clock::Duration) { Fails(0, error); });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().ToString(), "step 3: fc0.w is not finite\n  hint: a smaller rate");
}

TEST_F(ProcessWatcherTest, TheHintKnowsWhatTheFirstProcessHasDone) {
  watch_.hint = [](const ProcessSlot& first) {
    return std::string("look into ") + first.directory.data();
  };
  const Status status = Watch(2, [&](Clock::Duration) {
    WriteText(slots_[0].directory, "runs/a");
    processes_[0].end = ProcessExit{.signal = SIGKILL};
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().hint, "look into runs/a");
}

// Schedulers tell one process or all, and several times; the first process decides.
TEST_F(ProcessWatcherTest, WhoeverIsAskedTheFirstIsTold) {
  int told = 0;
  watch_.asked_to_stop = [&] { ++told; };
  const Status status = Watch(3, [&](Clock::Duration now) {
    if (now >= seconds(1)) slots_[2].asked = SIGTERM;
    if (now >= seconds(2)) slots_[1].asked = SIGHUP;
    if (now < seconds(3)) return;
    EXPECT_EQ(slots_[0].stop, SIGTERM);
    for (size_t k = 0; k < 3; ++k) EndsWell(k);
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(told, 1);
  EXPECT_EQ(end_.signal, SIGTERM);
}

}  // namespace
}  // namespace heddle
