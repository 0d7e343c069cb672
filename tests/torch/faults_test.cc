// heddle run with a process for each device: the same bits as threads, and what happens when one of
// them dies, hangs or is asked to stop.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "base/file.h"
#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "run/store/checkpoint.h"
#include "run/store/run_directory.h"
#include "support/background.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

std::string MakePlanFile(const ScratchFolder& folder, const std::string& strategy) {
  const std::string path = folder / (strategy + ".json");
  const Ran ran = RunHeddle(
      "plan --strategy " + strategy +
      " --model 'tiny-gpt?layers=6&hidden=32&heads=2&seq=16&vocab=64&dropout=10' --clip 1 --batch 8"
      " --microbatches 4 --cluster " +
      ClusterFile("mixed4") + " -o " + path);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  return path;
}

std::string HashOfRun(const std::string& flags) {
  const Ran ran = RunHeddle("run --json " + flags);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  return ParseJson(ran.out, "run").value()["parameter_hash"];
}

TEST(ProcessRunTest, TheSameBitsAsThreads) {
  const ScratchFolder folder;
  for (const char* strategy : {"1f1b", "dp-proportional", "interleaved", "pipeline"}) {
    const std::string common =
        MakePlanFile(folder, strategy) + " --steps 4 --dir " + (folder / strategy);
    EXPECT_EQ(HashOfRun(common + "-p"), HashOfRun(common + "-t --threads")) << strategy;
  }
}

// A random device is killed or stopped at a random moment: it is named, nobody is left, every
// checkpoint is whole.
TEST(ProcessRunTest, AnyDeviceMayDieAtAnyMoment) {
  const ScratchFolder folder;
  const std::string plan = MakePlanFile(folder, "1f1b");
  std::mt19937 random(7);
  const char* wanted = std::getenv("HEDDLE_FAULT_ROUNDS");  // ./dev bench faults
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 20;
  for (int round = 0; round < rounds; ++round) {
    const std::string run = folder / ("run" + std::to_string(round));
    Background background("run " + plan + " --steps 100000 --save-every 5 --dir " + run, folder);
    ASSERT_EQ(background.AwaitChildren(4).size(), 4U) << background.err();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 1500));
    const std::vector<pid_t> devices = background.Children();
    ASSERT_EQ(devices.size(), 4U);
    const size_t victim = random() % 4;
    const bool stops = round % 7 == 6;
    kill(devices[victim], stops ? SIGSTOP : SIGKILL);
    EXPECT_EQ(background.Wait(), 5);
    EXPECT_THAT(background.err(), HasSubstr("device " + std::to_string(victim) + " ("))
        << background.err();
    EXPECT_THAT(background.err(),
                stops ? HasSubstr("does not answer") : HasSubstr("killed by signal 9"));
    EXPECT_THAT(background.err(), AnyOf(HasSubstr("in step"), HasSubstr("after step"),
                                        HasSubstr("before its first step")));
    for (const pid_t device : devices) EXPECT_FALSE(Background::Exists(device));
    for (const std::string& checkpoint : ListCheckpoints(run)) {
      EXPECT_TRUE(LoadCheckpoint(checkpoint).ok()) << checkpoint;
    }
  }
}

TEST(ProcessRunTest, GoesOnAfterADeathAsIfNothingHadHappened) {
  const ScratchFolder folder;
  const std::string plan = MakePlanFile(folder, "1f1b");
  const std::string run = folder / "run";
  Background background("run " + plan + " --steps 100000 --save-every 3 --dir " + run, folder);
  ASSERT_TRUE(background.Await([&] { return !ListCheckpoints(run).empty(); })) << background.err();
  kill(background.Children()[1], SIGKILL);
  EXPECT_EQ(background.Wait(), 5);
  const int64_t saved = LoadCheckpoint(LatestCheckpoint(run).value()).value().info.step;
  const std::string steps = " --steps " + std::to_string(saved + 4);
  const std::string resumed = HashOfRun(plan + steps + " --resume " + run);
  EXPECT_EQ(resumed, HashOfRun(plan + steps + " --dir " + (folder / "whole")));
}

// A device is lost: the others go on under a new plan, as a run resumed by hand would.
TEST(ProcessRunTest, ElasticGoesOnWithoutTheLostDevice) {
  const ScratchFolder folder;
  const std::string plan = MakePlanFile(folder, "1f1b");
  const std::string run = folder / "run";
  Background background(
      "run " + plan + " --json --steps 100000 --elastic --save-every 5 --keep 100000 --dir " + run,
      folder);
  const auto saved = [&] { return ListCheckpoints(run).size(); };
  ASSERT_TRUE(background.Await([&] { return saved() >= 3; })) << background.err();
  kill(background.Children()[2], SIGKILL);
  const std::string on = "1f1b on 3 devices, on from " + run;
  ASSERT_TRUE(background.Await([&] { return background.err().find(on) != std::string::npos; }))
      << background.err();
  EXPECT_THAT(background.err(), HasSubstr("device 2 ("));
  const size_t before = saved();
  ASSERT_TRUE(background.Await([&] { return saved() > before; })) << background.err();
  background.Signal(SIGINT);
  EXPECT_EQ(background.Wait(), 128 + SIGINT) << background.err();
  const Json json = ParseJson(background.out(), "run").value();
  const std::string from =
      run + "/checkpoints/step-" + fmt::format("{:08}", json["first_step"].get<int64_t>());
  EXPECT_EQ(json["parameter_hash"],
            HashOfRun(fmt::format("{}/plan.json --steps {} --resume {} --dir {}", run,
                                  json["steps"].get<int64_t>(), from, folder / "by-hand")));
}

TEST(ProcessRunTest, AskedToStopItFinishesTheStepAndSaves) {
  const ScratchFolder folder;
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string run = folder / ("run" + std::to_string(signal));
    Background background("run " + MakePlanFile(folder, "1f1b") + " --steps 100000 --dir " + run,
                          folder);
    ASSERT_TRUE(background.Await([&] { return std::filesystem::exists(run + "/log.jsonl"); }))
        << background.err();
    background.Signal(signal);
    EXPECT_EQ(background.Wait(), 128 + signal) << background.err();
    EXPECT_THAT(background.out(), HasSubstr("interrupted"));
    const Checkpoint checkpoint = LoadCheckpoint(LatestCheckpoint(run).value()).value();
    const RunDirectory directory = RunDirectory::Open(run).value();
    const std::vector<Json> log = directory.ReadLog().value();
    EXPECT_EQ(log.back().at("step"), checkpoint.info.step);
  }
}

// The disk is full when a checkpoint is due: an error that says so, and no half of one. One that is
// too small from the beginning is refused before the first step.
TEST(ProcessRunTest, AFullDiskIsAnError) {
  const ScratchFolder folder;
  const std::string disk = folder / "disk";
  std::filesystem::create_directories(disk);
  if (RunShell("mount -t tmpfs -o size=2m tmpfs " + disk).exit_code != 0) {
    GTEST_SKIP() << "mounting a small file system is not permitted here";
  }
  const std::string plan = MakePlanFile(folder, "1f1b");
  const Ran small =
      RunHeddle("run " + plan + " --steps 50 --save-every 1 --keep 40 --dir " + disk + "/small");
  EXPECT_EQ(small.exit_code, 4);
  EXPECT_THAT(small.err, HasSubstr("checkpoints of"));
  EXPECT_THAT(small.err, HasSubstr("bytes are free"));
  EXPECT_FALSE(std::filesystem::exists(disk + "/small"));
  {
    const std::string run = disk + "/run";
    Background background("run " + plan + " --steps 1000000 --save-every 5 --keep 1 --dir " + run,
                          folder);
    while (ListCheckpoints(run).empty()) {
      ASSERT_TRUE(Background::Exists(background.pid())) << background.err();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    RunShell("dd if=/dev/zero of=" + disk + "/ballast bs=4k");
    EXPECT_NE(background.Wait(), 0);
    EXPECT_THAT(background.err(), HasSubstr("No space left on device"));
    for (const std::string& checkpoint : ListCheckpoints(run)) {
      EXPECT_TRUE(LoadCheckpoint(checkpoint).ok()) << checkpoint;
    }
  }
  RunShell("umount " + disk);
}

TEST(ProcessRunTest, BadInputIsSaidOnce) {
  const ScratchFolder folder;
  const Ran ran = RunHeddle("run " + MakePlanFile(folder, "1f1b") + " --data text:/nowhere --dir " +
                            (folder / "run"));
  EXPECT_EQ(ran.exit_code, 4);
  EXPECT_THAT(ran.err, HasSubstr("/nowhere"));
  EXPECT_EQ(ran.err.find("heddle:"), ran.err.rfind("heddle:")) << ran.err;
}

}  // namespace
}  // namespace heddle
