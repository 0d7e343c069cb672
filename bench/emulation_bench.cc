// Emulated runs against the simulator: `ratio` is emulated / simulated (median of 20 steps after
// 3), `missed` the share of deadlines missed. Each is a run of heddle by itself.

#include <benchmark/benchmark.h>

#include <string>

#include "base/json_field.h"
#include "shell.h"

#ifdef HEDDLE_BINARY
namespace heddle {
namespace {

void BM_EmulatedAgainstSimulated(benchmark::State& state, const std::string& strategy,
                                 const std::string& cluster, int microbatches) {
  const std::string heddle = HEDDLE_BINARY;
  const std::string folder = "/tmp/heddle-emulation-bench";
  const std::string clusters = std::string(HEDDLE_SOURCE_DIR) + "/examples/clusters/";
  OutputOf("rm -rf " + folder + "; mkdir -p " + folder + "; " + heddle +
           " plan --model 'tiny-gpt?layers=14' --batch 32 --microbatches " +
           std::to_string(microbatches) + " --strategy " + strategy + " --cluster " + clusters +
           cluster + ".toml -o " + folder + "/plan.json");
  for (auto _ : state) {
    const std::string output =
        OutputOf("rm -rf " + folder + "/run; " + heddle + " run " + folder +
                 "/plan.json --emulate --steps 23 --validation 0 --json --dir " + folder +
                 "/run 2> /dev/null");
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

#define HEDDLE_EMULATE(name, strategy, cluster, microbatches)                           \
  BENCHMARK_CAPTURE(BM_EmulatedAgainstSimulated, name, strategy, cluster, microbatches) \
      ->UseManualTime()                                                                 \
      ->Unit(benchmark::kMillisecond)                                                   \
      ->Iterations(1)
HEDDLE_EMULATE(dp_4, "dp", "mixed4", 2);
HEDDLE_EMULATE(gpipe_4, "gpipe", "mixed4", 8);
HEDDLE_EMULATE(one_f_one_b_4, "1f1b", "mixed4", 8);
HEDDLE_EMULATE(interleaved_4, "interleaved", "mixed4", 8);
HEDDLE_EMULATE(pipeline_4, "pipeline", "mixed4", 8);
HEDDLE_EMULATE(dp_8, "dp", "equal8", 2);
HEDDLE_EMULATE(gpipe_8, "gpipe", "equal8", 8);
HEDDLE_EMULATE(one_f_one_b_8, "1f1b", "equal8", 8);
HEDDLE_EMULATE(interleaved_8, "interleaved", "equal8", 8);
HEDDLE_EMULATE(pipeline_8, "pipeline", "equal8", 8);
#undef HEDDLE_EMULATE

}  // namespace
}  // namespace heddle
#endif
