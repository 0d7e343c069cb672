// Shares that somebody gets at: other shares in their directory, strange letters, signals,
// processes that are stopped.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/directory_claim.h"
#include "base/file.h"
#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "run/store/checkpoint.h"
#include "support/background.h"
#include "support/scratch_folder.h"
#include "torch/share_fixture.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr int kForEver = 1'000'000;

class ShareHarm : public testing::Test {
 protected:
  std::string Command(int jobs, int steps) const {
    return "share " + MakeShareJobs(folder_, jobs, steps) +
           " --run --one-group --no-serial --dir " + directory_;
  }
  // Once the job has had some steps.
  bool AwaitTraining(const Background& share, const std::string& job) const {
    return share.Await(
        [&] { return std::filesystem::exists(directory_ + "/shared/" + job + "/config.json"); });
  }

  ScratchFolder folder_;
  std::string directory_ = folder_ / "run";
};

TEST_F(ShareHarm, WhatIsInADirectoryIsNotTouched) {
  std::filesystem::create_directories(directory_ + "/shared/a");
  ASSERT_TRUE(WriteFile(directory_ + "/shared/a/thesis.txt", "precious").ok());
  const Ran ran = RunHeddle(Command(2, 4));
  EXPECT_EQ(ran.exit_code, 4) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("is not empty: there is shared"));
  EXPECT_EQ(ReadFile(directory_ + "/shared/a/thesis.txt").value(), "precious");
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/plans"));
}

TEST_F(ShareHarm, OneShareInADirectory) {
  Background share(Command(2, kForEver), folder_);
  ASSERT_TRUE(AwaitTraining(share, "a")) << share.err();
  const Ran second = RunHeddle(Command(2, 4));
  EXPECT_EQ(second.exit_code, 4) << second.err;
  EXPECT_THAT(second.err, HasSubstr(fmt::format("is in use by process {} on ", share.pid())));
  EXPECT_EQ(share.Children().size(), 2U) << "the first goes on";
  // Killed, it leaves nothing that would be in the way of joining or running elsewhere.
  share.Signal(SIGKILL);
  share.Wait();
  // Its processes end with it, but a large one takes a moment to.
  while (DirectoryClaim::IsTaken(directory_)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const Ran joins =
      RunHeddle("share " + MakeShareJobs(folder_, 3, 4) + " --attach c --dir " + directory_);
  EXPECT_EQ(joins.exit_code, 4);
  EXPECT_THAT(joins.err, HasSubstr("no share runs there"));
  EXPECT_FALSE(std::filesystem::exists(directory_ + "/plans/c.json"));
}

TEST_F(ShareHarm, StrangeLettersDeleteNothingAndHoldNobodyUp) {
  std::filesystem::create_directories(folder_ / "victim");
  ASSERT_TRUE(WriteFile(folder_ / "victim/thesis.txt", "precious").ok());
  Background share(Command(2, kForEver), folder_);
  ASSERT_TRUE(AwaitTraining(share, "a")) << share.err();
  ASSERT_EQ(mkfifo((directory_ + "/attach/pipe.json").c_str(), 0600), 0);
  Json letter = {{"name", "../../victim"},
                 {"plan", directory_ + "/plans/a.json"},
                 {"profile", ""},
                 {"data", "synthetic"},
                 {"steps", 4},
                 {"seed", 1},
                 {"rate", 0.1},
                 {"weight", 1.0},
                 {"predicted_seconds", 0.0}};
  ASSERT_TRUE(WriteFile(directory_ + "/attach/evil.json", letter.dump()).ok());
  const std::string answer = directory_ + "/attach/evil.done";
  ASSERT_TRUE(share.Await([&] { return std::filesystem::exists(answer); })) << share.err();
  EXPECT_THAT(ReadFile(answer).value(), HasSubstr("is no name for a job"));
  EXPECT_TRUE(
      share.Await([&] { return std::filesystem::exists(directory_ + "/attach/pipe.done"); }));
  EXPECT_EQ(ReadFile(folder_ / "victim/thesis.txt").value(), "precious");
  EXPECT_EQ(share.Children().size(), 2U) << "the others go on";
}

class ShareSignals : public ShareHarm, public testing::WithParamInterface<std::pair<int, int>> {};

TEST_P(ShareSignals, EveryJobSavesAndCanBeGoneOnWith) {
  const auto [signal, code] = GetParam();
  Background share(Command(2, 600), folder_);
  ASSERT_TRUE(AwaitTraining(share, "a") && AwaitTraining(share, "b")) << share.err();
  share.Signal(signal);
  EXPECT_EQ(share.Wait(), code) << share.err();
  EXPECT_THAT(share.err(), testing::Not(HasSubstr("failed")));
  for (const std::string job : {"a", "b"}) {
    const std::string run = directory_ + "/shared/" + job;
    const auto checkpoints = ListCheckpoints(run);
    if (checkpoints.empty()) {  // told before its first step, on a busy machine
      EXPECT_THAT(share.err(), HasSubstr(job + ": nothing was saved"));
      continue;
    }
    ASSERT_EQ(checkpoints.size(), 1U) << job << share.err();
    EXPECT_THAT(share.err(), HasSubstr("on by heddle run --resume " + run));
    const int64_t step = LoadCheckpoint(checkpoints[0]).value().info.step;
    EXPECT_GT(step, 0);
    const Ran resumed =
        RunHeddle(fmt::format("run --resume {} --steps {} --threads", run, step + 2));
    EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ShareSignals,
                         testing::Values(std::pair{SIGHUP, 129}, std::pair{SIGINT, 130},
                                         std::pair{SIGTERM, 143}),
                         [](const auto& one) {
                           return std::string(sigabbrev_np(one.param.first));
                         });

// A machine that was suspended: all stop, all go on.
TEST_F(ShareHarm, APauseOfAllIsNobodysFault) {
  Background share(Command(2, 200), folder_);
  ASSERT_TRUE(AwaitTraining(share, "a") && AwaitTraining(share, "b")) << share.err();
  std::vector<pid_t> all = {share.pid()};
  for (const pid_t leader : share.Children()) {
    all.push_back(leader);
    for (const pid_t rank : Background::ChildrenOf(leader)) all.push_back(rank);
  }
  for (const pid_t process : all) kill(process, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(4));
  for (const pid_t process : all) kill(process, SIGCONT);
  EXPECT_EQ(share.Wait(), 0) << share.err();
}

// The office is the share's own child that is nobody's leader.
TEST_F(ShareHarm, AnOfficeThatIsStoppedIsNamed) {
  const std::string jobs = MakeShareJobs(folder_, 2, kForEver);
  Background share(
      "share " + jobs + " --run --emulate --dilate 1 --one-group --no-serial --dir " + directory_,
      folder_);
  ASSERT_TRUE(AwaitTraining(share, "a") && AwaitTraining(share, "b")) << share.err();
  const pid_t office = share.Children().front();
  ASSERT_TRUE(Background::ChildrenOf(office).empty());
  kill(office, SIGSTOP);
  EXPECT_EQ(share.Wait(), 5) << share.err();
  EXPECT_THAT(share.err(),
              HasSubstr(fmt::format("the process that gives out the network ({}) does not answer",
                                    office)));
}

}  // namespace
}  // namespace heddle
