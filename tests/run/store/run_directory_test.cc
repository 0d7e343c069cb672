#include "run/store/run_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/file.h"
#include "base/json_field.h"
#include "run/store/checkpoint.h"
#include "run/store/stored_values.h"
#include "support/child_process.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;

class RunDirectoryTest : public testing::Test {
 protected:
  RunDirectory New() {
    RunDirectory run = RunDirectory::Create(path()).value();
    EXPECT_TRUE(run.WriteConfig({{"model", "tiny-mlp"}}).ok());
    return run;
  }
  // The log of the run, one line per element.
  std::vector<std::string> Log() const {
    std::vector<std::string> lines;
    const auto run = RunDirectory::Open(path());
    const auto log = run.value().ReadLog();
    EXPECT_TRUE(log.ok()) << ErrorOf(log);
    if (log.ok()) {
      for (const Json& line : log.value()) lines.push_back(line.dump());
    }
    return lines;
  }
  static void SaveStep(const RunDirectory& run, int64_t step) {
    CheckpointInfo info;
    info.step = step;
    const auto saved = SaveCheckpoint(run.checkpoints_path(), info, {});
    EXPECT_TRUE(saved.ok()) << ErrorOf(saved);
  }
  std::string path() const { return scratch_ / "runs/a"; }

  ScratchFolder scratch_;
};

TEST_F(RunDirectoryTest, ARunFromBeginToEnd) {
  {
    RunDirectory run = New();
    ASSERT_TRUE(run.WritePlan("the plan\n").ok());
    ASSERT_TRUE(run.Append({{"step", 1}, {"loss", 2.5}, {"seconds", 0.1}, {"rate", 1e-3}}).ok());
    ASSERT_TRUE(run.Append({{"step", 1}, {"validation_loss", 2.25}}).ok());
    ASSERT_TRUE(run.WriteTimeline("the timeline\n").ok());
    SaveStep(run, 1);
  }
  EXPECT_THAT(scratch_.Names("runs/a"),
              ElementsAre("checkpoints", "config.json", "log.jsonl", "plan.json", "timeline.json"));
  const RunDirectory run = RunDirectory::Open(path()).value();
  EXPECT_EQ(run.ReadConfig().value().dump(),
            R"({"schema":"heddle.run-config/1","model":"tiny-mlp"})");
  EXPECT_EQ(ReadFile(run.plan_path()).value(), "the plan\n");
  EXPECT_EQ(ReadFile(run.timeline_path()).value(), "the timeline\n");
  EXPECT_THAT(Log(), ElementsAre(R"({"step":1,"loss":2.5,"seconds":0.1,"rate":0.001})",
                                 R"({"step":1,"validation_loss":2.25})"));
  EXPECT_EQ(LatestCheckpoint(run.path()).value(), path() + "/checkpoints/step-00000001");
}

TEST_F(RunDirectoryTest, ADirectoryWithARunIsRefused) {
  for (const char* entry : {"config.json", "plan.json", "log.jsonl", "timeline.json"}) {
    fs::create_directories(path());
    ASSERT_TRUE(WriteFile(path() + "/" + entry, "").ok());
    EXPECT_THAT(ErrorOf(RunDirectory::Create(path())),
                AllOf(HasSubstr(std::string("a: holds a run already: there is ") + entry),
                      HasSubstr("resume that run, choose another directory, or remove this one")));
    fs::remove_all(path());
  }
  fs::create_directories(path() + "/checkpoints");
  EXPECT_FALSE(RunDirectory::Create(path()).ok());
  fs::remove_all(path());
  fs::create_directories(path());
  ASSERT_TRUE(WriteFile(path() + "/notes.txt", "mine").ok());
  EXPECT_TRUE(RunDirectory::Create(path()).ok());
}

TEST_F(RunDirectoryTest, OneProcessHasIt) {
  RunDirectory first = RunDirectory::Create(scratch_ / "run").value();
  ASSERT_TRUE(first.Claim().ok());
  ASSERT_TRUE(first.WriteConfig(Json::object()).ok());
  RunDirectory second = RunDirectory::Open(scratch_ / "run").value();  // whoever only reads may
  EXPECT_THAT(ErrorOf(second.Claim()), HasSubstr("is in use by process"));
  // Also before the first checkpoint, which whoever resumes looks for first.
  EXPECT_THAT(ErrorOf(FindResumePoint(scratch_ / "run")), HasSubstr("is in use by process"));
}

TEST_F(RunDirectoryTest, PathsThatCannotBe) {
  ASSERT_TRUE(WriteFile(scratch_ / "file", "x").ok());
  EXPECT_THAT(ErrorOf(RunDirectory::Create(scratch_ / "file")), HasSubstr("is a file"));
  EXPECT_THAT(ErrorOf(RunDirectory::Create(scratch_ / "file/run")), HasSubstr("file: is a file"));
  EXPECT_THAT(ErrorOf(RunDirectory::CreateNamed(scratch_ / "file", "m", 0)),
              HasSubstr("is a file"));
  EXPECT_THAT(ErrorOf(RunDirectory::Open(scratch_ / "file")), HasSubstr("is a file"));
  EXPECT_THAT(ErrorOf(RunDirectory::Open(scratch_ / "none")), HasSubstr("cannot open the run"));
  EXPECT_THAT(ErrorOf(RunDirectory::Open(scratch_.path())), HasSubstr("there is no config.json"));
  EXPECT_FALSE(RunDirectory::Create("/proc/heddle-run").ok());
}

TEST_F(RunDirectoryTest, NamesOfTheirOwn) {
  EXPECT_EQ(RunNameOf("tiny-mlp"), "tiny-mlp");
  EXPECT_EQ(RunNameOf("gpt:layers=12,hidden=768"), "gpt-layers-12-hidden-768");
  EXPECT_EQ(RunNameOf("../../etc"), "etc");
  EXPECT_EQ(RunNameOf(""), "run");
  EXPECT_EQ(RunNameOf(std::string(500, 'x')).size(), 64U);
  const std::string runs = scratch_ / "runs";
  const std::time_t now = 1700000000;
  const RunDirectory first = RunDirectory::CreateNamed(runs, "gpt:small", now).value();
  EXPECT_THAT(fs::path(first.path()).filename(), MatchesRegex("gpt-small-2023-11-1[345]-[0-9]{6}"));
  EXPECT_EQ(RunDirectory::CreateNamed(runs, "gpt:small", now).value().path(), first.path() + "-2");
  ASSERT_TRUE(WriteFile(first.path() + "-3", "a file").ok());
  EXPECT_EQ(RunDirectory::CreateNamed(runs, "gpt:small", now).value().path(), first.path() + "-4");
}

TEST_F(RunDirectoryTest, TheConfigHasItsSchema) {
  const RunDirectory run = New();
  ASSERT_TRUE(run.WriteConfig({{"seed", 1}, {"schema", "mine"}}).ok());
  EXPECT_EQ(run.ReadConfig().value().dump(), R"({"schema":"heddle.run-config/1","seed":1})");
  ASSERT_TRUE(WriteFile(run.config_path(), R"({"schema": "heddle.run-config/9"})").ok());
  EXPECT_THAT(ErrorOf(run.ReadConfig()), HasSubstr("config.json: schema: found"));
  ASSERT_TRUE(WriteFile(run.config_path(), R"({"schema": "heddle.run)").ok());
  EXPECT_THAT(ErrorOf(run.ReadConfig()), HasSubstr("config.json: not valid JSON"));
}

TEST_F(RunDirectoryTest, NoLogYet) {
  const RunDirectory run = New();
  EXPECT_TRUE(run.ReadLog().value().empty());
  EXPECT_FALSE(fs::exists(run.log_path()));
}

TEST_F(RunDirectoryTest, ALineThatJsonCannotSay) {
  RunDirectory run = New();
  ASSERT_TRUE(run.Append({{"step", 1}, {"loss", std::nan("")}, {"note", "a\nb\xff"}}).ok());
  EXPECT_THAT(Log(), ElementsAre("{\"step\":1,\"loss\":null,\"note\":\"a\\nb\xef\xbf\xbd\"}"));
}

TEST_F(RunDirectoryTest, ATornLastLineIsNotReadAndNotGluedTo) {
  {
    RunDirectory run = New();
    ASSERT_TRUE(run.Append({{"step", 1}}).ok());
  }
  const std::string whole = ReadFile(path() + "/log.jsonl").value();
  for (const char* torn : {"{", "{\"step\":2,\"lo", "{\"step\":2}"}) {
    ASSERT_TRUE(WriteFile(path() + "/log.jsonl", whole + torn).ok());
    EXPECT_THAT(Log(), ElementsAre("{\"step\":1}"));
    RunDirectory run = RunDirectory::Open(path()).value();
    ASSERT_TRUE(run.Append({{"step", 3}}).ok());
    EXPECT_THAT(Log(), ElementsAre("{\"step\":1}", "{\"step\":3}"));
  }
  // What some file systems leave when the power fails.
  ASSERT_TRUE(WriteFile(path() + "/log.jsonl", whole + std::string(4096, '\0')).ok());
  EXPECT_THAT(Log(), ElementsAre("{\"step\":1}"));
}

TEST_F(RunDirectoryTest, ABrokenLineInTheMiddleIsNamed) {
  const RunDirectory run = New();
  ASSERT_TRUE(WriteFile(run.log_path(), "{\"step\":1}\n{\"st\n{\"step\":3}\n").ok());
  EXPECT_THAT(ErrorOf(run.ReadLog()), HasSubstr("log.jsonl: line 2: not valid JSON"));
  ASSERT_TRUE(WriteFile(run.log_path(), "{\"step\":1}\n7\n").ok());
  EXPECT_THAT(ErrorOf(run.ReadLog()), HasSubstr("line 2: found number, expected a table"));
}

TEST_F(RunDirectoryTest, ResumingDropsLaterLines) {
  RunDirectory run = New();
  for (int step = 1; step <= 6; ++step) {
    ASSERT_TRUE(run.Append({{"step", step}, {"loss", 1.0 / step}}).ok());
    if (step % 2 == 0) {
      ASSERT_TRUE(run.Append({{"step", step}, {"validation_loss", 0.5}}).ok());
    }
    if (step == 4) {
      ASSERT_TRUE(run.Append({{"note", "of step 4"}}).ok());
    }
    if (step == 5) {
      ASSERT_TRUE(run.Append({{"note", "of step 5"}}).ok());
    }
    SaveStep(run, step);
  }
  ASSERT_TRUE(WriteFile(run.plan_path() + ".tmp.1.0", "of a killed writer").ok());
  ASSERT_TRUE(WriteFile(path() + "/notes.tmp.1", "mine").ok());
  ASSERT_TRUE(run.ResumeAfter(4).ok());
  EXPECT_THAT(Log(),
              ElementsAre(R"({"step":1,"loss":1.0})", R"({"step":2,"loss":0.5})",
                          R"({"step":2,"validation_loss":0.5})",
                          R"({"step":3,"loss":0.3333333333333333})", R"({"step":4,"loss":0.25})",
                          R"({"step":4,"validation_loss":0.5})", R"({"note":"of step 4"})"));
  EXPECT_EQ(LatestCheckpoint(path()).value(), path() + "/checkpoints/step-00000004");
  EXPECT_FALSE(fs::exists(run.plan_path() + ".tmp.1.0"));
  EXPECT_TRUE(fs::exists(path() + "/notes.tmp.1"));
  ASSERT_TRUE(run.Append({{"step", 5}}).ok());
  EXPECT_EQ(Log().back(), "{\"step\":5}");
  ASSERT_TRUE(run.ResumeAfter(0).ok());
  EXPECT_THAT(Log(), ElementsAre());
  ASSERT_TRUE(run.ResumeAfter(0).ok());
}

TEST_F(RunDirectoryTest, ResumingWhereALineHasNoWholeStep) {
  RunDirectory run = New();
  ASSERT_TRUE(run.Append({{"step", "one"}}).ok());
  EXPECT_THAT(ErrorOf(run.ResumeAfter(4)), HasSubstr("step: found \"one\""));
}

TEST_F(RunDirectoryTest, AFullDiskLeavesTheLogWhole) {
  RunDirectory run = New();
  ASSERT_TRUE(run.Append({{"step", 1}}).ok());
  const std::string said = InChild([&] {
    LimitFileSize(64);
    std::string error = ErrorOf(run.Append({{"step", 2}, {"note", std::string(200, 'x')}}));
    return error + (run.Append({{"step", 3}}).ok() ? " and goes on" : "");
  });
  EXPECT_THAT(said, AllOf(HasSubstr("log.jsonl: cannot append: File too large; 2"),
                          HasSubstr("bytes are wanted"), HasSubstr("and goes on")));
  EXPECT_THAT(Log(), ElementsAre("{\"step\":1}", "{\"step\":3}"));
}

TEST_F(RunDirectoryTest, AKilledWriterLosesNoLineItWasToldOf) {
  New();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    RunDirectory run = RunDirectory::Open(path()).value();
    for (int step = 1;; ++step) {
      if (!run.Append({{"step", step}}).ok()) ::_exit(1);
      if (::write(ends[1], "x", 1) != 1) ::_exit(1);
    }
  }
  ::close(ends[1]);
  char c = 0;
  ASSERT_EQ(::read(ends[0], &c, 1), 1);
  ::usleep(5000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  size_t told = 1;
  while (::read(ends[0], &c, 1) == 1) ++told;
  ::close(ends[0]);
  const size_t logged = Log().size();
  EXPECT_GE(logged, told);
  EXPECT_LE(logged, told + 1);
}

TEST_F(RunDirectoryTest, ARunBehindALink) {
  New();
  fs::create_directory_symlink("runs/a", scratch_ / "latest");
  RunDirectory run = RunDirectory::Open(scratch_ / "latest").value();
  ASSERT_TRUE(run.Append({{"step", 1}}).ok());
  EXPECT_EQ(Log().size(), 1U);
  EXPECT_THAT(ErrorOf(RunDirectory::Create(scratch_ / "latest")), HasSubstr("holds a run"));
}

}  // namespace
}  // namespace heddle
