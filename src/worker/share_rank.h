// A job of a share in its processes: the one that leads it, and a rank for each device.
#pragma once

#include <string>

#include "base/result.h"
#include "run/share/board.h"
#include "run/share/share_config.h"
#include "worker/share_jobs.h"

namespace heddle {

// One go at running some of the jobs.
struct SharePhase {
  std::string name;  // also a folder of the share's directory
  ShareManner manner = ShareManner::kAlone;
  bool ordered = true;
  double dilation = 0;
  int64_t steps = 0;  // 0: the job's own
};

struct ShareRun {
  const ShareConfig& config;
  const ShareJob& job;
  SharePhase phase;
  Board board;
  int32_t number = 0;  // on the board

  std::string directory() const;
  std::string NotesPath(int32_t rank) const;
};

// The life of a job's first process: forks the ranks and watches them.
Status LeadShareJob(const ShareRun& run);

// What the ranks of a job that ended well noted down.
Result<std::vector<RankNotes>> ReadNotes(const ShareRun& run);

}  // namespace heddle
