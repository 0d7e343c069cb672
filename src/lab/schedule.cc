#include "lab/schedule.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace heddle {
namespace {

// When each forward and backward of `microbatches` starts. Stage s runs S - s forwards, then a
// backward and a forward in turn, each as soon as the stage is free and its input has come; stage 0
// admits a microbatch every forward + backward ticks, the rate of the full pipeline.
class OneFOneB {
 public:
  OneFOneB(const PipelineClock& clock, int64_t microbatches)
      : clock_(clock), microbatches_(microbatches), stages_(static_cast<size_t>(clock.stages)) {
    HEDDLE_CHECK(clock.stages >= 1 && clock.forward >= 1 && clock.backward >= 1 &&
                 clock.latency >= 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (int s = 0; s < clock.stages; ++s) moved = Advance(s) || moved;
    }
  }

  const std::vector<int64_t>& forwards(int s) const { return At(s).forwards; }
  const std::vector<int64_t>& backwards(int s) const { return At(s).backwards; }

 private:
  struct Stage {
    std::vector<int64_t> forwards, backwards;  // starts, by microbatch
    int64_t free = 0;
  };

  const Stage& At(int s) const { return stages_[static_cast<size_t>(s)]; }

  // The stage's next piece of work, if its input is known. Returns whether there was one.
  bool Advance(int s) {
    Stage& stage = stages_[static_cast<size_t>(s)];
    const auto forwards = static_cast<int64_t>(stage.forwards.size());
    const auto backwards = static_cast<int64_t>(stage.backwards.size());
    const bool forward = forwards < microbatches_ && forwards < backwards + clock_.stages - s;
    if (!forward && backwards == microbatches_) return false;
    int64_t input = 0;
    if (forward) {
      if (s > 0 && forwards >= static_cast<int64_t>(At(s - 1).forwards.size())) return false;
      input = s == 0 ? forwards * (clock_.forward + clock_.backward)
                     : At(s - 1).forwards[static_cast<size_t>(forwards)] + clock_.forward +
                           clock_.latency;
    } else if (s + 1 < clock_.stages) {
      if (backwards >= static_cast<int64_t>(At(s + 1).backwards.size())) return false;
      input =
          At(s + 1).backwards[static_cast<size_t>(backwards)] + clock_.backward + clock_.latency;
    }
    const int64_t start = std::max(input, stage.free);
    (forward ? stage.forwards : stage.backwards).push_back(start);
    stage.free = start + (forward ? clock_.forward : clock_.backward);
    return true;
  }

  PipelineClock clock_;
  int64_t microbatches_;
  std::vector<Stage> stages_;
};

}  // namespace

Schedule MakeSchedule(const PipelineClock& clock, int64_t end) {
  HEDDLE_CHECK(end >= 0 && end < std::numeric_limits<int32_t>::max());
  // Those admitted before the end, and those whose forwards come before the backwards of these.
  const int64_t microbatches = end / (clock.forward + clock.backward) + 1 + clock.stages;
  const OneFOneB starts(clock, microbatches);
  Schedule schedule;
  schedule.clock = clock;
  const auto add = [&](int64_t tick, int64_t microbatch, int stage, bool forward) {
    if (tick >= end) return;
    schedule.events.push_back({static_cast<int32_t>(tick), static_cast<int32_t>(microbatch),
                               static_cast<int16_t>(stage), forward});
    if (!forward) ++schedule.updates;
  };
  for (int s = 0; s < clock.stages; ++s) {
    for (int64_t m = 0; m < microbatches; ++m) {
      add(starts.forwards(s)[static_cast<size_t>(m)], m, s, true);
      add(starts.backwards(s)[static_cast<size_t>(m)] + clock.backward - 1, m, s, false);
    }
  }
  std::sort(schedule.events.begin(), schedule.events.end(), [](const Event& a, const Event& b) {
    return a.tick != b.tick ? a.tick < b.tick : a.stage < b.stage;
  });
  return schedule;
}

int64_t DrainedTicks(const PipelineClock& clock, int64_t microbatches) {
  if (microbatches == 0) return 0;
  return OneFOneB(clock, microbatches).backwards(0).back() + clock.backward;
}

std::vector<std::vector<int64_t>> BackwardEnds(const PipelineClock& clock, int64_t microbatches) {
  const OneFOneB starts(clock, microbatches);
  std::vector<std::vector<int64_t>> ends;
  for (int s = 0; s < clock.stages; ++s) {
    std::vector<int64_t>& of_stage = ends.emplace_back(starts.backwards(s));
    for (int64_t& end : of_stage) end += clock.backward;
  }
  return ends;
}

int64_t FlushTicks(const PipelineClock& clock, int64_t microbatches) {
  const int64_t slots = microbatches + clock.stages - 1;
  return slots * (clock.forward + clock.backward) + 2 * (clock.stages - 1) * clock.latency;
}

DelayCounts CountDelays(const Schedule& schedule, int64_t first, int64_t last) {
  const auto stages = static_cast<size_t>(schedule.clock.stages);
  DelayCounts counts;
  counts.own.assign(stages, 0);
  int64_t updates = 0, pairs = 0, sum = 0;
  std::vector<int64_t> of_block(stages);
  // By microbatch under way, of which there are S at most, and stage: the numbers of updates when
  // the forward read.
  std::vector<int64_t> read(stages * stages), read_own(stages * stages);
  for (const Event& event : schedule.events) {
    const auto s = static_cast<size_t>(event.stage);
    const size_t row = static_cast<size_t>(event.microbatch) % stages * stages;
    if (event.forward) {
      read[row + s] = updates;
      read_own[row + s] = of_block[s];
      continue;
    }
    if (event.microbatch >= first && event.microbatch <= last) {
      counts.own[s] = std::max(counts.own[s], of_block[s] - read_own[row + s]);
      int64_t squares = 0;
      for (size_t j = 0; j < stages; ++j) {
        const int64_t delay = updates - read[row + j];
        const int64_t of_own = of_block[j] - read_own[row + j];
        counts.most = std::max(counts.most, delay);
        sum += delay;
        ++pairs;
        squares += of_own * of_own;
      }
      counts.squares = std::max(counts.squares, squares);
    }
    ++updates;
    ++of_block[s];
  }
  counts.mean = static_cast<double>(sum) / static_cast<double>(std::max<int64_t>(pairs, 1));
  return counts;
}

DelayCounts SteadyDelays(const PipelineClock& clock) {
  const int64_t period = clock.forward + clock.backward + 2 * clock.latency;
  const Schedule schedule = MakeSchedule(clock, 8 * clock.stages * period);
  return CountDelays(schedule, 2 * clock.stages, 4 * clock.stages - 1);
}

}  // namespace heddle
