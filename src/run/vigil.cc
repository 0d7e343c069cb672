#include "run/vigil.h"

#include <algorithm>

namespace heddle {

void Vigil::SeeWork(const SignOfLife& sign, Clock::Time now) {
  if (sign.place != last_.place) {
    if (last_.work != SignOfLife::kNoWork) {
      double& longest = longest_[last_.work];
      longest = std::max(longest, SecondsIn(now - moved_));
    }
    moved_ = busy_ = now;
    moved_cpu_ = busy_cpu_ = sign.cpu_seconds;
  }
  // Over a second at least: processors count in small steps.
  const double since = std::max(1.0, SecondsIn(now - busy_));
  if (sign.cpu_seconds - busy_cpu_ > kBusyShare * since) {
    busy_ = now;
    busy_cpu_ = sign.cpu_seconds;
  }
}

Vigil::Verdict Vigil::Look(const SignOfLife& sign, Clock::Time now) {
  if (sign.beats != last_.beats) heard_ = now;
  SeeWork(sign, now);
  last_ = sign;
  if (now - heard_ > silence_) return Verdict::kSilent;
  if (sign.work == SignOfLife::kNoWork || patience_ == 0) return Verdict::kWell;
  const auto seen = longest_.find(sign.work);
  const double should_take = seen != longest_.end() ? seen->second : sign.predicted;
  const double limit = std::max(kStuckLeast, patience_ * should_take);
  const double idle = SecondsIn(now - busy_);
  const double used = sign.cpu_seconds - moved_cpu_;
  return std::max(idle, used) > limit ? Verdict::kStuck : Verdict::kWell;
}

}  // namespace heddle
