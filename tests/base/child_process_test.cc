#include "base/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/child_process.h"

namespace heddle {
namespace {

int Forever() {
  while (true) pause();
}

TEST(ChildProcessTest, LeavesWithItsCode) {
  ChildProcess child = ChildProcess::Fork([] { return 7; }, "child").value();
  const ProcessExit exit = child.Wait();
  EXPECT_EQ(exit.code, 7);
  EXPECT_FALSE(exit.well());
  EXPECT_EQ(exit.ToString(), "left with exit code 7");
  EXPECT_EQ(child.pid(), 0);
  ASSERT_TRUE(child.Look().has_value()) << "it still knows";
  EXPECT_EQ(child.Look()->code, 7);
  EXPECT_TRUE(ChildProcess::Fork([] { return 0; }, "child").value().Wait().well());
}

TEST(ChildProcessTest, RunsUntilItIsKilledAndIsReapedThen) {
  ChildProcess child = ChildProcess::Fork(Forever, "child").value();
  const pid_t pid = child.pid();
  EXPECT_FALSE(child.Look().has_value());
  child.Kill();
  EXPECT_EQ(child.Look()->signal, SIGKILL);
  EXPECT_EQ(child.Look()->ToString(), "was killed by signal 9 (Killed)");
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), -1) << "nobody is left to wait for";
  child.Kill();  // there is nobody
}

TEST(ChildProcessTest, AStoppedOneHasNotEnded) {
  ChildProcess child = ChildProcess::Fork(Forever, "child").value();
  kill(child.pid(), SIGSTOP);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child.pid()), &info, WSTOPPED | WNOWAIT), 0);
  EXPECT_FALSE(child.Look().has_value());
  child.Kill();
  EXPECT_TRUE(child.Look().has_value());
}

TEST(ChildProcessTest, EndsWithItsOwner) {
  pid_t pid = 0;
  {
    ChildProcess first = ChildProcess::Fork(Forever, "child").value();
    pid = first.pid();
    ChildProcess second = std::move(first);
    EXPECT_EQ(second.pid(), pid);
    EXPECT_EQ(kill(pid, 0), 0);
    second = ChildProcess::Fork(Forever, "child").value();
    EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), -1);
    pid = second.pid();
  }
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), -1);
}

// Whoever is killed cannot end his own: the kernel does.
TEST(ChildProcessTest, EndsWithAParentThatIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ChildProcess parent = ChildProcess::Fork(
                            [&] {
                              close(ends[0]);
                              const Result<ChildProcess> child = ChildProcess::Fork(
                                  [&] {
                                    (void)!write(ends[1], "x", 1);
                                    return Forever();
                                  },
                                  "grandchild");
                              close(ends[1]);
                              return Forever();
                            },
                            "parent")
                            .value();
  close(ends[1]);
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  parent.Kill();
  EXPECT_EQ(read(ends[0], &byte, 1), 0) << "the last one that had the pipe is gone";
  close(ends[0]);
}

TEST(ChildProcessTest, HasAGroupOfItsOwnIfAsked) {
  const pid_t mine = getpgrp();
  const auto in_mine = [&] { return getpgrp() == mine ? 1 : 0; };
  EXPECT_EQ(ChildProcess::Fork(in_mine, "child").value().Wait().code, 1);
  EXPECT_EQ(ChildProcess::Fork(in_mine, "child", {.own_group = true}).value().Wait().code, 0);
}

TEST(ChildProcessTest, BecomesAProgram) {
  const auto fails = [] {
    Become({"sh", "-c", "exit $((1 + $0))", "40"});
    return 1;
  };
  EXPECT_EQ(ChildProcess::Fork(fails, "sh").value().Wait().code, 41);
  const auto missing = [] {
    Become({"/nowhere/at-all"});
    return 3;
  };
  EXPECT_EQ(ChildProcess::Fork(missing, "x").value().Wait().code, 3);
}

TEST(ChildProcessTest, SaysWhyItCannotBeStarted) {
  const std::string said = InChild([] {
    const rlimit none = {0, 0};
    if (setuid(65534) != 0 || setrlimit(RLIMIT_NPROC, &none) != 0) return std::string("skip");
    const Result<ChildProcess> child = ChildProcess::Fork([] { return 0; }, "device 2");
    return child.ok() ? std::string("started") : child.error().ToString();
  });
  if (said == "skip") GTEST_SKIP() << "may not become another user here";
  EXPECT_THAT(said, testing::HasSubstr("device 2: cannot be started: "));
}

}  // namespace
}  // namespace heddle
