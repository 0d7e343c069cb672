// Bad input gets one clear message and an exit code, never a crash.

#include <gtest/gtest.h>

#include "run_heddle.h"
#include "support/places.h"

namespace heddle {
namespace {

void ExpectRefused(const std::string& arguments, int exit_code,
                   const std::vector<std::string>& parts) {
  const Ran ran = RunHeddle(arguments);
  EXPECT_EQ(ran.exit_code, exit_code) << arguments << "\n" << ran.err;
  for (const std::string& part : parts) {
    EXPECT_NE(ran.err.find(part), std::string::npos) << part << " not in: " << ran.err;
  }
  EXPECT_EQ(ran.out, "") << arguments;
}

// A good cluster with one piece of its text replaced.
void ExpectClusterRefused(const std::string& from, const std::string& to,
                          const std::vector<std::string>& parts) {
  std::string text = ReadFile(ClusterFile("mixed4")).value();
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  const TemporaryFile file(text.replace(at, from.size(), to));
  std::vector<std::string> expected = parts;
  expected.push_back(file.path());
  ExpectRefused("plan --model tiny-mlp --cluster " + file.path(), 4, expected);
}

std::string MakePlanFile(const TemporaryFile& file) {
  const Ran ran =
      RunHeddle("plan --model 'tiny-gpt?layers=6' --batch 32 --strategy 1f1b --cluster " +
                ClusterFile("mixed4") + " -o " + file.path());
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  return ReadFile(file.path()).value();
}

// The plan with one piece of its text replaced.
void ExpectPlanRefused(const std::string& from, const std::string& to,
                       const std::vector<std::string>& parts) {
  const TemporaryFile file;
  std::string text = MakePlanFile(file);
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  ASSERT_TRUE(WriteFile(file.path(), text.replace(at, from.size(), to)).ok());
  for (const char* command : {"explain ", "simulate ", "check "}) {
    ExpectRefused(command + file.path(), 4, parts);
  }
}

TEST(BadInputTest, AStrategyWithoutAPlaceIsRefused) {
  ExpectRefused(
      "plan --strategy expert-parallel --model tiny-mlp --cluster " + ClusterFile("mixed4"), 3,
      {"expert-parallel: tiny-mlp has no experts", "bert-moe"});
  ExpectRefused(
      "plan --strategy zero --model tiny-mlp --batch 2 --cluster " + ClusterFile("mixed4"), 3,
      {"zero: a batch of 2 leaves some of 4 devices without a sample"});
}

TEST(BadInputTest, UnknownModelSuggestsTheNearest) {
  ExpectRefused("plan --model gbt --cluster " + ClusterFile("mixed4"), 4, {"gbt", "\"gpt\""});
  ExpectRefused("plan --model 'gpt?layer=2' --cluster " + ClusterFile("mixed4"), 4, {"\"layers\""});
  ExpectRefused("plan --model 'gpt?hidden=100&heads=7' --cluster " + ClusterFile("mixed4"), 4,
                {"multiple of heads"});
  ExpectRefused("plan --model 'gpt?layers=99999999' --cluster " + ClusterFile("mixed4"), 4,
                {"out of range"});
}

TEST(BadInputTest, UsageErrors) {
  ExpectRefused("plan --model gpt --strategy gpip --cluster " + ClusterFile("mixed4"), 2,
                {"gpip", "\"gpipe\""});
  EXPECT_EQ(RunHeddle("").exit_code, 2);
  ExpectRefused("explian plan.json", 2, {"explian", "\"explain\""});
  ExpectRefused("plan --frob", 2, {"heddle:", "--help"});
  ExpectRefused("simulate --rows 0 plan.json", 2, {"rows"});
  EXPECT_EQ(RunHeddle("plan --model gpt").exit_code, 2);
  EXPECT_EQ(RunHeddle("--help").exit_code, 0);
  EXPECT_EQ(RunHeddle("--version").exit_code, 0);
  for (const char* command : {"plan", "compare", "explain", "simulate", "check", "verify", "lower",
                              "models", "devices", "demo"}) {
    const Ran ran = RunHeddle(std::string(command) + " --help");
    EXPECT_EQ(ran.exit_code, 0);
    EXPECT_NE(ran.out.find("Example"), std::string::npos) << command;
  }
}

TEST(BadInputTest, NumbersOutOfRange) {
  const std::string rest = " --model gpt --cluster " + ClusterFile("mixed4");
  ExpectRefused("plan --batch 0" + rest, 4, {"--batch"});
  ExpectRefused("plan --batch 8 --microbatches 9" + rest, 4, {"--microbatches"});
  ExpectRefused("plan --dtype fp8" + rest, 4, {"fp8"});
  ExpectRefused("plan --optimizer lion" + rest, 4, {"lion"});
  ExpectRefused("plan --links wide" + rest, 4, {"wide"});
}

TEST(BadInputTest, Clusters) {
  ExpectRefused("plan --model gpt --cluster /nonexistent.toml", 4, {"/nonexistent.toml", "open"});
  ExpectClusterRefused("\"14 TFLOP/s\"", "14", {"device_type.v100.flops", "unit"});
  ExpectClusterRefused("\"14 TFLOP/s\"", "nan", {"not finite"});
  ExpectClusterRefused("\"16 GiB\"", "\"-16 GiB\"", {"device_type.v100.memory", "negative"});
  ExpectClusterRefused("type = \"v100\"", "type = \"v10\"", {"v10", "did you mean \"v100\""});
  ExpectClusterRefused("name = \"b\"", "name = \"a\"", {"\"a\""});
  ExpectClusterRefused("[\"a\", \"b\"]", "[\"a\", \"c\"]", {"\"c\""});
  ExpectClusterRefused("[[link]]", "[[links]]", {"links", "\"link\""});
  ExpectClusterRefused("[[node]]", "[[node", {":"});
}

TEST(BadInputTest, DevicesAndClusterLines) {
  ExpectRefused("devices a100-80g", 4, {"a100-80g", "did you mean \"a100-80gb\""});
  ExpectRefused("devices a40 l4", 2, {"l4"});
  ExpectRefused("models gpt", 4, {"no configuration", "config.json"});
  ExpectRefused("models nothing.json", 4, {"nothing.json"});
  ExpectRefused("plan --model tests/model/configs/llama-2-7b.json --cluster '2 a40'", 4,
                {"llama-2-7b.json", "it lacks rms_norm (32 at model.layers.*.input_layernorm)"});
  ExpectRefused("plan --model tiny-mlp --cluster '2 a40, pcie9'", 4,
                {"at character 8", "did you mean \"pcie"});
  ExpectRefused("plan --model tiny-mlp --cluster lab", 4, {"lab", ".toml"});
}

TEST(BadInputTest, DisconnectedClusterNamesBothSides) {
  std::string text = ReadFile(ClusterFile("mixed4")).value();
  const TemporaryFile file(text.substr(0, text.find("[[link]]")));
  ExpectRefused("plan --model tiny-mlp --cluster " + file.path(), 4, {"a:0", "b:0"});
}

TEST(BadInputTest, EditedPlans) {
  ExpectPlanRefused("tiny-gpt?layers=6", "tiny-gpt?layers=7", {"model", "edited"});
  ExpectPlanRefused("\"14 TFLOP/s\"", "\"15 TFLOP/s\"", {"cluster", "edited"});
  ExpectPlanRefused("\"devices\"", "\"device\"", {"device", "devices"});
  ExpectPlanRefused("heddle.plan/2", "heddle.plan/9", {"heddle.plan/9"});
  ExpectPlanRefused("\"batch\": 32", "\"batch\": -32", {"batch"});
}

TEST(BadInputTest, LayerProfiles) {
  const std::string on = " --cluster " + ClusterFile("mixed4");
  const std::string tiny = SourceDir() + "/examples/profiles/tiny.txt";
  ExpectRefused("plan --model " + tiny + on, 4, {"tiny.txt", "--profile-batch"});
  ExpectRefused("plan --model tiny-mlp --profile-batch 4" + on, 4, {"is no layer profile"});
  ExpectRefused("plan --model " + tiny + " --profile-batch 4 --profile-device v10" + on, 4,
                {"no device type \"v10\"", "did you mean \"v100\""});
  ExpectRefused("plan --model no/such.txt --profile-batch 4" + on, 4, {"no/such.txt"});
  ExpectRefused("plan --model /tmp/ --profile-batch 4" + on, 4, {"/tmp/"});
  ExpectRefused("plan --model " + tiny + " --profile-batch -1" + on, 4, {"--profile-batch"});
  ExpectRefused("plan --model '/tmp/\xff.txt' --profile-batch 1" + on, 4, {"not UTF-8"});
}

// The profile is not in the plan: it must be there, and be the same.
TEST(BadInputTest, AProfileThatChanged) {
  const TemporaryFile plan;
  const std::string path = plan.path() + ".txt";
  std::string text = ReadFile(SourceDir() + "/examples/profiles/tiny.txt").value();
  ASSERT_TRUE(WriteFile(path, text).ok());
  ASSERT_EQ(RunHeddle("plan --profile-batch 32 --model " + path + " --cluster " +
                      ClusterFile("mixed4") + " -o " + plan.path())
                .exit_code,
            0);
  EXPECT_EQ(RunHeddle("check " + plan.path()).exit_code, 0);
  text.replace(text.find("1.500"), 5, "1.600");
  ASSERT_TRUE(WriteFile(path, text).ok());
  ExpectRefused("check " + plan.path(), 4, {"the profile " + path, "was edited"});
  ASSERT_EQ(std::remove(path.c_str()), 0);
  ExpectRefused("simulate " + plan.path(), 4, {path});
}

TEST(BadInputTest, PlanThatDropsALayer) {
  const TemporaryFile file;
  std::string text = MakePlanFile(file);
  // The last run of layers loses its last layer, 7 (embed, six blocks, head).
  const size_t at = text.find("          7\n");
  ASSERT_NE(at, std::string::npos) << text;
  ASSERT_TRUE(WriteFile(file.path(), text.replace(at, 11, "          6")).ok());
  ExpectRefused("check " + file.path(), 4, {"layer 7 is in no stage"});
}

TEST(BadInputTest, TruncatedPlan) {
  const TemporaryFile file;
  const std::string text = MakePlanFile(file);
  ASSERT_TRUE(WriteFile(file.path(), text.substr(0, text.size() / 2)).ok());
  ExpectRefused("explain " + file.path(), 4, {"JSON", file.path()});
}

TEST(BadInputTest, BrokenProgramText) {
  const TemporaryFile plan;
  MakePlanFile(plan);
  const TemporaryFile program;
  ASSERT_EQ(RunHeddle("lower " + plan.path() + " -o " + program.path()).exit_code, 0);
  const std::string cluster = " --cluster " + ClusterFile("mixed4");
  const std::string good = ReadFile(program.path()).value();
  EXPECT_EQ(RunHeddle("check " + program.path() + cluster).exit_code, 0);
  EXPECT_EQ(RunHeddle("simulate " + program.path() + cluster).exit_code, 0);
  ExpectRefused("check " + program.path(), 2, {"--cluster"});

  const auto expect_broken = [&](const std::string& text, const std::vector<std::string>& parts) {
    ASSERT_TRUE(WriteFile(program.path(), text).ok());
    ExpectRefused("check " + program.path() + cluster, 4, parts);
    ExpectRefused("simulate " + program.path() + cluster, 4, {});
  };
  // A line goes missing: the send of the first microbatch.
  const size_t send = good.find("  send ");
  expect_broken(std::string(good).erase(send, good.find('\n', send) + 1 - send),
                {"unmatched", "has no send"});
  expect_broken(good.substr(0, good.size() / 2), {program.path()});
  expect_broken("nonsense\n", {":1:", "heddle-program 1"});
  const size_t compute = good.find("  compute F0");
  expect_broken(std::string(good).insert(compute, "  computes F0 #0\n"), {"computes"});
}

TEST(BadInputTest, NothingFits) {
  const Ran ran = RunHeddle(
      "plan --strategy dp --model 'gpt?layers=48&hidden=1600&heads=25' --batch 64 "
      "--cluster " +
      ClusterFile("mixed4"));
  EXPECT_EQ(ran.exit_code, 3);
  EXPECT_NE(ran.err.find("too much"), std::string::npos) << ran.err;
  EXPECT_NE(ran.err.find("hint"), std::string::npos) << ran.err;
}

TEST(BadInputTest, FullDiskOrMissingFolderIsSaid) {
  ExpectRefused("plan --model tiny-mlp --cluster " + ClusterFile("mixed4") +
                    " -o /nonexistent-folder/plan.json",
                4, {"/nonexistent-folder/plan.json"});
}

}  // namespace
}  // namespace heddle
