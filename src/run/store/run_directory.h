// RunDirectory: everything one training run leaves on disk. docs/run-directory.md shows one.
//
//   runs/<name>/
//     config.json      options of the run, schema heddle.run-config/1
//     plan.json        the plan as run
//     log.jsonl        one JSON object per line, appended as training goes
//     timeline.json    what happened when, measured
//     checkpoints/     see checkpoint.h
//     lock             says who writes the run now, or did last (base/directory_claim.h)
//     config-until-<step>.json, plan-until-<step>.json   what the steps before were trained with
//
//   HEDDLE_ASSIGN(RunDirectory run, RunDirectory::CreateNamed("runs", "tiny-mlp", time(nullptr)));
//   HEDDLE_RETURN_IF_ERROR(run.WriteConfig(options));
//   HEDDLE_RETURN_IF_ERROR(run.Append({{"step", 1}, {"loss", 2.3}}));
//
// and later, to go on after step 100:
//
//   HEDDLE_ASSIGN(RunDirectory run, RunDirectory::Open("runs/tiny-mlp-2026-01-31-120000"));
//   HEDDLE_RETURN_IF_ERROR(run.ResumeAfter(100));
//
// A line of the log counts once it has its line break: a torn last line, left by a writer that was
// killed, is not read, and is removed by the next Append. One process writes a run, the one that
// has claimed it; any may read it.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/directory_claim.h"
#include "base/json_fwd.h"
#include "base/result.h"

namespace heddle {

inline constexpr const char* kRunConfigSchema = "heddle.run-config/1";

class RunDirectory {
 public:
  // Makes the directory, also around it; one that is there is taken if it does not hold a run.
  static Result<RunDirectory> Create(const std::string& path);

  // Makes `parent`/<model>-<date>-<time>, in local time, with -2, -3, … behind it when taken.
  static Result<RunDirectory> CreateNamed(const std::string& parent, std::string_view model,
                                          std::time_t now);

  // A run that is there. Changes nothing.
  static Result<RunDirectory> Open(const std::string& path);

  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&&) = delete;
  ~RunDirectory();

  // Before anything is written: the run is this process's while it lives, and nobody else's.
  Status Claim();

  const std::string& path() const { return path_; }
  std::string plan_path() const { return path_ + "/plan.json"; }
  std::string log_path() const { return path_ + "/log.jsonl"; }
  std::string timeline_path() const { return path_ + "/timeline.json"; }
  std::string config_path() const { return path_ + "/config.json"; }
  std::string checkpoints_path() const;  // for SaveCheckpoint

  // Each whole or not at all. The config is an object; its schema is added in front.
  Status WriteConfig(const Json& config) const;
  Status WritePlan(const std::string& text) const;
  Status WriteTimeline(const std::string& text) const;
  Result<Json> ReadConfig() const;  // with its schema, which is verified

  // Training went on after `step` under another config or plan: those before stay as
  // config-until-<step>.json and plan-until-<step>.json. A leg that is resumed from its own start
  // leaves what is kept already.
  Status Supersede(const Json& config, const std::string& plan, int64_t step) const;

  // Adds a line to the log; when it returns, the line outlives this process. On failure, as on a
  // full disk, the log is as it was.
  Status Append(const Json& line);

  // The lines of the log; none if there is no log yet.
  Result<std::vector<Json>> ReadLog() const;

  // Training goes on after `step`: the log's lines of later steps are dropped, so that each step
  // has one line, later checkpoints are set aside (DropCheckpointsAfter), and what a killed writer
  // left is removed. A line without a step belongs to the line before it.
  Status ResumeAfter(int64_t step);

 private:
  explicit RunDirectory(std::string path) : path_(std::move(path)) {}
  Status OpenLog();
  void CloseLog();

  std::string path_;
  std::optional<DirectoryClaim> claim_;
  int log_ = -1;  // opened by the first Append
};

// Where a run that is resumed goes on.
struct ResumePoint {
  std::string run;         // its directory; "": a checkpoint that belongs to no run
  std::string checkpoint;  // the one named, or the last of the run
};
// `path` is a run or one of its checkpoints.
Result<ResumePoint> FindResumePoint(const std::string& path);

// The lines of a log, but for a torn last one.
Result<std::vector<Json>> ParseRunLog(const std::string& text, const std::string& file);

// "gpt:layers=12" -> "gpt-layers-12": a letter or digit, then also _, . and -; at most 64 in all.
std::string RunNameOf(std::string_view model);

}  // namespace heddle
