// Every option of every command does something. `heddle help --json` lists them; each must have a
// row below with two command lines that differ in it and come out differently.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "base/json_field.h"
#include "base/text.h"
#include "run_heddle.h"
#include "support/places.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

// {m4}, {laptop}, {lan}: clusters. {plan}, {other}: plans. {profiled}: one made with {profile}.
// {layers}: a layer profile. {jobs}, {jobs2}, {trace}, {trace2}: of share; {apart}: jobs that are
// better left apart. {new}: a path where
// nothing is.
struct OptionCase {
  const char* command;
  const char* option;
  const char* common;
  const char* first;
  const char* second;
};

constexpr char kPlan[] = "--json --strategy 1f1b --model tiny-mlp --cluster {m4} --batch 32";
constexpr char kAuto[] = "--json --strategy auto --model tiny-mlp --cluster {laptop} --batch 32";
constexpr char kLayers[] = "--json --strategy 1f1b --model {layers} --cluster {m4} --batch 32";
constexpr char kCompare[] = "--json --model tiny-mlp --cluster {m4} --batch 32";
constexpr char kRace[] =
    "--json --stages 2 --ticks 200 --points 4 --step-sizes 3 --refine 0 --threads 1 --dimension 16";
constexpr char kNetwork[] =
    "--json --objective lm --stages 2 --methods gpipe --ticks 40 --points 2 --step-sizes 3 "
    "--refine 0 --threads 1 --layers 1 --hidden 8 --context 4 --samples 1";
constexpr char kRows[] =
    "--json --objective logistic --dimension 8 --stages 2 --methods pd,local --ticks 120 --points "
    "2 "
    "--step-sizes 3 --refine 0 --seeds 2";
constexpr char kMapText[] =
    "--dimension 8 --noise 0.2 --rows-per-parameter 1 --every 2 --stages 2 --ticks 100 --seeds 2 "
    "--tune-seeds 1";
constexpr char kMap[] =
    "--json --dimension 8 --noise 0.2 --rows-per-parameter 1 --every 2 --stages 2 --ticks 100 "
    "--seeds 2 --tune-seeds 1";
constexpr char kTheory[] = "--json --stages 2 --dimension 16 --ticks 200";
constexpr char kShareRun[] = "{jobs} --run --dir {new}";

constexpr OptionCase kCases[] = {
    {"plan", "--model", "--json --strategy 1f1b --cluster {m4}", "--model mlp", "--model tiny-mlp"},
    {"plan", "--cluster", "--json --strategy 1f1b --model tiny-mlp", "--cluster {m4}",
     "--cluster {laptop}"},
    {"plan", "--profile-batch", kLayers, "--profile-batch 4", "--profile-batch 8"},
    {"plan", "--profile-device", kLayers, "--profile-batch 4 --profile-device v100",
     "--profile-batch 4 --profile-device p100"},
    {"plan", "--batch", kPlan, "", "--batch 64"},
    {"plan", "--microbatches", kPlan, "--microbatches 2", "--microbatches 4"},
    {"plan", "--micro-batch-size", kPlan, "--micro-batch-size 16", "--micro-batch-size 8"},
    {"plan", "--dtype", kPlan, "", "--dtype bf16"},
    {"plan", "--optimizer", kPlan, "", "--optimizer sgd"},
    {"plan", "--clip", kPlan, "", "--clip 1"},
    {"plan", "--profile", kPlan, "", "--profile {profile}"},
    {"plan", "--versions", kPlan, "--strategy async", "--strategy async --versions 2bw"},
    {"plan", "--sync", kPlan, "--strategy dp", "--strategy dp --sync ps"},
    {"plan", "--compress", kPlan, "--strategy dp", "--strategy dp --compress fp16"},
    {"plan", "--every", kPlan, "--strategy local", "--strategy local --every 2"},
    {"plan", "--replicas", kPlan, "--strategy local --replicas whole",
     "--strategy local --replicas pipelined"},
    {"plan", "--links", kPlan, "", "--links exclusive"},
    {"plan", "--strategy", kPlan, "", "--strategy gpipe"},
    {"plan", "--search", kPlan, "--strategy spmd", "--strategy spmd --search fold"},
    {"plan", "--goal", kAuto, "", "--goal time-to-loss --evidence bound"},
    {"plan", "--evidence", kAuto, "--goal time-to-loss --evidence bound",
     "--goal time-to-loss --evidence quadratic"},
    {"plan", "--budget", kAuto, "", "--budget 1e-9"},
    {"plan", "--noise", kAuto, "--goal time-to-loss --noise 0", "--goal time-to-loss --noise 0.2"},
    {"plan", "--noise-ratio", kAuto, "--goal time-to-loss --noise-ratio 0",
     "--goal time-to-loss --noise-ratio 400"},
    {"plan", "--rows-per-parameter", kAuto, "--goal time-to-loss --rows-per-parameter 0.2",
     "--goal time-to-loss --rows-per-parameter 4"},
    {"plan", "--output", "--strategy 1f1b --model tiny-mlp --cluster {m4}", "", "-o {new}"},

    {"compare", "--model", "--json --cluster {m4} --batch 32", "--model mlp", "--model tiny-mlp"},
    {"compare", "--cluster", "--json --model tiny-mlp --batch 32", "--cluster {m4}",
     "--cluster {laptop}"},
    {"compare", "--profile-batch", "--json --model {layers} --cluster {laptop} --batch 8",
     "--profile-batch 4", "--profile-batch 8"},
    {"compare", "--profile-device", "--json --model {layers} --cluster {m4} --batch 8",
     "--profile-batch 4 --profile-device v100", "--profile-batch 4 --profile-device p100"},
    {"compare", "--batch", kCompare, "", "--batch 64"},
    {"compare", "--microbatches", kCompare, "", "--microbatches 1"},
    {"compare", "--micro-batch-size", kCompare, "", "--micro-batch-size 32"},
    {"compare", "--dtype", kCompare, "", "--dtype bf16"},
    {"compare", "--optimizer", kCompare, "", "--optimizer sgd"},
    {"compare", "--clip", kCompare, "", "--clip 1"},
    {"compare", "--profile", kCompare, "", "--profile {profile}"},
    {"compare", "--versions", kCompare, "", "--versions 2bw"},
    {"compare", "--sync", kCompare, "", "--sync ps"},
    {"compare", "--compress", kCompare, "", "--compress fp16"},
    {"compare", "--every", kCompare, "", "--every 2"},
    {"compare", "--replicas", kCompare, "--replicas whole", "--replicas pipelined"},
    {"compare", "--search", kCompare, "--strategies spmd,dp", "--strategies spmd,dp --search fold"},
    {"compare", "--links", kCompare, "", "--links exclusive"},
    {"compare", "--strategies", kCompare, "", "--strategies dp"},
    {"compare", "--budget", kCompare, "", "--budget 1e-9"},

    {"explain", "plan", "--json", "{plan}", "{other}"},
    {"explain", "--profile", "--json {plan}", "", "--profile {profile}"},
    {"explain", "--all", "{divided}", "", "--all"},
    {"simulate", "file", "--json", "{plan}", "{other}"},
    {"simulate", "--cluster", "--json {plan}", "", "--cluster {lan}"},
    {"simulate", "--profile", "--json {plan}", "", "--profile {profile}"},
    {"simulate", "--links", "--json {plan}", "", "--links exclusive"},
    {"simulate", "--trace", "{plan}", "", "--trace {new}"},
    {"simulate", "--network", "{plan}", "", "--network"},
    {"simulate", "--rows", "{plan}", "--rows 1", "--rows 4"},
    {"check", "file", "--json", "{plan}", "{other}"},
    {"check", "--cluster", "--json {plan}", "", "--cluster {lan}"},
    {"check", "--profile", "--json {profiled}", "", "--profile {profile}"},
    {"lower", "file", "--json", "{plan}", "{other}"},
    {"lower", "--cluster", "--json {plan}", "", "--cluster {lan}"},
    {"lower", "--profile", "--json {profiled}", "", "--profile {profile}"},
    {"lower", "--output", "{plan}", "", "-o {new}"},

    {"run", "plan", "", "{plan}", "{other}"},
    {"run", "--steps", "{plan}", "--steps 3", "--steps 4"},
    {"run", "--data", "{plan}", "", "--data text:book.txt"},
    {"run", "--validation", "{plan}", "", "--validation 0.2"},
    {"run", "--seed", "{plan}", "", "--seed 7"},
    {"run", "--rate", "{plan}", "", "--rate 0.5"},
    {"run", "--schedule", "{plan}", "", "--schedule cosine"},
    {"run", "--dtype", "{plan}", "", "--dtype fp64"},
    {"run", "--eval-every", "{plan}", "", "--eval-every 2"},
    {"run", "--save-every", "{plan}", "", "--save-every 2"},
    {"run", "--keep", "{plan} --save-every 2", "", "--keep 7"},
    {"run", "--dir", "{plan}", "", "--dir {new}"},
    {"run", "--resume", "{plan}", "", "--resume {new}"},
    {"run", "--override", "{plan} --resume {new}", "", "--override"},
    {"run", "--keep-going", "{plan}", "", "--keep-going"},
    {"run", "--measure-noise", "{plan}", "", "--measure-noise"},
    {"run", "--stuck-after", "{plan}", "", "--stuck-after 9"},
    {"run", "--silent-after", "{plan}", "", "--silent-after 9"},
    {"run", "--secret-file", "{plan}", "", "--secret-file {new}"},
    {"run", "--interface", "{plan}", "", "--interface lo"},
    {"run", "--check-every", "{plan}", "", "--check-every 3"},
    {"run", "--weights", "{plan}", "", "--weights {new}"},
    {"run", "--elastic", "{plan}", "", "--elastic"},
    {"run", "--emulate", "{plan}", "", "--emulate"},
    {"run", "--dilate", "{plan} --emulate", "", "--dilate 5"},
    {"run", "--threads", "{plan}", "", "--threads"},
    {"run", "--port", "{plan}", "", "--port 29500"},
    {"run", "--meet-within", "{plan}", "", "--meet-within 5"},
    {"run", "--native-collectives", "{plan}", "", "--native-collectives"},
    {"run", "--profile", "{plan}", "", "--profile {profile}"},
    {"verify", "file", "", "{plan}", "{other}"},
    {"verify", "--plan", "{plan}", "", "--plan {other}"},
    {"verify", "--steps", "{plan}", "", "--steps 2"},
    {"verify", "--whole", "{plan}", "", "--whole"},
    {"verify", "--profile", "{profiled}", "", "--profile {profile}"},
    {"profile", "--model", "", "--model tiny-mlp", "--model tiny-gpt"},
    {"profile", "--rows", "--model tiny-mlp", "", "--rows 3,5"},
    {"profile", "--steps", "--model tiny-mlp", "", "--steps 2"},
    {"profile", "--type", "--model tiny-mlp", "", "--type gpu"},
    {"profile", "--dtype", "--model tiny-mlp", "", "--dtype fp64"},
    {"profile", "--optimizer", "--model tiny-mlp", "", "--optimizer sgd"},
    {"profile", "--clip", "--model tiny-mlp", "", "--clip 1"},
    {"profile", "--output", "--model tiny-mlp", "", "-o {new}"},
    {"profile", "--cluster", "--model tiny-mlp", "", "--cluster {new}"},

    {"lab", "experiment", "", "delay --stages 2", "dealy --stages 2"},
    {"lab delay", "--stages", "--json", "--stages 2", "--stages 3"},
    {"lab delay", "--forward", "--json --stages 3 --latency 1", "", "--forward 4"},
    {"lab delay", "--backward", "--json --stages 3 --latency 1", "", "--backward 4"},
    {"lab delay", "--latency", "--json --stages 3", "", "--latency 5"},
    {"lab delay", "--slowness", "--json --stages 3", "", "--slowness 1,1,3"},
    {"lab race", "--objective", kRace, "", "--objective least-squares"},
    {"lab race", "--data", kNetwork, "", "--data {text}"},
    {"lab race", "--dimension", kRace, "", "--dimension 24"},
    {"lab race", "--rows", kRows, "", "--rows 9"},
    {"lab race", "--batch", kRows, "", "--batch 3"},
    {"lab race", "--start", kRows, "", "--start zero"},
    {"lab race", "--order", kRows, "--batch 2", "--batch 2 --order shuffled"},
    {"lab race", "--sharpness", kRows, "", "--sharpness 9"},
    {"lab race", "--fresh-data", kRows, "", "--fresh-data"},
    {"lab race", "--tune-seeds", kRows, "--tune-seeds 1 --noise 1", "--tune-seeds 0 --noise 1"},
    {"lab race", "--powers-of-two", kRace, "", "--powers-of-two"},
    {"lab race", "--paper", "--json --dimension 16 --stages 2 --ticks 100 --seeds 2",
     "--paper logistic", "--paper quadratic"},
    {"lab race", "--layers", kNetwork, "", "--layers 2"},
    {"lab race", "--hidden", kNetwork, "", "--hidden 16"},
    {"lab race", "--context", kNetwork, "", "--context 8"},
    {"lab race", "--samples", kNetwork, "", "--samples 2"},
    {"lab race", "--stages", kRace, "", "--stages 4"},
    {"lab race", "--methods", kRace, "--methods pd", "--methods gpipe"},
    {"lab race", "--seeds", kRace, "", "--seeds 6"},
    {"lab race", "--seed", kRace, "", "--seed 3"},
    {"lab race", "--noise", kRace, "", "--noise 0.5"},
    {"lab race", "--ticks", kRace, "", "--ticks 100"},
    {"lab race", "--points", kRace, "", "--points 8"},
    {"lab race", "--every", kRace, "--methods local", "--methods local --every 2"},
    {"lab race", "--microbatches", kRace, "--methods gpipe", "--methods gpipe --microbatches 8"},
    {"lab race", "--step-sizes", kRace, "", "--step-sizes 4"},
    {"lab race", "--refine", kRace, "", "--refine 2"},
    {"lab race", "--backward", kRace, "", "--backward 3"},
    {"lab race", "--latency", kRace, "", "--latency 3"},
    {"lab race", "--average-ticks", kRace, "--methods local", "--methods local --average-ticks 9"},
    {"lab race", "--target", kRace, "", "--target 1"},
    {"lab race", "--plot", "--stages 2 --ticks 100 --points 2 --step-sizes 3 --refine 0", "",
     "--plot {new}.svg"},
    {"lab map", "--objective", kMap, "", "--objective least-squares"},
    {"lab map", "--dimension", kMap, "", "--dimension 12"},
    {"lab map", "--noise", kMap, "", "--noise 0.3"},
    {"lab map", "--rows-per-parameter", kMap, "", "--rows-per-parameter 2"},
    {"lab map", "--every", kMap, "", "--every 3"},
    {"lab map", "--stages", kMap, "", "--stages 4"},
    {"lab map", "--seeds", kMap, "", "--seeds 4"},
    {"lab map", "--tune-seeds", kMap, "", "--tune-seeds 3"},
    {"lab map", "--seed", kMap, "", "--seed 3"},
    {"lab map", "--ticks", kMap, "", "--ticks 150"},
    {"lab map", "--all", kMapText, "", "--all"},
    {"lab map", "--plot", kMapText, "", "--plot {new}.svg"},
    {"lab theory", "--stages", kTheory, "", "--stages 4"},
    {"lab theory", "--L", kTheory, "", "--L 2"},
    {"lab theory", "--G", kTheory, "", "--G 2"},
    {"lab theory", "--gap", kTheory, "", "--gap 2"},
    {"lab theory", "--steps", kTheory, "", "--steps 2000"},
    {"lab theory", "--dimension", kTheory, "", "--dimension 24"},
    {"lab theory", "--step-size", kTheory, "", "--step-size 0.01"},
    {"lab theory", "--noise", kTheory, "", "--noise 0.5"},
    {"lab theory", "--ticks", kTheory, "", "--ticks 300"},
    {"lab theory", "--seeds", kTheory, "", "--seeds 6"},

    {"share", "jobs", "--json", "{jobs}", "{jobs2}"},
    {"share", "--baselines", "--json {jobs}", "", "--baselines"},
    {"share", "--trace", "--json --devices 8", "--trace {trace}", "--trace {trace2}"},
    {"share", "--devices", "--json --trace {trace}", "--devices 8", "--devices 16"},
    {"share", "--run", "{jobs}", "", "--run --dir {new}"},
    {"share", "--emulate", kShareRun, "", "--emulate"},
    {"share", "--shaped", kShareRun, "--emulate", "--shaped"},
    {"share", "--dilate", kShareRun, "--emulate", "--emulate --dilate 9"},
    {"share", "--no-serial", kShareRun, "", "--no-serial"},
    {"share", "--silent-after", kShareRun, "", "--silent-after 9"},
    {"share", "--together", kShareRun, "", "--together"},
    {"share", "--one-group", "{apart} --run --dir {new}", "", "--one-group"},
    {"share", "--order", kShareRun, "--order rotation", "--order deficit"},
    {"share", "--dtype", kShareRun, "", "--dtype fp64"},
    {"share", "--dir", "{jobs} --run", "--dir {new}", "--dir {new}2"},
    {"share", "--attach", "{jobs} --dir {new}", "--run", "--attach nobody"},
    {"help", "command", "", "", "plan"},
    {"devices", "name", "", "", "a40"},
    {"models", "path", "", "", "tests/model/configs/vit-base.json"},
};

// Of `lab race`: changes how long a race takes and nothing else; a test of tests/lab says so.
const std::set<std::string> kOnlySpeed = {"lab race --threads", "lab map --threads"};
// What takes seconds, and is shown by demo_test.cc.
const std::set<std::string> kShownElsewhere = {"demo --only-plan"};
// Of every command, or of heddle itself.
const std::set<std::string> kGeneral = {"--help", "--version", "--json"};

// A folder with a heddle whose worker prints what it was asked to do, and the files of the cases.
class Workshop {
 public:
  Workshop() {
    char name[] = "/tmp/heddle-options-XXXXXX";
    folder_ = mkdtemp(name);
    fs::create_directory(folder_ + "/bin");
    std::error_code failed;
    fs::create_hard_link(HeddleBinary(), folder_ + "/bin/heddle", failed);
    if (failed) fs::copy_file(HeddleBinary(), folder_ + "/bin/heddle");
    Write("bin/heddle-worker", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
    fs::permissions(folder_ + "/bin/heddle-worker", fs::perms::owner_all);
    Write("profile.json", R"({"schema": "heddle.profile/1", "device_types": {
        "v100": {"einsum bk,kn->bn b=8 k=64 n=64 f32": 1e-3},
        "p100": {"einsum bk,kn->bn b=8 k=64 n=64 f32": 2e-3}}})");
    std::string text;
    for (int k = 0; k < 2000; ++k) text += "to be or not to be, " + std::to_string(k * k);
    Write("text.txt", text);
    Write("jobs.toml", Jobs(8, 16));
    Write("jobs2.toml", Jobs(16, 16));
    Write("apart.toml", Jobs(8, 16) + "[share]\nminimum_gain = 1\n");
    std::string trace = ReadFile(Source("examples/09-trace.csv")).value();
    Write("trace2.csv", trace.substr(0, trace.rfind('\n', trace.size() - 2) + 1));
    for (const auto& [file, arguments] :
         std::map<std::string, std::string>{{"plan", "1f1b --microbatches 4"},
                                            {"other", "gpipe --microbatches 2"},
                                            {"divided", "zero"},
                                            {"profiled", "1f1b --profile {profile}"}}) {
      const Ran ran = RunIn(Filled("plan --model tiny-mlp --batch 32 --cluster {m4} -o {" + file +
                                   "} --strategy " + arguments));
      EXPECT_EQ(ran.exit_code, 0) << ran.err;
    }
  }
  ~Workshop() { fs::remove_all(folder_); }
  Workshop(const Workshop&) = delete;
  Workshop& operator=(const Workshop&) = delete;

  std::string Filled(std::string text) const {
    const std::map<std::string, std::string> places = {
        {"{m4}", ClusterFile("mixed4")},
        {"{laptop}", ClusterFile("laptop")},
        {"{lan}", folder_ + "/lan.toml"},
        {"{layers}", Source("examples/profiles/tiny.txt")},
        {"{trace}", Source("examples/09-trace.csv")},
        {"{trace2}", folder_ + "/trace2.csv"},
        {"{jobs}", folder_ + "/jobs.toml"},
        {"{jobs2}", folder_ + "/jobs2.toml"},
        {"{apart}", folder_ + "/apart.toml"},
        {"{plan}", folder_ + "/plan.json"},
        {"{other}", folder_ + "/other.json"},
        {"{divided}", folder_ + "/divided.json"},
        {"{profiled}", folder_ + "/profiled.json"},
        {"{profile}", folder_ + "/profile.json"},
        {"{text}", folder_ + "/text.txt"},
        {"{new}", folder_ + "/new"}};
    for (const auto& [place, path] : places) {
      for (size_t at = 0; (at = text.find(place)) != std::string::npos;) {
        text.replace(at, place.size(), path);
      }
    }
    return text;
  }

  Ran RunIn(const std::string& arguments) const {
    return RunShell("cd " + folder_ + " && COLUMNS=1000 HEDDLE_BUDGET=86400 bin/heddle " +
                    arguments);
  }

  // What comes out, but for how long this machine took.
  std::string Outcome(const std::string& arguments) const {
    const Ran ran = RunIn(arguments);
    // What was asked is told again, which is no effect.
    static const std::regex kAsked(R"re("request": \{[^}]*\})re");
    static const std::regex kTimings(
        R"re((planned in +|"planning_seconds": |"simulate_seconds": )[0-9.e-]+( [mun]?s)?)re");
    for (const char* left : {"/new", "/new2", "/new.svg"}) fs::remove_all(folder_ + left);
    return "exit code " + std::to_string(ran.exit_code) + "\n" +
           std::regex_replace(std::regex_replace(ran.out, kAsked, ""), kTimings, "$1*") + ran.err;
  }

 private:
  static std::string Source(const std::string& path) { return SourceDir() + "/" + path; }

  // Small ones, which plan in no time.
  std::string Jobs(int first_batch, int second_batch) {
    Write("lan.toml", ReadFile(ClusterFile("mixed4")).value() + "# slower\n");
    std::string lan = ReadFile(folder_ + "/lan.toml").value();
    const std::string fast = "10 Gbit/s";
    Write("lan.toml", lan.replace(lan.find(fast), fast.size(), "1 Gbit/s"));
    const auto job = [](const std::string& name, int batch) {
      return "[[job]]\nname = \"" + name +
             "\"\nmodel = \"tiny-mlp\"\nbatch = " + std::to_string(batch) +
             "\nsteps = 10\noverlap = false\n\n";
    };
    return "schema = \"heddle.jobs/1\"\ncluster = \"lan.toml\"\n\n" + job("one", first_batch) +
           job("two", second_batch);
  }

  void Write(const std::string& file, const std::string& text) const {
    ASSERT_TRUE(WriteFile(folder_ + "/" + file, text).ok());
  }

  std::string folder_;
};

Json Listing() {
  const Ran ran = RunHeddle("help --json");
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  return ParseJson(ran.out, "help").value();
}

// "plan --batch", by the last of its names that is no alias: the first long one, or a positional.
std::set<std::string> AllOptions() {
  std::set<std::string> options;
  const Json listing = Listing();
  for (const Json& command : listing["commands"]) {
    for (const Json& option : command["options"]) {
      std::string name = option["names"].back();
      for (const Json& other : option["names"]) {
        if (other.get<std::string>().starts_with("--")) {
          name = other;
          break;
        }
      }
      if (kGeneral.contains(name)) continue;
      options.insert(command["name"].get<std::string>() + " " + name);
    }
  }
  return options;
}

// `common`, without what `own` says otherwise.
std::string Merged(const std::string& common, const std::string& own) {
  const std::vector<std::string_view> own_words = SplitWords(own);
  std::string merged;
  bool dropped = false;
  for (const std::string_view word : SplitWords(common)) {
    const bool is_option = word.starts_with("--");
    if (is_option) {
      dropped = std::find(own_words.begin(), own_words.end(), word) != own_words.end();
    }
    if (!dropped) merged += std::string(word) + " ";
  }
  return merged + own;
}

TEST(OptionsTest, EachHasACase) {
  std::set<std::string> cases = kOnlySpeed;
  cases.insert(kShownElsewhere.begin(), kShownElsewhere.end());
  for (const OptionCase& one : kCases) {
    cases.insert(std::string(one.command) + " " + one.option);
  }
  const std::set<std::string> options = AllOptions();
  EXPECT_GT(options.size(), 100U);
  for (const std::string& option : options) {
    EXPECT_TRUE(cases.contains(option)) << option << ": no case shows that it does anything";
  }
  for (const std::string& one : cases) EXPECT_TRUE(options.contains(one)) << one << ": is gone";
}

class OptionsOf : public testing::TestWithParam<std::string> {};

TEST_P(OptionsOf, EachDoesSomething) {
  const Workshop workshop;
  for (const OptionCase& one : kCases) {
    if (one.command != GetParam()) continue;
    const auto outcome = [&](const char* own) {
      const std::string line = std::string(one.command) + " " + Merged(one.common, own);
      return workshop.Outcome(workshop.Filled(line));
    };
    const std::string first = outcome(one.first), second = outcome(one.second);
    EXPECT_NE(first, second) << one.command << " " << one.option << " does nothing";
    const bool works = first.starts_with("exit code 0\n") || second.starts_with("exit code 0\n");
    EXPECT_TRUE(works) << one.command << " " << one.option << "\n" << first << second;
  }
}

std::vector<std::string> CommandsOfCases() {
  std::set<std::string> commands;
  for (const OptionCase& one : kCases) commands.insert(one.command);
  return {commands.begin(), commands.end()};
}

std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Commands, OptionsOf, testing::ValuesIn(CommandsOfCases()), &TestName);

struct Refusal {
  const char* arguments;
  const char* says;
};

constexpr Refusal kRefusals[] = {
    {"plan {p} --strategy 1f1b --versions vertical",
     "--versions has no effect with --strategy 1f1b"},
    {"plan {p} --strategy auto --versions 2bw", "--goal time-to-loss"},
    {"plan {p} --strategy async --every 4", "--every has no effect with --strategy async"},
    {"plan {p} --strategy dp --replicas whole", "it goes with --strategy local"},
    {"plan {p} --strategy 1f1b --search fold", "--search has no effect with --strategy 1f1b"},
    {"compare {p} --strategies dp,zero --search astar", "or with --strategies spmd"},
    {"plan {p} --strategy 1f1b --goal step-time", "--goal has no effect with --strategy 1f1b"},
    {"plan {p} --strategy auto --evidence bound", "--evidence has no effect with --goal step-time"},
    {"plan {p} --strategy auto --goal time-to-loss --evidence bound --noise 1", "--evidence bound"},
    {"plan {p} --microbatches 4 --micro-batch-size 2", "beside --microbatches"},
    {"plan {p} --strategy 1f1b --sync ps", "--sync has no effect: 1f1b"},
    {"plan {p} --strategy gpipe --compress fp16", "--compress has no effect: gpipe"},
    {"simulate --json --network {plan}", "--network has no effect beside --json"},
    {"simulate --json --rows 3 {plan}", "--rows has no effect beside --json"},
    {"demo --json --only-plan", "--only-plan has no effect beside --json"},
    {"check {plan} --profile {profile}", "--profile has no effect"},
    {"lower {plan} --profile {profile}", "--profile has no effect"},
    {"verify {plan} --profile {profile}", "--profile has no effect"},
    {"lab race --layers 2", "--layers has no effect with --objective quadratic"},
    {"lab race --objective lm --dimension 4", "--dimension has no effect with --objective lm"},
    {"lab race --data x", "--objective logistic or lm"},
    {"lab race --objective plan:x --stages 2", "--stages has no effect with --objective plan:x"},
    {"lab race --objective plan:x --dimension 4", "--dimension has no effect with --objective"},
    {"lab race --objective logistic --data x --dimension 4", "beside --data"},
    {"lab race --rows 4", "--objective logistic"},
    {"lab race --objective logistic --order shuffled", "--batch"},
    {"lab race --objective lm --fresh-data", "--objective logistic"},
    {"lab race --methods pd --every 4", "--every has no effect with --methods pd"},
    {"lab race --methods pd,rpd --average-ticks 4", "local-plain"},
    {"lab race --methods pd --microbatches 4", "gpipe"},
    {"lab race --methods local-plain --latency 4", "other than local-plain"},
    {"share {jobs} --emulate", "--emulate has no effect without --run"},
    {"share {jobs} --dilate 4", "--dilate has no effect without --run"},
    {"share {jobs} --run --dilate 4", "--dilate has no effect without --emulate"},
    {"share {jobs} --shaped", "--shaped has no effect without --run"},
    {"share {jobs} --run --emulate --shaped", "--shaped has no effect beside --emulate"},
    {"share {jobs} --no-serial", "without --run"},
    {"share {jobs} --together", "without --run"},
    {"share {jobs} --one-group", "without --run"},
    {"share {jobs} --order deficit", "without --run"},
    {"share {jobs} --run --together --order deficit", "beside --together"},
    {"share {jobs} --dir {new}", "it goes with --run, or with --attach"},
    {"share {jobs} --devices 4", "--devices has no effect without --trace"},
    {"share {jobs} --attach one", "--attach has no effect without --dir"},
    {"share {jobs} --attach one --dir {new} --run", "beside --run"},
    {"share {jobs} --run --baselines", "beside --run"},
    {"share --trace {trace} --run", "beside --trace"},
    {"share --trace {trace} --baselines", "beside --trace"},
};

// The rules looked at the last element of a list alone.
TEST(OptionsTest, OfAListAnyElementCounts) {
  const Workshop workshop;
  for (const char* strategies : {"spmd,dp", "dp,spmd"}) {
    const Ran ran = workshop.RunIn(workshop.Filled(
        "compare --model tiny-mlp --cluster {m4} --batch 32 --search fold --strategies " +
        std::string(strategies)));
    EXPECT_EQ(ran.exit_code, 0) << strategies << "\n" << ran.err;
  }
}

TEST(OptionsTest, WhatWouldHaveNoEffectIsRefused) {
  const Workshop workshop;
  for (const Refusal& one : kRefusals) {
    std::string arguments = one.arguments;
    if (const size_t at = arguments.find("{p}"); at != std::string::npos) {
      arguments.replace(at, 3, "--model tiny-mlp --cluster {m4} --batch 32");
    }
    const Ran ran = workshop.RunIn(workshop.Filled(arguments));
    EXPECT_EQ(ran.exit_code, 2) << arguments << "\n" << ran.out << ran.err;
    EXPECT_NE(ran.err.find(one.says), std::string::npos) << arguments << "\n" << ran.err;
  }
}

}  // namespace
}  // namespace heddle
