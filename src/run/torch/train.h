// Training a plan on this machine, its devices as threads of this process.
//
//   HEDDLE_ASSIGN(RunResult result, Train(plan, graph, config, listener));
//
// Leaves a run directory (docs/run-directory.md) with the log and checkpoints. Bits depend on the
// plan, the config and the data, never on timing.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/graph.h"
#include "program/plan/plan.h"
#include "run/run_config.h"
#include "timeline/timeline.h"

namespace heddle {

struct RunResult {
  int64_t first_step = 0;      // steps done before this run
  std::vector<double> losses;  // by step, from first_step on
  struct Evaluated {
    int64_t step;  // after so many
    double loss;
  };
  std::vector<Evaluated> held_out;
  double measured_iteration_seconds = 0;  // median over the steps after the first
  double predicted_iteration_seconds = 0;
  std::string parameter_hash;
  std::string directory;
  std::string checkpoint;  // the last one saved
  bool interrupted = false;
  Timeline timeline;  // of the last steps
};

// Told as training goes, by whichever thread ends a step.
struct RunListener {
  std::function<void(const std::string& line)> note = [](const std::string&) {};
  std::function<void(int64_t step, int64_t steps, double loss, double seconds)> step =
      [](int64_t, int64_t, double, double) {};
  // Asked after each step: finish, save and stop?
  std::function<bool()> interrupted = [] { return false; };
};

Result<RunResult> Train(const Plan& plan, const Graph& graph, const RunConfig& config,
                        const RunListener& listener);

}  // namespace heddle
