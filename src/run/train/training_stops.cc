#include "run/train/training_stops.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

int64_t TrainingStops::After(int64_t step) const {
  int64_t next = config_.steps;
  for (const int64_t every : {config_.eval_every, config_.save_every, config_.check_every}) {
    if (every > 0) next = std::min(next, (step / every + 1) * every);
  }
  return next;
}

Status TrainingStops::Check(int64_t done) const {
  if (outside_ == 0 && per_body_ == 1) return Ok();
  for (int64_t step = done; step < config_.steps;) {
    const int64_t next = After(step);
    if ((next - step) % per_body_ != 0) {
      return BadInput(
          "--steps",
          fmt::format("{} steps from {} to the next stop are not whole rounds", next - step, step),
          fmt::format("replicas are averaged every {} steps; give multiples of that "
                      "for --steps, --eval-every, --save-every and --check-every",
                      per_body_));
    }
    if (next - step < outside_) {
      return BadInput(
          "--steps",
          fmt::format("{} steps from {} to the next stop are too few", next - step, step),
          fmt::format("this asynchronous pipeline needs {} to fill and drain; "
                      "--eval-every, --save-every and --check-every are stops too",
                      outside_));
    }
    step = next;
  }
  return Ok();
}

}  // namespace heddle
