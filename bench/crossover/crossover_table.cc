// Crossover against its baselines, measured: jobs in processes, each doing its real arithmetic and
// then sleeping to the modelled time; real Gloo messages, over shaped links between network
// namespaces where that is permitted, else paced. Prints the table of docs/results-crossover.md.
//
//   heddle_crossover_table [--quick] [--paced] [--repetitions N] [--only NAME]
//
// Every repetition measures all of a row's ways in turn, every second one in the opposite order.
// Seconds are of one step of every job (a period). ± is half of a 95% confidence interval.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json_field.h"
#include "crossover/pair.h"
#include "run/share/shaped_links.h"
#include "run/share/share_config.h"
#include "shell.h"

namespace heddle {
namespace {

const std::string kFolder = "/tmp/heddle-crossover-bench";
const std::string kWorker = HEDDLE_WORKER;
constexpr double kPacedDilation = 4;

struct Options {
  bool shaped = false;
  int repetitions = 5;
  int64_t steps = 44;  // of which 30 and more are steady
  std::string only;
};

// What is done with the jobs.
enum Way { kSerial, kSerialOverlap, kTogether, kTogetherOverlap, kTurns, kTurnsOverlap, kWays };

struct Samples {
  std::vector<double> values;

  double mean() const {
    double sum = 0;
    for (const double value : values) sum += value;
    return values.empty() ? 0 : sum / static_cast<double>(values.size());
  }
  double half_interval() const {
    // Student's t for 95%, by degrees of freedom.
    constexpr double kT[] = {0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26};
    const size_t n = values.size();
    if (n < 2) return 0;
    double squares = 0;
    for (const double value : values) squares += (value - mean()) * (value - mean());
    const double deviation = std::sqrt(squares / static_cast<double>(n - 1));
    const double t = kT[std::min(n - 1, std::size(kT) - 1)];
    return t * deviation / std::sqrt(static_cast<double>(n));
  }
};

struct Row {
  JobShape shape;
  int jobs = 2;
  bool emulated = true;  // false: real computing, a core for each device
  // Messages that fit into what a shaped link lets pass at once need an emulated network, and small
  // updates more time.
  bool paced = false;
};

struct Measured {
  Samples ways[kWays];    // seconds of one step of every job
  std::string hashes[2];  // alone, without and with buckets
  bool hashes_equal = true;
  int64_t deadlines = 0, missed = 0;
  double bound = 0;  // T*
};

Result<Json> Share(const Row& row, const PairFiles& files, const Options& options, bool buckets,
                   ShareManner manner) {
  ShareConfig config;
  config.directory = kFolder + "/run";
  config.manner = manner;
  config.serial = manner == ShareManner::kTurns;
  config.emulate = row.emulated;
  config.pin = !row.emulated;
  config.dilate = row.paced ? kPacedDilation : 1;
  config.shaped = options.shaped && !row.paced ? files.link_scale : 0;
  for (int k = 0; k < row.jobs; ++k) {
    ShareJobConfig job;
    job.name = fmt::format("job{}", k);
    job.plan = buckets ? files.buckets : files.whole;
    job.steps = options.steps;
    job.seed = k + 1;
    config.jobs.push_back(std::move(job));
  }
  OutputOf("rm -rf " + config.directory);
  return ParseJson(OutputOf(fmt::format("{} share '{}' --json 2> {}/log", kWorker,
                                        ShareConfigToJson(config).dump(), kFolder)),
                   "heddle-worker share");
}

// Of all ranks after every step, as they noted them down.
std::string HashesOf(const Row& row, const std::string& phase) {
  std::string hashes;
  for (int job = 0; job < row.jobs; ++job) {
    for (int rank = 0; rank < row.shape.ranks; ++rank) {
      const std::string path =
          fmt::format("{}/run/{}/job{}/rank{}.json", kFolder, phase, job, rank);
      const Result<std::string> text = ReadFile(path);
      if (!text.ok()) return path + " is missing";
      hashes += ParseJson(text.value(), path).value()["hashes"].dump();
    }
  }
  return hashes;
}

// One way of one repetition; a run in turns also gives the jobs alone.
bool Measure(const Row& row, const PairFiles& files, const Options& options, bool buckets,
             ShareManner manner, Measured& measured) {
  const Result<Json> ran = Share(row, files, options, buckets, manner);
  if (!ran.ok()) return false;
  const Json& json = ran.value();
  const Json& period = json["measured_period_seconds"];
  if (!period.is_number()) return false;
  if (manner == ShareManner::kTogether) {
    measured.ways[buckets ? kTogetherOverlap : kTogether].values.push_back(period);
  } else {
    measured.ways[buckets ? kTurnsOverlap : kTurns].values.push_back(period);
    double serial = 0;
    for (const Json& job : json["jobs"]) serial += job.value("alone_step_seconds", 0.0);
    measured.ways[buckets ? kSerialOverlap : kSerial].values.push_back(serial);
    if (measured.hashes[buckets].empty()) measured.hashes[buckets] = HashesOf(row, "alone");
    if (!buckets) measured.bound = json.value("period_bound_seconds", 0.0);
  }
  measured.hashes_equal =
      measured.hashes_equal && HashesOf(row, "shared") == measured.hashes[buckets];
  measured.deadlines += json.value("deadlines", int64_t{0});
  measured.missed += json.value("missed_deadlines", int64_t{0});
  return true;
}

// Seconds that a job really computes in a step, with a network that takes next to nothing.
double RealStep(Row row, const PairFiles& files, Options options) {
  row.jobs = 1;
  options.shaped = false;
  const Result<Json> ran = Share(row, files, options, false, ShareManner::kTurns);
  if (!ran.ok() || !ran.value()["measured_period_seconds"].is_number()) return 0;
  return ran.value()["measured_period_seconds"];
}

Measured MeasureRow(const Row& row, const Options& options) {
  PairFiles files = MakePair(kFolder + "/plans", row.shape);
  if (!row.emulated) {
    const double modelled = files.network;
    files.network = RealStep(row, files, options) / row.shape.compute_per_network;
    files.link_scale = files.network > 0 ? modelled / files.network : 1;
  }
  Measured measured;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    std::vector<std::pair<bool, ShareManner>> ways = {{false, ShareManner::kTurns},
                                                      {false, ShareManner::kTogether},
                                                      {true, ShareManner::kTurns},
                                                      {true, ShareManner::kTogether}};
    if (repetition % 2 == 1) std::reverse(ways.begin(), ways.end());
    for (const auto& [buckets, manner] : ways) {
      if (!Measure(row, files, options, buckets, manner, measured)) {
        fmt::print(stderr, "{}: a run failed; see {}/log\n", row.shape.name, kFolder);
        return measured;
      }
    }
  }
  return measured;
}

std::string Cell(const Samples& samples) {
  return fmt::format("{:.1f} ± {:.1f}", 1e3 * samples.mean(), 1e3 * samples.half_interval());
}

void PrintRow(const Row& row, const Measured& m) {
  const double turns = m.ways[kTurns].mean();
  const std::string bound =
      m.bound > 0 ? fmt::format("{:.1f} | {:+.1f}%", 1e3 * m.bound, 100 * (turns / m.bound - 1))
                  : "– | –";
  const double missed =
      m.deadlines > 0 ? 100 * static_cast<double>(m.missed) / static_cast<double>(m.deadlines) : 0;
  fmt::print(
      "| {} | {} × {} | {} | {} | {} | {} | {} | {} | {} | {:.2f} | {:.2f} | {} | {:.1f}% |\n",
      row.shape.name, row.jobs, row.shape.ranks, Cell(m.ways[kSerial]),
      Cell(m.ways[kSerialOverlap]), Cell(m.ways[kTogether]), Cell(m.ways[kTogetherOverlap]),
      Cell(m.ways[kTurns]), Cell(m.ways[kTurnsOverlap]), bound,
      turns > 0 ? m.ways[kSerial].mean() / turns : 0,
      m.ways[kTurnsOverlap].mean() > 0
          ? m.ways[kSerialOverlap].mean() / m.ways[kTurnsOverlap].mean()
          : 0,
      m.hashes_equal ? "equal" : "DIFFER", missed);
  std::fflush(stdout);
}

std::vector<Row> Rows() {
  std::vector<Row> rows;
  for (const int ranks : {2, 4}) {
    for (const auto& [name, proportion] : std::vector<std::pair<std::string, double>>{
             {"3:8", 3.0 / 8}, {"1:1", 1}, {"3:1", 3}, {"20:1", 20}}) {
      rows.push_back({{name, proportion, ranks, 0.08}, 2, true});
    }
  }
  const std::string folder = kFolder + "/zoo";
  rows.push_back({{"VGG-19", ProportionOf("vgg19", 128, folder), 4, 0.08}, 2, true});
  rows.push_back({{"ResNet-152", ProportionOf("resnet152", 128, folder), 4, 0.08}, 2, true});
  JobShape served{"1:1, parameter server (paced)", 1, 2, 0.08};
  served.flags += " --sync ps";
  rows.push_back({served, 2, true, true});
  JobShape pipeline{"1:1, pipelines (paced)", 1, 2, 0.08};
  pipeline.flags = "--strategy 1f1b --microbatches 4";
  rows.push_back({pipeline, 2, true, true});
  JobShape real{"1:1, real computing", 1, 2, 0.08};
  real.model = "mlp?layers=6&hidden=256&inputs=256";
  real.samples = 512;
  rows.push_back({real, 2, false});
  return rows;
}

bool CanShapeLinks() { return ShapedLinks::Make({{1e6, 1e6}, {1e6, 1e6}}).ok(); }

int Main(const std::vector<std::string>& words) {
  Options options;
  bool paced = false;
  for (size_t k = 0; k < words.size(); ++k) {
    const bool more = k + 1 < words.size();
    if (words[k] == "--quick") {
      options.repetitions = 1;
      options.steps = 12;
    } else if (words[k] == "--paced") {
      paced = true;
    } else if (words[k] == "--repetitions" && more) {
      options.repetitions = std::max(1, std::atoi(words[++k].c_str()));
    } else if (words[k] == "--only" && more) {
      options.only = words[++k];
    } else {
      fmt::print(stderr, "usage: [--quick] [--paced] [--repetitions N] [--only NAME]\n");
      return 2;
    }
  }
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  if (!MakeDirectories(kFolder).ok()) return 1;
  options.shaped = !paced && CanShapeLinks();
  fmt::print(
      "Milliseconds of one step of every job. Links: {}. {} repetitions.\n\n"
      "| compute:network | jobs × ranks | alone | alone, overlapped | together | together, "
      "overlapped | turns | turns, overlapped | T* | turns over T* | gain | gain over overlapped | "
      "parameters | missed |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      options.shaped ? "shaped, between network namespaces" : "paced", options.repetitions);
  for (const Row& row : Rows()) {
    if (!options.only.empty() && row.shape.name != options.only) continue;
    PrintRow(row, MeasureRow(row, options));
  }
  return 0;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  return heddle::Main(std::vector<std::string>(argv + 1, argv + argc));
}
