// What heddle run and its like refuse, when, and how they say so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file.h"
#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::HasSubstr;

class RunRefusalsTest : public testing::Test {
 protected:
  std::string PlanFile(const std::string& more = "") const {
    const std::string path = folder_ / "plan.json";
    const Ran ran = RunHeddle("plan --strategy dp --model tiny-mlp --batch 8 --cluster " +
                              ClusterFile("mixed4") + " " + more + " -o " + path);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return path;
  }
  static Json ErrorIn(const Ran& ran) {
    const Result<Json> json = ParseJson(ran.out, "output");
    EXPECT_TRUE(json.ok()) << ran.out;
    return json.ok() ? json.value() : Json();
  }

  ScratchFolder folder_;
};

// None of these leaves a run behind.
TEST_F(RunRefusalsTest, OptionsThatWouldBeIgnored) {
  const std::string plan = PlanFile();
  for (const char* flags :
       {"--dilate 3", "--eval-every 2 --validation 0", "--keep 5", "--threads --port 1234",
        "--emulate --meet-within 5", "--threads --elastic", "--threads --native-collectives",
        "--emulate --stuck-after 5", "--override", "--threads --silent-after 5", "--port 1234",
        "--interface lo", "--secret-file x"}) {
    const Ran ran = RunHeddle("run " + plan + " " + flags + " --dir " + (folder_ / "run"));
    EXPECT_EQ(ran.exit_code, 2) << flags << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("hint")) << flags;
  }
  EXPECT_EQ(RunHeddle("run --steps 3").exit_code, 2);  // no plan
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(RunRefusalsTest, TooFewSamplesHeldOut) {
  ASSERT_TRUE(WriteFile(folder_ / "text.txt", std::string(2000, 'a')).ok());
  const std::string plan = folder_ / "gpt.json";
  ASSERT_EQ(RunHeddle("plan --strategy dp --model 'tiny-gpt?layers=1&seq=64' --batch 8 --cluster " +
                      ClusterFile("mixed4") + " -o " + plan)
                .exit_code,
            0);
  const std::string run = "run " + plan +
                          " --threads --steps 1 --data text:" + (folder_ / "text.txt") + " --dir " +
                          (folder_ / "run");
  const Ran ran = RunHeddle(run + " --eval-every 1");
  EXPECT_EQ(ran.exit_code, 4);
  EXPECT_THAT(ran.err, HasSubstr("fewer than a batch of 8"));
  const Ran noted = RunHeddle(run);
  EXPECT_EQ(noted.exit_code, 0) << noted.err;
  EXPECT_THAT(noted.err, HasSubstr("nobody looks at them"));
}

// A plan in half precision does not train in another type without a word.
TEST_F(RunRefusalsTest, HalfPrecisionIsAskedFor) {
  for (const char* type : {"bf16", "fp16"}) {
    const std::string plan = PlanFile(std::string("--dtype ") + type);
    const Ran ran = RunHeddle("run " + plan + " --steps 2 --dir " + (folder_ / type));
    EXPECT_EQ(ran.exit_code, 4);
    EXPECT_THAT(ran.err, HasSubstr("--dtype fp32"));
    EXPECT_EQ(
        RunHeddle("run " + plan + " --steps 2 --dtype fp32 --threads --dir " + (folder_ / type))
            .exit_code,
        0);
    EXPECT_THAT(RunHeddle("verify " + plan).out, HasSubstr("fp64"));
    const std::string jobs = folder_ / "jobs.toml";
    ASSERT_TRUE(WriteFile(jobs, "schema = \"heddle.jobs/1\"\ncluster = \"" + ClusterFile("mixed4") +
                                    "\"\n[[job]]\nname = \"a\"\nsteps = 2\nplan = \"" + plan +
                                    "\"\n")
                    .ok());
    const Ran share = RunHeddle("share " + jobs + " --run --dir " + (folder_ / "share"));
    EXPECT_EQ(share.exit_code, 4) << share.err;
    EXPECT_THAT(share.err, HasSubstr("--dtype fp32"));
    EXPECT_EQ(RunHeddle("share " + jobs + " --run --dtype fp32 --dir " +
                        (folder_ / (std::string("share-") + type)))
                  .exit_code,
              0);
  }
}

TEST_F(RunRefusalsTest, OutputsAreTriedBeforeTheWork) {
  const std::string nowhere = folder_ / "nowhere/file";
  const Ran run = RunHeddle("run " + PlanFile() + " --steps 1000000000 --threads --weights " +
                            nowhere + " --dir " + (folder_ / "run"));
  EXPECT_EQ(run.exit_code, 4);
  EXPECT_THAT(run.err, HasSubstr(nowhere));
  for (const char* option : {" -o ", " -o /dev/null --cluster "}) {
    const Ran profile = RunHeddle("profile --model tiny-mlp" + std::string(option) + nowhere);
    EXPECT_EQ(profile.exit_code, 4);
    EXPECT_THAT(profile.err, HasSubstr(nowhere));
    EXPECT_EQ(profile.err.find("measuring"), std::string::npos);
  }
}

// With --json an error is one object, as of the other commands.
TEST_F(RunRefusalsTest, ErrorsAreJsonToo) {
  for (const std::string& arguments :
       {std::string("run /nonexistent.json --json"), std::string("verify /nonexistent.json --json"),
        "run " + PlanFile() + " --data text:/nowhere --json --dir " + (folder_ / "run"),
        "run " + PlanFile() + " --data text:/nowhere --json --threads --dir " + (folder_ / "run"),
        "profile --model tiny-mlp --json -o " + (folder_ / "nowhere/p.json"),
        "run --json --resume " + (folder_ / "nowhere")}) {
    const Ran ran = RunHeddle(arguments);
    EXPECT_EQ(ran.exit_code, 4) << arguments;
    const Json json = ErrorIn(ran);
    EXPECT_EQ(json["schema"], "heddle.error/1") << arguments;
    EXPECT_EQ(json["exit_code"], 4);
    EXPECT_THAT(ran.err, HasSubstr(json["error"].get<std::string>()));
  }
}

// What cannot be printed is an error, in text and JSON.
TEST_F(RunRefusalsTest, OutputsThatAreFullOrClosed) {
  const std::string plan = PlanFile();
  const std::vector<std::string> commands = {
      "run " + plan + " --steps 2 --threads", "run " + plan + " --steps 2", "verify " + plan,
      "profile --steps 1 --rows 1 --model tiny-mlp -o " + (folder_ / "profile.json")};
  int number = 0;
  for (const std::string json : {"", " --json"}) {
    for (const std::string& command : commands) {
      for (const char* to : {" > /dev/full", " >&-"}) {
        const bool runs = command.starts_with("run");
        const Ran ran = RunHeddle(
            command + json +
            (runs ? " --dir " + (folder_ / ("run" + std::to_string(number++))) : "") + to);
        EXPECT_EQ(ran.exit_code, 4) << command << json << to << ran.err;
        EXPECT_THAT(ran.err, HasSubstr("standard output: cannot write")) << command << to;
      }
    }
  }
}

// But progress that nobody reads is no reason to end.
TEST_F(RunRefusalsTest, ProgressMayGoNowhere) {
  const std::string plan = PlanFile();
  for (const char* how : {"", "--threads "}) {
    const std::string run = folder_ / (std::string("run") + how);
    const Ran ran = RunShell(HeddleBinary() + " run " + plan + " --steps 5 " + how + "--dir '" +
                             run + "' 2> /dev/full");
    EXPECT_EQ(ran.exit_code, 0);
    EXPECT_TRUE(std::filesystem::exists(run + "/checkpoints/step-00000005"));
  }
}

}  // namespace
}  // namespace heddle
