#include "run/process_watcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include "base/stop_signals.h"

namespace heddle {
namespace {

// After the first failure: time for others to be seen, so that the cause is not taken for an
// effect.
constexpr std::chrono::milliseconds kGather{300}, kPause{20};

bool Aborted(const std::optional<ProcessExit>& ended) { return ended && ended->signal == SIGABRT; }

// A process that gives up because it lost another ends itself.
bool WasKilled(const std::optional<ProcessExit>& ended) {
  return ended && ended->signal != 0 && !Aborted(ended);
}

std::string HowItEnded(const ProcessExit& exit) {
  if (exit.signal != 0) return exit.ToString();
  return fmt::format("left before the others, with exit code {}", exit.code);
}

}  // namespace

ProcessWatcher::ProcessWatcher(std::span<ProcessSlot> slots,
                               std::vector<std::unique_ptr<Process>> processes,
                               const ProcessWatch& watch)
    : slots_(slots), watch_(watch), clock_(*watch.clock), attended_(clock_.Now(), watch.silence) {
  for (std::unique_ptr<Process>& process : processes) {
    children_.push_back({std::move(process), Vigil(watch.silence, watch.patience, clock_.Now())});
  }
}

Status ProcessWatcher::Watch() {
  while (AnyLives()) {
    if (const int signal = Asked(); signal != 0 && slots_[0].stop == 0) {
      slots_[0].stop = signal;
      watch_.asked_to_stop();
    }
    if (InterruptsSince() > 0) {
      KillAll();
      at_once_ = true;
      return Ok();
    }
    Reap();
    LookAtTheLiving();
    if (first_failure_ && clock_.Now() - *first_failure_ > kGather) break;
    clock_.SleepFor(kPause);
  }
  if (!first_failure_) return Ok();
  KillAll();
  return Cause();
}

void ProcessWatcher::KillAll() {
  for (Child& child : children_) {
    if (!child.lives()) continue;
    child.process->Kill();
    child.killed = true;
  }
}

// By whom it may be: schedulers tell all processes of a job, or only some.
int ProcessWatcher::Asked() const {
  if (FirstStop() != 0) return FirstStop();
  for (const ProcessSlot& slot : slots_) {
    if (const int signal = slot.asked) return signal;
  }
  return 0;
}

bool ProcessWatcher::AnyLives() const {
  return std::any_of(children_.begin(), children_.end(),
                     [](const Child& child) { return child.lives(); });
}

void ProcessWatcher::Reap() {
  for (size_t rank = 0; rank < children_.size(); ++rank) {
    Child& child = children_[rank];
    if (!child.lives() || !(child.ended = child.process->Look())) continue;
    child.order = left_++;
    const bool well = child.ended->well() && slots_[rank].done;
    if (!well && !first_failure_) first_failure_ = clock_.Now();
  }
}

void ProcessWatcher::LookAtTheLiving() {
  const Clock::Time now = attended_.At(clock_.Now());
  for (size_t k = 0; k < children_.size(); ++k) {
    Child& child = children_[k];
    if (!child.lives() || child.hung != nullptr) continue;
    const ProcessSlot& slot = slots_[k];
    const WorkAt work = watch_.work(slot.progress, static_cast<int32_t>(k));
    const Vigil::Verdict verdict =
        child.vigil.Look({slot.beats, slot.progress.packed(), work.segment, work.predicted,
                          static_cast<double>(slot.cpu_milliseconds) * 1e-3},
                         now);
    if (verdict == Vigil::Verdict::kWell) continue;
    child.hung = verdict == Vigil::Verdict::kSilent ? "does not answer: it is stopped or hangs"
                                                    : "does not get on: it is stuck";
    child.order = left_++;
    if (!first_failure_) first_failure_ = clock_.Now();
  }
}

// It ended without a word: neither done nor with an error.
bool ProcessWatcher::LeftSilently(size_t rank) const {
  const std::optional<ProcessExit>& ended = children_[rank].ended;
  return ended && ended->signal == 0 && !slots_[rank].done && slots_[rank].failed == 0;
}

bool ProcessWatcher::Failed(size_t rank, bool lost_a_peer) const {
  return slots_[rank].failed != 0 && slots_[rank].lost_a_peer == lost_a_peer;
}

// Killed, hung or left silently before aborted, aborted before failed, failed before having lost
// another; among equals the first to leave.
Error ProcessWatcher::Cause() {
  const auto first = [&](const auto& is_one) -> std::optional<size_t> {
    std::optional<size_t> found;
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      if (!is_one(rank)) continue;
      if (!found || children_[rank].order < children_[*found].order) found = rank;
    }
    return found;
  };
  if (const auto rank = first([&](size_t k) {
        return children_[k].hung != nullptr || WasKilled(children_[k].ended) || LeftSilently(k);
      })) {
    const Child& child = children_[*rank];
    lost_ = static_cast<int32_t>(*rank);
    return Describe(*rank, child.hung != nullptr ? child.hung : HowItEnded(*child.ended));
  }
  if (const auto rank = first([&](size_t k) { return Aborted(children_[k].ended); })) {
    return Describe(*rank, HowItEnded(*children_[*rank].ended));
  }
  for (const bool lost_a_peer : {false, true}) {
    const auto rank = first([&](size_t k) { return Failed(k, lost_a_peer); });
    if (rank) return WhyItFailed(*rank);
  }
  return {ErrorKind::kRunFailed, "run", "a process ended without saying why", ""};
}

Error ProcessWatcher::WhyItFailed(size_t rank) const {
  const ProcessSlot& slot = slots_[rank];
  const auto kind = static_cast<ErrorKind>(slot.failed.load());
  if (kind == ErrorKind::kRunFailed && slot.where[0] == 0) {
    return Describe(rank, std::string("failed: ") + slot.what.data());
  }
  Error error{kind, slot.where.data(), slot.what.data(),
              slot.hint.data()};  // says what it is about
  if (kind == ErrorKind::kRunFailed && error.hint.empty()) error.hint = watch_.hint(slots_[0]);
  if (kind != ErrorKind::kRunFailed && !AllSay(error.what)) {
    error.what += ", at " + watch_.name(static_cast<int32_t>(rank));
  }
  return error;
}

// What all have found is nobody's in particular.
bool ProcessWatcher::AllSay(const std::string& what) const {
  return std::all_of(slots_.begin(), slots_.end(), [&](const ProcessSlot& slot) {
    return slot.failed != 0 && what == slot.what.data();
  });
}

Error ProcessWatcher::Describe(size_t rank, const std::string& what) const {
  const auto number = static_cast<int32_t>(rank);
  const std::string place = watch_.place(slots_[rank].progress, number);
  return {ErrorKind::kRunFailed, watch_.name(number), what + (place.empty() ? "" : ", " + place),
          watch_.hint(slots_[0])};
}

}  // namespace heddle
