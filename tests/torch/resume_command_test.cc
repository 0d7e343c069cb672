// heddle run --resume, and how a run is stopped, as people do it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "run/store/checkpoint.h"
#include "run/store/run_directory.h"
#include "support/background.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ResumeCommandTest : public testing::Test {
 protected:
  ResumeCommandTest() {
    std::ofstream text(text_);
    for (int k = 0; k < 300; ++k) text << "the quick brown fox ";
  }

  std::string PlanFile(const std::string& name, const std::string& strategy,
                       const std::string& more = "") {
    const std::string path = folder_ / name;
    const Ran ran = RunHeddle(
        "plan --strategy " + strategy +
        " --model 'tiny-gpt?layers=4&hidden=32&heads=2&seq=16&vocab=256&dropout=10' --clip 1 "
        "--batch 8 --microbatches 4 --cluster " +
        ClusterFile("mixed4") + more + " -o " + path);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return path;
  }
  // Everything that is not a default; the number of steps follows.
  std::string Flags() const {
    return " --data text:" + text_ +
           " --rate 0.003 --schedule cosine:warmup=5,floor=0.1 --seed 7 --validation 0.2"
           " --save-every 10 --keep 1000 --steps ";
  }
  static Json ResultOf(const std::string& arguments) {
    const Ran ran = RunHeddle(arguments + " --json");
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return ran.exit_code == 0 ? ParseJson(ran.out, "run").value() : Json();
  }
  static bool AwaitCheckpoint(const Background& background, const std::string& run) {
    const pid_t pid = background.pid();
    while (ListCheckpoints(run).empty()) {
      if (!Background::Exists(pid)) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

  ScratchFolder folder_;
  std::string text_ = folder_ / "text.txt";
};

// Exactly as the message after Ctrl-C says.
TEST_F(ResumeCommandTest, TheMessageAfterCtrlCGoesOnWithTheRun) {
  const std::string plan = PlanFile("plan.json", "1f1b");
  const Json whole = ResultOf("run " + plan + Flags() + "150 --dir " + (folder_ / "whole"));
  const std::string run = folder_ / "run";
  Background background("run " + plan + Flags() + "150 --dir " + run, folder_);
  ASSERT_TRUE(AwaitCheckpoint(background, run)) << background.err();
  background.Signal(SIGINT);
  EXPECT_EQ(background.Wait(), 130) << background.err();
  EXPECT_THAT(background.out(), HasSubstr("go on with  heddle run --resume " + run + "\n"));
  const std::string before = ReadFile(run + "/config.json").value();
  std::filesystem::remove(plan);  // the run has its own
  const Json rest = ResultOf("run --resume " + run);
  EXPECT_GE(rest["first_step"], 10);
  EXPECT_EQ(rest["steps"], 150);
  EXPECT_EQ(rest["parameter_hash"], whole["parameter_hash"]);
  EXPECT_EQ(ReadFile(run + "/config.json").value(), before);
  // And once more: there is nothing to do, and nothing is done.
  const std::string timeline = ReadFile(run + "/timeline.json").value();
  const Ran finished = RunHeddle("run --resume " + run);
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_THAT(finished.out, HasSubstr("all 150 steps of tiny-gpt"));
  EXPECT_EQ(ReadFile(run + "/timeline.json").value(), timeline);
}

TEST_F(ResumeCommandTest, WhatIsChangedIsSaidAndTheOldIsKept) {
  const std::string run = folder_ / "run";
  ResultOf("run " + PlanFile("four.json", "1f1b") + Flags() + "10 --dir " + run);
  const Ran ran = RunHeddle("run " + PlanFile("two.json", "dp") + " --resume " + run +
                            " --steps 12 --rate 0.001 --threads");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.err, AllOf(HasSubstr("plan " + (folder_ / "four.json") + " → "),
                             HasSubstr("steps 10 → 12\n"), HasSubstr("rate 0.003 → 0.001\n"),
                             HasSubstr("threads false → true\n"), Not(HasSubstr("data "))));
  const Json config = ParseJson(ReadFile(run + "/config.json").value(), "config").value();
  EXPECT_EQ(config["rate"], 0.001);
  EXPECT_EQ(config["data"], "text:" + text_);
  const Json old = ParseJson(ReadFile(run + "/config-until-00000010.json").value(), "old").value();
  EXPECT_EQ(old["rate"], 0.003);
  EXPECT_TRUE(std::filesystem::exists(run + "/plan-until-00000010.json"));
}

TEST_F(ResumeCommandTest, AnotherRunNeedsOverride) {
  const std::string run = folder_ / "run";
  ResultOf("run " + PlanFile("plan.json", "1f1b") + Flags() + "4 --threads --dir " + run);
  const std::string before = ReadFile(run + "/config.json").value();
  for (const char* change : {"--data synthetic", "--seed 8", "--validation 0.5", "--dtype fp64"}) {
    const Ran ran = RunHeddle("run --steps 6 --resume " + run + " " + change);
    EXPECT_EQ(ran.exit_code, 4) << change;
    EXPECT_THAT(ran.err, HasSubstr("--override")) << change;
  }
  std::ofstream(text_, std::ios::app) << "more";
  EXPECT_EQ(RunHeddle("run --steps 6 --resume " + run).exit_code, 4);
  EXPECT_EQ(ReadFile(run + "/config.json").value(), before);
  EXPECT_EQ(RunHeddle("run --steps 6 --override --seed 8 --resume " + run).exit_code, 0);
}

// SIGTERM, in processes and threads; and before there is anything to save.
TEST_F(ResumeCommandTest, AskedToStop) {
  const std::string plan = PlanFile("plan.json", "1f1b");
  for (const char* how : {"", "--threads "}) {
    const std::string run = folder_ / ("run" + std::string(how).substr(0, 4));
    Background background("run " + plan + " --steps 100000 --save-every 5 " + how + "--dir " + run,
                          folder_);
    ASSERT_TRUE(AwaitCheckpoint(background, run)) << background.err();
    background.Signal(SIGTERM);
    EXPECT_EQ(background.Wait(), 143) << background.err();
    EXPECT_THAT(background.out(), HasSubstr("interrupted: "));
    EXPECT_THAT(background.err(), HasSubstr("Ctrl-C to end at once"));
  }
}

// Whichever rank of a launcher is asked, all save and stop, with its signal.
TEST_F(ResumeCommandTest, OneOfALaunchersRanksIsAskedToStop) {
  const std::string run = folder_ / "run";
  std::string line = "export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
                     std::to_string(12000 + getpid() % 1000 * 20) + "; ";
  const std::string plan = PlanFile("plan.json", "1f1b");
  std::string wait;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string number = std::to_string(rank);
    line += "RANK=" + number + " " + HeddleBinary() + " run " + plan + " --steps 1000000 --dir " +
            run + " > /dev/null & p" + number + "=$!; ";
    wait += "wait $p" + number + "; echo $?; ";
  }
  const Ran ran = RunShell(line + "while kill -0 $p2 && ! test -s " + run +
                           "/log.jsonl; do sleep 0.1; done; kill -INT $p2; " + wait);
  EXPECT_EQ(ran.out, "130\n130\n130\n130\n") << ran.err;
  EXPECT_EQ(ListCheckpoints(run).size(), 1U);
}

// A second Ctrl-C ends it, without a word of the libraries. The pipeline never stops by itself.
TEST_F(ResumeCommandTest, AskedTwice) {
  const std::string plan = folder_ / "async.json";
  ASSERT_EQ(RunHeddle("plan --strategy async --model 'tiny-gpt?layers=4&hidden=32&heads=2&seq=16&"
                      "vocab=256&tied=0' --batch 8 --cluster " +
                      ClusterFile("mixed4") + " -o " + plan)
                .exit_code,
            0);
  for (const char* how : {"", "--threads "}) {
    const std::string run = folder_ / ("run" + std::string(how).substr(0, 4));
    Background background("run " + plan + " --steps 100000000 " + how + "--dir " + run, folder_);
    while (!std::filesystem::exists(run + "/plan.json")) {
      ASSERT_TRUE(Background::Exists(background.pid())) << background.err();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    const std::vector<pid_t> devices = background.Children();
    background.Signal(SIGINT);
    while (background.err().find("Ctrl-C to end at once") == std::string::npos) {
      ASSERT_TRUE(Background::Exists(background.pid())) << background.err();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    background.Signal(SIGINT);
    EXPECT_EQ(background.Wait(), 130);
    EXPECT_THAT(background.err(), AllOf(Not(HasSubstr("heddle:")), Not(HasSubstr("frame #")),
                                        Not(HasSubstr("terminate")), Not(HasSubstr("gloo"))));
    for (const pid_t device : devices) EXPECT_FALSE(Background::Exists(device));
  }
}

// Elastic: the plan without the lost device is made with the options of the plan.
TEST_F(ResumeCommandTest, ElasticKeepsTheOptionsOfThePlan) {
  const std::string plan = folder_ / "local.json";
  ASSERT_EQ(RunHeddle("plan --strategy local --every 3 --replicas pipelined --batch 8 --model "
                      "'tiny-mlp?layers=6' --cluster " +
                      ClusterFile("mixed4") + " -o " + plan)
                .exit_code,
            0);
  const std::string run = folder_ / "run";
  Background background("run " + plan + " --elastic --steps 900 --save-every 90 --dir " + run,
                        folder_);
  ASSERT_TRUE(AwaitCheckpoint(background, run)) << background.err();
  kill(background.Children()[2], SIGKILL);
  EXPECT_EQ(background.Wait(), 0) << background.err();
  EXPECT_THAT(background.err(), HasSubstr("on 3 devices"));
  const Json json = ParseJson(ReadFile(run + "/plan.json").value(), "plan").value();
  EXPECT_EQ(json["local"]["steps"], (Json::array({3, 3, 3}))) << json["local"].dump();
}

}  // namespace
}  // namespace heddle
