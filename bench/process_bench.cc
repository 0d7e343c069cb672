// Whole processes, as a person waits for them: wall seconds, seconds of CPU and peak memory.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "heddle_process.h"

namespace heddle {
namespace {

const std::string kClusters = std::string(HEDDLE_SOURCE_DIR) + "/examples/clusters/";

// Target: under 1 s and 500 MB.
void PlanGpipe1024(benchmark::State& state) {
  RunPlan(state, {"plan", "--strategy", "gpipe", "--model", "gpt?layers=96", "--cluster",
                  kClusters + "fat-tree-1024.toml"});
}
BENCHMARK(PlanGpipe1024)->Unit(benchmark::kMillisecond)->UseRealTime();

void CompareMixed4(benchmark::State& state) {
  RunPlan(state, {"compare", "--model", "gpt?layers=24", "--batch", "64", "--cluster",
                  kClusters + "mixed4.toml"});
}
BENCHMARK(CompareMixed4)->Unit(benchmark::kMillisecond)->UseRealTime();

void PlanDataParallel64(benchmark::State& state) {
  RunPlan(state,
          {"plan", "--strategy", "dp", "--model", "gpt", "--cluster", kClusters + "hap64.toml"});
}
BENCHMARK(PlanDataParallel64)->Unit(benchmark::kMillisecond)->UseRealTime();

// `pipeline` on zoo models: targets 0.3 s (16 devices), 3 s (64), 20 s and 1 GB (1024).
void PlanPipeline(benchmark::State& state, const std::string& model, const std::string& batch,
                  const std::string& cluster) {
  RunPlan(state, {"plan", "--strategy", "pipeline", "--model", model, "--batch", batch, "--cluster",
                  kClusters + cluster + ".toml"});
}
BENCHMARK_CAPTURE(PlanPipeline, layers48_devices16, "gpt?layers=48", "64", "slow-rack")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(PlanPipeline, layers48_devices64, "gpt?layers=48", "256", "hap64")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(PlanPipeline, layers96_devices1024, "gpt?layers=96", "4096", "fat-tree-1024")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// `spmd`: targets 0.3, 0.5 and 1 s for BERT of 12, 24 and 48 layers and 1 s for experts on the one
// axis of eight devices, five times that on two axes (64 devices: 5 s); under 500 MB.
void PlanSpmd(benchmark::State& state, const std::string& model, const std::string& batch,
              const std::string& cluster) {
  RunPlan(state, {"plan", "--strategy", "spmd", "--model", model, "--batch", batch, "--cluster",
                  kClusters + cluster + ".toml"});
}
BENCHMARK_CAPTURE(PlanSpmd, bert12_devices8, "bert-base?seq=128", "256", "equal8")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(PlanSpmd, bert24_devices8, "bert-base?layers=24&seq=128", "256", "equal8")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(PlanSpmd, bert48_devices8, "bert-base?layers=48&seq=128", "256", "equal8")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(PlanSpmd, moe24_devices8, "bert-moe?layers=24&seq=128", "256", "equal8")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(PlanSpmd, moe12_devices4, "bert-moe?seq=128&experts=8", "128", "mixed4")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(PlanSpmd, bert12_devices64, "bert-base?seq=128", "2048", "hap64")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(PlanSpmd, inception_devices4, "inception-v3", "128", "mixed4")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

// `pipeline` on layer profiles, which are not part of this repository: targets 1 s (densenet121),
// 2 s (inception_v3), on 16 devices.
void PlanProfile(benchmark::State& state, const std::string& name) {
  const std::string path =
      std::string(HEDDLE_SOURCE_DIR) + "/../shared/data/profiles/pipedream-" + name + ".txt";
  if (access(path.c_str(), R_OK) != 0) {
    state.SkipWithError("no profile");
    return;
  }
  RunPlan(state, {"plan", "--strategy", "pipeline", "--model", path, "--profile-batch", "64",
                  "--batch", "256", "--cluster", kClusters + "slow-rack.toml"});
}
BENCHMARK_CAPTURE(PlanProfile, densenet121, "densenet121")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(PlanProfile, inception_v3, "inception_v3")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace heddle
