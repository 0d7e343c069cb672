#include "plan/order/order_clock.h"

#include <algorithm>

#include "base/check.h"
#include "plan/order/pipe_run.h"

namespace heddle {
namespace {

constexpr double kUnknown = -1;

// Goes down the given lists.
class InOrder : public PipeRun::Chooser {
 public:
  InOrder(const std::vector<WorkOrder>& orders, const std::vector<std::vector<int>>& places,
          std::vector<std::vector<double>>& starts)
      : orders_(orders), places_(places), starts_(starts) {}

  std::optional<PlacedWork> Next(const PipeRun& run, int stage) override {
    const size_t at = starts_[stage].size();
    if (at == orders_[stage].size()) return std::nullopt;
    const WorkItem& item = orders_[stage][at];
    const PlacedWork work{item.kind, places_[stage][item.chunk], item.microbatch};
    if (!run.Ready(work)) return std::nullopt;
    starts_[stage].push_back(run.now());
    return work;
  }

 private:
  const std::vector<WorkOrder>& orders_;
  const std::vector<std::vector<int>>& places_;
  std::vector<std::vector<double>>& starts_;
};

}  // namespace

OrderClock::OrderClock(const PipeShape& shape)
    : shape_(shape),
      channels_(shape),
      places_(shape.PlacesByStage()),
      starts_(shape.stages),
      is_waiting_(shape.stages) {}

bool OrderClock::Run(const std::vector<WorkOrder>& orders) {
  stages_.assign(shape_.stages, {});
  for (std::vector<double>& starts : starts_) starts.clear();
  waiting_.clear();
  shape_.half_duplex ? RunByEvents(orders) : RunByLists(orders);
  for (int s = 0; s < shape_.stages; ++s) {
    if (done(s) < orders[s].size()) return false;
  }
  return true;
}

void OrderClock::RunByEvents(const std::vector<WorkOrder>& orders) {
  InOrder chooser(orders, places_, starts_);
  PipeRun run(shape_);
  run.Run(chooser);
  for (int s = 0; s < shape_.stages; ++s) {
    stages_[s].free = run.last_end(s);
    stages_[s].peak = run.peak(s);
  }
}

void OrderClock::Begin() {
  stages_.assign(shape_.stages, {});
  // Nobody waits to be looked at again.
  is_waiting_.assign(shape_.stages, true);
  Reset();
}

double OrderClock::Do(const PlacedWork& work) {
  Stage& stage = stages_[shape_.chunks[work.place].stage];
  const double ready =
      ReadyAt(work.kind, progress_[work.place * shape_.microbatches + work.microbatch]);
  HEDDLE_CHECK(ready >= 0);
  const double start = std::max(ready, stage.free);
  Finish(work, stage, start);
  return start;
}

void OrderClock::Reset() {
  channel_free_.assign(channels_.count, 0);
  progress_.assign(static_cast<size_t>(shape_.places()) * shape_.microbatches,
                   {kUnknown, kUnknown, false, false, false});
  for (int m = 0; m < shape_.microbatches; ++m) progress_[m].forward_at = 0;
}

void OrderClock::RunByLists(const std::vector<WorkOrder>& orders) {
  Reset();
  for (int s = 0; s < shape_.stages; ++s) {
    waiting_.push_back(s);
    is_waiting_[s] = true;
  }
  while (!waiting_.empty()) {
    const int s = waiting_.back();
    waiting_.pop_back();
    is_waiting_[s] = false;
    while (done(s) < orders[s].size()) {
      const WorkItem& item = orders[s][done(s)];
      const int place = places_[s][item.chunk];
      const double ready =
          ReadyAt(item.kind, progress_[place * shape_.microbatches + item.microbatch]);
      if (ready < 0) break;
      const double start = std::max(ready, stages_[s].free);
      starts_[s].push_back(start);
      Finish({item.kind, place, item.microbatch}, stages_[s], start);
    }
  }
}

double OrderClock::ReadyAt(WorkKind kind, const Progress& at) {
  switch (kind) {
    case WorkKind::kForward:
      return at.forward_done ? kUnknown : at.forward_at;
    case WorkKind::kBackward:
    case WorkKind::kInput:
      return at.forward_done && !at.backward_done ? at.backward_at : kUnknown;
    case WorkKind::kWeight:
      break;
  }
  return at.backward_done && !at.weight_done ? 0 : kUnknown;
}

void OrderClock::Finish(const PlacedWork& work, Stage& stage, double start) {
  const auto [kind, place, microbatch] = work;
  if (kind == WorkKind::kForward) stage.memory += shape_.chunks[place].kept;
  stage.peak = std::max(stage.peak, stage.memory);
  stage.free = start + shape_.Seconds(kind, place);
  stage.memory -= shape_.Released(kind, place);
  Progress& at = progress_[place * shape_.microbatches + microbatch];
  if (kind == WorkKind::kForward) {
    at.forward_done = true;
    if (place + 1 < shape_.places()) {
      Send(place, false, microbatch, stage.free);
    } else {
      at.backward_at = stage.free;
    }
    return;
  }
  if (kind != WorkKind::kInput) at.weight_done = true;
  if (kind == WorkKind::kWeight) return;
  at.backward_done = true;
  if (place > 0) Send(place - 1, true, microbatch, stage.free);
}

void OrderClock::Send(int cut, bool backward, int microbatch, double now) {
  const int channel = (backward ? channels_.backward : channels_.forward)[cut];
  double arrival = now;
  if (channel >= 0) {
    double& free = channel_free_[channel];
    free = std::max(free, now) + shape_.CutSeconds(cut, backward);
    arrival = free;
  }
  const int place = backward ? cut : cut + 1;
  Progress& at = progress_[place * shape_.microbatches + microbatch];
  (backward ? at.backward_at : at.forward_at) = arrival;
  const int stage = shape_.chunks[place].stage;
  if (is_waiting_[stage]) return;
  is_waiting_[stage] = true;
  waiting_.push_back(stage);
}

}  // namespace heddle
