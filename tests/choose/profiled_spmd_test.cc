// Strategies that divide tensors on layer profiles, whose layers may skip others and may have
// tensors of any size: what is planned passes all checks, and the coverage of every op is exact.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <set>

#include "choose/planners.h"
#include "plan/spmd_cases.h"
#include "support/places.h"
#include "support/temporary_file.h"

namespace heddle {
namespace {

constexpr std::array kDivided = {"spmd", "zero", "tensor-parallel"};

// A model is a profile by its ending.
class ProfileFile {
 public:
  explicit ProfileFile(const std::string& text) : path_(file_.path() + ".txt") {
    EXPECT_TRUE(WriteFile(path_, text).ok());
  }
  ~ProfileFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  TemporaryFile file_;
  std::string path_;
};

double Between(std::mt19937& random, double low, double high) {
  return std::exp(std::uniform_real_distribution<double>(std::log(low), std::log(high))(random));
}

// Every layer after the first reads some of those before; some have no weights, some no backward.
std::string RandomProfile(std::mt19937& random, int layers) {
  std::string nodes, edges;
  for (int k = 1; k <= layers; ++k) {
    const bool data = k == 1, constant = k == 2 && random() % 2 == 0;
    nodes += fmt::format(
        "node{} -- {} -- forward_compute_time={}, backward_compute_time={}, activation_size={:.1f},"
        " parameter_size={:.1f}\n",
        k, data ? "Input" : "Layer", data ? 0 : Between(random, 0.01, 10),
        data || constant ? 0 : Between(random, 0.01, 10), Between(random, 1e3, 3e7),
        data || random() % 3 == 0 ? 0 : Between(random, 1e3, 3e8));
    std::set<int> from;
    for (int tries = 0; !data && tries < 1 + static_cast<int>(random() % 3); ++tries) {
      from.insert(1 + static_cast<int>(random() % static_cast<uint64_t>(k - 1)));
    }
    if (!data && random() % 2 == 0) from.insert(k - 1);
    for (const int one : from) edges += fmt::format("\tnode{} -- node{}\n", one, k);
  }
  return nodes + edges;
}

Cluster ThreeAndFive() {
  return ParseClusterToml(R"(schema = "heddle.cluster/1"
[device_type.fast]
flops = "14 TFLOP/s"
memory = "16 GiB"
memory_bandwidth = "900 GB/s"
[device_type.slow]
flops = "7.8 TFLOP/s"
memory = "12 GiB"
memory_bandwidth = "550 GB/s"
[[node]]
name = "a"
devices = [{ type = "fast", count = 3 }]
link = { bandwidth = "20 GB/s", latency = "3 us" }
[[node]]
name = "b"
devices = [{ type = "slow", count = 5 }]
link = { bandwidth = "10 GB/s", latency = "5 us" }
[[link]]
between = ["a", "b"]
bandwidth = "10 Gbit/s"
latency = "25 us"
)",
                          "test")
      .value();
}

std::vector<Cluster> SomeClusters() {
  std::vector<Cluster> clusters;
  clusters.push_back(ThreeAndFive());
  clusters.push_back(ClusterOf({.nodes = 2, .devices = 2, .flops = 1e13, .slower = 2.5}));
  clusters.push_back(ClusterOf({.nodes = 3, .devices = 1, .flops = 1e13, .slower = 1.7}));
  clusters.push_back(ClusterOf({.nodes = 1, .devices = 7, .flops = 1e13}));
  return clusters;
}

PlanRequest OptionsFor(const std::string& path, int64_t batch) {
  PlanRequest options;
  options.model = path;
  options.profile_batch = 1;
  options.batch = batch;
  return options;
}

// MakePlan checks what it plans: a finding would be an internal error.
void ExpectSound(const PlanRequest& options, const Cluster& cluster, const std::string& what) {
  const Result<Planning> planning = Planning::Make(options, cluster, nullptr);
  ASSERT_TRUE(planning.ok()) << planning.error().ToString() << what;
  for (const char* strategy : kDivided) {
    const Result<Plan> plan = MakePlan(strategy, planning.value());
    if (plan.ok()) continue;
    EXPECT_EQ(plan.error().kind, ErrorKind::kInfeasible)
        << strategy << ": " << plan.error().ToString() << "\n"
        << what;
  }
}

// The index spaces of its ops have up to 1e31 points.
TEST(ProfiledSpmdTest, LayersThatSkipOthers) {
  const std::string path = SourceDir() + "/tests/data/profiles/skips.txt";
  for (const Cluster& cluster : SomeClusters()) {
    ExpectSound(OptionsFor(path, 16), cluster, "skips.txt");
    const Planning planning = Planning::Make(OptionsFor(path, 16), cluster, nullptr).value();
    const Result<Plan> plan = MakePlan("spmd", planning);
    ASSERT_TRUE(plan.ok()) << plan.error().ToString();
  }
}

TEST(ProfiledSpmdTest, RandomGraphs) {
  std::mt19937 random(3);
  const std::vector<Cluster> clusters = SomeClusters();
  for (int round = 0; round < 16; ++round) {
    const std::string text = RandomProfile(random, 3 + static_cast<int>(random() % 9));
    const ProfileFile file(text);
    const auto batch = static_cast<int64_t>(1 + random() % 40);
    ExpectSound(OptionsFor(file.path(), batch), clusters[random() % clusters.size()], text);
  }
}

// A layer of many inputs has letters of its own for each; none of them is more divisible for that.
TEST(ProfiledSpmdTest, ALayerWithManyInputs) {
  std::string nodes =
                  "node1 -- Input -- forward_compute_time=0, backward_compute_time=0, "
                  "activation_size=4000, parameter_size=0\n",
              edges;
  constexpr int kMany = 40;
  for (int k = 2; k <= kMany + 1; ++k) {
    nodes += fmt::format(
        "node{} -- Part -- forward_compute_time=1, backward_compute_time=2, "
        "activation_size=400000, parameter_size=40000\n",
        k);
    edges += fmt::format("\tnode1 -- node{0}\n\tnode{0} -- node{1}\n", k, kMany + 2);
  }
  nodes += fmt::format(
      "node{} -- Concat -- forward_compute_time=1, backward_compute_time=2, "
      "activation_size=16000000, parameter_size=0\n",
      kMany + 2);
  const ProfileFile file(nodes + edges);
  const Cluster cluster = ClusterOf({.nodes = 2, .devices = 2, .flops = 1e13});
  const Planning planning = Planning::Make(OptionsFor(file.path(), 16), cluster, nullptr).value();
  for (const Op& op : planning.graph.ops()) {
    if (op.kind != OpKind::kOpaque) continue;
    for (const AxisRule& rule : RulesOf(op)) {
      EXPECT_TRUE(rule.letter == 0 || rule.letter == 'b') << op.name << " by " << rule.letter;
    }
  }
  ExpectSound(OptionsFor(file.path(), 16), cluster, "many inputs");
}

}  // namespace
}  // namespace heddle
