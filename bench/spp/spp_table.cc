// The comparison of pipeline planners, as one table: models x clusters x numbers of microbatches,
// every planner under the same cost model, memory and simulator.
//
//   heddle_spp_table [--quick]      prints docs/results-pipeline.md to standard output
//
// Profiles are read from ../shared/data/profiles and left out where they are not. --quick leaves
// out most cells.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "choose/planners.h"

namespace heddle {
namespace {

struct Model {
  std::string name;
  std::string spec;
  int64_t profile_batch;  // 0: of the zoo
  int64_t rows;           // samples of a microbatch
};

struct Cell {
  std::string name;
  double ours = 0, bound = 0, order_bound = 0, planning = 0;
  std::string plan;
  std::map<std::string, double> others;  // infinite: nothing fits
};

const std::vector<std::string> kBaselines = {"dp",    "gpipe",     "1f1b",   "interleaved",
                                             "zb-h1", "pipedream", "dapple", "hetpipe"};

std::string Node(const std::string& name, const std::string& type, int count) {
  return fmt::format(
      "[[node]]\nname = \"{}\"\ndevices = [{{ type = \"{}\", count = {} }}]\n"
      "link = {{ bandwidth = \"{}\", latency = \"5 us\" }}\n",
      name, type, count, type == "v100" ? "25 GB/s" : "10 GB/s");
}

std::string ToSwitch(const std::string& node, const std::string& bandwidth) {
  return fmt::format(
      "[[link]]\nbetween = [\"{}\", \"s\"]\nbandwidth = \"{}\"\nlatency = \"10 us\"\n", node,
      bandwidth);
}

// flat: one device per node, 25 Gbit/s; two-level: nodes of four; irregular: nodes of unequal size
// and uplinks; mixed: half of the nodes have slower devices.
std::string ClusterText(const std::string& topology, int devices) {
  std::string text =
      "schema = \"heddle.cluster/1\"\n"
      "[device_type.v100]\nflops = \"14 TFLOP/s\"\nmemory = \"16 GiB\"\n"
      "memory_bandwidth = \"900 GB/s\"\n"
      "[device_type.p100]\nflops = \"9 TFLOP/s\"\nmemory = \"12 GiB\"\n"
      "memory_bandwidth = \"700 GB/s\"\n[[switch]]\nname = \"s\"\n";
  constexpr const char* kUplinks[] = {"25 Gbit/s", "10 Gbit/s", "40 Gbit/s", "5 Gbit/s"};
  constexpr int kSizes[] = {3, 1, 4, 2};
  int placed = 0;
  for (int n = 0; placed < devices; ++n) {
    const std::string name = fmt::format("n{}", n);
    const int wanted = topology == "flat" ? 1 : topology == "irregular" ? kSizes[n % 4] : 4;
    const int size = std::min(wanted, devices - placed);
    const bool slow = topology == "mixed" && n % 2 == 1;
    text += Node(name, slow ? "p100" : "v100", size);
    text += ToSwitch(name, topology == "irregular" ? kUplinks[n % 4] : "25 Gbit/s");
    placed += size;
    // Four devices in one node would make a mixed cluster of one type.
    if (topology == "mixed" && devices == 4 && n == 0) {
      text.replace(text.find("count = 4"), 9, "count = 2");
      placed = 2;
    }
  }
  return text;
}

std::vector<Model> Models(bool quick) {
  const std::string folder = std::string(HEDDLE_SOURCE_DIR) + "/../shared/data/profiles/";
  std::vector<Model> models = {{"vgg16", folder + "pipedream-vgg16.txt", 64, 16},
                               {"resnet50", folder + "pipedream-resnet50.txt", 128, 16},
                               {"gnmt", folder + "pipedream-gnmt.txt", 64, 16},
                               {"bert-48 (DAPPLE)", folder + "dapple-bert-48-pbs-2.txt", 2, 4},
                               {"densenet121", folder + "pipedream-densenet121.txt", 64, 16},
                               {"inception_v3", folder + "pipedream-inception_v3.txt", 64, 16},
                               {"xlnet-36 (DAPPLE)", folder + "dapple-xlnet-36-pbs-1.txt", 1, 4},
                               {"vgg-19 (DAPPLE)", folder + "dapple-vgg-19-pbs-32.txt", 32, 16},
                               {"gpt, 24 blocks", "gpt?layers=24", 0, 4},
                               {"bert-large", "bert-large", 0, 4},
                               {"transformer", "transformer", 0, 8},
                               {"resnet152", "resnet152", 0, 8}};
  if (quick) models = {models[0], models[1], models[2], models[3], models[8], models[10]};
  std::erase_if(models, [](const Model& model) {
    return model.profile_batch > 0 && !std::filesystem::exists(model.spec);
  });
  return models;
}

// The stages of a plan in short: "4x2 2 2".
std::string Short(const Plan& plan) {
  std::string text;
  for (const StagePlan& stage : plan.pipelines[0].stages) {
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", stage.devices.size(),
                        stage.recompute ? "r" : "");
  }
  return text + ", " + plan.order_name;
}

Result<Cell> Compare(const Model& model, const std::string& topology, int devices, int64_t m) {
  HEDDLE_ASSIGN(const Cluster cluster, ParseClusterToml(ClusterText(topology, devices), topology));
  PlanOptions options;
  options.model = model.spec;
  options.batch = m * model.rows;
  options.microbatches = m;
  if (model.profile_batch > 0) {
    options.profile_batch = model.profile_batch;
    options.profile_device = "v100";
  }
  HEDDLE_ASSIGN(const Planning planning, Planning::Make(options, cluster, nullptr));
  Cell cell;
  cell.name = fmt::format("{} | {} | {} | {}", model.name, devices, topology, m);
  const Result<Plan> ours = MakePlan("pipeline", planning);
  cell.ours = INFINITY;
  if (ours.ok()) {
    const Plan& plan = ours.value();
    cell.ours = plan.estimate.iteration_seconds;
    cell.bound = plan.estimate.lower_bound_seconds;
    cell.order_bound = plan.estimate.schedule_bound_seconds;
    cell.planning = plan.search.planning_seconds;
    cell.plan = Short(plan);
  }
  for (const std::string& name : kBaselines) {
    const Result<Plan> plan = MakePlan(name, planning);
    cell.others[name] = plan.ok() ? plan.value().estimate.iteration_seconds : INFINITY;
  }
  return cell;
}

std::string Ms(double seconds) {
  return std::isinf(seconds) ? "-" : fmt::format("{:.1f}", 1e3 * seconds);
}

double BestOther(const Cell& cell) {
  double best = INFINITY;
  for (const auto& [name, seconds] : cell.others) best = std::min(best, seconds);
  return best;
}

void PrintSummary(const std::vector<Cell>& cells) {
  constexpr double kTie = 0.005;
  fmt::print(
      "| against | wins | ties | losses | no plan of theirs | geometric mean | best for us | "
      "worst for us |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  const auto row = [&](const std::string& name, const auto& seconds_of) {
    int wins = 0, ties = 0, losses = 0, none = 0;
    double logs = 0, best = 0, worst = INFINITY;
    for (const Cell& cell : cells) {
      const double other = seconds_of(cell);
      if (std::isinf(other)) {
        ++none;
        continue;
      }
      const double ratio = other / cell.ours;
      ++(ratio > 1 + kTie ? wins : ratio < 1 - kTie ? losses : ties);
      logs += std::log(ratio);
      best = std::max(best, ratio);
      worst = std::min(worst, ratio);
    }
    fmt::print("| {} | {} | {} | {} | {} | {:.2f}x | {:.2f}x | {:.2f}x |\n", name, wins, ties,
               losses, none, std::exp(logs / std::max(1, wins + ties + losses)), best, worst);
  };
  for (const std::string& name : kBaselines) {
    row(name, [&](const Cell& cell) { return cell.others.at(name); });
  }
  row("the best of them", BestOther);
}

void PrintCells(const std::vector<Cell>& cells) {
  fmt::print(
      "| model | devices | cluster | M | ours | its stages | order bound | bound | planned, s |");
  for (const std::string& name : kBaselines) fmt::print(" {} |", name);
  fmt::print("\n|");
  for (size_t k = 0; k < 9 + kBaselines.size(); ++k) fmt::print(" --- |");
  fmt::print("\n");
  for (const Cell& cell : cells) {
    fmt::print("| {} | {} | {} | {} | {} | {:.2f} |", cell.name, Ms(cell.ours), cell.plan,
               Ms(cell.order_bound), Ms(cell.bound), cell.planning);
    for (const std::string& name : kBaselines) fmt::print(" {} |", Ms(cell.others.at(name)));
    fmt::print("\n");
  }
}

int Run(bool quick) {
  const std::vector<int> sizes =
      quick ? std::vector<int>{4, 8, 16} : std::vector<int>{4, 8, 16, 32};
  const std::vector<int64_t> counts =
      quick ? std::vector<int64_t>{8, 32} : std::vector<int64_t>{4, 8, 16, 32, 64};
  std::vector<Cell> cells;
  for (const Model& model : Models(quick)) {
    for (const int devices : sizes) {
      for (const char* topology : {"flat", "two-level", "irregular", "mixed"}) {
        for (const int64_t m : counts) {
          const Result<Cell> cell = Compare(model, topology, devices, m);
          if (!cell.ok()) {
            fmt::print(stderr, "{}\n", cell.error().ToString());
            return 1;
          }
          fmt::print(stderr, "{}: {} (best other {})\n", cell.value().name, Ms(cell.value().ours),
                     Ms(BestOther(cell.value())));
          cells.push_back(cell.value());
        }
      }
    }
  }
  double order_gap = 0, ratio = 0, planning = 0;
  for (const Cell& cell : cells) {
    order_gap += cell.ours / cell.order_bound - 1;
    ratio += cell.bound / cell.ours;
    planning += cell.planning;
  }
  const auto count = static_cast<double>(cells.size());
  fmt::print(
      "{} cells; all times are simulated, in milliseconds. A ratio is their time over ours.\n\n",
      cells.size());
  PrintSummary(cells);
  fmt::print(
      "\nMean distance from the order bound {:.1f}%, mean ratio of the bound for any plan to "
      "ours {:.2f}, mean planning time {:.2f} s.\n\n",
      100 * order_gap / count, ratio / count, planning / count);
  PrintCells(cells);
  return 0;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  return heddle::Run(argc > 1 && std::string(argv[1]) == "--quick");
}
