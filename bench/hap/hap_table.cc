// The comparison of SPMD plans with what earlier systems do, as one table: models x clusters, every
// strategy under the same cost model, memory and simulator, links shared fairly.
//
//   heddle_hap_table [--quick]      prints the table of docs/results-spmd.md to standard output
//
// The models and the cluster of 64 are those of HAP (Zhang et al. 2024). --quick leaves out the
// clusters of 29 and 64 devices.

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <string>
#include <vector>

#include "choose/planners.h"

namespace heddle {
namespace {

constexpr int64_t kSamplesPerDevice = 32;

const std::vector<std::string> kBaselines = {"dp", "dp-proportional", "zero", "tensor-parallel",
                                             "expert-parallel"};

struct Node {
  std::string type;
  int devices;
};
struct NamedCluster {
  std::string name;
  std::vector<Node> nodes;
};

struct Cell {
  std::string model, cluster, plan;
  double ours = 0, planning = 0;
  std::map<std::string, double> others;  // infinite: no plan of theirs
  double one_node = 0;                   // the best of them on the fastest node alone
};

std::vector<NamedCluster> Clusters(bool quick) {
  std::vector<NamedCluster> clusters = {
      {"8 mixed: 4 V100, 4 P100", {{"v100", 4}, {"p100", 4}}},
      {"8 equal: 2 x 4 V100", {{"v100", 4}, {"v100", 4}}},
      {"16 mixed: 8 V100, 8 P100", {{"v100", 8}, {"p100", 8}}},
      {"16 equal: 2 x 8 V100", {{"v100", 8}, {"v100", 8}}},
  };
  if (quick) return clusters;
  constexpr int kSizes[] = {7, 1, 3, 8, 1, 6, 1, 2};
  NamedCluster mixed{"29 mixed: 7 1 3 8 1 6 1 2, V100 and P100 in turn", {}};
  NamedCluster equal{"29 equal: 7 1 3 8 1 6 1 2, V100", {}};
  for (size_t k = 0; k < std::size(kSizes); ++k) {
    mixed.nodes.push_back({k % 2 == 0 ? "v100" : "p100", kSizes[k]});
    equal.nodes.push_back({"v100", kSizes[k]});
  }
  clusters.push_back(mixed);
  clusters.push_back(equal);
  NamedCluster paper{"64 mixed: 2 x 8 V100, 6 x 8 P100", {{"v100", 8}, {"v100", 8}}};
  paper.nodes.insert(paper.nodes.end(), 6, {"p100", 8});
  clusters.push_back(paper);
  return clusters;
}

// As examples/clusters/hap64.toml, with other nodes.
std::string TextOf(const NamedCluster& cluster) {
  std::string text =
      "schema = \"heddle.cluster/1\"\n"
      "[device_type.v100]\nflops = \"14 TFLOP/s\"\nmemory = \"16 GiB\"\n"
      "memory_bandwidth = \"900 GB/s\"\n"
      "[device_type.p100]\nflops = \"7.8 TFLOP/s\"\nmemory = \"12 GiB\"\n"
      "memory_bandwidth = \"550 GB/s\"\n[[switch]]\nname = \"core\"\n";
  for (size_t k = 0; k < cluster.nodes.size(); ++k) {
    const auto& [type, devices] = cluster.nodes[k];
    text += fmt::format("[[node]]\nname = \"n{}\"\ndevices = [{{ type = \"{}\", count = {} }}]\n",
                        k, type, devices);
    if (devices > 1) {
      text += type == "v100" ? "link = { bandwidth = \"20 GB/s\", latency = \"2 us\" }\n"
                             : "link = { bandwidth = \"10 GB/s\", latency = \"5 us\" }\n";
    }
    text += fmt::format(
        "[[link]]\nbetween = [\"n{}\", \"core\"]\nbandwidth = \"10.4 Gbit/s\"\n"
        "latency = \"10 us\"\n",
        k);
  }
  return text;
}

struct Model {
  std::string name, spec;
};
std::vector<Model> Models(int devices) {
  return {{"VGG19", "vgg19"},
          {"ViT", "vit"},
          {"BERT-base", "bert-base?seq=128"},
          {"BERT-MoE", fmt::format("bert-moe?layers=12&seq=128&experts={}", 2 * devices)}};
}

// The mesh, and how many of the weights are stored in parts.
std::string Short(const Plan& plan) {
  if (!plan.spmd) return fmt::format("data parallel, {} microbatches", plan.microbatches);
  size_t parts = 0;
  for (const SpmdStorage& storage : plan.spmd->storage) {
    parts += storage.layout != Layout{} ? 1 : 0;
  }
  return fmt::format("{} x {}, {} of {} weights in parts", plan.spmd->mesh.size(),
                     plan.spmd->mesh[0].size(), parts, plan.spmd->storage.size());
}

// Seconds of each baseline.
Result<std::map<std::string, double>> Baselines(const PlanRequest& options,
                                                const NamedCluster& named) {
  HEDDLE_ASSIGN(const Cluster cluster, ParseClusterToml(TextOf(named), named.name));
  HEDDLE_ASSIGN(const Planning planning, Planning::Make(options, cluster, nullptr));
  std::map<std::string, double> seconds;
  for (const std::string& name : kBaselines) {
    const Result<Plan> plan = MakePlan(name, planning);
    if (!plan.ok() && plan.error().kind != ErrorKind::kInfeasible) return plan.error();
    seconds[name] = plan.ok() ? plan.value().estimate.iteration_seconds : INFINITY;
  }
  return seconds;
}

double BestOf(const std::map<std::string, double>& seconds) {
  double best = INFINITY;
  for (const auto& one : seconds) best = std::min(best, one.second);
  return best;
}

const Node& FastestNode(const NamedCluster& cluster) {
  const auto speed = [](const Node& node) {
    return node.devices * (node.type == "v100" ? 14 : 7.8);
  };
  return *std::max_element(cluster.nodes.begin(), cluster.nodes.end(),
                           [&](const Node& a, const Node& b) { return speed(a) < speed(b); });
}

Result<Cell> Compare(const Model& model, const NamedCluster& named) {
  HEDDLE_ASSIGN(const Cluster cluster, ParseClusterToml(TextOf(named), named.name));
  PlanRequest options;
  options.model = model.spec;
  options.batch = kSamplesPerDevice * cluster.device_count();
  HEDDLE_ASSIGN(const Planning planning, Planning::Make(options, cluster, nullptr));
  Cell cell{model.name, named.name, "", INFINITY, 0, {}, INFINITY};
  HEDDLE_ASSIGN(cell.others, Baselines(options, named));
  HEDDLE_ASSIGN(const auto one_node, Baselines(options, {"one node", {FastestNode(named)}}));
  cell.one_node = BestOf(one_node);
  const std::clock_t start = std::clock();  // of this process alone, whatever else is running
  HEDDLE_ASSIGN(const Plan ours, MakePlan("spmd", planning));
  cell.planning = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  cell.ours = ours.estimate.iteration_seconds;
  cell.plan = Short(ours);
  return cell;
}

double BestOther(const Cell& cell) { return BestOf(cell.others); }
double BestAnywhere(const Cell& cell) { return std::min(BestOther(cell), cell.one_node); }

std::string Ms(double seconds) {
  return std::isinf(seconds) ? "-" : fmt::format("{:.0f}", seconds * 1e3);
}

std::string Times(double ratio) {
  return std::isinf(ratio) ? "no other" : fmt::format("{:.2f}x", ratio);
}

void PrintCells(const std::vector<Cell>& cells) {
  fmt::print("| model | cluster |");
  for (const std::string& name : kBaselines) fmt::print(" {} |", name);
  fmt::print(" one node | spmd | speed-up | with one node | planned, CPU s | its plan |\n|");
  for (size_t k = 0; k < 8 + kBaselines.size(); ++k) fmt::print(" --- |");
  fmt::print("\n");
  for (const Cell& cell : cells) {
    fmt::print("| {} | {} |", cell.model, cell.cluster);
    for (const std::string& name : kBaselines) fmt::print(" {} |", Ms(cell.others.at(name)));
    fmt::print(" {} | {} | {} | {} | {:.2f} | {} |\n", Ms(cell.one_node), Ms(cell.ours),
               Times(BestOther(cell) / cell.ours), Times(BestAnywhere(cell) / cell.ours),
               cell.planning, cell.plan);
  }
}

void PrintSummary(const std::string& against, const std::vector<Cell>& cells,
                  double (*seconds_of)(const Cell& cell)) {
  constexpr double kTie = 0.005;
  int wins = 0, ties = 0, losses = 0, alone = 0;
  double logs = 0, most = 0;
  const Cell* best = nullptr;
  for (const Cell& cell : cells) {
    const double ratio = seconds_of(cell) / cell.ours;
    if (std::isinf(ratio)) {
      ++alone;
      continue;
    }
    ++(ratio > 1 + kTie ? wins : ratio < 1 - kTie ? losses : ties);
    logs += std::log(ratio);
    if (ratio > most) best = &cell;
    most = std::max(most, ratio);
  }
  fmt::print(
      "| {} | {} | {} | {} | {} | {:.2f}x | {} |\n", against, wins, ties, losses, alone,
      std::exp(logs / std::max(1, wins + ties + losses)),
      best == nullptr ? "-" : fmt::format("{:.2f}x, {} on {}", most, best->model, best->cluster));
}

void PrintSummaries(const std::vector<Cell>& cells) {
  fmt::print(
      "\n| against | wins | ties | losses | no plan of theirs | geometric mean | best case |\n"
      "| --- | --- | --- | --- | --- | --- | --- |\n");
  PrintSummary("the best baseline", cells, &BestOther);
  PrintSummary("the best baseline, on all devices or one node", cells,
               [](const Cell& cell) { return std::min(BestOther(cell), cell.one_node); });
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("\nMost memory of the process that planned all of them: {} MB.\n",
             usage.ru_maxrss / 1024);
}

int Run(bool quick) {
  std::vector<Cell> cells;
  for (const NamedCluster& cluster : Clusters(quick)) {
    int devices = 0;
    for (const Node& node : cluster.nodes) devices += node.devices;
    for (const Model& model : Models(devices)) {
      const Result<Cell> cell = Compare(model, cluster);
      if (!cell.ok()) {
        fmt::print(stderr, "{}\n", cell.error().ToString());
        return 1;
      }
      fmt::print(stderr, "{}, {}: {} (best other {}), planned in {:.1f} CPU s\n", model.name,
                 cluster.name, Ms(cell.value().ours), Ms(BestOther(cell.value())),
                 cell.value().planning);
      cells.push_back(cell.value());
    }
  }
  PrintCells(cells);
  PrintSummaries(cells);
  return 0;
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  return heddle::Run(argc > 1 && std::string(argv[1]) == "--quick");
}
