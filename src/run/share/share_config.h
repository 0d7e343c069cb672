// ShareConfig: which jobs run on the same devices, and how. `heddle share --run` makes one and
// gives it to heddle-worker as JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json_field.h"
#include "base/result.h"
#include "run/share/seat.h"
#include "turns/period_model.h"
#include "turns/turn_order.h"

namespace heddle {

struct ShareJobConfig {
  std::string name;
  std::string plan;     // path
  std::string profile;  // the one the plan was made with; empty: none
  std::string data = "synthetic";
  int64_t steps = 100;
  int64_t seed = 1;
  double learning_rate = 1e-3;
  std::optional<DType> dtype = {};  // f32 or f64; the plan's unless given
  double weight = 1;
  std::optional<JobTimes> times;  // of a step alone, as planned; nothing: the worker's own model
  Seconds predicted = {};         // of a step among the others, simulated; 0: unknown
};

struct ShareConfig {
  std::string directory;
  TurnOrder order = TurnOrder::kRotation;
  Seconds switch_cost;                       // modelled; counts in the order `deficit`
  ShareManner manner = ShareManner::kTurns;  // of the shared part
  bool serial = true;                        // first each job alone, one after the other
  bool emulate = false;                      // pace to the plans' cluster
  double dilate = 0;                         // how much slower time goes then; 0: chosen
  double lease = 0;      // seconds that a job may keep others waiting; 0: chosen
  double silence = 1.5;  // seconds without a sign of life after which a process has stopped
  bool pin = false;      // device k computes on core k
  // Over shaped links between network namespaces (shaped_links.h), at this part of the rates of the
  // plans' cluster in the time that passes here. 0: not; an emulated network is paced then.
  double shaped = 0;
  std::vector<ShareJobConfig> jobs;
  // Jobs that are there at the same time, by number; groups follow each other. Empty: all at once.
  std::vector<std::vector<int32_t>> groups;
  // The open file that has the directory's claim (base/directory_claim.h); -1: none has.
  int32_t claim = -1;

  std::chrono::milliseconds Silence() const {
    return std::chrono::milliseconds(static_cast<int64_t>(1e3 * silence));
  }
};

Json ShareJobToJson(const ShareJobConfig& job);
Result<ShareJobConfig> ShareJobFromJson(const JsonField& json);
Json ShareConfigToJson(const ShareConfig& config);
Result<ShareConfig> ShareConfigFromJson(const JsonField& json);

}  // namespace heddle
