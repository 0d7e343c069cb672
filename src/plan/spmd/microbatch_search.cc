#include "plan/spmd/microbatch_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/family_bound.h"
#include "plan/least_memory.h"
#include "plan/microbatch_counts.h"

namespace heddle {
namespace {

// All of one size: where a number does not divide the batch the next one that does.
int64_t DividingCount(int64_t batch, int64_t count) {
  count = std::min(count, batch);
  while (batch % count != 0) ++count;
  return count;
}

class PartSearch {
 public:
  PartSearch(const Planning& planning, const std::string& strategy, const ProgramFinder& find,
             Best& best)
      : planning_(planning), strategy_(strategy), find_(find), best_(best) {}

  // What is found for so many microbatches. Says whether any of it fits.
  Result<bool> Try(int64_t microbatches) {
    if (late()) return false;
    Result<std::vector<SpmdCandidate>> candidates = CandidatesFor(microbatches);
    if (!candidates.ok()) {
      if (candidates.error().kind != ErrorKind::kInfeasible) return candidates.error();
      refused_ = candidates.error();
      return false;
    }
    return TryCandidates(std::move(candidates).value(), microbatches);
  }

  // The fewest that fit, and then more as long as they help. Those that would nearly fill all
  // memory at best are left out: what they need beyond that is too much, and a search that finds
  // nothing takes longest. From there in growing steps, then between the last that did not fit and
  // it.
  Status TryAll(const std::vector<int64_t>& counts) {
    const auto likely = std::find_if(counts.begin(), counts.end() - 1,
                                     [&](int64_t count) { return FillOf(count) <= kNearlyFull; });
    const auto start = static_cast<size_t>(likely - counts.begin());
    std::vector<bool> tried(counts.size(), false);
    const auto fits_at = [&](size_t k) -> Result<bool> {
      tried[k] = true;
      return Try(counts[k]);
    };
    size_t k = start, below = start;  // all up to `below` are too few
    HEDDLE_ASSIGN(bool fits, fits_at(k));
    for (size_t step = 1; !fits && k + 1 < counts.size() && !late(); step *= 2) {
      below = k + 1;
      k = std::min(k + step, counts.size() - 1);
      HEDDLE_ASSIGN(fits, fits_at(k));
    }
    if (!fits) return Ok();
    while (below < k && !late()) {
      const size_t middle = below + (k - below) / 2;
      HEDDLE_ASSIGN(fits, fits_at(middle));
      (fits ? k : below) = fits ? middle : middle + 1;
    }
    const bool forced = counts[k] > 1;
    return forced || squeezed_ ? Climb(counts, k + 1, tried) : Ok();
  }

  bool late() const { return planning_.options.deadline.passed(); }

  const std::optional<Error>& refused() const { return refused_; }
  void AddToRefused(const std::string& note) {
    best_.Note(note);
    if (refused_) refused_->hint += "; " + note;
  }

 private:
  // The search for a part of the batch. It counts sums of gradients and updates in every microbatch
  // though they come once: the plans fit, and are not sure to be the best.
  Result<std::vector<SpmdCandidate>> CandidatesFor(int64_t microbatches) const {
    if (microbatches == 1) return find_(planning_);
    PlanOptions options = planning_.options;
    options.batch = planning_.options.batch / microbatches;
    HEDDLE_ASSIGN(const Planning part,
                  Planning::Make(options, *planning_.cluster, planning_.profile));
    return find_(part);
  }

  Result<bool> TryCandidates(std::vector<SpmdCandidate> candidates, int64_t microbatches) {
    squeezed_ = candidates[0].squeezed;
    // A few at a time: once there is a good one, the memory of slower ones need not be checked.
    constexpr size_t kTogether = 4;
    bool fits = false;
    std::vector<Plan> plans;
    std::vector<std::string> how;
    for (size_t k = 0; k < candidates.size(); ++k) {
      SpmdCandidate& candidate = candidates[k];
      Plan plan = planning_.Blank(strategy_, "");
      plan.microbatches = microbatches;
      plan.spmd = std::move(candidate.plan);
      if (microbatches > 1) candidate.how += fmt::format(", {} microbatches", microbatches);
      plans.push_back(plan);
      how.push_back(candidate.how);
      if (microbatches > 1) {
        plan.spmd->converts_each = true;
        plans.push_back(std::move(plan));
        how.push_back(candidate.how + ", gradients exchanged after each");
      }
      if (plans.size() < kTogether && k + 1 < candidates.size()) continue;
      HEDDLE_ASSIGN(const std::vector<Best::Outcome> outcomes,
                    best_.TryAll(std::exchange(plans, {}), std::exchange(how, {})));
      for (const Best::Outcome outcome : outcomes) fits |= outcome != Best::Outcome::kDoesNotFit;
    }
    return fits;
  }

  // From counts[k] on, without those tried. Where the programs are small two that do not help are
  // no reason to stop, and the smallest parts are looked at: what was given up may fit only there.
  Status Climb(const std::vector<int64_t>& counts, size_t k, const std::vector<bool>& tried) {
    int in_vain = 0;
    for (; k < counts.size() && in_vain < (IsSmall(counts[k]) ? 2 : 1) && !late(); ++k) {
      if (tried[k]) continue;
      const double before = best_.seconds();
      const double bound = FamilyBound(planning_, /*divides_ops=*/true, counts[k]).value;
      if (bound < before) HEDDLE_RETURN_IF_ERROR(Try(counts[k]));
      in_vain = best_.seconds() < before ? 0 : in_vain + 1;
    }
    for (size_t last = counts.size(); last > k && IsSmall(counts[last - 1]) && !late(); --last) {
      const double before = best_.seconds();
      if (!tried[last - 1]) HEDDLE_RETURN_IF_ERROR(Try(counts[last - 1]));
      if (!tried[last - 1] && best_.seconds() >= before) break;
    }
    return Ok();
  }

  // The part of all devices' memory that any program needs.
  double FillOf(int64_t count) const {
    const auto rows = static_cast<double>(planning_.options.batch / count);
    return LeastMemoryOf(planning_).With(rows) / MemoryOfAll(planning_);
  }

  // A program has every op of every microbatch.
  bool IsSmall(int64_t count) const {
    constexpr int64_t kSmall = 100'000;
    return count * std::ssize(planning_.graph.ops()) * planning_.cluster->device_count() <= kSmall;
  }

  static constexpr double kNearlyFull = 0.75;

  const Planning& planning_;
  const std::string& strategy_;
  const ProgramFinder& find_;
  Best& best_;
  bool squeezed_ = false;  // whether memory made the last plans slower
  std::optional<Error> refused_;
};

// Powers of two, each as the next divisor of the batch, that may fit at all.
std::vector<int64_t> CountsFor(const Planning& planning) {
  const int64_t batch = planning.options.batch;
  const LeastMemory least = LeastMemoryOf(planning);
  const double memory = MemoryOfAll(planning);
  std::vector<int64_t> counts;
  for (const int64_t power : MicrobatchCounts(planning)) {
    const int64_t count = DividingCount(batch, power);
    if (!counts.empty() && counts.back() == count) continue;
    const bool hopeless = least.With(static_cast<double>(batch / count)) > memory;
    if (!hopeless || count == batch) counts.push_back(count);
  }
  return counts;
}

// Takes away, and gives back, those whose programs have more than so many ops on all devices: a
// program has every op of every microbatch.
std::vector<int64_t> TakeLarge(const Planning& planning, int64_t most_ops,
                               std::vector<int64_t>& counts) {
  const int64_t ops = std::ssize(planning.graph.ops()) * planning.cluster->device_count();
  const auto large = std::find_if(counts.begin() + 1, counts.end(),
                                  [&](int64_t count) { return count * ops > most_ops; });
  std::vector<int64_t> taken(large, counts.end());
  counts.erase(large, counts.end());
  return taken;
}

}  // namespace

Result<std::optional<Error>> TryPrograms(const Planning& planning, const std::string& strategy,
                                         const ProgramFinder& find, Best& best) {
  if (const auto too_large = TooLargeForAll(planning, strategy, 1)) return too_large;
  PartSearch search(planning, strategy, find, best);
  if (const auto given = planning.options.microbatches) {
    const int64_t count = DividingCount(planning.options.batch, *given);
    if (count != *given) best.Note(fmt::format("{} microbatches: all of one size", count));
    HEDDLE_RETURN_IF_ERROR(search.Try(count));
    return search.refused();
  }
  // Programs of millions of ops take long to simulate, and are looked at only where nothing else
  // fits; of tens of millions there is no room for.
  constexpr int64_t kLong = 1'500'000, kTooLong = 6'000'000;
  std::vector<int64_t> counts = CountsFor(planning);
  const std::vector<int64_t> too_long = TakeLarge(planning, kTooLong, counts);
  const std::vector<int64_t> longer = TakeLarge(planning, kLong, counts);
  HEDDLE_RETURN_IF_ERROR(search.TryAll(counts));
  if (best.microbatches() == 0 && !longer.empty()) {
    HEDDLE_RETURN_IF_ERROR(search.TryAll(longer));
  }
  if (best.microbatches() == 0 && !too_long.empty()) {
    search.AddToRefused(fmt::format(
        "{} microbatches and more were not tried: such programs are too long", too_long.front()));
  }
  for (int round = 0; round < kRefinements && best.microbatches() > 0; ++round) {
    for (const int64_t count : CountsNear(planning, best.microbatches(), round)) {
      const bool divides = planning.options.batch % count == 0;
      if (divides && !planning.options.deadline.passed()) {
        HEDDLE_RETURN_IF_ERROR(search.Try(count));
      }
    }
  }
  return search.refused();
}

}  // namespace heddle
