// What commands print fits the terminal, in lines, in columns and in characters.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"
#include "report/text_width.h"
#include "run_heddle.h"
#include "support/places.h"

namespace heddle {
namespace {

using testing::HasSubstr;

const char* const kCommands[] = {
    "plan", "compare",  "explain",   "simulate",   "check", "run",    "verify",  "profile", "lower",
    "lab",  "lab race", "lab delay", "lab theory", "share", "models", "devices", "demo"};

std::string Example(const std::string& name) { return SourceDir() + "/examples/" + name; }

// A word that is wider than the terminal stays whole: a path, for one.
int LongestWord(std::string_view line) {
  int longest = 0;
  for (const std::string_view word : SplitWords(line)) {
    longest = std::max(longest, DisplayWidth(word));
  }
  return longest;
}

enum class Ends { kWell, kBadly };

void ExpectFits(const std::string& arguments, int width, Ends ends = Ends::kWell) {
  const Ran ran = RunHeddle(arguments, fmt::format("COLUMNS={} LC_ALL=C.UTF-8", width));
  EXPECT_EQ(ran.exit_code == 0, ends == Ends::kWell) << arguments << "\n" << ran.err;
  const std::string text = ran.out + ran.err;
  for (const std::string_view line : SplitAt(text, '\n')) {
    if (LongestWord(line) > width - 6) continue;
    EXPECT_LE(DisplayWidth(line), width) << arguments << ": " << line;
  }
}

class WidthTest : public testing::TestWithParam<int> {};

TEST_P(WidthTest, Help) {
  ExpectFits("--help", GetParam());
  for (const char* command : kCommands) ExpectFits(std::string(command) + " --help", GetParam());
}

TEST_P(WidthTest, ModelsAndStrategies) {
  ExpectFits("models", GetParam());
  ExpectFits("devices", GetParam());
  ExpectFits("devices h100-sxm", GetParam());
  ExpectFits("compare --model 'tiny-gpt?layers=6' --batch 32 --cluster " + ClusterFile("mixed4"),
             GetParam());
  ExpectFits("compare --model " + Example("profiles/tiny.txt") +
                 " --profile-batch 16 --batch 32 --cluster " + ClusterFile("mixed4"),
             GetParam());
}

TEST_P(WidthTest, Plans) {
  for (const std::string strategy :
       {"pipeline", "interleaved", "spmd", "zero", "hetpipe", "local", "dp-proportional"}) {
    const TemporaryFile file;
    const std::string& plan = file.path();
    ExpectFits("plan --model 'tiny-gpt?layers=6' --batch 32 --cluster " + ClusterFile("mixed4") +
                   " --strategy " + strategy + " -o " + plan,
               GetParam());
    ExpectFits("explain " + plan, GetParam());
    ExpectFits("explain --all " + plan, GetParam());
    ExpectFits("simulate --network " + plan, GetParam());
    ExpectFits("check " + plan, GetParam());
  }
}

TEST_P(WidthTest, LabAndShare) {
  ExpectFits("lab delay --stages 1..8", GetParam());
  ExpectFits("lab theory --stages 2,4 --ticks 200 --seeds 5", GetParam());
  ExpectFits("lab race --objective quadratic --stages 2 --ticks 100 --seeds 5 --noise 0.1",
             GetParam());
  ExpectFits("share " + Example("09-share.toml"), GetParam());
  ExpectFits("share --trace " + Example("09-trace.csv"), GetParam());
}

TEST_P(WidthTest, Errors) {
  const std::string mixed = " --cluster " + ClusterFile("mixed4");
  ExpectFits("plan --model nope" + mixed, GetParam(), Ends::kBadly);
  ExpectFits("plan --model gpt --strategy nope" + mixed, GetParam(), Ends::kBadly);
  ExpectFits("plan --model 'gpt?layers=96&hidden=4096&heads=32' --strategy dp" + mixed, GetParam(),
             Ends::kBadly);
  ExpectFits("plan --batch 0 --model gpt" + mixed, GetParam(), Ends::kBadly);
  ExpectFits("nope", GetParam(), Ends::kBadly);
  ExpectFits("plan", GetParam(), Ends::kBadly);
}

INSTANTIATE_TEST_SUITE_P(Columns, WidthTest, testing::Values(60, 80, 120),
                         testing::PrintToStringParamName());

// Nobody said how wide it is: 80.
TEST(WidthOfPipesTest, IsEighty) {
  const std::string arguments = "compare --model tiny-mlp --batch 32 --cluster " +
                                ClusterFile("mixed4") + " | sed 's/[0-9.]* [mu]s$//'";
  EXPECT_EQ(RunHeddle(arguments, "-u COLUMNS LC_ALL=C.UTF-8").out,
            RunHeddle(arguments, "COLUMNS=80 LC_ALL=C.UTF-8").out);
}

TEST(LengthTest, SixtyLinesExplain64Devices) {
  for (const std::string strategy :
       {"1f1b", "dp", "dp-proportional", "zero", "hetpipe", "local", "pipedream"}) {
    const TemporaryFile plan;
    const std::string planned =
        RunHeddle("plan --model 'gpt?layers=12&hidden=256&heads=4&seq=64' --batch 512 --cluster " +
                      ClusterFile("hap64") + " --strategy " + strategy + " -o " + plan.path(),
                  "COLUMNS=80")
            .out;
    const std::string explained = RunHeddle("explain " + plan.path(), "COLUMNS=80").out;
    const std::string all = RunHeddle("explain --all " + plan.path(), "COLUMNS=80").out;
    const auto lines = [](const std::string& text) {
      return std::count(text.begin(), text.end(), '\n');
    };
    EXPECT_GT(lines(explained), 8) << strategy;
    EXPECT_LE(lines(planned), 60) << strategy << "\n" << planned;
    EXPECT_LE(lines(explained), 60) << strategy << "\n" << explained;
    EXPECT_GE(lines(all), lines(explained)) << strategy;
    // The verdict before any table.
    EXPECT_LT(explained.find("An iteration takes"), explained.find("──")) << explained;
    EXPECT_LT(explained.find("Memory "), explained.find("──")) << explained;
    EXPECT_THAT(explained, HasSubstr(" per device ("));
  }
}

bool IsAscii(const std::string& text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

TEST(CharactersTest, AreAsciiWhereTheLocaleSaysSo) {
  const TemporaryFile plan;
  const std::string cluster = " --cluster " + ClusterFile("mixed4");
  const std::string arguments = "plan --model 'tiny-gpt?layers=6' --batch 32 --strategy spmd" +
                                cluster + " -o " + plan.path();
  for (const std::string environment :
       {"LC_ALL=C LANG=en_US.UTF-8", "-u LC_ALL LC_CTYPE=POSIX", "LC_ALL=en_US.ISO-8859-1"}) {
    for (const std::string& command :
         {arguments, "explain --all " + plan.path(), "explain --json " + plan.path(),
          "simulate --network " + plan.path(), std::string("models"),
          "compare --model tiny-mlp" + cluster, std::string("lab delay --stages 1..4"),
          "share " + Example("09-share.toml"), "plan --model n\xc3\xb6pe" + cluster}) {
      const Ran ran = RunHeddle(command, environment);
      EXPECT_TRUE(IsAscii(ran.out)) << environment << " " << command << "\n" << ran.out;
      EXPECT_TRUE(IsAscii(ran.err)) << environment << " " << command << "\n" << ran.err;
    }
  }
  EXPECT_FALSE(IsAscii(RunHeddle("models", "LC_ALL=C.UTF-8").out));
  EXPECT_FALSE(IsAscii(RunHeddle("models", "-u LC_ALL -u LC_CTYPE -u LANG").out));
}

TEST(NumbersTest, HaveThousandsSeparatedForPeopleOnly) {
  EXPECT_THAT(RunHeddle("models", "LC_ALL=C").out, HasSubstr(" 36,818,954 "));
  EXPECT_THAT(RunHeddle("models --json").out, HasSubstr(": 36818954,"));
  const TemporaryFile plan;
  ASSERT_EQ(RunHeddle("plan --model tiny-gpt --batch 1024 --microbatches 512 --strategy 1f1b "
                      "--cluster " +
                      ClusterFile("mixed4") + " -o " + plan.path())
                .exit_code,
            0);
  EXPECT_THAT(RunHeddle("explain " + plan.path()).out, HasSubstr("batch 1,024 in 512 "));
  EXPECT_THAT(RunHeddle("check " + plan.path()).out,
              testing::ContainsRegex("ok: 4 devices, [0-9]+,[0-9]+ instructions"));
}

}  // namespace
}  // namespace heddle
