#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_field.h"
#include "plan/planning.h"
#include "program/lower/lower.h"
#include "program/unroll.h"
#include "shaped/star_cluster.h"
#include "shell.h"
#include "testbed/spread.h"
#include "testbed/testbed.h"

namespace heddle {
namespace {

const std::string kHeddle = HEDDLE_BINARY;
constexpr double kLatency = 500e-6;  // of a link: what Gloo's messages take with others at work
constexpr double kBandwidth = 5e6;   // bytes a second: 40 Mbit/s

// Devices that are paced, or cores that really compute.
enum class Computing : uint8_t { kEmulated, kReal };

struct Bed {
  std::string name;
  std::vector<StarNode> nodes;
  std::string model;
  int batch = 8;
  std::vector<std::string> strategies;
  Computing computing = Computing::kEmulated;
};

// Devices of 0.4 and 0.2 GFLOP/s: their modelled time is many times what the arithmetic takes here.
std::vector<StarNode> Unequal(int fast, int slow) {
  constexpr double kFast = 0.4e9, kSlow = 0.2e9, kMemory = 100e9;
  std::vector<StarNode> nodes(static_cast<size_t>(fast), {kFast, kBandwidth, kMemory});
  nodes.resize(static_cast<size_t>(fast + slow), {kSlow, kBandwidth, kMemory});
  return nodes;
}

const std::vector<std::string> kAll = {
    "pipeline",  "dp",     "dp-proportional", "zero",  "gpipe", "1f1b",  "interleaved",
    "pipedream", "dapple", "hetpipe",         "zb-h1", "spmd",  "async", "local --every 2"};

// Of real computing: one of each kind.
const std::vector<std::string> kKinds = {"pipeline", "dp",   "zero",  "1f1b",
                                         "hetpipe",  "spmd", "async", "local --every 2"};

std::vector<Bed> Beds(bool quick) {
  const std::string gpt = "tiny-gpt?layers=8&hidden=32&seq=32&tied=0";
  const std::string mlp = "mlp?layers=8&inputs=256&hidden=256&outputs=64";
  std::vector<Bed> beds;
  beds.push_back({"4 hosts, two half as fast, 40 Mbit/s", Unequal(2, 2), gpt, 16, kAll});
  if (quick) {
    beds[0].strategies = {"pipeline", "dp-proportional", "1f1b",
                          "spmd",     "async",           "local --every 2"};
    return beds;
  }
  beds.push_back({"4 hosts, two half as fast, 40 Mbit/s", Unequal(2, 2), mlp, 64, kAll});
  beds.push_back({"8 hosts, four half as fast, 40 Mbit/s", Unequal(4, 4), gpt, 32, kAll});
  beds.push_back({"4 hosts alike, 40 Mbit/s, real computing", Unequal(4, 0),
                  "tiny-gpt?layers=8&hidden=64&seq=64&tied=0", 16, kKinds, Computing::kReal});
  return beds;
}

struct Row {
  std::string strategy;
  std::string plan;
  int ranks = 0;
  int64_t steps = 0;
  double simulated = 0;
  std::vector<double> seconds;
  int64_t deadlines = 0, missed = 0;
  std::string failure;
};

// Whole rounds of LocalSGD, and enough to fill and drain an asynchronous pipeline. The first three
// bodies are not paced, nor is what fills an asynchronous pipeline twice; five are measured.
Result<int64_t> StepsOf(const std::string& path, const Profile* profile) {
  HEDDLE_ASSIGN(const LoadedPlan loaded, LoadForUse(path, profile));
  HEDDLE_ASSIGN(const Program program, LowerPlan(loaded.plan, loaded.planning->graph));
  constexpr int64_t kBodies = 8;
  const int64_t outside = StepsOutsideBody(program);
  return StepsPerBody(program) * (outside > 0 ? 3 * outside + 2 * kBodies : kBodies);
}

// Times of the model's ops where all devices compute at once, as they will: each of the cores has
// two of them or more. Gives back the path of the profile.
Result<std::string> MeasureOps(const Bed& bed, const std::string& folder) {
  std::string line;
  const auto file = [&](size_t k) { return fmt::format("{}/profile-{}.json", folder, k); };
  for (size_t k = 0; k < bed.nodes.size(); ++k) {
    line += fmt::format(
        "rm -f {0}; {1} profile --model '{2}' --rows 1,2,4,8,16 --type x{3} -o {0} > /dev/null "
        "2>&1 & ",
        file(k), kHeddle, bed.model, k);
  }
  OutputOf(line + "wait");
  Json all = {{"schema", kProfileSchema}, {"device_types", Json::object()}};
  for (size_t k = 0; k < bed.nodes.size(); ++k) {
    HEDDLE_ASSIGN(const std::string text, ReadFile(file(k)));
    HEDDLE_ASSIGN(const Json json, ParseJson(text, file(k)));
    all["device_types"].update(json["device_types"]);
  }
  const std::string path = folder + "/profile.json";
  HEDDLE_RETURN_IF_ERROR(WriteFile(path, all.dump()));
  return path;
}

Row PlanRow(const Bed& bed, const std::string& strategy, const std::string& folder,
            const std::string& profile) {
  const std::string with = profile.empty() ? "" : " --profile " + profile;
  Row row;
  row.strategy = strategy;
  row.plan = fmt::format("{}/{}.json", folder, strategy.substr(0, strategy.find(' ')));
  const std::string said = OutputOf(fmt::format(
      "rm -f {}; {} plan --strategy {} --model '{}' --batch {} --cluster {}/cluster.toml -o {}{} "
      "2>&1",
      row.plan, kHeddle, strategy, bed.model, bed.batch, folder, row.plan, with));
  const Result<std::string> text = ReadFile(row.plan);
  if (!text.ok()) {
    row.failure = said.substr(0, said.find('\n'));
    return row;
  }
  const Json json = ParseJson(text.value(), row.plan).value();
  row.ranks = json["devices_used"];
  std::optional<Profile> times;
  if (!profile.empty()) times = LoadProfile(profile).value();
  const Result<int64_t> steps = StepsOf(row.plan, times ? &*times : nullptr);
  if (!steps.ok()) {
    row.failure = steps.error().ToString();
  } else {
    row.steps = steps.value();
  }
  return row;
}

void RunOnce(const ShapedHosts& hosts, const TestbedOptions& options, const std::string& how,
             Row& row) {
  const std::string directory = options.folder + "/run", errors = options.folder + "/errors";
  const std::string command = fmt::format("{} run {}{} --steps {} --validation 0 --json --dir {}",
                                          kHeddle, row.plan, how, row.steps, directory);
  const std::string output =
      OutputOf("rm -rf " + directory + "; " + hosts.OnEach(command, row.ranks, NextPort(), errors));
  const Result<Json> json = ParseJson(output, "heddle run");
  if (!json.ok() || json.value().value("measured_iteration_seconds", 0.0) <= 0) {
    const std::string said = ReadFile(errors).ok() ? ReadFile(errors).value() : "";
    row.failure = "a run failed: " + said.substr(0, said.find('\n'));
    return;
  }
  row.simulated = json.value()["predicted_iteration_seconds"];
  row.seconds.push_back(json.value()["measured_iteration_seconds"]);
  row.deadlines += json.value().value("deadlines", int64_t{0});
  row.missed += json.value().value("missed_deadlines", int64_t{0});
}

void PrintRow(const Row& row, const Row& ours) {
  if (!row.failure.empty()) {
    fmt::print("| `{}` | {} | | | | | | |\n", row.strategy, row.failure);
    return;
  }
  const Spread spread = SpreadOf(row.seconds), mine = SpreadOf(ours.seconds);
  fmt::print(
      "| `{}` | {} | {:.0f} | {:.0f} ({:.0f}–{:.0f}) | {:.2f} | {:.2f} | {:.2f} | {} of {} |\n",
      row.strategy, row.ranks, 1e3 * row.simulated, 1e3 * spread.median, 1e3 * spread.least,
      1e3 * spread.most, spread.median / row.simulated, row.simulated / ours.simulated,
      spread.median / mine.median, row.missed, row.deadlines);
  std::fflush(stdout);
}

void PrintBed(const ShapedHosts& hosts, const Bed& bed, const TestbedOptions& options) {
  const std::string folder = options.folder + "/plans";
  if (!MakeDirectories(folder).ok()) return;
  if (!WriteFile(folder + "/cluster.toml", StarClusterText(bed.nodes, kLatency)).ok()) return;
  const double dilate = bed.computing == Computing::kReal ? 1 : options.dilate;
  for (size_t k = 0; k < bed.nodes.size(); ++k) {
    hosts.Shape(static_cast<int>(k), bed.nodes[k].bytes_per_second / dilate);
  }
  const bool real = bed.computing == Computing::kReal;
  std::string profile;
  if (real) {
    const Result<std::string> measured = MeasureOps(bed, folder);
    if (!measured.ok()) {
      fmt::print("{}: {}\n\n", bed.name, measured.error().ToString());
      return;
    }
    profile = measured.value();
  }
  const std::string how =
      real ? " --profile " + profile : fmt::format(" --emulate --dilate {}", options.dilate);
  std::vector<Row> rows;
  for (const std::string& strategy : bed.strategies) {
    rows.push_back(PlanRow(bed, strategy, folder, profile));
  }
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    for (size_t k = 0; k < rows.size(); ++k) {
      Row& row = rows[repetition % 2 == 0 ? k : rows.size() - 1 - k];
      if (row.failure.empty()) RunOnce(hosts, options, how, row);
    }
  }
  fmt::print(
      "{}: `{}`, a batch of {}. Time {} times slower, {} repetition(s).\n\n"
      "| strategy | devices | simulated ms | measured ms | measured / simulated | time of "
      "pipeline's, "
      "simulated | measured | deadlines missed |\n|---|---|---|---|---|---|---|---|\n",
      bed.name, bed.model, bed.batch, dilate, options.repetitions);
  for (const Row& row : rows) PrintRow(row, rows[0]);
  fmt::print("\n");
}

}  // namespace

void PrintPlans(const ShapedHosts& hosts, const TestbedOptions& options) {
  const std::vector<Bed> beds = Beds(options.quick);
  for (size_t k = 0; k < beds.size(); ++k) {
    if (options.bed == 0 || options.bed == static_cast<int>(k) + 1) {
      PrintBed(hosts, beds[k], options);
    }
  }
}

}  // namespace heddle
