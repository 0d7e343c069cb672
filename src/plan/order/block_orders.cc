#include "plan/order/block_orders.h"

#include <algorithm>

#include "base/check.h"
#include "plan/order/pipe_run.h"
#include "plan/order/work_left.h"

namespace heddle {
namespace {

struct TimedWork {
  double time = 0;
  PlacedWork work;
};

// The way of one microbatch, without weight parts.
std::vector<TimedWork> MakeBlock(const PipeShape& shape, const BlockPauses& pauses,
                                 double interval) {
  std::vector<TimedWork> block;
  const int last = shape.places() - 1;
  const auto leg_ends_after = [&](int place) { return (place + 1) % shape.stages == 0; };
  double time = 0;
  for (int k = 0; k <= last; ++k) {
    block.push_back({time, {WorkKind::kForward, k, 0}});
    time += shape.chunks[k].forward;
    if (k == last) break;
    time += shape.CutSeconds(k, false);
    const double pause = k < shape.stages ? pauses.first_forward : pauses.later_forward;
    if (!leg_ends_after(k)) time += pause * interval;
  }
  const WorkKind backward = shape.split ? WorkKind::kInput : WorkKind::kBackward;
  for (int k = last; k >= 0; --k) {
    block.push_back({time, {backward, k, 0}});
    if (k == 0) break;
    time += shape.Seconds(backward, k) + shape.CutSeconds(k - 1, true);
    const double pause = k < shape.stages ? pauses.last_backward : pauses.early_backward;
    if (!leg_ends_after(k - 1)) time += pause * interval;
  }
  return block;
}

// The stage with most to do takes this long for a microbatch.
double Interval(const PipeShape& shape) {
  std::vector<double> work(shape.stages, 0);
  for (const PipeShape::Chunk& chunk : shape.chunks) {
    work[chunk.stage] += chunk.forward + chunk.input + chunk.weight;
  }
  return *std::max_element(work.begin(), work.end());
}

class Repeat : public PipeRun::Chooser {
 public:
  Repeat(const PipeShape& shape, const BlockPauses& pauses, double limit)
      : shape_(shape),
        limit_(limit * (1 + 1e-9)),
        left_(shape),
        places_(shape.PlacesByStage()),
        lists_(shape.stages),
        at_(shape.stages, 0),
        weights_(shape.stages),
        orders_(shape.stages) {
    const double interval = Interval(shape);
    const std::vector<TimedWork> block = MakeBlock(shape, pauses, interval);
    for (int m = 0; m < shape.microbatches; ++m) {
      for (TimedWork timed : block) {
        timed.time += m * interval;
        timed.work.microbatch = m;
        lists_[shape.chunks[timed.work.place].stage].push_back(timed);
      }
    }
    for (std::vector<TimedWork>& list : lists_) {
      std::stable_sort(list.begin(), list.end(),
                       [](const TimedWork& a, const TimedWork& b) { return a.time < b.time; });
    }
  }

  std::optional<PlacedWork> Next(const PipeRun& run, int stage) override {
    if (too_late_) return std::nullopt;
    const std::optional<PlacedWork> work = Preferred(run, stage);
    if (!work) return std::nullopt;
    too_late_ = left_.Start(*work, run.now()) > limit_;
    if (too_late_) return std::nullopt;
    Take(stage, *work);
    return work;
  }

  // Of the run that is over. Stages never wait of their own accord, so its times are the orders'.
  std::optional<TimedOrders> TakeOrders(const PipeRun& run) {
    if (too_late_) return std::nullopt;
    double makespan = 0;
    for (int s = 0; s < shape_.stages; ++s) {
      if (at_[s] < lists_[s].size()) return std::nullopt;
      makespan = std::max(makespan, run.last_end(s));
      HEDDLE_CHECK(FitsLimit(run.peak(s), shape_.limit(s)));
    }
    return TimedOrders{std::move(orders_), makespan};
  }

 private:
  std::optional<PlacedWork> Preferred(const PipeRun& run, int stage) {
    if (at_[stage] < lists_[stage].size()) {
      const PlacedWork& work = lists_[stage][at_[stage]].work;
      const double taken = work.kind == WorkKind::kForward ? shape_.chunks[work.place].kept : 0;
      if (run.Ready(work) && FitsLimit(run.memory(stage) + taken, shape_.limit(stage))) {
        ++at_[stage];
        if (work.kind == WorkKind::kInput) {
          weights_[stage].push({WorkKind::kWeight, work.place, work.microbatch});
        }
        return work;
      }
    }
    if (weights_[stage].empty()) return std::nullopt;
    const PlacedWork work = weights_[stage].front();
    weights_[stage].pop();
    return work;
  }

  void Take(int stage, const PlacedWork& work) {
    const auto chunk = std::find(places_[stage].begin(), places_[stage].end(), work.place);
    orders_[stage].push_back(
        {work.kind, static_cast<int32_t>(chunk - places_[stage].begin()), work.microbatch});
  }

  const PipeShape& shape_;
  double limit_;
  bool too_late_ = false;
  WorkLeft left_;
  std::vector<std::vector<int>> places_;
  std::vector<std::vector<TimedWork>> lists_;  // by stage: forwards and backwards
  std::vector<size_t> at_;                     // by stage: the place in its list
  std::vector<std::queue<PlacedWork>> weights_;
  std::vector<WorkOrder> orders_;
};

}  // namespace

std::optional<TimedOrders> BlockOrders(const PipeShape& shape, const BlockPauses& pauses,
                                       double limit) {
  CheckShape(shape);
  HEDDLE_CHECK(shape.LayoutOf() != PipeShape::Layout::kOther);
  Repeat chooser(shape, pauses, limit);
  PipeRun run(shape);
  run.Run(chooser);
  return chooser.TakeOrders(run);
}

}  // namespace heddle
