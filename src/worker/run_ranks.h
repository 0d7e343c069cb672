// The ranks of a run: processes that this one forks and watches, or one of those that a launcher
// started.
#pragma once

#include <memory>
#include <string>

#include "run/launched_rank.h"
#include "run/rank_attendance.h"
#include "run/train/train.h"
#include "worker/commands.h"
#include "worker/run_front.h"

namespace heddle {

// The first thing a launched rank does (rank_attendance.h).
Result<std::shared_ptr<RankAttendance>> AttendMeeting(const RunConfig& config,
                                                      const LaunchedRank& launched);

// Each returns the exit code. `loaded` is where the training's plan came from.
Result<int> RunLaunched(const Training& training, const LoadedPlan& loaded,
                        RankAttendance& attendance, RunFront& front);
Result<int> RunInProcesses(const Training& training, const LoadedPlan& loaded, RunFront& front);

// Trains in processes; whenever a device is lost, goes on without it.
Result<int> RunElastic(const PlanAndProfile& both, RunConfig config, bool as_json);

}  // namespace heddle
