// heddle lab: what tools rely on, and what is refused.

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/json_field.h"
#include "run_heddle.h"

namespace heddle {
namespace {

const std::string kSmall =
    "lab race --dimension 24 --stages 2,4 --methods pd,local --ticks 200 --points 4 ";

Json JsonOf(const std::string& arguments) {
  const Ran ran = RunHeddle(arguments);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  const Result<Json> json = ParseJson(ran.out, arguments);
  EXPECT_TRUE(json.ok()) << ran.out;
  return json.ok() ? json.value() : Json();
}

void ExpectRefused(const std::string& arguments, int exit_code,
                   const std::vector<std::string>& parts) {
  const Ran ran = RunHeddle(arguments);
  EXPECT_EQ(ran.exit_code, exit_code) << arguments << "\n" << ran.err;
  for (const std::string& part : parts) {
    EXPECT_NE(ran.err.find(part), std::string::npos) << part << " not in: " << ran.err;
  }
  EXPECT_EQ(ran.out, "") << arguments;
}

TEST(LabTest, RaceAsJson) {
  const Json json = JsonOf(kSmall + "--noise 0,0.3 --json");
  EXPECT_EQ(json["schema"], "heddle.lab.race/1");
  ASSERT_EQ(json["rows"].size(), 8U);  // 2 noises, 2 stages, 2 methods
  ASSERT_EQ(json["curves"].size(), 8U);
  for (size_t k = 0; k < 8; ++k) {
    const Json& row = json["rows"][k];
    for (const char* key : {"objective", "method", "stages", "noise", "step_size", "loss_mean",
                            "loss_low", "loss_high", "ticks"}) {
      EXPECT_TRUE(row.contains(key)) << key;
    }
    EXPECT_EQ(row["objective"], "quadratic");
    EXPECT_EQ(row["ticks"], 200);
    EXPECT_LE(row["loss_low"].get<double>(), row["loss_mean"].get<double>());
    EXPECT_GE(row["loss_high"].get<double>(), row["loss_mean"].get<double>());
    const Json& curve = json["curves"][k];
    EXPECT_EQ(curve["ticks"], Json({50, 100, 150, 200}));
    EXPECT_EQ(curve["method"], row["method"]);
    EXPECT_EQ(curve["loss_mean"][3], row["loss_mean"]);
  }
  EXPECT_EQ(json["rows"][4]["noise"], 0.3);
  EXPECT_EQ(json["rows"][2]["stages"], 4);
  EXPECT_EQ(json["rows"][1]["method"], "local");
}

TEST(LabTest, ThreadsDoNotChangeAByte) {
  const Ran one = RunHeddle(kSmall + "--noise 0.1 --json --threads 1");
  const Ran four = RunHeddle(kSmall + "--noise 0.1 --json --threads 4");
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_EQ(one.out, four.out);
}

TEST(LabTest, RaceAsTableAndPlot) {
  for (const std::string ending : {".svg", ".html"}) {
    const TemporaryFile file;
    const std::string plot = file.path() + ending;
    const Ran ran = RunHeddle(kSmall + "--plot " + plot);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_NE(ran.out.find("t-interval over the seeds"), std::string::npos);
    EXPECT_NE(ran.out.find(plot), std::string::npos);
    const std::string drawn = ReadFile(plot).value();
    unlink(plot.c_str());
    EXPECT_NE(drawn.find("<svg "), std::string::npos);
    EXPECT_NE(drawn.find(">4 stages<"), std::string::npos);
    EXPECT_EQ(drawn.find("<html") != std::string::npos, ending == ".html");
  }
}

TEST(LabTest, RangesDouble) {
  const Json json =
      JsonOf("lab race --dimension 40 --stages 1..9,3 --methods gpipe --ticks 200 --json");
  std::vector<int> stages;
  for (const Json& row : json["rows"]) stages.push_back(row["stages"].get<int>());
  EXPECT_EQ(stages, (std::vector<int>{1, 2, 4, 8, 3}));
}

TEST(LabTest, LogisticOnALibsvmFile) {
  const TemporaryFile data("+1 1:1 3:0.5\n-1 2:1\n+1 1:0.7 2:-1\n-1 3:-1 2:0.2\n");
  const Json json = JsonOf(
      "lab race --objective logistic --stages 2 --methods pd --ticks 200 "
      "--noise 0.1 --json --data " +
      data.path());
  EXPECT_EQ(json["dimension"], 3);
  EXPECT_GE(json["rows"][0]["loss_mean"].get<double>(), json["lowest_loss"].get<double>());
}

// Held-out loss and ticks to a target beside the keys of every race; no constants that a network
// does not have.
TEST(LabTest, LanguageModelOnAText) {
  std::string text;
  for (int k = 0; k < 300; ++k) text += "to be or not to be ";
  const TemporaryFile data(text);
  const Json json = JsonOf(
      "lab race --objective lm --stages 2 --methods pd,gpipe --ticks 300 --points 5 --layers 1 "
      "--hidden 8 --context 8 --samples 2 --target 1.2 --refine 0 --json --data " +
      data.path());
  EXPECT_TRUE(json["lowest_loss"].is_null());
  EXPECT_TRUE(json["smoothness"].is_null());
  EXPECT_EQ(json["target"], 1.2);
  ASSERT_EQ(json["rows"].size(), 2U);
  for (const Json& row : json["rows"]) {
    EXPECT_EQ(row["objective"], "lm");
    EXPECT_LE(row["held_out_low"].get<double>(), row["held_out_mean"].get<double>());
    EXPECT_GE(row["held_out_high"].get<double>(), row["held_out_mean"].get<double>());
    EXPECT_LT(row["loss_mean"].get<double>(), std::log(7.0));  // 7 different characters
  }
  EXPECT_EQ(json["rows"][0]["seeds_at_target"], 5);
  EXPECT_GT(json["rows"][0]["ticks_to_target_mean"].get<double>(), 0);
  EXPECT_EQ(json["rows"][0]["ticks_against_first"]["mean"], 1);
}

TEST(LabTest, BadTexts) {
  const std::string race = "lab race --objective lm --data ";
  const TemporaryFile empty(""), some("hello world");
  ExpectRefused(race + empty.path(), 4, {empty.path(), "0 bytes", "at least 170"});
  ExpectRefused(race + some.path(), 4, {some.path(), "11 bytes"});
  ExpectRefused(race + "/nonexistent", 4, {"/nonexistent"});
  ExpectRefused("lab race --objective lm --stages 9", 4, {"--stages", "1 to 8"});
  ExpectRefused("lab race --objective lm --hidden 12", 4, {"--hidden", "multiple of 8"});
  ExpectRefused("lab race --objective lm --dimension 8", 2, {"--dimension"});
  ExpectRefused("lab race --layers 2", 2, {"--layers", "lm"});
  ExpectRefused("lab race --target x", 4, {"--target", "\"x\""});
  ExpectRefused("lab race --target -1", 4, {"--target"});
  ExpectRefused("lab race --objective ln --data x", 2, {"did you mean --objective lm?"});
}

TEST(LabTest, TheoryAsJson) {
  const Json json = JsonOf(
      "lab theory --stages 2,4,8 --L 2 --G 3 --gap 5 --steps 1000 --dimension 64 --ticks 200 "
      "--json");
  EXPECT_EQ(json["schema"], "heddle.lab.theory/1");
  EXPECT_EQ(json["assumptions"].size(), 4U);
  ASSERT_EQ(json["rows"].size(), 18U);  // 3 stages, 2 tunings, 3 forms
  const Json& row = json["rows"][6];    // S = 4, without the stale term, S^4
  EXPECT_EQ(row["stages"], 4);
  EXPECT_EQ(row["form"], "S^4");
  const double step = row["step_size"].get<double>();
  EXPECT_NEAR(step, 0.0235702, 1e-6);  // √(2·5/(2·9·1000))
  EXPECT_NEAR(row["stale_term"].get<double>(), step * step * 4 * 196 * 9, 1e-9);
  const Json& pd = json["measured"]["methods"][0];
  EXPECT_EQ(pd["method"], "pd");
  EXPECT_EQ(pd["rows"].size(), 3U);
  EXPECT_GT(pd["count_exponent"]["mean"].get<double>(), 1);
}

// A map of a few cells: JSON, picture and table say the same.
TEST(LabTest, AMap) {
  const std::string small =
      "lab map --dimension 16 --noise 0,0.5 --rows-per-parameter 0.5,4 --every 1,5 --stages 2,4 "
      "--ticks 240 ";
  const Json json = JsonOf(small + "--json");
  EXPECT_EQ(json["schema"], "heddle.lab.map/1");
  ASSERT_EQ(json["cells"].size(), 16U);
  std::set<std::string> kinds = {"pd", "local", "flush"};
  for (const Json& cell : json["cells"]) {
    ASSERT_GE(cell["front"].size(), 1U);
    for (const Json& kind : cell["front"]) EXPECT_TRUE(kinds.contains(kind.get<std::string>()));
    // The winner is called ahead, and its interval says so.
    if (cell["front"] == Json({"local"})) {
      EXPECT_EQ(cell["local_to_pd"]["standing"], "ahead");
      EXPECT_LT(cell["local_to_pd"]["high"].get<double>(), 1);
    }
  }
  const TemporaryFile file;
  const std::string plot = file.path() + ".svg";
  const Ran ran = RunHeddle(small + "--all --plot " + plot);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("H = 5"), std::string::npos);
  EXPECT_NE(ran.out.find("local/pd"), std::string::npos);
  const std::string drawn = ReadFile(plot).value();
  unlink(plot.c_str());
  EXPECT_NE(drawn.find("noise 0.5, H = 5"), std::string::npos);
  EXPECT_EQ(RunHeddle(small + "--json --threads 1").out, RunHeddle(small + "--json").out);
}

// The authors' settings may be given otherwise, one by one.
TEST(LabTest, PaperSettings) {
  const Json json = JsonOf(
      "lab race --paper logistic --dimension 32 --rows 8 --stages 4 --ticks 300 --seeds 3 "
      "--tune-seeds 2 --json");
  EXPECT_EQ(json["dimension"], 32);
  EXPECT_EQ(json["seeds"], 3);
  EXPECT_EQ(json["grid"]["count"], 10);
  EXPECT_EQ(json["rows"][0]["noise"], 0.5);
  EXPECT_EQ(json["rows"][1]["method"], "local");
  EXPECT_EQ(json["rows"][1]["rounds"], 300 / (2 * 4 * 5 + 6));
  const Ran few = RunHeddle("lab race --paper quadratic --dimension 16 --ticks 200 --seeds 2");
  EXPECT_EQ(few.exit_code, 0) << few.err;
  EXPECT_NE(few.err.find("whole rounds of local"), std::string::npos) << few.err;
}

// A step size that one seed chose does not hold on others with data of their own.
TEST(LabTest, SeedsThatDivergeAreCountedAndExplained) {
  const std::string race =
      "lab race --objective chain-rows --dimension 12 --rows 20 --batch 1 --fresh-data --stages 3 "
      "--ticks 4000 --methods pd,local --seeds 10 --tune-seeds 1";
  const Json json = JsonOf(race + " --json");
  const int diverged = json["rows"][0]["diverged_seeds"];
  EXPECT_GT(diverged, 0);
  EXPECT_TRUE(json["rows"][1]["against_first"].is_null());
  EXPECT_EQ(json["rows"][1]["verdict"], "open");
  const std::string table = RunHeddle(race).out;
  EXPECT_NE(table.find(std::to_string(diverged) + " of 10 diverged"), std::string::npos) << table;
  EXPECT_NE(table.find("--tune-seeds"), std::string::npos) << table;
}

// With data of their own seeds have lowest losses of their own; what is left is above their mean.
TEST(LabTest, LowestLossOfFreshDataIsTheMeanOverTheSeeds) {
  const std::string race =
      "lab race --objective least-squares --dimension 8 --rows 12 --batch 1 --fresh-data "
      "--stages 4 --ticks 2000 --methods pd --tune-seeds 1 --json";
  const Json two = JsonOf(race + " --seeds 2"), three = JsonOf(race + " --seeds 3");
  EXPECT_NE(two["lowest_loss"], three["lowest_loss"]);
  EXPECT_GT(two["rows"][0]["loss_mean"].get<double>(), two["lowest_loss"].get<double>());
}

// Without noise, from zero, over the same rows in the same order: a seed changes nothing.
TEST(LabTest, SeedsThatChangeNothingGiveNoVerdict) {
  const std::string race =
      "lab race --objective chain-rows --dimension 12 --rows 20 --batch 4 --start zero --stages 3 "
      "--ticks 600 --methods pd,local --seeds 10 --json";
  const Ran same = RunHeddle(race);
  ASSERT_EQ(same.exit_code, 0) << same.err;
  EXPECT_NE(same.err.find("every seed made the same run"), std::string::npos) << same.err;
  EXPECT_EQ(ParseJson(same.out, "race").value()["rows"][1]["verdict"], "open");
  const Ran shuffled = RunHeddle(race + " --order shuffled");
  EXPECT_EQ(shuffled.err.find("every seed"), std::string::npos) << shuffled.err;
  EXPECT_EQ(ParseJson(shuffled.out, "race").value()["rows"][1]["verdict"], "behind");
}

// Their language model, smaller: it learns, with step sizes that are powers of two.
TEST(LabTest, PaperLanguageModel) {
  const Json json = JsonOf(
      "lab race --paper lm --hidden 8 --context 8 --samples 2 --ticks 200 --points 2 --json");
  EXPECT_EQ(json["objective"], "lm");
  EXPECT_EQ(json["seeds"], 10);
  ASSERT_EQ(json["rows"].size(), 2U);
  constexpr double kGuess = 2.996;  // ln 20: the made text has 20 characters
  for (const Json& row : json["rows"]) {
    EXPECT_EQ(row["stages"], 4);
    EXPECT_LT(row["loss_mean"].get<double>(), kGuess) << row;
    EXPECT_LT(row["held_out_mean"].get<double>(), kGuess) << row;
    const double exponent = std::log2(row["step_size"].get<double>());
    EXPECT_EQ(exponent, std::round(exponent)) << row;
  }
  EXPECT_EQ(json["rows"][0]["method"], "pd");
  EXPECT_EQ(json["rows"][1]["method"], "local");
  EXPECT_EQ(json["rows"][1]["rounds"], 200 / (2 * 4 * 5 + 6));
}

TEST(LabTest, HelpHasExamples) {
  for (const char* command : {"lab", "lab race", "lab theory", "lab map"}) {
    const Ran ran = RunHeddle(std::string(command) + " --help");
    EXPECT_EQ(ran.exit_code, 0);
    EXPECT_NE(ran.out.find("Example"), std::string::npos) << command;
  }
}

TEST(LabTest, BadFlags) {
  EXPECT_EQ(RunHeddle("lab").exit_code, 2);
  ExpectRefused("lab rase", 2, {"rase", "\"race\""});
  ExpectRefused("lab race twice", 2, {"twice"});
  ExpectRefused("lab race --frob", 2, {"--help"});
  ExpectRefused("lab race --plot race.png", 2, {"race.png", ".svg"});
  ExpectRefused("lab race --objective quadratc", 4, {"--objective", "\"quadratic\""});
  ExpectRefused("lab race --methods pd,locl", 4, {"locl", "\"local\""});
  ExpectRefused("lab race --stages 2..", 4, {"--stages"});
  ExpectRefused("lab race --stages 8..2", 4, {"8..2"});
  ExpectRefused("lab race --stages 0", 4, {"--stages"});
  ExpectRefused("lab race --dimension 4 --stages 8", 4, {"--stages", "8"});
  ExpectRefused("lab race --noise 0,x", 4, {"--noise", "\"x\""});
  ExpectRefused("lab race --noise -1", 4, {"--noise"});
  ExpectRefused("lab race --seeds 1", 4, {"--seeds", "2"});
  ExpectRefused("lab race --objective logistic --rows 4 --batch 5", 4, {"--batch", "4 rows"});
  ExpectRefused("lab race --objective chain-rows --dimension 8 --rows 7", 4, {"--rows"});
  ExpectRefused("lab race --batch 5", 2, {"--batch", "logistic"});
  ExpectRefused("lab race --paper logistik", 2, {"--paper", "logistic"});
  ExpectRefused("lab map --plot map.png", 2, {"map.png", ".svg"});
  ExpectRefused("lab map --every 0", 4, {"--every"});
  ExpectRefused("lab map --rows-per-parameter 0", 4, {"--rows-per-parameter"});
  ExpectRefused("lab race --stages 4 --microbatches 2", 4, {"--microbatches"});
  ExpectRefused("lab race --microbatches 0", 2, {"--microbatches", "1 or more"});
  ExpectRefused("lab race --dimension 0", 2, {"--dimension", "1 or more"});
  ExpectRefused("lab theory --step-size 0", 2, {"--step-size", "above 0"});
  ExpectRefused("lab race --stages 4 --ticks 10 --points 1", 4, {"--ticks"});
  ExpectRefused("lab race --objective logistic --data /nonexistent", 4, {"/nonexistent"});
  ExpectRefused("lab race --data x", 2, {"--data"});
  ExpectRefused("lab theory --L 0", 4, {"--L"});
  ExpectRefused("lab theory --G nan", 2, {"--G"});
  ExpectRefused("lab theory --steps -5", 4, {"--steps"});
  ExpectRefused("lab theory --step-size 9", 4, {"--step-size", "diverges"});
  const TemporaryFile bad("1 1:1\n0 1:one\n");
  ExpectRefused("lab race --objective logistic --data " + bad.path(), 4, {"line 2", bad.path()});
}

}  // namespace
}  // namespace heddle
