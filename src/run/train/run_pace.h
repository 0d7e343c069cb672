// RunPace: how a run keeps the time of a cluster that is not here (run/emulation.h). Without an
// emulation it changes nothing.
//
//   RunPace pace(emulation, rank, communicator);
//   pace.Follow(order.dilation);                    // all ranks, while nobody computes
//   pace.Calibrate(events, messages, …)             // after a part that was not paced
#pragma once

#include <memory>
#include <span>
#include <string>

#include "run/communicator.h"
#include "run/dilation.h"
#include "run/emulation.h"
#include "run/executor.h"
#include "run/rank_messages.h"
#include "run/train/train.h"
#include "timeline/timeline.h"

namespace heddle {

class RunPace {
 public:
  RunPace(Emulation* emulation, int32_t rank, Communicator& communicator)
      : emulation_(emulation),
        rank_(rank),
        paced_(emulation ? emulation->Pace(rank, communicator) : nullptr),
        communicator_(paced_ ? *paced_ : communicator) {}

  Communicator& communicator() { return communicator_; }
  // Null without an emulation.
  std::unique_ptr<Executor> Pace(Executor& executor) {
    return emulation_ ? emulation_->Pace(rank_, executor) : nullptr;
  }

  // How much slower time goes, at the first rank; 0 before it is known.
  double dilation() const { return dilation_; }
  bool calibrates() const { return emulation_ != nullptr && emulation_->dilation() == 0; }
  // Threads of a process share an emulation, other processes have their own.
  void Follow(double dilation) {
    if (dilation > 0 && calibrates()) emulation_->SetDilation(dilation);
  }

  // After some steps that were not paced: how much slower must time go, so that real work fits into
  // modelled time, with the other devices at work beside it? All ranks call it; the first gets a
  // line for people. `asked`: the dilation, if it is not 0. `body_seconds`: modelled, of a body of
  // `steps`.
  std::string Calibrate(std::span<const TimelineEvent> events, RankMessages& messages, double asked,
                        double body_seconds, int64_t steps);

  // All ranks; the first gets the deadlines of all, and times in modelled seconds.
  void CountDeadlines(RankMessages& messages, RunResult& result) const;
  void Describe(RunResult& result) const;

 private:
  // Of the last repetition.
  MeasuredWork WorkOf(std::span<const TimelineEvent> events) const;

  Emulation* emulation_;
  int32_t rank_;
  std::unique_ptr<Communicator> paced_;
  Communicator& communicator_;
  double dilation_ = 0;
};

}  // namespace heddle
