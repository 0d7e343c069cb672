// heddle run and heddle profile, from the command line.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr char kModel[] = "'tiny-mlp?layers=6'";

// A plan in the folder.
std::string PlanIn(const ScratchFolder& folder, const std::string& strategy,
                   const std::string& options = "") {
  const std::string path = folder / (strategy + ".json");
  const Ran ran =
      RunHeddle("plan --strategy " + strategy + " --model " + kModel + " --batch 8 --cluster " +
                ClusterFile("mixed4") + options + " -o " + path);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  return path;
}

TEST(RunCommandTest, ItsKeys) {
  const ScratchFolder folder;
  const Ran ran = RunHeddle("run " + PlanIn(folder, "1f1b") + " --steps 4 --json --dir " +
                            (folder / "run") + " --weights " + (folder / "w.safetensors"));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = ParseJson(ran.out, "run").value();
  EXPECT_EQ(json["steps"], 4);
  EXPECT_EQ(json["loss"].size(), 4U);
  EXPECT_GT(json["measured_iteration_seconds"].get<double>(), 0);
  EXPECT_GT(json["predicted_iteration_seconds"].get<double>(), 0);
  EXPECT_EQ(json["emulated"], false);
  EXPECT_EQ(json["parameter_hash"].get<std::string>().size(), 16U);
  for (const char* file : {"config.json", "plan.json", "log.jsonl", "timeline.json",
                           "checkpoints/step-00000004/tensors.safetensors"}) {
    EXPECT_TRUE(std::filesystem::exists(folder / (std::string("run/") + file))) << file;
  }
  EXPECT_TRUE(std::filesystem::exists(folder / "w.safetensors"));
}

// The order of an asynchronous run is the Program's: processes and threads give the same bits.
TEST(RunCommandTest, AsynchronousProcessesEqualThreads) {
  const ScratchFolder folder;
  const std::string plan = PlanIn(folder, "async");
  std::vector<Json> runs;
  for (const char* how : {"--threads", ""}) {
    const Ran ran = RunHeddle("run " + plan + " --steps 30 --json " + how + " --dir " +
                              (folder / ("run" + std::string(how))));
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    runs.push_back(ParseJson(ran.out, "run").value());
  }
  EXPECT_EQ(runs[0]["loss"], runs[1]["loss"]);
  EXPECT_EQ(runs[0]["parameter_hash"], runs[1]["parameter_hash"]);
  EXPECT_LT(runs[0]["loss"].back().get<double>(), runs[0]["loss"].front().get<double>());
}

// Steps per second follow from what the log says that steps took, however many are reported at
// once: an asynchronous pipeline does not stop between them.
TEST(RunCommandTest, StepsPerSecondAreThoseOfTheLog) {
  const ScratchFolder folder;
  for (const std::string strategy : {"async", "1f1b"}) {
    const std::string run = folder / ("run-" + strategy);
    const Ran ran = RunHeddle("run " + PlanIn(folder, strategy) + " --steps 40 --dir " + run);
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    double seconds = 0;
    int steps = -1;  // the first is cold
    std::istringstream log(ReadFile(run + "/log.jsonl").value());
    for (std::string line; std::getline(log, line);) {
      const Json entry = ParseJson(line, "log").value();
      if (entry.contains("seconds") && ++steps > 0) seconds += entry["seconds"].get<double>();
    }
    ASSERT_EQ(steps, 39);
    EXPECT_THAT(ran.err, HasSubstr(fmt::format("  {:.3g} steps/s  0 s left", steps / seconds)))
        << strategy;
  }
}

// Rounds of LocalSGD: the same bits, held-out samples between rounds, and nothing but whole rounds.
TEST(RunCommandTest, LocalProcessesEqualThreads) {
  const ScratchFolder folder;
  for (const std::string replicas : {"whole", "pipelined"}) {
    const std::string plan = PlanIn(folder, "local", " --every 4 --replicas " + replicas);
    std::vector<Json> runs;
    for (const std::string how : {"--threads", ""}) {
      const Ran ran = RunHeddle("run " + plan + " --steps 24 --eval-every 12 --json " + how +
                                " --dir " + (folder / (replicas + how)));
      ASSERT_EQ(ran.exit_code, 0) << ran.err;
      runs.push_back(ParseJson(ran.out, "run").value());
    }
    EXPECT_EQ(runs[0]["loss"], runs[1]["loss"]);
    EXPECT_EQ(runs[0]["loss"].size(), 24U);
    EXPECT_EQ(runs[0]["parameter_hash"], runs[1]["parameter_hash"]);
    EXPECT_LT(runs[0]["held_out"][1]["loss"], runs[0]["held_out"][0]["loss"]);
    const Ran ran = RunHeddle("run " + plan + " --steps 10 --dir " + (folder / "no"));
    EXPECT_EQ(ran.exit_code, 4);
    EXPECT_NE(ran.err.find("averaged every 4 steps"), std::string::npos) << ran.err;
  }
}

// Servers add gradients in the order of ranks, as all-reduces do: the same bits, and checkpoints
// though only one device has a weight's optimizer state.
TEST(RunCommandTest, ParameterServersEqualAllReduces) {
  const ScratchFolder folder;
  std::vector<Json> runs;
  for (const std::string sync : {"allreduce", "ps"}) {
    const std::string plan = PlanIn(folder, "dp-proportional", " --sync " + sync);
    const std::string run = folder / sync;
    ASSERT_EQ(RunHeddle("run " + plan + " --steps 3 --dir " + run).exit_code, 0);
    const Ran ran = RunHeddle("run " + plan + " --steps 6 --json --resume " + run);
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    runs.push_back(ParseJson(ran.out, "run").value());
  }
  EXPECT_EQ(runs[0]["loss"], runs[1]["loss"]);
  EXPECT_EQ(runs[0]["parameter_hash"], runs[1]["parameter_hash"]);
}

// Half precision between replicas: half the bytes, nearly the same losses, processes as threads.
TEST(RunCommandTest, CompressedGradients) {
  const ScratchFolder folder;
  std::vector<Json> runs;
  const std::string plain = PlanIn(folder, "dp");
  const Ran exact = RunHeddle("run " + plain + " --steps 6 --json --dir " + (folder / "exact"));
  runs.push_back(ParseJson(exact.out, "run").value());
  const std::string plan = PlanIn(folder, "dp", " --compress fp16");
  for (const std::string how : {"", "--threads"}) {
    const Ran ran = RunHeddle("run " + plan + " --steps 6 --json " + how + " --dir " +
                              (folder / ("run" + how)));
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    runs.push_back(ParseJson(ran.out, "run").value());
  }
  EXPECT_EQ(runs[1]["parameter_hash"], runs[2]["parameter_hash"]);
  EXPECT_NE(runs[0]["parameter_hash"], runs[1]["parameter_hash"]);
  for (size_t step = 0; step < 6; ++step) {
    EXPECT_NEAR(runs[0]["loss"][step].get<double>(), runs[1]["loss"][step].get<double>(), 1e-3);
  }
  EXPECT_EQ(RunHeddle("verify " + plan).exit_code, 0);
  EXPECT_EQ(RunHeddle("plan --strategy zero --compress fp16 --model tiny-mlp --batch 8 --cluster " +
                      ClusterFile("mixed4"))
                .exit_code,
            3);
}

TEST(RunCommandTest, GoesOnUnderAnotherPlan) {
  const ScratchFolder folder;
  const std::string run = folder / "run";
  ASSERT_EQ(RunHeddle("run " + PlanIn(folder, "gpipe") + " --steps 3 --dir " + run).exit_code, 0);
  const Ran ran = RunHeddle("run " + PlanIn(folder, "dp") + " --steps 5 --json --resume " + run);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = ParseJson(ran.out, "run").value();
  EXPECT_EQ(json["first_step"], 3);
  EXPECT_EQ(json["loss"].size(), 2U);
}

TEST(RunCommandTest, BadInput) {
  const ScratchFolder folder;
  const std::string plan = PlanIn(folder, "dp");
  EXPECT_EQ(RunHeddle("run /nonexistent.json").exit_code, 4);
  EXPECT_EQ(RunHeddle("run " + plan + " --steps -1").exit_code, 2);
  for (const char* flags :
       {"--rate 0", "--schedule sometimes", "--validation 1", "--dtype bf16", "--data nowhere:x",
        "--resume /nowhere", "--data libsvm:/does/not/exist"}) {
    const Ran ran = RunHeddle("run " + plan + " " + flags + " --dir " + (folder / "bad"));
    EXPECT_EQ(ran.exit_code, 4) << flags;
    EXPECT_THAT(ran.err, HasSubstr("hint")) << flags;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "bad"));
}

// A layer profile has no arithmetic: its devices keep time, or it is refused.
TEST(RunCommandTest, ProfiledModels) {
  const ScratchFolder folder;
  const std::string plan = folder / "plan.json";
  ASSERT_EQ(
      RunHeddle("plan --profile-batch 32 --model " + SourceDir() +
                "/examples/profiles/tiny.txt --cluster " + ClusterFile("mixed4") + " -o " + plan)
          .exit_code,
      0);
  const Ran refused = RunHeddle("run " + plan + " --steps 2 --dir " + (folder / "refused"));
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.err, HasSubstr("--emulate"));
  EXPECT_EQ(RunHeddle("verify " + plan).exit_code, 4);
  const Ran ran =
      RunHeddle("run " + plan + " --emulate --steps 4 --json --dir " + (folder / "run"));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = ParseJson(ran.out, "run").value();
  EXPECT_EQ(json["steps"], 4);
  EXPECT_EQ(json["emulated"], true);
  const double predicted = json["predicted_iteration_seconds"].get<double>();
  EXPECT_GT(json["measured_iteration_seconds"].get<double>(), 0.9 * predicted);
  EXPECT_LT(json["measured_iteration_seconds"].get<double>(), 2 * predicted);
  EXPECT_TRUE(std::filesystem::exists(folder / "run/timeline.json"));
}

TEST(ProfileCommandTest, IsUsedByPlan) {
  const ScratchFolder folder;
  const std::string profile = folder / "profile.json";
  const std::string cluster = folder / "this.toml";
  Ran ran = RunHeddle(std::string("profile --steps 2 --rows 4,8 --json --model ") + kModel +
                      " -o " + profile + " --cluster " + cluster);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = ParseJson(ran.out, "profile").value();
  EXPECT_GT(json["ops"].get<int>(), 10);
  EXPECT_GT(json["flops_per_second"].get<double>(), 1e8);
  ran = RunHeddle(std::string("plan --strategy dp --batch 8 --json --model ") + kModel +
                  " --cluster " + cluster + " --profile " + profile);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_FALSE(ParseJson(ran.out, "plan").value()["profile_hash"].get<std::string>().empty());
  EXPECT_EQ(RunHeddle("profile --model nonesuch -o " + profile).exit_code, 4);
  EXPECT_EQ(RunHeddle(std::string("profile --rows 0 --model ") + kModel).exit_code, 2);
}

TEST(RunCommandTest, TheDemoRunsToItsEnd) {
  const Ran ran = RunHeddle("demo");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("emulated"));
  EXPECT_THAT(ran.out, HasSubstr("against one device"));
}

}  // namespace
}  // namespace heddle
