#include "run/train/run_pace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>

namespace heddle {

MeasuredWork RunPace::WorkOf(std::span<const TimelineEvent> events) const {
  MeasuredWork work;
  int32_t last = 0;
  for (const TimelineEvent& event : events) last = std::max(last, event.repetition);
  for (const TimelineEvent& event : events) {
    if (event.repetition != last) continue;
    const double real = (event.end - event.start).value;
    const double modelled = emulation_->ModelledSeconds(rank_, event.label);
    work.seconds += real;
    if (modelled > 0) work.longest_ratio = std::max(work.longest_ratio, real / modelled);
  }
  return work;
}

std::string RunPace::Calibrate(std::span<const TimelineEvent> events, RankMessages& messages,
                               double asked, double body_seconds, int64_t steps) {
  MeasuredWork all;
  for (const ByteString& bytes :
       messages.ToFirst(ToBytes(std::vector<MeasuredWork>{WorkOf(events)}))) {
    const MeasuredWork work = OneFromBytes<MeasuredWork>(bytes);
    all.longest_ratio = std::max(all.longest_ratio, work.longest_ratio);
    all.seconds += work.seconds;
  }
  if (!messages.is_first()) return "";
  const double step_seconds = body_seconds / static_cast<double>(steps);
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  const double fitting =
      std::max(kLeastDilatedStep / step_seconds, DilationForWork(all, cores, body_seconds));
  const double links_are_real = 1;  // and do not go slower
  dilation_ = asked > 0 ? asked : emulation_->devices_only() ? links_are_real : fitting;
  return emulation_->devices_only()
             ? fmt::format("devices are paced, messages are not; time goes {:.3g} times slower",
                           dilation_)
             : fmt::format("time goes {:.3g} times slower, so that real work fits in", dilation_);
}

void RunPace::CountDeadlines(RankMessages& messages, RunResult& result) const {
  if (emulation_ == nullptr) return;
  // Threads share an emulation, processes have one each.
  const bool mine = emulation_->devices_only() || messages.is_first();
  const std::vector<int64_t> counts = {mine ? emulation_->deadlines() : 0,
                                       mine ? emulation_->missed() : 0};
  for (const ByteString& bytes : messages.ToFirst(ToBytes(counts))) {
    const auto theirs = OneFromBytes<std::array<int64_t, 2>>(bytes);
    result.deadlines += theirs[0];
    result.missed += theirs[1];
  }
}

void RunPace::Describe(RunResult& result) const {
  if (dilation_ == 0) return;
  result.emulated = true;
  result.dilation = dilation_;
  result.measured_iteration_seconds /= dilation_;
  result.timeline.source = "emulated";
  for (TimelineEvent& event : result.timeline.events) {
    event.start = event.start / dilation_;
    event.end = event.end / dilation_;
  }
}

}  // namespace heddle
