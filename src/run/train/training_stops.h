// TrainingStops: after which steps something else than training is due.
//
//   TrainingStops stops(config, StepsPerBody(program), StepsOutsideBody(program));
//   stops.After(step)    ->  the next step at which to look, save or compare; the last at the end
#pragma once

#include <cstdint>

#include "base/result.h"
#include "run/run_config.h"

namespace heddle {

class TrainingStops {
 public:
  // `per_body`: steps of a round; `outside`: steps that filling and draining takes.
  TrainingStops(const RunConfig& config, int64_t per_body, int64_t outside)
      : config_(config), per_body_(per_body), outside_(outside) {}

  int64_t per_body() const { return per_body_; }
  int64_t outside() const { return outside_; }

  int64_t After(int64_t step) const;
  bool Looks(int64_t step) const { return Due(config_.eval_every, step); }
  bool Saves(int64_t step) const { return Due(config_.save_every, step); }
  bool Compares(int64_t step) const { return Due(config_.check_every, step); }

  // An asynchronous pipeline has to be filled and drained between two stops, and rounds are whole.
  Status Check(int64_t done) const;

 private:
  static bool Due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

  const RunConfig& config_;
  int64_t per_body_, outside_;
};

}  // namespace heddle
