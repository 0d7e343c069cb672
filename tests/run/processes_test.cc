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
  watch.silence = std::chrono::milliseconds(700);
  return watch;
}

// Until the parent ends it.
Status Forever() {
  while (true) pause();
}

TEST(ProcessesTest, AllEndWell) {
  ProcessWatch watch = Watch();
  watch.after_fork = []() -> Result<int> { return 42; };
  const Status status = RunProcesses(
      3,
      [](int32_t, ProcessSlot&, int number) -> Status {
        return number == 42 ? Ok() : Status(BadInput("number", "is another"));
      },
      watch);
  EXPECT_TRUE(status.ok()) << status.error().ToString();
}

TEST(ProcessesTest, AKilledOneIsNamedWithItsPlace) {
  const Status status = RunProcesses(
      3,
      [](int32_t rank, ProcessSlot& slot, int) -> Status {
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
  const Status status = RunProcesses(
      2,
      [](int32_t rank, ProcessSlot&, int) -> Status {
        if (rank == 1) raise(SIGSTOP);
        return Forever();
      },
      Watch());
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("device 1: does not answer"));
}

// Those who lose a peer fail too, often sooner: the cause is named, not the effect.
TEST(ProcessesTest, TheCauseIsNamedNotTheEffect) {
  const Status status = RunProcesses(
      3,
      [](int32_t rank, ProcessSlot&, int) -> Status {
        if (rank == 0) throw PeerLost("connection closed");
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        if (rank == 1) throw std::runtime_error("out of memory");
        return Forever();
      },
      Watch());
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("device 1: failed: out of memory"));
}

// So do those that give up loudly.
TEST(ProcessesTest, AKilledOneIsNamedBeforeOneThatAborted) {
  const Status status = RunProcesses(
      2,
      [](int32_t rank, ProcessSlot&, int) -> Status {
        raise(rank == 0 ? SIGABRT : SIGKILL);
        return Forever();
      },
      Watch());
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().ToString(), HasSubstr("device 1: was killed by signal 9"));
}

TEST(ProcessesTest, AnErrorKeepsItsKindAndWords) {
  const Status status = RunProcesses(
      2,
      [](int32_t, ProcessSlot&, int) -> Status {
        return BadInput("data.txt", "is empty", "give another");
      },
      Watch());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(status.error().where, "data.txt");
  EXPECT_EQ(status.error().hint, "give another");
}

// Also one that failed in the middle, when it says what it is about.
TEST(ProcessesTest, AFailureWithAPlaceKeepsItsWords) {
  const Status status = RunProcesses(
      2,
      [](int32_t rank, ProcessSlot&, int) -> Status {
        if (rank == 1) return Forever();
        return Error{ErrorKind::kRunFailed, "step 3", "fc0.w is not finite", "a smaller rate"};
      },
      Watch());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().ToString(), "step 3: fc0.w is not finite\n  hint: a smaller rate");
}

TEST(ProcessesTest, TheHintKnowsWhatTheFirstProcessHasDone) {
  ProcessWatch watch = Watch();
  watch.hint = [](const ProcessSlot& first) {
    return std::string("look into ") + first.directory.data();
  };
  const Status status = RunProcesses(
      2,
      [](int32_t rank, ProcessSlot& slot, int) -> Status {
        if (rank == 1) return Forever();
        WriteText(slot.directory, "runs/a");
        raise(SIGKILL);
        return Ok();
      },
      watch);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().hint, "look into runs/a");
}

TEST(ProcessesTest, TheFirstProcessHasTheLastWord) {
  const ProcessWatch watch = Watch();
  ProcessesEnd end;
  const Status status = RunProcesses(
      1,
      [](int32_t, ProcessSlot& slot, int) -> Status {
        slot.said = 7;
        return Ok();
      },
      watch, &end);
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(end.said, 7);
  EXPECT_FALSE(end.lost);
}

// In a process of its own, which is sent so many signals, each after the one before was noticed.
int CodeOfSignalled(int signals) {
  const pid_t parent = fork();
  if (parent == 0) {
    ProcessWatch watch = Watch();
    watch.asked_to_stop = [] {};
    ProcessesEnd end;
    const Status status = RunProcesses(
        2,
        [&](int32_t rank, ProcessSlot& slot, int) -> Status {
          if (rank == 1) return Forever();
          for (int k = 0; k < signals; ++k) {
            kill(getppid(), SIGINT);
            while (slot.stop == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
          }
          return Forever();
        },
        watch, &end);
    _exit(!status.ok() ? 1 : end.signal != SIGINT ? 2 : end.at_once ? 3 : 4);
  }
  int status = 0;
  waitpid(parent, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ProcessesTest, ASecondSignalEndsAllAtOnce) { EXPECT_EQ(CodeOfSignalled(2), 3); }

TEST(ProcessesTest, NothingIsLeftWhenTheParentCannotGoOn) {
  ProcessWatch watch = Watch();
  watch.after_fork = []() -> Result<int> { return BadInput("port", "is in use"); };
  const Status status = RunProcesses(
      2, [](int32_t, ProcessSlot&, int) { return Forever(); }, watch);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().what, "is in use");
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);  // no child
}

// The parent is killed: its children do not outlive it.
TEST(ProcessesTest, ChildrenEndWithTheirParent) {
  auto* pids = static_cast<std::atomic<pid_t>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  const pid_t parent = fork();
  if (parent == 0) {
    (void)RunProcesses(
        2,
        [&](int32_t rank, ProcessSlot&, int) -> Status {
          pids[rank] = getpid();
          return Forever();
        },
        Watch());
    _exit(0);
  }
  while (pids[0] == 0 || pids[1] == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  for (int rank = 0; rank < 2; ++rank) {
    bool gone = false;
    for (int k = 0; k < 400 && !gone; ++k) {
      // A zombie that nobody waits for has ended, too.
      char state = 0;
      const std::string path = "/proc/" + std::to_string(pids[rank].load()) + "/stat";
      if (FILE* file = fopen(path.c_str(), "r")) {
        if (fscanf(file, "%*d %*s %c", &state) != 1) state = 0;
        fclose(file);
      }
      gone = state == 0 || state == 'Z';
      if (!gone) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_TRUE(gone) << rank;
  }
  munmap(pids, 4096);
}

}  // namespace
}  // namespace heddle
