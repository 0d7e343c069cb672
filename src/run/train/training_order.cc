#include "run/train/training_order.h"

#include <algorithm>

namespace heddle {
namespace {

// The steps of the next part, up to the next stop.
int64_t StepsOfPart(const TrainingState& state, const TrainingStops& stops) {
  constexpr double kPartSeconds = 0.5;
  constexpr int64_t kToCalibrate = 3;
  const int64_t left = stops.After(state.done) - state.done;
  const int64_t body = stops.per_body(), outside = stops.outside();
  if (state.calibrates) {
    const int64_t steps = std::min(std::max(kToCalibrate * body, 2 * outside), left);
    return left - steps < outside ? left : steps;
  }
  if (state.one_part) return left;
  const double wanted = state.step_seconds > 0 ? kPartSeconds / state.step_seconds : 1;
  return std::clamp<int64_t>(static_cast<int64_t>(wanted) / body * body, body, left);
}

// After the last step, or when somebody wants it to end.
void OrderTheEnd(const TrainingState& state, TrainingOrder& order) {
  order.end = true;
  order.evaluate = state.trained && order.stopped_by == 0 && state.looked != state.done;
  order.save = state.trained && state.saved != state.done;
}

}  // namespace

TrainingOrder NextOrder(const TrainingState& state, const RunConfig& config,
                        const TrainingStops& stops) {
  TrainingOrder order;
  order.bad = state.bad.has_value();
  order.what = state.bad.value_or(NotFinite{});
  order.stopped_by = state.done < config.steps ? state.asked_to_stop : 0;
  if (state.done == config.steps || order.stopped_by != 0) {
    OrderTheEnd(state, order);
  } else if (config.elastic && state.saved < 0) {
    order.save = true;  // a start to go back to
  } else {
    order.steps = StepsOfPart(state, stops);
    order.dilation = state.dilation;
    const int64_t until = state.done + order.steps;
    const bool stop = until == stops.After(state.done);
    order.evaluate = stop && stops.Looks(until);
    order.save = stop && stops.Saves(until);
    order.compare = stop && stops.Compares(until);
  }
  return order;
}

}  // namespace heddle
