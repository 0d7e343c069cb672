// RunFiles: the directory of a run that trains, held by its first rank. All that can be refused at
// the start is, and a run that goes on keeps what it was before until it has something to show.
//
//   HEDDLE_ASSIGN(RunFiles files, RunFiles::Open(plan, graph, config, dtype, steps_done));
//   HEDDLE_RETURN_IF_ERROR(files.Append({{"step", 1}, {"loss", 2.3}}));
//   HEDDLE_ASSIGN(const std::string checkpoint, files.Save(info, tensors));
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/json_field.h"
#include "base/result.h"
#include "model/graph.h"
#include "program/plan/plan.h"
#include "run/run_config.h"
#include "run/store/checkpoint.h"
#include "run/store/run_directory.h"

namespace heddle {

class RunFiles {
 public:
  // Going on with a run goes on in its directory, unless another is named. There must be room for
  // the checkpoints to come, and a place for --weights.
  static Result<RunFiles> Open(const Plan& plan, const Graph& graph, const RunConfig& config,
                               DType dtype, int64_t done);

  const std::string& path() const { return directory_.path(); }
  Status Append(const Json& line) { return directory_.Append(line); }

  // Writes a checkpoint, and removes those that are too old. The first one of a run that goes on
  // makes the new config and plan the run's.
  Result<std::string> Save(const CheckpointInfo& info, std::span<const StoredTensor> tensors);

 private:
  struct Pending {
    Json config;
    std::string plan;
    int64_t step;  // that training went on after
  };
  RunFiles(RunDirectory directory, int64_t keep) : directory_(std::move(directory)), keep_(keep) {}

  RunDirectory directory_;
  int64_t keep_;
  std::optional<Pending> pending_;
};

// What to do with a run that failed: "go on from …/step-00000020 with a smaller --rate: heddle run
// --resume …", or that nothing was saved. The checkpoint is looked at: of those that are whole it
// is the last. `how` may be empty, and so may the directory.
std::string GoOnHint(const std::string& directory, const std::string& how = "");

}  // namespace heddle
