#include "run/run_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/destination.h"
#include "base/json_text.h"
#include "base/units.h"

namespace heddle {
namespace {

int64_t BytesOf(const Graph& graph, DType dtype, bool with_states) {
  int64_t bytes = 0;
  for (const Tensor& tensor : graph.tensors()) {
    const bool counts =
        tensor.role == Role::kParameter || (with_states && tensor.role == Role::kState);
    if (!counts) continue;
    int64_t elements = 1;
    for (const int64_t extent : tensor.shape) elements *= extent;
    bytes += elements * SizeOf(dtype);
  }
  return bytes;
}

// Checkpoints that will be there at once, beside those that are already: one more than are kept
// while the last is written.
int64_t CheckpointsToCome(const RunConfig& config, int64_t done, int64_t there) {
  if (config.steps <= done) return 0;
  int64_t saves = 1 + (config.elastic ? 1 : 0);  // the last, and a start to go back to
  if (config.save_every > 0) {
    saves += (config.steps - 1) / config.save_every - done / config.save_every;
  }
  return std::min(saves, std::max<int64_t>(1, config.keep + 1 - there));
}

Status CheckSpace(const RunConfig& config, const Graph& graph, DType dtype, int64_t done,
                  const std::string& path) {
  const int64_t each = BytesOf(graph, dtype, /*with_states=*/true);
  if (config.steps > done) HEDDLE_RETURN_IF_ERROR(CheckFileSize(CheckpointsOf(path), each));
  const auto there = static_cast<int64_t>(ListCheckpoints(path).size());
  const int64_t count = CheckpointsToCome(config, done, there);
  return CheckRoom(CheckpointsOf(path), count * each,
                   fmt::format("{} checkpoint{} of {}, --keep {},", count, count == 1 ? "" : "s",
                               ToText(Bytes{each}), config.keep));
}

// Nothing if that would take too long to find out for somebody who waits for an error.
std::optional<bool> IsWhole(const std::string& checkpoint) {
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  const Result<CheckpointInfo> info = LoadCheckpointInfo(checkpoint);
  if (!info.ok()) return false;
  if (info.value().tensors_bytes > kMostBytes) return std::nullopt;
  return LoadCheckpoint(checkpoint).ok();
}

}  // namespace

Result<RunFiles> RunFiles::Open(const Plan& plan, const Graph& graph, const RunConfig& config,
                                DType dtype, int64_t done) {
  std::string run;
  if (!config.resume.empty() && config.directory.empty()) {
    HEDDLE_ASSIGN(ResumePoint point, FindResumePoint(config.resume));
    run = std::move(point.run);
  }
  const bool in_place = !run.empty();
  const std::string path = in_place ? run : config.directory.empty() ? "runs" : config.directory;
  HEDDLE_RETURN_IF_ERROR(CheckSpace(config, graph, dtype, done, path));
  Result<RunDirectory> opened =
      in_place ? RunDirectory::Open(run)
      : config.directory.empty()
          ? RunDirectory::CreateNamed("runs", plan.request.model, std::time(nullptr))
          : RunDirectory::Create(config.directory);
  if (!opened.ok()) return opened.error();
  RunFiles files(std::move(opened).value(), config.keep);
  HEDDLE_RETURN_IF_ERROR(files.directory_.Claim());
  Status writable = CheckWritable(config.weights);  // may lie in the directory
  if (writable.ok() && !config.weights.empty()) {
    writable = CheckRoom(config.weights, BytesOf(graph, dtype, false), "the weights");
    if (writable.ok()) writable = CheckFileSize(config.weights, BytesOf(graph, dtype, false));
  }
  if (!writable.ok()) {
    std::error_code ignored;
    if (!in_place) {  // nothing else is in it
      std::filesystem::remove(files.path() + "/" + kClaimFile, ignored);
      std::filesystem::remove(files.path(), ignored);
    }
    return writable.error();
  }
  const std::string text = JsonText(PlanToJson(plan, graph), 2) + "\n";
  // As it is trained, whatever it follows from.
  RunConfig complete = config;
  complete.seed = config.seed.value_or(1);
  complete.dtype = dtype;
  Json json = RunConfigToJson(complete);
  for (const char* key : {"override", "secret_file", "interface"}) json.erase(key);  // of this time
  if (!in_place) {
    HEDDLE_RETURN_IF_ERROR(files.directory_.WriteConfig(json));
    HEDDLE_RETURN_IF_ERROR(files.directory_.WritePlan(text));
    return files;
  }
  HEDDLE_RETURN_IF_ERROR(files.directory_.ResumeAfter(done));
  HEDDLE_ASSIGN(const Json before, files.directory_.ReadConfig());
  for (const char* key : {"directory", "resume"}) json[key] = before.value(key, std::string());
  files.pending_ = Pending{std::move(json), text, done};
  return files;
}

Result<std::string> RunFiles::Save(const CheckpointInfo& info,
                                   std::span<const StoredTensor> tensors) {
  HEDDLE_ASSIGN(std::string path, SaveCheckpoint(directory_.checkpoints_path(), info, tensors));
  if (pending_) {
    HEDDLE_RETURN_IF_ERROR(directory_.Supersede(pending_->config, pending_->plan, pending_->step));
    pending_.reset();
  }
  HEDDLE_RETURN_IF_ERROR(PruneCheckpoints(directory_.path(), static_cast<int>(keep_)));
  return path;
}

std::string GoOnHint(const std::string& directory, const std::string& how) {
  const std::string with = how.empty() ? "" : " " + how;
  const auto checkpoints =
      directory.empty() ? std::vector<std::string>() : ListCheckpoints(directory);
  if (checkpoints.empty()) return "nothing was saved: start again" + with;
  const std::string& last = checkpoints.back();
  const std::optional<bool> whole = IsWhole(last);
  if (whole.value_or(true)) {
    return fmt::format("the last checkpoint{} is {}: go on{} by heddle run --resume {}",
                       whole ? "" : ", too large to look at now,", last, with, directory);
  }
  const auto good = std::find_if(checkpoints.rbegin(), checkpoints.rend(),
                                 [](const std::string& path) { return IsWhole(path) == true; });
  if (good == checkpoints.rend()) {
    return fmt::format("{} is damaged, and none is whole: start again{}", last, with);
  }
  return fmt::format("{} is damaged: go on{} by heddle run --resume {}", last, with, *good);
}

}  // namespace heddle
