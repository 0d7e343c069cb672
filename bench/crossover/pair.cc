#include "crossover/pair.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/json_field.h"
#include "shaped/star_cluster.h"
#include "shell.h"

namespace heddle {
namespace {

const std::string kHeddle = HEDDLE_BINARY;
constexpr double kInstant = 1e15;  // bytes a second

std::string ClusterText(int nodes, double flops, double bytes_per_second, double latency) {
  return StarClusterText(
      std::vector<StarNode>(static_cast<size_t>(nodes), {flops, bytes_per_second}), latency);
}

// Seconds of a step.
double PlanSeconds(const std::string& folder, const std::string& what, const std::string& cluster,
                   const std::string& name) {
  const std::string plan = folder + "/" + name + ".json";
  if (!WriteFile(folder + "/cluster.toml", cluster).ok()) return 0;
  OutputOf(
      fmt::format("{} plan {} --cluster {}/cluster.toml -o {} 2>&1", kHeddle, what, folder, plan));
  const Result<std::string> text = ReadFile(plan);
  if (!text.ok()) return 0;
  return ParseJson(text.value(), plan).value().value("iteration_seconds", 0.0);
}

// One after the other: the bucket is larger than all gradients.
void SetBucket(const std::string& plan, const std::string& to, const std::string& bucket) {
  Json json = ParseJson(ReadFile(plan).value(), plan).value();
  json["bucket"] = bucket;
  (void)WriteFile(to, json.dump(2) + "\n").ok();
}

}  // namespace

PairFiles MakePair(const std::string& folder, const JobShape& shape) {
  (void)MakeDirectories(folder).ok();
  constexpr double kLatency = 1e-6, kFlops = 1e9, kSlow = 1e6;
  const std::string what = fmt::format("{} --model '{}' --batch {}", shape.flags, shape.model,
                                       shape.samples * shape.ranks);
  const double wanted_compute =
      shape.step_seconds * shape.compute_per_network / (1 + shape.compute_per_network);
  const double wanted_network = shape.step_seconds - wanted_compute;
  // Computes are proportional to the device's time per FLOP and byte, exchanges to the link's.
  const double compute =
      PlanSeconds(folder, what, ClusterText(shape.ranks, kFlops, kInstant, 0), "probe");
  const double both =
      PlanSeconds(folder, what, ClusterText(shape.ranks, kFlops, kSlow, kLatency), "probe");
  const double flops = kFlops * compute / wanted_compute;
  const double bandwidth = kSlow * (both - compute) / wanted_network;
  PairFiles files;
  files.whole = folder + "/whole.json";
  files.buckets = folder + "/buckets.json";
  PlanSeconds(folder, what, ClusterText(shape.ranks, flops, bandwidth, kLatency), "made");
  SetBucket(folder + "/made.json", files.whole, "1 GiB");
  SetBucket(folder + "/made.json", files.buckets, "40 KiB");
  std::string jobs = "schema = \"heddle.jobs/1\"\ncluster = \"cluster.toml\"\n";
  for (const char* name : {"a", "b"}) {
    jobs += fmt::format("[[job]]\nname = \"{}\"\nplan = \"whole.json\"\nsteps = 100\n", name);
  }
  (void)WriteFile(folder + "/jobs.toml", jobs).ok();
  files.compute = wanted_compute;
  files.network = wanted_network;
  return files;
}

double ProportionOf(const std::string& model, int batch, const std::string& folder) {
  (void)MakeDirectories(folder).ok();
  constexpr double kFlops = 14e12, kTenGigabit = 1.25e9;
  const std::string what = fmt::format("--strategy dp --model '{}' --batch {}", model, batch);
  const double compute = PlanSeconds(folder, what, ClusterText(4, kFlops, kInstant, 0), "probe");
  const double both = PlanSeconds(folder, what, ClusterText(4, kFlops, kTenGigabit, 2e-5), "probe");
  return compute / (both - compute);
}

}  // namespace heddle
