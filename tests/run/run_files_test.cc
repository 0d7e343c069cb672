#include "run/run_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "model/zoo.h"
#include "support/child_process.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RunFilesTest : public testing::Test {
 protected:
  RunConfig Config(const std::string& directory) const {
    RunConfig config;
    config.plan = "plan.json";
    config.directory = directory;
    return config;
  }
  Result<RunFiles> Open(const RunConfig& config, int64_t done = 0) {
    return RunFiles::Open(plan_, graph_, config, DType::kF32, done);
  }
  static void Save(RunFiles& files, int64_t step) {
    CheckpointInfo info;
    info.step = step;
    EXPECT_TRUE(files.Save(info, {}).ok());
  }
  Json ConfigIn(const std::string& file) const {
    return ParseJson(ReadFile(folder_ / ("run/" + file)).value(), file).value();
  }

  ScratchFolder folder_;
  Plan plan_;
  Graph graph_ = BuildModel("tiny-mlp", {}).value();
};

// Until a leg has saved something, the run is what it was: killed before, it goes on as before.
TEST_F(RunFilesTest, ARunThatGoesOnKeepsItsConfigUntilItSaves) {
  {
    RunFiles files = Open(Config(folder_ / "run")).value();
    Save(files, 10);
  }
  RunConfig rest = Config("");
  rest.resume = folder_ / "run";
  rest.learning_rate = 0.5;
  {
    RunFiles files = Open(rest, 10).value();
    EXPECT_EQ(files.path(), folder_ / "run");
    EXPECT_EQ(ConfigIn("config.json")["rate"], 0.001);
    Save(files, 20);
    Save(files, 30);
  }
  EXPECT_EQ(ConfigIn("config.json")["rate"], 0.5);
  EXPECT_EQ(ConfigIn("config.json")["directory"], folder_ / "run");
  EXPECT_EQ(ConfigIn("config-until-00000010.json")["rate"], 0.001);
  EXPECT_THAT(folder_.Names("run"), ElementsAre("checkpoints", "config-until-00000010.json",
                                                "config.json", "lock", "plan.json"));
  // The same again changes nothing.
  {
    RunFiles files = Open(rest, 30).value();
    Save(files, 40);
  }
  EXPECT_EQ(folder_.Names("run").size(), 5U);
}

TEST_F(RunFilesTest, ANamedCheckpointGoesOnInItsRun) {
  {
    RunFiles files = Open(Config(folder_ / "run")).value();
    Save(files, 10);
    Save(files, 20);
  }
  RunConfig rest = Config("");
  rest.resume = folder_ / "run/checkpoints/step-00000010";
  EXPECT_EQ(Open(rest, 10).value().path(), folder_ / "run");
  EXPECT_THAT(folder_.Names("run/checkpoints"),
              ElementsAre("dropped-step-00000020", "step-00000010"));
}

TEST_F(RunFilesTest, WeightsThatCannotBeWrittenAreRefusedAtTheStart) {
  RunConfig config = Config(folder_ / "run");
  config.weights = folder_ / "nowhere/w.safetensors";
  const Result<RunFiles> files = Open(config);
  ASSERT_FALSE(files.ok());
  EXPECT_THAT(files.error().ToString(), HasSubstr("nowhere"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
  config.weights = folder_ / "run/w.safetensors";  // in the directory that will be there
  EXPECT_TRUE(Open(config).ok());
}

TEST_F(RunFilesTest, ADiskTooSmallForTheCheckpointsIsRefusedAtTheStart) {
  const std::string disk = folder_ / "disk";
  std::filesystem::create_directories(disk);
  const std::string said = InChild([&]() -> std::string {
    if (!MountTinyDisk(disk, "300k")) return "not permitted";
    RunConfig config = Config(disk + "/run");
    config.steps = 10;
    const bool one_fits = Open(config).ok();
    config.directory = disk + "/other";
    config.save_every = 1;
    config.keep = 1000;
    const Result<RunFiles> files = Open(config);
    return (one_fits ? "one fits; " : "") + (files.ok() ? "" : files.error().ToString());
  });
  if (said == "not permitted") GTEST_SKIP() << "mounting a small file system is not permitted here";
  EXPECT_THAT(said, HasSubstr("one fits; "));
  EXPECT_THAT(said, HasSubstr("10 checkpoints of"));
  EXPECT_THAT(said, HasSubstr("bytes are free"));
}

TEST_F(RunFilesTest, HintsSpeakOfACheckpointOnlyIfThereIsOne) {
  EXPECT_EQ(GoOnHint(""), "nothing was saved: start again");
  RunFiles files = Open(Config(folder_ / "run")).value();
  EXPECT_EQ(GoOnHint(files.path(), "with care"), "nothing was saved: start again with care");
  Save(files, 10);
  EXPECT_THAT(GoOnHint(files.path()), HasSubstr("step-00000010: go on by heddle run --resume"));
}

TEST_F(RunFilesTest, HintsLookAtTheCheckpoint) {
  RunFiles files = Open(Config(folder_ / "run")).value();
  Save(files, 10);
  Save(files, 20);
  const auto damage = [](const std::string& checkpoint) {
    std::filesystem::resize_file(checkpoint + "/tensors.safetensors", 9);
  };
  const std::vector<std::string> saved = ListCheckpoints(files.path());
  damage(saved[1]);
  EXPECT_EQ(GoOnHint(files.path()),
            saved[1] + " is damaged: go on by heddle run --resume " + saved[0]);
  damage(saved[0]);
  EXPECT_EQ(GoOnHint(files.path()), saved[1] + " is damaged, and none is whole: start again");
}

}  // namespace
}  // namespace heddle
