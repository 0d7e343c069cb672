// PipeRun: a pipeline in simulated time. Stages and channels do one thing at a time; a channel
// serves the message that has waited longest (ties: the oldest microbatch, then backward); what an
// idle stage does is for a Chooser to say.
//
//   class OldestFirst : public PipeRun::Chooser { … };
//   PipeRun run(shape);
//   run.Run(chooser);                 // until nothing moves any more
//   run.now();                        // the makespan
//
// A stage is asked whenever it is idle and something arrived or ended there. All that happens at
// one moment has happened before anybody is asked.
#pragma once

#include <optional>
#include <queue>
#include <vector>

#include "plan/order/pipe_channels.h"
#include "plan/order/pipe_shape.h"

namespace heddle {

class PipeRun {
 public:
  class Chooser {
   public:
    virtual ~Chooser() = default;
    // What the stage starts now: something Ready, or nothing.
    virtual std::optional<PlacedWork> Next(const PipeRun& run, int stage) = 0;
  };

  // The shape must outlive it. REQUIRES: CheckShape.
  explicit PipeRun(const PipeShape& shape);

  void Run(Chooser& chooser);

  const PipeShape& shape() const { return shape_; }
  double now() const { return now_; }
  double memory(int stage) const { return stages_[stage].memory; }
  double peak(int stage) const { return stages_[stage].peak; }
  double first_start(int stage) const { return stages_[stage].first_start; }
  double last_end(int stage) const { return stages_[stage].last_end; }

  // Its inputs are there, and it was not yet done.
  bool Ready(const PlacedWork& work) const;
  // The earliest moment at which a message to the stage can come, of those that are being sent or
  // computed now; infinity if there is none.
  double NextArrival(int stage) const;

 private:
  struct Message {
    double ready = 0;
    int cut = 0;
    bool backward = false;
    int microbatch = 0;
    // For a priority queue, whose top is its largest.
    bool operator<(const Message& other) const;
  };
  struct Stage {
    bool busy = false;
    PlacedWork work;
    double memory = 0, peak = 0;
    double first_start = 0, last_end = 0;
    bool started = false;
  };
  struct Channel {
    bool busy = false;
    Message message;
    std::priority_queue<Message> waiting;
  };
  struct Event {
    double time = 0;
    int machine = 0;  // stages first, then channels
    bool operator<(const Event& other) const { return time > other.time; }
  };
  // What one microbatch has come to in one chunk.
  struct Progress {
    bool forward_arrived = false, forward_done = false;
    bool backward_arrived = false, backward_done = false;
    bool weight_done = false;
  };

  Progress& At(int place, int microbatch) {
    return progress_[place * shape_.microbatches + microbatch];
  }
  void Ask(Chooser& chooser, int stage);
  void Serve(int channel);
  void Finish(int machine);
  void FinishWork(Stage& stage);
  void Send(int cut, bool backward, int microbatch);
  void Arrive(int cut, bool backward, int microbatch);

  const PipeShape& shape_;
  PipeChannels channels_of_;
  double now_ = 0;
  std::vector<Stage> stages_;
  std::vector<Channel> channels_;
  std::vector<Progress> progress_;  // by place and microbatch
  std::vector<double> end_;         // by machine: when what it does ends
  std::priority_queue<Event> events_;
  std::vector<int> touched_;  // machines that may have something to start now
};

}  // namespace heddle
