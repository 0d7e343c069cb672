#include "plan/spmd/microbatch_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/family_bound.h"
#include "plan/few_microbatches.h"
#include "plan/least_memory.h"
#include "plan/microbatch_counts.h"
#include "plan/spmd/certificate.h"
#include "plan/spmd/schedule_bound.h"

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
      squeezed_ = true;
      if (microbatches >= refused_count_) refused_ = candidates.error();
      refused_count_ = std::max(refused_count_, microbatches);
      return false;
    }
    return TryCandidates(std::move(candidates).value(), microbatches);
  }

  // The fewest that fit, then more, then fewer, as they may be faster. Those that would nearly fill
  // all memory at best come last: what they need beyond that is too much, and a search that finds
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
    while (fits && below < k && !late()) {
      const size_t middle = below + (k - below) / 2;
      HEDDLE_ASSIGN(const bool middle_fits, fits_at(middle));
      (middle_fits ? k : below) = middle_fits ? middle : middle + 1;
    }
    HEDDLE_RETURN_IF_ERROR(Climb({counts.begin() + static_cast<std::ptrdiff_t>(k), counts.end()},
                                 {tried.begin() + static_cast<std::ptrdiff_t>(k), tried.end()}));
    std::vector<int64_t> below_it;
    for (size_t other = k; other-- > 0;) {
      if (!tried[other] && IsSmall(counts[other])) below_it.push_back(counts[other]);
    }
    return TryFaster(below_it);
  }

  // Those of them that may be faster than the best.
  Status TryFaster(const std::vector<int64_t>& counts) {
    for (const int64_t count : counts) {
      if (late()) break;
      if (MayBeFaster(count)) HEDDLE_RETURN_IF_ERROR(Try(count));
    }
    return Ok();
  }

  bool late() { return best_.late(); }

  const std::optional<Error>& refused() const { return refused_; }
  void AddToRefused(const std::string& note) {
    best_.Note(note);
    if (refused_) refused_->hint += "; " + note;
  }

 private:
  // The search for a part of the batch. It counts sums of gradients and updates in every microbatch
  // though they come once: the plans fit, and are not sure to be the best.
  Result<std::vector<SpmdCandidate>> CandidatesFor(int64_t microbatches) const {
    const SpmdAim aim{microbatches, best_.seconds()};
    if (microbatches == 1 && planning_.deadline.never()) return find_(planning_, aim);
    PlanRequest request = planning_.request;
    request.batch /= microbatches;
    HEDDLE_ASSIGN(const Planning part,
                  Planning::Make(request, *planning_.cluster, planning_.profile, best_.deadline()));
    return find_(part, aim);
  }

  struct Version {
    Plan plan;
    std::string how;
    StepTimes times;
    bool fits;  // by estimate
  };

  std::vector<Version> VersionsOf(std::vector<SpmdCandidate> candidates, int64_t microbatches) {
    std::vector<Version> versions;
    for (SpmdCandidate& candidate : candidates) {
      Plan plan = planning_.Blank(strategy_, "");
      plan.microbatches = microbatches;
      plan.spmd = std::move(candidate.plan);
      if (microbatches > 1) candidate.how += fmt::format(", {} microbatches", microbatches);
      versions.push_back({plan, candidate.how, candidate.times, candidate.fits});
      if (microbatches == 1) continue;
      plan.spmd->converts_each = true;
      versions.push_back({std::move(plan), candidate.how + ", gradients exchanged after each",
                          candidate.times_each, candidate.fits_each});
    }
    std::stable_sort(versions.begin(), versions.end(), [](const Version& a, const Version& b) {
      return a.times.likely() < b.times.likely();
    });
    return versions;
  }

  // What looks fastest first; what cannot be the fastest any more is not lowered. Nor is what is
  // not likely to be where a Program is large, and such one at a time: simulating it takes seconds.
  Result<bool> TryCandidates(std::vector<SpmdCandidate> candidates, int64_t microbatches) {
    constexpr double kSure = 1.05;
    const bool large = IsLargeProgram(planning_, microbatches);
    const size_t together = large ? 1 : 2;
    squeezed_ = candidates[0].squeezed;
    std::vector<Version> versions = VersionsOf(std::move(candidates), microbatches);
    // Where nothing has room by the estimate, all is looked at, for the one that lacks least.
    const bool must_fit = best_.plan() || std::any_of(versions.begin(), versions.end(),
                                                      [](const Version& one) { return one.fits; });
    const auto worthwhile = [&](const Version& version) {
      if (version.times.least >= best_.seconds()) return false;
      if (!large) return true;
      return (version.fits || !must_fit) && version.times.expected < kSure * best_.seconds();
    };
    bool fits =
        best_.microbatches() > 0 && std::none_of(versions.begin(), versions.end(), worthwhile);
    for (size_t k = 0; k < versions.size();) {
      std::vector<Plan> plans;
      std::vector<std::string> how;
      for (; plans.size() < together && k < versions.size(); ++k) {
        if (!worthwhile(versions[k])) continue;
        plans.push_back(std::move(versions[k].plan));
        how.push_back(std::move(versions[k].how));
      }
      if (plans.empty()) break;
      HEDDLE_ASSIGN(const std::vector<Best::Outcome> outcomes,
                    best_.TryAll(std::move(plans), std::move(how)));
      for (const Best::Outcome outcome : outcomes) fits |= outcome != Best::Outcome::kDoesNotFit;
    }
    return fits;
  }

  bool MayBeFaster(int64_t count) const {
    return FamilyBound(planning_, /*divides_ops=*/true, count).value < best_.seconds();
  }

  // More and more. Smaller microbatches need less memory and cost something each: where a doubling
  // did not help no further one will; of small programs, two, and all as long as memory makes plans
  // slower. Where memory is plenty a large one is searched in parts only if it is faster in two as
  // it is.
  Status Climb(const std::vector<int64_t>& counts, const std::vector<bool>& tried) {
    int in_vain = 0;
    if (counts[0] == 1 && counts.size() > 1 && !squeezed_ && !IsTiny(1)) {
      HEDDLE_ASSIGN(const bool faster, FasterInParts(counts[1]));
      if (!faster) return Ok();
    }
    for (size_t k = 0; k < counts.size() && !late(); ++k) {
      if (tried[k] || !MayBeFaster(counts[k])) continue;
      const double before = best_.seconds();
      HEDDLE_RETURN_IF_ERROR(Try(counts[k]));
      in_vain = best_.seconds() < before ? 0 : in_vain + 1;
      const bool small = IsSmall(counts[k]);
      if (in_vain >= (small ? 2 : 1) && !(small && squeezed_)) break;
    }
    return Ok();
  }

  // The best program, the batch in so many parts.
  Result<bool> FasterInParts(int64_t count) {
    if (!best_.plan() || !best_.plan()->spmd) return false;
    Plan plan = *best_.plan();
    plan.microbatches = count;
    Plan each = plan;
    each.spmd->converts_each = true;
    HEDDLE_ASSIGN(const bool faster, MayBeFaster(*plan.spmd, *each.spmd, count));
    if (!faster) return false;
    const std::string how = fmt::format("the best of one part, {} microbatches", count);
    HEDDLE_ASSIGN(const std::vector<Best::Outcome> outcomes,
                  best_.TryAll({std::move(plan), std::move(each)},
                               {how, how + ", gradients exchanged after each"}));
    return std::any_of(outcomes.begin(), outcomes.end(),
                       [](Best::Outcome outcome) { return outcome == Best::Outcome::kFastest; });
  }

  // Without a Program.
  Result<bool> MayBeFaster(const SpmdPlan& plan, const SpmdPlan& each, int64_t count) const {
    PlanRequest request = planning_.request;
    request.batch /= count;
    HEDDLE_ASSIGN(const Planning part,
                  Planning::Make(request, *planning_.cluster, planning_.profile));
    HEDDLE_ASSIGN(const SpmdMesh mesh, MeshOf(*planning_.cluster, plan));
    const OpCost cost = part.cost();
    SpmdProblem problem(cost, *planning_.cluster, mesh);
    for (const SpmdPlan* one : {&plan, &each}) {
      if (StepTimesOf(problem, *one, count).least >= best_.seconds()) continue;
      if (ScheduleBound(problem, *one, count, request.links) < best_.seconds()) return true;
    }
    return false;
  }

  // A program has every op of every microbatch, on every device.
  int64_t OpsOf(int64_t count) const {
    return count * std::ssize(planning_.graph.ops()) * planning_.cluster->device_count();
  }
  bool IsSmall(int64_t count) const { return OpsOf(count) <= 100'000; }
  bool IsTiny(int64_t count) const { return OpsOf(count) <= 10'000; }

  // The part of all devices' memory that any program needs.
  double FillOf(int64_t count) const {
    const auto rows = static_cast<double>(planning_.request.batch / count);
    return LeastMemoryOf(planning_).With(rows) / MemoryOfAll(planning_);
  }

  static constexpr double kNearlyFull = 0.75;

  const Planning& planning_;
  const std::string& strategy_;
  const ProgramFinder& find_;
  Best& best_;
  bool squeezed_ = true;          // whether memory made the last plans slower
  std::optional<Error> refused_;  // of the most microbatches that were
  int64_t refused_count_ = 0;
};

// Powers of two, each as the next divisor of the batch, that may fit at all.
std::vector<int64_t> CountsFor(const Planning& planning) {
  const int64_t batch = planning.request.batch;
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

std::optional<Error> OptionsRefused(const Planning& planning, const std::string& strategy) {
  const bool servers = planning.request.sync == GradientSync::kServers;
  if (!servers && !planning.request.compress) return std::nullopt;
  return Infeasible(strategy,
                    fmt::format("--{} is for gradients of whole replicas; a program of divided "
                                "tensors has exchanges of its own",
                                servers ? "sync ps" : "compress fp16"),
                    "leave it out, or use dp, dp-proportional or pipeline");
}

Result<std::optional<Error>> TryPrograms(const Planning& planning, const std::string& strategy,
                                         const ProgramFinder& find, Best& best) {
  if (const auto refused = OptionsRefused(planning, strategy)) return refused;
  if (const auto too_large = TooLargeForAll(planning, strategy, 1)) return too_large;
  PartSearch search(planning, strategy, find, best);
  if (const auto given = planning.request.microbatches) {
    const int64_t count = DividingCount(planning.request.batch, *given);
    if (count != *given) best.Note(fmt::format("{} microbatches: all of one size", count));
    HEDDLE_RETURN_IF_ERROR(search.Try(count));
    return search.refused();
  }
  // There is no room for programs of tens of millions of ops.
  constexpr int64_t kTooLong = 6'000'000;
  std::vector<int64_t> counts = CountsFor(planning);
  const std::vector<int64_t> too_long = TakeLarge(planning, kTooLong, counts);
  HEDDLE_RETURN_IF_ERROR(search.TryAll(counts));
  if (best.microbatches() == 0 && !too_long.empty()) {
    search.AddToRefused(fmt::format(
        "{} microbatches and more were not tried: such programs are too long", too_long.front()));
  }
  for (int round = 0; round < kRefinements && best.microbatches() > 0; ++round) {
    std::vector<int64_t> near;
    for (const int64_t count : CountsNear(planning, best.microbatches(), round)) {
      if (planning.request.batch % count == 0) near.push_back(count);
    }
    HEDDLE_RETURN_IF_ERROR(search.TryFaster(near));
  }
  return search.refused();
}

}  // namespace heddle
