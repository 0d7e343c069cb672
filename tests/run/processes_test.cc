// With real processes. Who is to blame, after which silence, is in process_watcher_test.cc.

#include "run/processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "run/communicator.h"

namespace heddle {
namespace {

using testing::HasSubstr;

ProcessWatch Watch() {
  ProcessWatch watch;
  watch.name = [](int32_t rank) { return "device " + std::to_string(rank); };
  watch.place = [](const WorkerProgress& progress, int32_t) {
    const auto place = progress.Load();
    return "in step " + std::to_string(place ? place->step : -1);
  };
  watch.silence = std::chrono::hours(1);  // nobody is silent, however busy the machine is
  return watch;
}

// Until the parent ends it.
Status Forever() {
  while (true) pause();
}

TEST(ProcessesTest, AllEndWell) {
  const Status status = RunProcesses(
      3, [](int32_t, ProcessSlot&) { return Ok(); }, Watch());
  EXPECT_TRUE(status.ok()) << status.error().ToString();
}

TEST(ProcessesTest, AKilledOneIsNamedWithItsPlace) {
  const Status status = RunProcesses(
      3,
      [](int32_t rank, ProcessSlot& slot) -> Status {
        slot.progress.Store({7, Section::kBody, 0});
        if (rank == 2) raise(SIGKILL);
        return Forever();
      },
      Watch());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kRunFailed);
  EXPECT_THAT(status.error().ToString(), HasSubstr("device 2: was killed by signal 9"));
  EXPECT_THAT(status.error().ToString(), HasSubstr("in step 7"));
}

TEST(ProcessesTest, AStoppedOneIsNoticed) {
  ProcessWatch watch = Watch();
  watch.silence = std::chrono::milliseconds(500);
  const Status status = RunProcesses(
      1,
      [](int32_t, ProcessSlot&) -> Status {
        raise(SIGSTOP);
        return Forever();
      },
      watch);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("device 0: does not answer"));
}

// Those who lose a peer fail too, often sooner: the cause is named, not the effect.
TEST(ProcessesTest, TheCauseIsNamedNotTheEffect) {
  auto* lost = static_cast<std::atomic<bool>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const Status status = RunProcesses(
      3,
      [&](int32_t rank, ProcessSlot&) -> Status {
        if (rank == 0) {
          *lost = true;
          throw PeerLost("connection closed");
        }
        while (rank == 1 && !*lost) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (rank == 1) throw std::runtime_error("out of memory");
        return Forever();
      },
      Watch());
  munmap(lost, 4096);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("device 1: failed: out of memory"));
}

TEST(ProcessesTest, AnErrorKeepsItsKindAndWords) {
  const Status status = RunProcesses(
      2,
      [](int32_t, ProcessSlot&) -> Status {
        return BadInput("data.txt", "is empty", "give another");
      },
      Watch());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(status.error().where, "data.txt");
  EXPECT_EQ(status.error().hint, "give another");
}

TEST(ProcessesTest, TheFirstProcessHasTheLastWord) {
  const ProcessWatch watch = Watch();
  ProcessesEnd end;
  const Status status = RunProcesses(
      1,
      [](int32_t, ProcessSlot& slot) -> Status {
        slot.said = 7;
        return Ok();
      },
      watch, &end);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(end.said, 7);
  EXPECT_FALSE(end.lost);
}

// One that just leaves is named, not those who lose it by that; not even when its code says that
// all is well.
TEST(ProcessesTest, TheFirstToLeaveIsNamed) {
  for (const int code : {0, 3}) {
    const Status status = RunProcesses(
        3,
        [&](int32_t rank, ProcessSlot&) -> Status {
          if (rank == 1) _exit(code);
          throw PeerLost("connection closed");
        },
        Watch());
    ASSERT_FALSE(status.ok());
    EXPECT_THAT(
        status.error().ToString(),
        HasSubstr("device 1: left before the others, with exit code " + std::to_string(code)));
  }
}

// In a process of its own, which is sent so many signals, each after the one before was noticed.
int CodeOfSignalled(int signals, int signal = SIGINT, bool to_child = false) {
  const pid_t parent = fork();
  if (parent == 0) {
    ProcessWatch watch = Watch();
    ProcessesEnd end;
    const Status status = RunProcesses(
        2,
        [&](int32_t rank, ProcessSlot& slot) -> Status {
          if (rank == 1) return signal == SIGINT && signals > 1 ? Forever() : Ok();
          for (int k = 0; k < signals; ++k) {
            kill(to_child ? getpid() : getppid(), signal);
            while (slot.stop == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
          return signal == SIGINT && signals > 1 ? Forever() : Ok();
        },
        watch, &end);
    _exit(!status.ok() ? 1 : end.signal != signal ? 2 : end.at_once ? 3 : 4);
  }
  int status = 0;
  waitpid(parent, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ProcessesTest, ASecondInterruptEndsAllAtOnce) { EXPECT_EQ(CodeOfSignalled(2), 3); }

// A scheduler tells all processes, and may say it again.
TEST(ProcessesTest, OtherSignalsMeanOneStopWhoeverGetsThem) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    EXPECT_EQ(CodeOfSignalled(3, signal), 4) << signal;
    EXPECT_EQ(CodeOfSignalled(3, signal, /*to_child=*/true), 4) << signal;
  }
  EXPECT_EQ(CodeOfSignalled(1, SIGINT, /*to_child=*/true), 4);
}

TEST(ProcessesTest, NothingIsLeftWhenTheParentCannotGoOn) {
  ProcessWatch watch = Watch();
  watch.after_fork = []() -> Status { return BadInput("port", "is in use"); };
  const Status status = RunProcesses(
      2, [](int32_t, ProcessSlot&) { return Forever(); }, watch);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().what, "is in use");
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // no child
}

// Until the process is gone; a zombie that nobody waits for has ended, too.
void AwaitEnd(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  while (true) {
    char state = 'Z';
    if (FILE* file = fopen(path.c_str(), "r")) {
      if (fscanf(file, "%*d %*s %c", &state) != 1) state = 'Z';
      fclose(file);
    }
    if (state == 'Z') return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

// The parent is killed: its children do not outlive it, or this test does not end.
TEST(ProcessesTest, ChildrenEndWithTheirParent) {
  auto* pids = static_cast<std::atomic<pid_t>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t parent = fork();
  if (parent == 0) {
    (void)RunProcesses(
        2,
        [&](int32_t rank, ProcessSlot&) -> Status {
          pids[rank] = getpid();
          return Forever();
        },
        Watch());
    _exit(0);
  }
  while (pids[0] == 0 || pids[1] == 0) {
    ASSERT_EQ(waitpid(parent, nullptr, WNOHANG), 0) << "it ended before its children began";
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  for (int rank = 0; rank < 2; ++rank) AwaitEnd(pids[rank]);
  munmap(pids, 4096);
}

}  // namespace
}  // namespace heddle
