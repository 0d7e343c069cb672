#include "plan/order/pipe_run.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "base/check.h"

namespace heddle {

bool PipeRun::Message::operator<(const Message& other) const {
  return std::tuple(ready, microbatch, !backward, cut) >
         std::tuple(other.ready, other.microbatch, !other.backward, other.cut);
}

PipeRun::PipeRun(const PipeShape& shape) : shape_(shape), channels_of_(shape) {
  stages_.resize(shape.stages);
  channels_.resize(channels_of_.count);
  end_.resize(stages_.size() + channels_.size(), 0);
  progress_.resize(static_cast<size_t>(shape.places()) * shape.microbatches);
  for (int m = 0; m < shape.microbatches; ++m) At(0, m).forward_arrived = true;
}

void PipeRun::Run(Chooser& chooser) {
  for (int s = 0; s < shape_.stages; ++s) Ask(chooser, s);
  while (!events_.empty()) {
    now_ = events_.top().time;
    touched_.clear();
    while (!events_.empty() && events_.top().time <= now_) {
      const int machine = events_.top().machine;
      events_.pop();
      Finish(machine);
    }
    for (const int machine : touched_) {
      if (machine < shape_.stages) {
        Ask(chooser, machine);
      } else {
        Serve(machine - shape_.stages);
      }
    }
  }
}

bool PipeRun::Ready(const PlacedWork& work) const {
  const Progress& at = progress_[work.place * shape_.microbatches + work.microbatch];
  switch (work.kind) {
    case WorkKind::kForward:
      return at.forward_arrived && !at.forward_done;
    case WorkKind::kBackward:
    case WorkKind::kInput:
      return at.forward_done && at.backward_arrived && !at.backward_done;
    case WorkKind::kWeight:
      break;
  }
  return at.backward_done && !at.weight_done;
}

double PipeRun::NextArrival(int stage) const {
  double next = std::numeric_limits<double>::infinity();
  for (size_t c = 0; c < channels_.size(); ++c) {
    if (!channels_[c].busy) continue;
    const Message& message = channels_[c].message;
    if (shape_.chunks[message.cut + (message.backward ? 0 : 1)].stage == stage) {
      next = std::min(next, end_[shape_.stages + c]);
    }
  }
  for (int s = 0; s < shape_.stages; ++s) {
    if (!stages_[s].busy || stages_[s].work.kind == WorkKind::kWeight) continue;
    const bool backward = stages_[s].work.kind != WorkKind::kForward;
    const int cut = stages_[s].work.place - (backward ? 1 : 0);
    if (cut < 0 || cut + 1 >= shape_.places()) continue;
    if (shape_.chunks[cut + (backward ? 0 : 1)].stage != stage) continue;
    next = std::min(next, end_[s] + shape_.CutSeconds(cut, backward));
  }
  return next;
}

void PipeRun::Ask(Chooser& chooser, int s) {
  Stage& stage = stages_[s];
  if (stage.busy) return;
  const std::optional<PlacedWork> work = chooser.Next(*this, s);
  if (!work) return;
  HEDDLE_CHECK(shape_.chunks[work->place].stage == s && Ready(*work));
  if (work->kind == WorkKind::kForward) stage.memory += shape_.chunks[work->place].kept;
  stage.peak = std::max(stage.peak, stage.memory);
  if (!stage.started) stage.first_start = now_;
  stage.started = true;
  stage.busy = true;
  stage.work = *work;
  end_[s] = now_ + shape_.Seconds(work->kind, work->place);
  events_.push({end_[s], s});
}

void PipeRun::Serve(int c) {
  Channel& channel = channels_[c];
  if (channel.busy || channel.waiting.empty()) return;
  channel.busy = true;
  channel.message = channel.waiting.top();
  channel.waiting.pop();
  const int machine = shape_.stages + c;
  end_[machine] = now_ + shape_.CutSeconds(channel.message.cut, channel.message.backward);
  events_.push({end_[machine], machine});
}

void PipeRun::Finish(int machine) {
  touched_.push_back(machine);
  if (machine < shape_.stages) {
    FinishWork(stages_[machine]);
    return;
  }
  Channel& channel = channels_[machine - shape_.stages];
  channel.busy = false;
  Arrive(channel.message.cut, channel.message.backward, channel.message.microbatch);
}

void PipeRun::FinishWork(Stage& stage) {
  const PlacedWork& work = stage.work;
  stage.busy = false;
  stage.last_end = now_;
  stage.memory -= shape_.Released(work.kind, work.place);
  Progress& at = At(work.place, work.microbatch);
  if (work.kind == WorkKind::kForward) {
    at.forward_done = true;
    if (work.place + 1 < shape_.places()) {
      Send(work.place, false, work.microbatch);
    } else {
      at.backward_arrived = true;
    }
    return;
  }
  if (work.kind != WorkKind::kInput) at.weight_done = true;
  if (work.kind == WorkKind::kWeight) return;
  at.backward_done = true;
  if (work.place > 0) Send(work.place - 1, true, work.microbatch);
}

void PipeRun::Send(int cut, bool backward, int microbatch) {
  const int channel = backward ? channels_of_.backward[cut] : channels_of_.forward[cut];
  if (channel < 0) {
    Arrive(cut, backward, microbatch);
    return;
  }
  channels_[channel].waiting.push({now_, cut, backward, microbatch});
  touched_.push_back(shape_.stages + channel);
}

void PipeRun::Arrive(int cut, bool backward, int microbatch) {
  const int place = backward ? cut : cut + 1;
  Progress& at = At(place, microbatch);
  (backward ? at.backward_arrived : at.forward_arrived) = true;
  touched_.push_back(shape_.chunks[place].stage);
}

}  // namespace heddle
