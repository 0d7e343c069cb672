// Emulated runs against the simulator: `ratio` is emulated / simulated (median of all steps
// but the first few), `missed` the share of deadlines missed. Each is a run of heddle by itself.

#include <benchmark/benchmark.h>

#include <string>

#include "base/json_field.h"
#include "shell.h"

#ifdef HEDDLE_BINARY
namespace heddle {
namespace {

struct Case {
  std::string options;  // of heddle plan: model, batch, microbatches
  std::string strategy;
  std::string cluster;
  std::string run_options = "--steps 23";
};

void BM_EmulatedAgainstSimulated(benchmark::State& state, const Case& one) {
  const std::string heddle = HEDDLE_BINARY;
  const std::string folder = "/tmp/heddle-emulation-bench";
  const std::string clusters = std::string(HEDDLE_SOURCE_DIR) + "/examples/clusters/";
  OutputOf("rm -rf " + folder + "; mkdir -p " + folder + "; " + heddle + " plan " + one.options +
           " --strategy " + one.strategy + " --cluster " + clusters + one.cluster + ".toml -o " +
           folder + "/plan.json");
  for (auto _ : state) {
    const std::string output = OutputOf("rm -rf " + folder + "/run; " + heddle + " run " + folder +
                                        "/plan.json --emulate --validation 0 --json " +
                                        one.run_options + " --dir " + folder + "/run 2> /dev/null");
    const Result<Json> run = ParseJson(output, "heddle run");
    if (!run.ok()) {
      state.SkipWithError("heddle run failed");
      return;
    }
    const Json& json = run.value();
    const double simulated = json["predicted_iteration_seconds"];
    const double emulated = json["measured_iteration_seconds"];
    state.SetIterationTime(emulated);
    state.counters["simulated_ms"] = 1e3 * simulated;
    state.counters["ratio"] = emulated / simulated;
    state.counters["missed"] =
        json["missed_deadlines"].get<double>() / json["deadlines"].get<double>();
    state.counters["dilation"] = json["dilation"];
  }
}

// Pipelines and data parallelism.
std::string Gpt(int microbatches) {
  return "--model 'tiny-gpt?layers=14' --batch 32 --microbatches " + std::to_string(microbatches);
}
// Divided tensors beside data parallelism. Slowed down so much that hundreds of exchanges in a step
// do not miss their time, whatever else the machine does.
Case Divided(const std::string& model, const std::string& strategy) {
  return {"--model '" + model + "' --batch 32", strategy, "office4", "--steps 23 --dilate 100"};
}
// Updates that wait for nobody: their time is that of many in a row.
Case Unsynchronised(const std::string& strategy, const std::string& cluster) {
  return {"--model 'tiny-gpt?layers=14&tied=0' --batch 8", strategy, cluster, "--steps 64"};
}
constexpr char kVgg[] = "vgg19?width=8&hidden=512&image=32&classes=100";
constexpr char kExperts[] = "tiny-moe?layers=2&hidden=64&heads=4&seq=32&vocab=256&experts=8";

#define HEDDLE_EMULATE(name, ...)                                   \
  BENCHMARK_CAPTURE(BM_EmulatedAgainstSimulated, name, __VA_ARGS__) \
      ->UseManualTime()                                             \
      ->Unit(benchmark::kMillisecond)                               \
      ->Iterations(1)
HEDDLE_EMULATE(dp_4, Case{Gpt(2), "dp", "mixed4"});
HEDDLE_EMULATE(gpipe_4, Case{Gpt(8), "gpipe", "mixed4"});
HEDDLE_EMULATE(one_f_one_b_4, Case{Gpt(8), "1f1b", "mixed4"});
HEDDLE_EMULATE(interleaved_4, Case{Gpt(8), "interleaved", "mixed4"});
HEDDLE_EMULATE(pipeline_4, Case{Gpt(8), "pipeline", "mixed4"});
HEDDLE_EMULATE(dp_8, Case{Gpt(2), "dp", "equal8"});
HEDDLE_EMULATE(gpipe_8, Case{Gpt(8), "gpipe", "equal8"});
HEDDLE_EMULATE(one_f_one_b_8, Case{Gpt(8), "1f1b", "equal8"});
HEDDLE_EMULATE(interleaved_8, Case{Gpt(8), "interleaved", "equal8"});
HEDDLE_EMULATE(pipeline_8, Case{Gpt(8), "pipeline", "equal8"});
HEDDLE_EMULATE(async_4, Unsynchronised("async", "mixed4"));
HEDDLE_EMULATE(async_8, Unsynchronised("async", "equal8"));
HEDDLE_EMULATE(local_whole_4, Unsynchronised("local --replicas whole", "mixed4"));
HEDDLE_EMULATE(local_pipelined_4, Unsynchronised("local --replicas pipelined", "mixed4"));
HEDDLE_EMULATE(spmd_vgg_4, Divided(kVgg, "spmd"));
HEDDLE_EMULATE(dp_vgg_4, Divided(kVgg, "dp"));
HEDDLE_EMULATE(dp_proportional_vgg_4, Divided(kVgg, "dp-proportional"));
HEDDLE_EMULATE(spmd_moe_4, Divided(kExperts, "spmd"));
HEDDLE_EMULATE(dp_moe_4, Divided(kExperts, "dp"));
HEDDLE_EMULATE(dp_proportional_moe_4, Divided(kExperts, "dp-proportional"));
#undef HEDDLE_EMULATE

}  // namespace
}  // namespace heddle
#endif
