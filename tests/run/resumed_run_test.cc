#include "run/resumed_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/json_field.h"
#include "run/data/data_source.h"
#include "run/store/checkpoint.h"
#include "run/store/run_directory.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A run on a text, with a checkpoint after ten of its forty steps.
class ResumedRunTest : public testing::Test {
 protected:
  ResumedRunTest() {
    EXPECT_TRUE(WriteFile(text_, "the quick brown fox").ok());
    RunConfig config;
    config.plan = "four.json";
    config.data = "text:" + text_;
    config.data_hash = DataHash(config.data).value();
    config.steps = 40;
    config.learning_rate = 0.5;
    config.schedule = "cosine:warmup=3";
    config.seed = 7;
    config.save_every = 5;
    const RunDirectory run = RunDirectory::Create(run_).value();
    EXPECT_TRUE(run.WriteConfig(RunConfigToJson(config)).ok());
    EXPECT_TRUE(run.WritePlan("the plan").ok());
    CheckpointInfo info;
    info.step = 10;
    info.seed = 7;
    EXPECT_TRUE(SaveCheckpoint(run.checkpoints_path(), info, {}).ok());
  }

  RunConfig Asked() const {
    RunConfig asked;
    asked.resume = run_;
    return asked;
  }
  static std::string ErrorOf(const RunConfig& asked, const std::vector<std::string>& given) {
    const Result<ResumedRun> resumed = ResumeRun(asked, given);
    return resumed.ok() ? "" : resumed.error().ToString();
  }

  ScratchFolder folder_;
  std::string run_ = folder_ / "run", text_ = folder_ / "text.txt";
};

TEST_F(ResumedRunTest, EverythingIsAsItWas) {
  for (const std::string& from :
       {run_, run_ + "/checkpoints/step-00000010", run_ + "/checkpoints/step-00000010/"}) {
    RunConfig asked = Asked();
    asked.resume = from;
    const ResumedRun resumed = ResumeRun(asked, {"resume"}).value();
    EXPECT_EQ(resumed.config.data, "text:" + text_);
    EXPECT_EQ(resumed.config.learning_rate, 0.5);
    EXPECT_EQ(resumed.config.schedule, "cosine:warmup=3");
    EXPECT_EQ(resumed.config.steps, 40);
    EXPECT_EQ(resumed.config.seed, 7U);
    EXPECT_EQ(resumed.config.save_every, 5);
    EXPECT_EQ(resumed.config.resume, from);
    EXPECT_EQ(resumed.plan, run_ + "/plan.json");
    EXPECT_THAT(resumed.changes, IsEmpty());
  }
}

TEST_F(ResumedRunTest, WhatIsChangedIsSaid) {
  RunConfig asked = Asked();
  asked.learning_rate = 0.25;
  asked.steps = 40;
  asked.keep = 9;
  const ResumedRun resumed = ResumeRun(asked, {"resume", "rate", "steps", "keep"}).value();
  EXPECT_EQ(resumed.config.learning_rate, 0.25);
  EXPECT_EQ(resumed.config.keep, 9);
  EXPECT_THAT(resumed.changes, ElementsAre("rate 0.5 → 0.25", "keep 3 → 9"));
}

TEST_F(ResumedRunTest, AnotherPlan) {
  ASSERT_TRUE(WriteFile(folder_ / "two.json", "another plan").ok());
  ASSERT_TRUE(WriteFile(folder_ / "same.json", "the plan").ok());
  RunConfig asked = Asked();
  asked.plan = folder_ / "two.json";
  const ResumedRun resumed = ResumeRun(asked, {"plan"}).value();
  EXPECT_EQ(resumed.plan, asked.plan);
  EXPECT_THAT(resumed.changes, ElementsAre("plan four.json → " + asked.plan));
  asked.plan = folder_ / "same.json";
  EXPECT_THAT(ResumeRun(asked, {"plan"}).value().changes, IsEmpty());
}

TEST_F(ResumedRunTest, AnotherRunIsRefusedUnlessItIsMeant) {
  RunConfig asked = Asked();
  asked.seed = 8;
  EXPECT_THAT(ErrorOf(asked, {"seed"}), HasSubstr("--override"));
  asked.dtype = DType::kF64;
  EXPECT_THAT(ErrorOf(asked, {"dtype"}), HasSubstr("--dtype: f64 is not that of"));
  asked.validation = 0.5;
  EXPECT_THAT(ErrorOf(asked, {"validation"}), HasSubstr("--validation"));
  EXPECT_THAT(ErrorOf(asked, {"data"}), HasSubstr("synthetic is not the data of"));
  asked.may_override = true;
  const ResumedRun resumed =
      ResumeRun(asked, {"override", "seed", "dtype", "validation", "data"}).value();
  EXPECT_EQ(resumed.config.seed, 8U);
  EXPECT_EQ(resumed.config.data, "synthetic");
  EXPECT_EQ(resumed.changes.size(), 4U);
  asked.seed = 7;
  asked.may_override = false;
  EXPECT_EQ(ErrorOf(asked, {"seed"}), "");  // as it was
}

TEST_F(ResumedRunTest, TheBytesAreTheDataNotTheirName) {
  std::filesystem::copy(text_, folder_ / "copy.txt");
  RunConfig asked = Asked();
  asked.data = "text:" + (folder_ / "copy.txt");
  EXPECT_THAT(ResumeRun(asked, {"data"}).value().changes,
              ElementsAre("data text:" + text_ + " → " + asked.data));
  ASSERT_TRUE(WriteFile(text_, "another text").ok());
  EXPECT_THAT(ErrorOf(Asked(), {}), HasSubstr("has changed since"));
  RunConfig meant = Asked();
  meant.may_override = true;
  EXPECT_THAT(ResumeRun(meant, {"override"}).value().changes,
              ElementsAre("data text:" + text_ + ", changed since"));
}

TEST_F(ResumedRunTest, FewerStepsThanAreDoneAreRefused) {
  RunConfig asked = Asked();
  asked.steps = 9;
  EXPECT_THAT(ErrorOf(asked, {"steps"}), HasSubstr("fewer than the 10 done already"));
}

// A checkpoint that was copied elsewhere has no run to take anything from.
TEST_F(ResumedRunTest, ACheckpointByItself) {
  std::filesystem::copy(run_ + "/checkpoints/step-00000010", folder_ / "alone",
                        std::filesystem::copy_options::recursive);
  RunConfig asked = Asked();
  asked.resume = folder_ / "alone";
  EXPECT_THAT(ErrorOf(asked, {}), HasSubstr("no plan given"));
  asked.plan = "plan.json";
  const ResumedRun resumed = ResumeRun(asked, {"plan"}).value();
  EXPECT_EQ(resumed.plan, "plan.json");
  EXPECT_EQ(resumed.config.seed, 7U);
  EXPECT_EQ(resumed.config.data, "synthetic");
  EXPECT_THAT(resumed.changes, IsEmpty());
}

TEST_F(ResumedRunTest, ThereMustBeACheckpoint) {
  std::filesystem::remove_all(run_ + "/checkpoints");
  EXPECT_THAT(ErrorOf(Asked(), {}), HasSubstr("there is no checkpoint"));
}

}  // namespace
}  // namespace heddle
