// Training a plan. Every device is a rank that runs the same code; the first one also decides what
// comes next, keeps the log and writes checkpoints.
//
//   HEDDLE_ASSIGN(const Training training, PrepareTraining(plan, graph, config,
//   MakeTorchExecutor)); HEDDLE_ASSIGN(RunResult result, TrainOnThreads(training, listener));
//
// Leaves a run directory (docs/run-directory.md) with the log and checkpoints. Bits depend on the
// plan, the config and the data, never on timing, nor on whether ranks are threads or processes.
// What computes is behind a TrainExecutor: nothing here knows the library.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/graph.h"
#include "program/plan/plan.h"
#include "program/program.h"
#include "run/communicator.h"
#include "run/device_turns.h"
#include "run/emulation.h"
#include "run/gradient_noise.h"
#include "run/run_config.h"
#include "run/train/train_executor.h"
#include "run/worker.h"
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
  std::optional<NoiseEstimate> noise;     // of gradients, if it was to be measured and could be
  double rows_per_parameter = 0;          // of the data, where it is measured and ends; else 0
  double measured_iteration_seconds = 0;  // median over the steps after the first
  double predicted_iteration_seconds = 0;
  std::string parameter_hash;
  std::string directory;
  std::string checkpoint;  // the last one saved
  bool interrupted = false;
  int stopped_by = 0;   // the signal, then
  bool failed = false;  // on all ranks but the first, which has the error
  Timeline timeline;    // of the last steps
  // Of an emulated run, whose seconds are those of the modelled cluster.
  bool emulated = false;
  double dilation = 1;
  int64_t deadlines = 0, missed = 0;
  int64_t timed_steps = 0;  // of a profiled model, which has no arithmetic and so no losses

  int64_t steps() const { return timed_steps + static_cast<int64_t>(losses.size()); }
};

// Told as training goes, by the first rank.
struct RunListener {
  std::function<void(const std::string& line)> note = [](const std::string&) {};
  std::function<void(int64_t step, int64_t steps, double loss, double seconds)> step =
      [](int64_t, int64_t, double, double) {};
  // The run's directory is there.
  std::function<void(const std::string& directory)> opened = [](const std::string&) {};
  // Asked now and then, of all ranks, some times a second: save and stop? The signal, or 0.
  std::function<int()> interrupted = [] { return 0; };
};

// What all ranks of a run share; made once. The plan and the graph must outlive it.
struct Training {
  const Plan* plan = nullptr;
  const Graph* graph = nullptr;
  RunConfig config;
  Program program;
  Program forward;  // for held-out samples
  MakeTrainExecutor executors;
  Emulation* emulation = nullptr;  // may be null
};

// The type to train in: as the config says, or the plan's, if that can be trained in here.
Result<DType> TrainedType(const Plan& plan, const RunConfig& config);

Result<Training> PrepareTraining(const Plan& plan, const Graph& graph, const RunConfig& config,
                                 MakeTrainExecutor executors);

// How a rank's device is used by others too (run/share). Steps then go in one part.
struct RankHooks {
  DeviceTurns* turns = nullptr;
  // Around the executor that trains.
  std::function<std::unique_ptr<Executor>(Executor& executor)> wrap;
};

// One rank's part. Only the first rank's result means anything. `where` is the ranks' kind, for
// people: "threads of this process".
Result<RunResult> TrainRank(const Training& training, int32_t rank, Communicator& communicator,
                            const RunListener& listener, const std::string& where,
                            WorkerProgress* progress = nullptr, const RankHooks& hooks = {});

// All ranks as threads of this process.
Result<RunResult> TrainOnThreads(const Training& training, const RunListener& listener);

}  // namespace heddle
