// Real runs against the simulator: `ratio` is measured / simulated, with a profile of this machine
// taken just before. Two workers on two cores; four hosts that are network namespaces with links
// shaped to 400 Mbit/s (as root).

#include <benchmark/benchmark.h>

#include <string>

#include "base/file.h"
#include "base/json_field.h"
#include "shaped/shaped_hosts.h"
#include "shaped/star_cluster.h"
#include "shell.h"

#ifdef HEDDLE_BINARY
namespace heddle {
namespace {

const std::string kHeddle = HEDDLE_BINARY;
const std::string kFolder = "/tmp/heddle-real-bench";

// Profiles the model and this machine, once for each model; the machine's figures.
const Json& Profiled(const std::string& model, const std::string& rows) {
  static std::string last_model;
  static Json last;
  if (last_model == model) return last;
  last_model = model;
  last = ParseJson(
             OutputOf("rm -rf " + kFolder + "; mkdir -p " + kFolder + "; " + kHeddle +
                      " profile --json --model '" + model + "' --rows " + rows + " -o " + kFolder +
                      "/profile.json --cluster " + kFolder + "/cluster.toml 2> /dev/null"),
             "heddle profile")
             .value();
  return last;
}

void Plan(const std::string& model, const std::string& strategy, int batch) {
  OutputOf(kHeddle + " plan --model '" + model + "' --batch " + std::to_string(batch) +
           " --strategy " + strategy + " --cluster " + kFolder + "/cluster.toml --profile " +
           kFolder + "/profile.json -o " + kFolder + "/plan.json");
}

const std::string kRun = kHeddle + " run " + kFolder + "/plan.json --profile " + kFolder +
                         "/profile.json --steps 23 --validation 0 --json --dir " + kFolder + "/run";

void Report(benchmark::State& state, const std::string& output) {
  const Result<Json> run = ParseJson(output, "heddle run");
  if (!run.ok()) {
    state.SkipWithError("heddle run failed");
    return;
  }
  const double simulated = run.value()["predicted_iteration_seconds"];
  const double measured = run.value()["measured_iteration_seconds"];
  state.SetIterationTime(measured);
  state.counters["simulated_ms"] = 1e3 * simulated;
  state.counters["ratio"] = measured / simulated;
}

void BM_TwoWorkers(benchmark::State& state, const std::string& strategy) {
  const std::string model = "bert-base?layers=2&seq=128";
  Profiled(model, "2,4,8");
  Plan(model, strategy, 8);
  for (auto _ : state) {
    Report(state, OutputOf("rm -rf " + kFolder + "/run; " + kRun + " 2> /dev/null"));
  }
}

// The arithmetic is small beside the messages. Four hosts have two cores: each moves bytes with
// half a core.
void BM_ShapedHosts(benchmark::State& state, const std::string& strategy, const std::string& model,
                    int batch) {
  const Json& machine = Profiled(model, std::to_string(batch / 4));
  constexpr double kBandwidth = 400e6 / 8 * 1448 / 1514;  // of the hosts as they are made
  constexpr int kHosts = 4;
  const StarNode node{machine["flops_per_second"].get<double>(), kBandwidth, 10e9,
                      machine["message_bytes_per_second"].get<double>() / 2};
  const std::string cluster = StarClusterText(std::vector<StarNode>(kHosts, node), 50e-6);
  if (!WriteFile(kFolder + "/cluster.toml", cluster).ok()) return;
  Plan(model, strategy, batch);
  const ShapedHosts hosts("hdb", kHosts);
  for (auto _ : state) {
    Report(state, OutputOf("rm -rf " + kFolder + "/run; " + hosts.OnEach(kRun, kHosts, 29478)));
  }
}

const char* const kLargeWeights = "mlp?layers=8&hidden=1024&inputs=1024";
const char* const kLargeActivations = "mlp?layers=8&hidden=128&inputs=128";

#define HEDDLE_REAL(...) \
  BENCHMARK_CAPTURE(__VA_ARGS__)->UseManualTime()->Unit(benchmark::kMillisecond)->Iterations(1)
HEDDLE_REAL(BM_TwoWorkers, dp, "dp");
HEDDLE_REAL(BM_TwoWorkers, gpipe, "gpipe");
HEDDLE_REAL(BM_TwoWorkers, one_f_one_b, "1f1b");
HEDDLE_REAL(BM_ShapedHosts, dp, "dp", kLargeWeights, 64);
HEDDLE_REAL(BM_ShapedHosts, gpipe, "gpipe", kLargeActivations, 32768);
HEDDLE_REAL(BM_ShapedHosts, one_f_one_b, "1f1b", kLargeActivations, 32768);
#undef HEDDLE_REAL

}  // namespace
}  // namespace heddle
#endif
