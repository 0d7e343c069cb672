// ShareConfig: which jobs run on the same devices, and how. `heddle share --run` makes one and gives
// it to heddle-worker as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_field.h"
#include "base/result.h"
#include "run/share/seat.h"
#include "run/share/turn_order.h"

namespace heddle {

struct ShareJobConfig {
  std::string name;
  std::string plan;     // path
  std::string profile;  // the one the plan was made with; empty: none
  std::string data = "synthetic";
  int64_t steps = 100;
  int64_t seed = 1;
  double learning_rate = 1e-3;
  double weight = 1;
};

struct ShareConfig {
  std::string directory;
  TurnOrder order = TurnOrder::kRotation;
  ShareManner manner = ShareManner::kTurns;  // of the shared part
  bool serial = true;     // first each job alone, one after the other
  bool emulate = false;   // pace to the plans' cluster
  double dilate = 0;      // how much slower time goes then; 0: chosen
  std::vector<ShareJobConfig> jobs;
};

Json ShareJobToJson(const ShareJobConfig& job);
Result<ShareJobConfig> ShareJobFromJson(const JsonField& json);
Json ShareConfigToJson(const ShareConfig& config);
Result<ShareConfig> ShareConfigFromJson(const JsonField& json);

}  // namespace heddle
