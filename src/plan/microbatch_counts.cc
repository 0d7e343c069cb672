#include "plan/microbatch_counts.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Tuner {
 public:
  using Fit = CountTuning::Fit;

  Tuner(const Planning& planning, const CountTuning& tuning)
      : planning_(planning), tuning_(tuning) {}

  Status Run() {
    std::vector<int64_t> usual, beyond;
    for (const int64_t count : MicrobatchCounts(planning_, tuning_.unit)) {
      (count <= tuning_.usual ? usual : beyond).push_back(count);
    }
    std::stable_sort(usual.begin(), usual.end(),
                     [&](int64_t a, int64_t b) { return BoundOf(a) < BoundOf(b); });
    for (const int64_t count : usual) HEDDLE_RETURN_IF_ERROR(Try(count));
    const auto in_vain =
        std::count_if(usual.begin(), usual.end(), [&](int64_t count) { return count > best_; });
    HEDDLE_RETURN_IF_ERROR(Climb(beyond, in_vain));
    return Refine();
  }

 private:
  double BoundOf(int64_t count) {
    const auto [bound, is_new] = bounds_.try_emplace(count, 0);
    if (is_new) bound->second = tuning_.bound(count);
    return bound->second;
  }

  Status Try(int64_t count) {
    if (planning_.deadline.passed() || BoundOf(count) >= seconds_) return Ok();
    if (!tried_.insert(count).second) return Ok();
    HEDDLE_ASSIGN(const CountTuning::Trial trial, tuning_.attempt(count));
    fits_[count] = trial.fit;
    if (trial.fit == Fit::kNone || trial.seconds >= seconds_) return Ok();
    seconds_ = trial.seconds;
    best_ = count;
    return Ok();
  }

  // Smaller microbatches leave fewer gaps and need less memory; each costs something of its own.
  // Where some doublings in a row did not help no further one will, unless it is memory that keeps
  // the best from its full speed.
  Status Climb(const std::vector<int64_t>& beyond, int64_t in_vain) {
    for (const int64_t count : beyond) {
      if (in_vain >= tuning_.in_vain && PlainFits()) break;
      const double before = seconds_;
      HEDDLE_RETURN_IF_ERROR(Try(count));
      in_vain = seconds_ < before ? 0 : in_vain + 1;
    }
    return Ok();
  }

  bool PlainFits() const {
    return std::any_of(fits_.begin(), fits_.end(),
                       [](const auto& fit) { return fit.second == Fit::kPlain; });
  }

  Status Refine() {
    for (int round = 0; round < kRefinements && seconds_ < kInfinity; ++round) {
      for (const int64_t count : CountsNear(planning_, best_, round, tuning_.unit)) {
        if (Promising(count)) HEDDLE_RETURN_IF_ERROR(Try(count));
      }
    }
    return Ok();
  }

  // If it is as far from its bound as the best is from its own. Where memory decides nothing is
  // foreseen: a threshold may lie between.
  bool Promising(int64_t count) {
    const bool memory_decides = std::any_of(
        fits_.begin(), fits_.end(), [](const auto& fit) { return fit.second != Fit::kPlain; });
    return memory_decides || BoundOf(count) < BoundOf(best_);
  }

  const Planning& planning_;
  const CountTuning& tuning_;
  std::map<int64_t, double> bounds_;
  std::map<int64_t, Fit> fits_;  // of those tried
  std::set<int64_t> tried_;
  int64_t best_ = 0;
  double seconds_ = kInfinity;
};

}  // namespace

std::vector<int64_t> MicrobatchCounts(const Planning& planning, int64_t unit) {
  if (const auto given = planning.request.microbatches) {
    return *given % unit == 0 ? std::vector<int64_t>{*given} : std::vector<int64_t>{};
  }
  std::vector<int64_t> counts;
  const int64_t most = planning.request.batch / unit;
  for (int64_t m = 1; m <= most; m *= 2) counts.push_back(m * unit);
  if (!counts.empty() && counts.back() < most * unit) counts.push_back(most * unit);
  return counts;
}

std::vector<int64_t> CountsNear(const Planning& planning, int64_t best, int round, int64_t unit) {
  if (planning.request.microbatches) return {};
  // 3/4 and 3/2 of it, then 7/8 and 5/4.
  const int64_t part = int64_t{2} << round;
  std::vector<int64_t> counts;
  for (const int64_t count : {best - best / (2 * part), best + best / part}) {
    const int64_t whole = count / unit * unit;
    if (whole > 0 && whole != best && whole <= planning.request.batch) counts.push_back(whole);
  }
  return counts;
}

Status TuneMicrobatches(const Planning& planning, const CountTuning& tuning) {
  return Tuner(planning, tuning).Run();
}

}  // namespace heddle
