// Planning time of strategies that divide tensors, off the beaten case: equal and unequal devices,
// one mesh axis and two, 4 to 64 devices, 12 to 96 layers. Whole processes; targets 1 s of CPU for
// BERT and 3 s for a GPT of seven billion weights.
//
//   ./dev bench SpmdFamily

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "heddle_process.h"

namespace heddle {
namespace {

struct Nodes {
  std::string type;
  int devices;
  int count;
};
struct FamilyCluster {
  std::string name;
  std::vector<Nodes> nodes;
};

const std::vector<FamilyCluster> kClusters = {
    {"4_equal", {{"v100", 4, 1}}},
    {"8_equal", {{"v100", 8, 1}}},
    {"3and5_unequal", {{"v100", 3, 1}, {"p100", 5, 1}}},
    {"2x4_equal", {{"v100", 4, 2}}},
    {"2x4_unequal", {{"v100", 4, 1}, {"p100", 4, 1}}},
    {"2x8_unequal", {{"v100", 8, 1}, {"p100", 8, 1}}},
    {"29_unequal", {{"v100", 7, 2}, {"p100", 5, 3}}},
    {"8x8_unequal", {{"v100", 8, 2}, {"p100", 8, 6}}},
};
const std::vector<FamilyCluster> kLarge = {
    {"1x8_large", {{"a100", 8, 1}}},
    {"4x8_large", {{"a100", 8, 4}}},
    {"8x8_large", {{"a100", 8, 8}}},
};

std::string TextOf(const FamilyCluster& cluster) {
  std::string text =
      "schema = \"heddle.cluster/1\"\n"
      "[device_type.v100]\nflops = \"14 TFLOP/s\"\nmemory = \"16 GiB\"\n"
      "memory_bandwidth = \"900 GB/s\"\n"
      "[device_type.p100]\nflops = \"7.8 TFLOP/s\"\nmemory = \"12 GiB\"\n"
      "memory_bandwidth = \"550 GB/s\"\n"
      "[device_type.a100]\nflops = \"312 TFLOP/s\"\nmemory = \"80 GiB\"\n"
      "memory_bandwidth = \"2000 GB/s\"\n[[switch]]\nname = \"core\"\n";
  int number = 0;
  for (const Nodes& nodes : cluster.nodes) {
    for (int k = 0; k < nodes.count; ++k, ++number) {
      const std::string name = "n" + std::to_string(number);
      text += "[[node]]\nname = \"" + name + "\"\ndevices = [{ type = \"" + nodes.type +
              "\", count = " + std::to_string(nodes.devices) + " }]\n";
      text += nodes.type == "a100" ? "link = { bandwidth = \"300 GB/s\", latency = \"2 us\" }\n"
                                   : "link = { bandwidth = \"20 GB/s\", latency = \"3 us\" }\n";
      text += "[[link]]\nbetween = [\"" + name + "\", \"core\"]\nbandwidth = \"" +
              (nodes.type == "a100" ? "200" : "10") + " Gbit/s\"\nlatency = \"10 us\"\n";
    }
  }
  return text;
}

// Its cluster as a file, as a person would give it.
class ClusterFile {
 public:
  explicit ClusterFile(const FamilyCluster& cluster) {
    const int file = mkstemps(path_.data(), 5);
    const std::string text = TextOf(cluster);
    if (write(file, text.data(), text.size()) < 0) std::perror("cluster");
    close(file);
  }
  ~ClusterFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/heddle-bench-XXXXXX.toml";
};

void PlanOn(benchmark::State& state, const std::string& strategy, const std::string& model,
            const FamilyCluster& cluster) {
  int devices = 0;
  for (const Nodes& nodes : cluster.nodes) devices += nodes.devices * nodes.count;
  const ClusterFile file(cluster);
  RunPlan(state, {"plan", "--json", "--strategy", strategy, "--model", model, "--batch",
                  std::to_string(32 * devices), "--cluster", file.path()});
}

void Register(const std::string& strategy, const std::string& name, const std::string& model,
              const FamilyCluster& cluster) {
  const std::string title = "SpmdFamily/" + strategy + "/" + name + "/" + cluster.name;
  benchmark::RegisterBenchmark(
      title.c_str(), [=](benchmark::State& state) { PlanOn(state, strategy, model, cluster); })
      ->Unit(benchmark::kMillisecond)
      ->Iterations(1)
      ->UseRealTime();
}

const bool kRegistered = [] {
  for (const FamilyCluster& cluster : kClusters) {
    for (const int layers : {12, 24, 48, 96}) {
      const std::string text = std::to_string(layers);
      Register("spmd", "bert" + text, "bert-base?seq=128&layers=" + text, cluster);
    }
  }
  for (const FamilyCluster& cluster : kLarge) {
    for (const char* strategy : {"tensor-parallel", "zero"}) {
      Register(strategy, "gpt7b", "gpt?layers=32&hidden=4096&heads=32", cluster);
    }
  }
  return true;
}();

}  // namespace
}  // namespace heddle
