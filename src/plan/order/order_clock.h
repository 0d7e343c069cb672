// OrderClock: when everything happens if each stage goes down its list, for the many orders of a
// search; order_times.h is the same for one.
//
// Where each direction has a channel of its own, a channel carries messages in the order its sender
// made them, so that all times follow from the orders alone and no events need be sorted: each
// stage goes on as far as its inputs are known. Half duplex channels serve who comes first, and
// need a PipeRun. O(items), or O(items · log stages); memory is kept from one run to the next.
#pragma once

#include <vector>

#include "plan/order/pipe_channels.h"
#include "plan/order/pipe_shape.h"

namespace heddle {

class OrderClock {
 public:
  // The shape must outlive it. REQUIRES: CheckShape.
  explicit OrderClock(const PipeShape& shape);

  // False when the stages wait for each other for ever; `done` then says how far each came.
  bool Run(const std::vector<WorkOrder>& orders);

  // The same piece by piece: each in the order of its stage, and after those whose outputs it
  // needs. Says when the work starts. REQUIRES: not half duplex.
  void Begin();
  double Do(const PlacedWork& work);

  // Of the last run, by stage.
  const std::vector<std::vector<double>>& starts() const { return starts_; }
  size_t done(int stage) const { return starts_[stage].size(); }
  double first_start(int s) const { return starts_[s].empty() ? 0 : starts_[s].front(); }
  double last_end(int s) const { return stages_[s].free; }
  double peak(int s) const { return stages_[s].peak; }

 private:
  struct Stage {
    double free = 0;  // when it ends what it has begun
    double memory = 0, peak = 0;
  };
  // What one microbatch has come to in one chunk; times at which inputs come, negative: not known.
  struct Progress {
    double forward_at, backward_at;
    bool forward_done, backward_done, weight_done;
  };

  void Reset();
  void RunByEvents(const std::vector<WorkOrder>& orders);
  void RunByLists(const std::vector<WorkOrder>& orders);
  // When the work can start, negative: not known.
  static double ReadyAt(WorkKind kind, const Progress& at);
  void Finish(const PlacedWork& work, Stage& stage, double start);
  void Send(int cut, bool backward, int microbatch, double now);

  const PipeShape& shape_;
  PipeChannels channels_;
  std::vector<std::vector<int>> places_;
  std::vector<Stage> stages_;
  std::vector<double> channel_free_;
  std::vector<Progress> progress_;  // by place and microbatch
  std::vector<std::vector<double>> starts_;
  std::vector<int> waiting_;  // stages that may be able to go on
  std::vector<bool> is_waiting_;
};

}  // namespace heddle
