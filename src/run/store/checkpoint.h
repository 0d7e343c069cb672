// Checkpoints: the whole state of training after a step, whichever plan trained it.
//
//   runs/gpt/checkpoints/step-00000100/
//     checkpoint.json        CheckpointInfo, with the hash of the other file
//     tensors.safetensors    parameters and optimizer states, whole, by their names in the graph;
//                            what checkpoint.json says of them is in its header too
//
//   HEDDLE_RETURN_IF_ERROR(SaveCheckpoint(CheckpointsOf(run), {.step = 100, …}, tensors));
//   HEDDLE_RETURN_IF_ERROR(PruneCheckpoints(run, 3));
//   HEDDLE_ASSIGN(std::string latest, LatestCheckpoint(run));
//   HEDDLE_ASSIGN(Checkpoint checkpoint, LoadCheckpoint(latest));
//
// A directory called step-* is whole at every moment, whenever its writer is killed or the power
// fails: it is written under a name that begins with a dot and renamed, and renamed before it is
// removed. One writer at a time, by a lock on the directory around it; readers need none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json_fwd.h"
#include "base/result.h"
#include "run/store/safetensors.h"

namespace heddle {

inline constexpr const char* kCheckpointSchema = "heddle.checkpoint/1";

struct CheckpointInfo {
  int64_t step = 0;     // optimizer steps done
  int64_t samples = 0;  // samples seen, which is where the data goes on
  uint64_t seed = 0;
  std::string model;       // its spec
  std::string model_hash;  // of the graph
  std::string optimizer;
  DType dtype = DType::kF32;
  std::string heddle_version;

  // Of tensors.safetensors; set by SaveCheckpoint.
  int64_t tensors_bytes = 0;
  std::string tensors_hash = {};

  bool operator==(const CheckpointInfo&) const = default;
};

struct Checkpoint {
  CheckpointInfo info;
  SafetensorsFile tensors;
};

// Writes `parent`/step-<info.step>, replacing one of that name; returns its path. Makes `parent`
// where it is missing, and removes what dead writers left in it.
Result<std::string> SaveCheckpoint(const std::string& parent, CheckpointInfo info,
                                   std::span<const StoredTensor> tensors);

// Reads and verifies both files. What is missing, truncated or altered is an error that names the
// file and the other checkpoints there are.
Result<Checkpoint> LoadCheckpoint(const std::string& path);

// What a checkpoint is of, without its tensors.
Result<CheckpointInfo> LoadCheckpointInfo(const std::string& path);

// Paths of the step-* directories of a run, by step.
std::vector<std::string> ListCheckpoints(const std::string& run);

// The last of them; an error if there is none.
Result<std::string> LatestCheckpoint(const std::string& run);

// Removes all but the last `keep` (at least 1).
Status PruneCheckpoints(const std::string& run, int keep);

// Takes the checkpoints after `step` out of the list, when training goes on from there: each
// becomes dropped-step-*, which nothing reads, prunes or removes but a later one of the same name.
Status DropCheckpointsAfter(const std::string& run, int64_t step);

std::string CheckpointsOf(const std::string& run);  // "run/checkpoints"

// What the info says of the tensors, in words for their own file.
SafetensorsMetadata MetadataOf(const CheckpointInfo& info);

Json CheckpointInfoToJson(const CheckpointInfo& info);
Result<CheckpointInfo> ParseCheckpointInfo(const std::string& text, const std::string& file);

}  // namespace heddle
