// A plan whose model is a layer profile: devices keep its time, nothing is computed.
#pragma once

#include <string>
#include <vector>

#include "plan/planning.h"
#include "run/run_config.h"
#include "run/train/train.h"

namespace heddle {

// `given` are the options that were, by their names in JSON: those about training are refused.
Result<RunResult> RunProfiled(const LoadedPlan& loaded, const RunConfig& config,
                              const std::vector<std::string>& given, const RunListener& listener);

}  // namespace heddle
