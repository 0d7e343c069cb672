// Names that are misspelt, names that people know from elsewhere, numbers that cannot be, and help.

#include <gtest/gtest.h>

#include <regex>

#include "base/json_field.h"
#include "run_heddle.h"

namespace heddle {
namespace {

std::string PlanOn(const std::string& cluster) {
  return " --model tiny-mlp --batch 32 --cluster " + ClusterFile(cluster);
}

void ExpectSays(const std::string& arguments, int exit_code, const std::string& says) {
  const Ran ran = RunHeddle(arguments);
  EXPECT_EQ(ran.exit_code, exit_code) << arguments << "\n" << ran.err;
  EXPECT_NE((ran.out + ran.err).find(says), std::string::npos) << arguments << "\n" << ran.err;
}

Json HelpJson() { return ParseJson(RunHeddle("help --json").out, "help").value(); }

TEST(UsageTest, AMisspeltOptionGetsTheNearest) {
  ExpectSays("plan --microbatchs 4", 2,
             "unknown option --microbatchs\n  hint: did you mean --microbatches?");
  ExpectSays("compare --clustr x", 2, "did you mean --cluster?");
  ExpectSays("run plan.json --learning-rate 3", 2, "did you mean --rate?");
  ExpectSays("lab race --stage 3", 2, "did you mean --stages?");
  ExpectSays("explain plan.json --network", 2, "simulate has it");
  ExpectSays("models -x", 2, "models: unknown option -x");
  ExpectSays("--jsn models", 2, "did you mean --json?");
}

// Every option of every command without one of its letters.
TEST(UsageTest, AMissingLetterIsFound) {
  int tried = 0;
  const Json help = HelpJson();
  for (const Json& command : help["commands"]) {
    for (const Json& option : command["options"]) {
      const std::string name = option["names"].back();
      if (!name.starts_with("--") || name.size() < 8) continue;
      const std::string wrong = name.substr(0, 4) + name.substr(5);
      ExpectSays(command["name"].get<std::string>() + " " + wrong, 2, "did you mean --");
      if (++tried % 7 == 0) break;  // some of each will do
    }
  }
  EXPECT_GT(tried, 20);
}

TEST(UsageTest, AValueThatLooksLikeAnOptionIsAValue) {
  ExpectSays("plan --model --frob --cluster " + ClusterFile("mixed4"), 4, "--frob");
  ExpectSays("lab theory --stages 2 --noise -1", 4, "--noise");
}

TEST(UsageTest, NamesThatPeopleKnow) {
  const auto plan = [](const std::string& arguments) {
    const Ran ran = RunHeddle("plan --json --strategy 1f1b --model tiny-mlp --cluster " +
                              ClusterFile("mixed4") + arguments);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    Json json = ParseJson(ran.out, "plan").value();
    json.erase("planning_seconds");
    json["search"].erase("planning_seconds");
    return json;
  };
  EXPECT_EQ(plan(" --batch 32 --clip 1 --microbatches 8"),
            plan(" --global-batch-size 32 --max-grad-norm 1 --micro-batch-size 4"));
  ExpectSays("help plan", 0, "--batch,--global-batch-size");
  ExpectSays("help plan", 0, "--clip,--max-grad-norm");
  ExpectSays("help run", 0, "--rate,--lr");
}

TEST(UsageTest, PartsOfABatch) {
  ExpectSays("plan --microbatches 0" + PlanOn("mixed4"), 4,
             "1 to 32; leave it out to have it tuned");
  ExpectSays("plan --microbatches 33" + PlanOn("mixed4"), 4, "--microbatches: 33 is out of range");
  ExpectSays("plan --micro-batch-size 5" + PlanOn("mixed4"), 4,
             "5 does not divide the batch of 32");
  ExpectSays("plan --micro-batch-size 0" + PlanOn("mixed4"), 4, "--micro-batch-size");
  ExpectSays("plan --micro-batch-size 64" + PlanOn("mixed4"), 4, "--micro-batch-size");
  ExpectSays("plan --profile-batch 0" + PlanOn("mixed4"), 4, "--profile-batch");
}

// Each number of each command with values that are none, or none that can be.
TEST(UsageTest, NumbersInMessagesAreReadable) {
  const std::regex long_number("[0-9]{21}");
  int tried = 0;
  const Json help = HelpJson();
  for (const Json& command : help["commands"]) {
    for (const Json& option : command["options"]) {
      if (option["takes"].is_null()) continue;
      const std::string takes = option["takes"], name = option["names"].back();
      if (!takes.starts_with("INT") && !takes.starts_with("UINT") && !takes.starts_with("FLOAT")) {
        continue;
      }
      EXPECT_FALSE(std::regex_search(takes, long_number)) << name << " " << takes;
      for (const char* value : {"x", "nan", "1e999"}) {
        const std::string line = command["name"].get<std::string>() + " " + name + " " + value;
        const Ran ran = RunHeddle(line);
        EXPECT_EQ(ran.exit_code, 2) << line << "\n" << ran.err;
        EXPECT_NE(ran.err.find(std::string("\"") + value + "\" is no"), std::string::npos)
            << line << "\n"
            << ran.err;
        EXPECT_FALSE(std::regex_search(ran.err, long_number)) << line << "\n" << ran.err;
      }
      ++tried;
    }
  }
  EXPECT_GT(tried, 30);
  ExpectSays("simulate plan.json --rows 010", 2, "\"010\" is no whole number");
  ExpectSays("simulate plan.json --rows 0", 2, "--rows: 0 is out of range: 1 to 100000");
  ExpectSays("run plan.json --steps -1", 2, "--steps: -1 is out of range: 0 or more");
  ExpectSays("share jobs.toml --run --order both", 2, "\"both\" is unknown");
}

TEST(UsageTest, AProfileOfOtherDevicesIsRefused) {
  const TemporaryFile profile(
      R"({"schema": "heddle.profile/1", "device_types": {"tpu": {"einsum bk,kn->bn b=8 k=64 n=64 f32": 1}}})");
  ExpectSays("plan --strategy 1f1b --profile " + profile.path() + PlanOn("mixed4"), 4,
             "has times of tpu, the cluster has p100, v100");
}

TEST(UsageTest, HelpIsACommand) {
  EXPECT_EQ(RunHeddle("help").out, RunHeddle("--help").out);
  EXPECT_EQ(RunHeddle("help plan").out, RunHeddle("plan --help").out);
  EXPECT_EQ(RunHeddle("help lab race").out, RunHeddle("lab race --help").out);
  ExpectSays("help", 0, "Subcommands:");
  ExpectSays("help pln", 2, "did you mean \"plan\"?");
  ExpectSays("help plan more", 2, "plan has no commands below it");
}

TEST(UsageTest, EveryCommandHasAnExample) {
  const Json help = HelpJson();
  for (const Json& command : help["commands"]) {
    const std::string name = command["name"];
    EXPECT_NE(RunHeddle(name + " --help").out.find("Example:\n  heddle"), std::string::npos)
        << name;
    EXPECT_NE(command["about"], "") << name;
  }
  EXPECT_GT(help["commands"].size(), 15U);
}

}  // namespace
}  // namespace heddle
