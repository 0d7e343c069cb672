#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

#include "base/json_field.h"
#include "cluster/cluster_toml.h"
#include "cost/network_cost.h"
#include "shaped/star_cluster.h"
#include "shell.h"
#include "testbed/spread.h"
#include "testbed/testbed.h"

namespace heddle {
namespace {

constexpr double kBandwidth = 5e6;   // bytes a second: 40 Mbit/s
constexpr double kLatency = 100e-6;  // of a link, two of which make a route

struct Case {
  CollectiveKind kind;
  int ranks = 4;
  int large = 1;  // ranks with the larger block: the first ones
  double bytes = 1 << 20;
};

std::vector<Bytes> SizesOf(const Case& one, double ratio) {
  const double unit = one.bytes / (one.large * ratio + (one.ranks - one.large));
  std::vector<Bytes> sizes;
  for (int rank = 0; rank < one.ranks; ++rank) {
    const double share = unit * (rank < one.large ? ratio : 1);
    sizes.push_back(Bytes{4 * std::llround(share / 4)});
  }
  return sizes;
}

Cluster ModelOf(int ranks) {
  const std::vector<StarNode> nodes(static_cast<size_t>(ranks), {1e9, kBandwidth});
  return ParseClusterToml(StarClusterText(nodes, kLatency), "testbed.toml").value();
}

// What cost/ says, in seconds.
double Modelled(const Cluster& cluster, const Case& one, double ratio,
                CollectiveAlgorithm algorithm) {
  std::vector<DeviceId> group;
  for (int rank = 0; rank < one.ranks; ++rank) group.push_back(DeviceId{rank});
  const std::vector<Bytes> sizes = SizesOf(one, ratio);
  return NetworkCost(cluster).Collective({one.kind, group, sizes, algorithm}).seconds.value;
}

struct Measured {
  double ratio = 1;
  Spread ring, grouped;
  double ring_model = 0, grouped_model = 0;
};

// Nothing where a run failed.
std::vector<Measured> Measure(const ShapedHosts& hosts, const Case& one,
                              const std::vector<double>& ratios, int repetitions) {
  std::string command =
      fmt::format("{} {} {}", HEDDLE_COLLECTIVE_PROBE, NameOf(one.kind), repetitions);
  for (const double ratio : ratios) {
    char separator = ' ';
    for (const Bytes size : SizesOf(one, ratio)) {
      command += fmt::format("{}{}", separator, size.value);
      separator = ',';
    }
  }
  const Result<Json> json =
      ParseJson(OutputOf(hosts.OnEach(command, one.ranks, NextPort())), "heddle_collective_probe");
  if (!json.ok()) return {};
  const Cluster cluster = ModelOf(one.ranks);
  std::vector<Measured> all;
  for (size_t k = 0; k < ratios.size(); ++k) {
    const Json& times = json.value()[k];
    all.push_back({ratios[k], SpreadOf(times["ring"].get<std::vector<double>>()),
                   SpreadOf(times["grouped"].get<std::vector<double>>()),
                   Modelled(cluster, one, ratios[k], CollectiveAlgorithm::kRing),
                   Modelled(cluster, one, ratios[k], CollectiveAlgorithm::kGrouped)});
  }
  return all;
}

// The ratio from which on grouped is faster, on straight lines between those looked at; nothing:
// from the first on, or never.
std::string Crossing(const std::vector<double>& ratios, const std::vector<double>& gains) {
  if (gains.front() > 0) return "always grouped";
  for (size_t k = 1; k < gains.size(); ++k) {
    if (gains[k] <= 0) continue;
    const double part = gains[k - 1] / (gains[k - 1] - gains[k]);
    return fmt::format("{:.1f}:1", ratios[k - 1] + part * (ratios[k] - ratios[k - 1]));
  }
  return "never grouped";
}

std::string ModelCrossing(const Case& one) {
  const Cluster cluster = ModelOf(one.ranks);
  std::vector<double> ratios, gains;
  for (double ratio = 1; ratio <= 20; ratio += 0.05) {
    ratios.push_back(ratio);
    gains.push_back(Modelled(cluster, one, ratio, CollectiveAlgorithm::kRing) -
                    Modelled(cluster, one, ratio, CollectiveAlgorithm::kGrouped));
  }
  return Crossing(ratios, gains);
}

std::string Milliseconds(const Spread& spread) {
  return fmt::format("{:.1f} ({:.1f}–{:.1f})", 1e3 * spread.median, 1e3 * spread.least,
                     1e3 * spread.most);
}

void PrintCase(const ShapedHosts& hosts, const Case& one, const std::vector<double>& ratios,
               int repetitions) {
  std::vector<double> gains;
  const std::string shape = fmt::format("{} large of {}", one.large, one.ranks);
  const std::vector<Measured> all = Measure(hosts, one, ratios, repetitions);
  if (all.empty()) {
    fmt::print("| {} | {} | a run failed |\n", NameOf(one.kind), shape);
    return;
  }
  for (const Measured& m : all) {
    gains.push_back(m.ring.median - m.grouped.median);
    const bool model_groups = m.grouped_model < m.ring_model;
    const double chosen = model_groups ? m.grouped.median : m.ring.median;
    const double best = std::min(m.grouped.median, m.ring.median);
    fmt::print("| {} | {} | {:.0f} KiB | {:g}:1 | {:.1f} | {} | {:.1f} | {} | {} | {:+.0f}% |\n",
               NameOf(one.kind), shape, one.bytes / 1024, m.ratio, 1e3 * m.ring_model,
               Milliseconds(m.ring), 1e3 * m.grouped_model, Milliseconds(m.grouped),
               model_groups ? "grouped" : "padded", 100 * (chosen / best - 1));
  }
  fmt::print("| | | | *crossover* | model: {} | measured: {} | | | | |\n", ModelCrossing(one),
             Crossing(ratios, gains));
  std::fflush(stdout);
}

}  // namespace

void PrintCollectives(const ShapedHosts& hosts, const TestbedOptions& options) {
  for (int host = 0; host < hosts.hosts(); ++host) hosts.Shape(host, kBandwidth);
  const int repetitions = options.quick ? 3 : 2 * options.repetitions + 1;
  fmt::print(
      "Padded and grouped, {:.0f} Mbit/s a host, {} repetitions of each in turn. Milliseconds: "
      "median (least–most).\n\n"
      "| collective | blocks | in all | ratio | padded, model | padded, measured | grouped, model "
      "| grouped, measured | the model chooses | slower than the better by "
      "|\n|---|---|---|---|---|---|---|---|---|---|\n",
      8e-6 * kBandwidth, repetitions);
  std::vector<double> ratios = {1, 1.5, 2, 3, 5, 10, 20};
  if (options.quick) ratios = {1, 3, 20};
  for (const CollectiveKind kind : {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
    constexpr double kMiddle = 256 << 10;
    PrintCase(hosts, {kind, 4, 1, kMiddle}, ratios, repetitions);
    if (options.quick) continue;
    PrintCase(hosts, {kind, 4, 1, kMiddle / 8}, ratios, repetitions);
    PrintCase(hosts, {kind, 4, 1, kMiddle * 4}, ratios, repetitions);
    PrintCase(hosts, {kind, 4, 2, kMiddle}, ratios, repetitions);
    PrintCase(hosts, {kind, 8, 2, kMiddle}, ratios, repetitions);
  }
  fmt::print("\n");
}

}  // namespace heddle
