#include "plan/order/greedy_orders.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "plan/order/order_clock.h"
#include "plan/order/pipe_run.h"
#include "plan/order/work_left.h"

namespace heddle {
namespace {

class Greedy : public PipeRun::Chooser {
 public:
  Greedy(const PipeShape& shape, const GreedyRule& rule, double limit)
      : shape_(shape),
        rule_(rule),
        limit_(limit * (1 + 1e-9)),
        left_(shape),
        places_(shape.PlacesByStage()),
        next_(shape.chunks.size(), {0, 0, 0}),
        orders_(shape.stages) {
    if (rule.patience <= 0) return;
    if (shape.half_duplex) {
      limit_ = std::numeric_limits<double>::infinity();
    } else {
      clock_.emplace(shape).Begin();
    }
  }

  std::optional<PlacedWork> Next(const PipeRun& run, int stage) override {
    if (too_late_) return std::nullopt;
    const std::optional<PlacedWork> work = Preferred(run, stage);
    if (!work || Waits(run, stage, *work)) return std::nullopt;
    // A stage that was patient here is not when it goes down its list.
    const double start = clock_ ? clock_->Do(*work) : run.now();
    too_late_ = left_.Start(*work, start) > limit_;
    if (too_late_) return std::nullopt;
    Take(stage, *work);
    return work;
  }

  // Of the run that is over.
  std::optional<TimedOrders> TakeOrders(const PipeRun& run) {
    if (too_late_) return std::nullopt;
    double makespan = 0;
    std::optional<OrderClock> clock = std::move(clock_);
    if (!clock && rule_.patience > 0) HEDDLE_CHECK(clock.emplace(shape_).Run(orders_));
    for (int s = 0; s < shape_.stages; ++s) {
      makespan = std::max(makespan, clock ? clock->last_end(s) : run.last_end(s));
      HEDDLE_CHECK(FitsLimit(run.peak(s), shape_.limit(s)));
    }
    return TimedOrders{std::move(orders_), makespan};
  }

 private:
  enum Part { kForwardPart, kBackwardPart, kWeightPart };

  std::optional<PlacedWork> Preferred(const PipeRun& run, int stage) const {
    std::array<Part, 3> parts = {kBackwardPart, kForwardPart, kWeightPart};
    if (rule_.forward_first) std::swap(parts[0], parts[1]);
    if (rule_.weight_before_forward) std::swap(parts[1], parts[2]);
    for (const Part part : parts) {
      if (const std::optional<PlacedWork> work = First(run, stage, part)) return work;
    }
    return std::nullopt;
  }

  // The first of the stage's chunks, in the rule's direction, that has such work ready.
  std::optional<PlacedWork> First(const PipeRun& run, int stage, Part part) const {
    const std::vector<int>& places = places_[stage];
    const bool from_back = (part == kForwardPart) == rule_.nearest_end_first;
    std::optional<PlacedWork> found;
    for (size_t c = places.size(); c-- > 0;) {
      const PlacedWork work = NextOf(places[c], part);
      if (work.microbatch == shape_.microbatches || !run.Ready(work)) continue;
      if (part == kForwardPart && !HasRoom(run, stage, work)) continue;
      if (!found || !from_back) found = work;
    }
    return found;
  }

  // Room for the forward, and besides for the oldest microbatch that has forwards left on this
  // stage to do them: it shares the stage with younger ones only, since older ones will end without
  // it.
  bool HasRoom(const PipeRun& run, int stage, const PlacedWork& forward) const {
    const double limit = shape_.limit(stage);
    double needed = run.memory(stage);
    for (const int place : places_[stage]) {
      const bool later = rule_.room_for_later_chunks && place > forward.place;
      if (later || place == forward.place) needed += shape_.chunks[place].kept;
    }
    if (!FitsLimit(needed, limit)) return false;
    const int oldest = next_[places_[stage].back()][kForwardPart];
    double kept = 0;
    for (const int place : places_[stage]) {
      const int started = next_[place][kForwardPart] + (place == forward.place ? 1 : 0);
      kept += shape_.chunks[place].kept * std::max(1, started - oldest);
    }
    return FitsLimit(kept, limit);
  }

  PlacedWork NextOf(int place, Part part) const {
    const WorkKind backward = shape_.split ? WorkKind::kInput : WorkKind::kBackward;
    const WorkKind kind = part == kForwardPart    ? WorkKind::kForward
                          : part == kBackwardPart ? backward
                                                  : WorkKind::kWeight;
    return {kind, place, next_[place][part]};
  }

  bool Waits(const PipeRun& run, int stage, const PlacedWork& work) const {
    const bool backward = work.kind == WorkKind::kBackward || work.kind == WorkKind::kInput;
    if (backward || rule_.patience <= 0) return false;
    const double worth = rule_.patience * shape_.Seconds(work.kind, work.place);
    return run.NextArrival(stage) < run.now() + worth;
  }

  void Take(int stage, const PlacedWork& work) {
    const Part part = work.kind == WorkKind::kForward  ? kForwardPart
                      : work.kind == WorkKind::kWeight ? kWeightPart
                                                       : kBackwardPart;
    ++next_[work.place][part];
    const auto chunk = std::find(places_[stage].begin(), places_[stage].end(), work.place);
    orders_[stage].push_back(
        {work.kind, static_cast<int32_t>(chunk - places_[stage].begin()), work.microbatch});
  }

  const PipeShape& shape_;
  const GreedyRule& rule_;
  double limit_;
  bool too_late_ = false;
  WorkLeft left_;
  std::optional<OrderClock> clock_;  // without the patience
  std::vector<std::vector<int>> places_;
  std::vector<std::array<int, 3>> next_;  // by place and part: the next microbatch
  std::vector<WorkOrder> orders_;
};

}  // namespace

std::optional<TimedOrders> GreedyOrdersWithin(const PipeShape& shape, const GreedyRule& rule,
                                              double limit) {
  CheckShape(shape);
  HEDDLE_CHECK(shape.HasRoom());
  Greedy chooser(shape, rule, limit);
  PipeRun run(shape);
  run.Run(chooser);
  return chooser.TakeOrders(run);
}

std::vector<WorkOrder> GreedyOrders(const PipeShape& shape, const GreedyRule& rule) {
  return GreedyOrdersWithin(shape, rule, std::numeric_limits<double>::infinity())->orders;
}

std::optional<TimedOrders> EventDrivenOrdersWithin(const PipeShape& shape, double limit) {
  PipeShape whole = shape;
  whole.split = false;
  return GreedyOrdersWithin(whole, {}, limit);
}

std::vector<WorkOrder> EventDrivenOrders(const PipeShape& shape) {
  return EventDrivenOrdersWithin(shape, std::numeric_limits<double>::infinity())->orders;
}

}  // namespace heddle
