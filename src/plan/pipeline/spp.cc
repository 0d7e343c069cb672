#include "plan/pipeline/spp.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "plan/list_guarantee.h"
#include "plan/microbatch_counts.h"
#include "plan/order/best_order.h"
#include "plan/order/order_times.h"
#include "plan/order/orders.h"
#include "plan/pipeline/candidate_search.h"
#include "plan/pipeline/neighbours.h"
#include "plan/pipeline/plain_plans.h"
#include "plan/pipeline/side_by_side.h"
#include "plan/two_threads.h"

namespace heddle {
namespace {

class Search {
 public:
  explicit Search(const Planning& planning)
      : planning_(planning), table_(planning), best_(planning) {}

  Result<Plan> Run(const std::vector<OtherPlans>& others) {
    HEDDLE_RETURN_IF_ERROR(FindBest());
    HEDDLE_RETURN_IF_ERROR(TryEveryCount());
    HEDDLE_RETURN_IF_ERROR(TryPlainPlans(table_, kStrategy, best_));
    HEDDLE_RETURN_IF_ERROR(TrySideBySide(table_, kStrategy, best_));
    HEDDLE_RETURN_IF_ERROR(TryOthers(others));
    NoteRunnersUp();
    HEDDLE_ASSIGN(Plan plan, std::move(best_).Take());
    return Guaranteed(std::move(plan));
  }

 private:
  Status FindBest() {
    for (const double factor : {1.0, 1.2, 1.5}) {
      candidates_ = FindCandidates(table_, factor);
      HEDDLE_RETURN_IF_ERROR(TryCandidates());
      if (best_.seconds() < 1e200 || late()) break;
    }
    if (best_.seconds() > 1e200) HEDDLE_RETURN_IF_ERROR(TryTheLeastMemory());
    HEDDLE_RETURN_IF_ERROR(Improve());
    return Finish();
  }

  // Backward in one piece or in two.
  struct Variant {
    const Candidate* candidate;
    bool split;
  };
  struct Ordered {
    Variant variant;
    OrderChoice::Best order;
    double seconds;  // until the last gradient is summed
  };

  // Estimates err alike for partitions of a kind: some of every number of stages, the best first.
  // They expect of all what 1F1B would take. Other orders leave fewer gaps, which counts where
  // microbatches are few: so also, of every number of microbatches and kind of pipeline, the one
  // that would be best without.
  static std::vector<const Candidate*> Varied(const std::vector<Candidate>& sorted) {
    std::map<std::pair<int, int>, size_t> seen;  // by pipelines and stages
    std::vector<const Candidate*> varied;
    std::map<std::tuple<int64_t, bool>, const Candidate*> best;  // microbatches, two runs
    for (const Candidate& candidate : sorted) {
      if (candidate.estimate > kFar * sorted[0].estimate) break;
      const bool few = varied.size() < kQuick;
      if (few && seen[{candidate.costs->pipelines(), candidate.stages}]++ < kOfEach) {
        varied.push_back(&candidate);
      }
      const bool two_runs = candidate.chunks.size() > static_cast<size_t>(candidate.stages);
      const Candidate*& least =
          best[{candidate.costs->microbatches() * candidate.costs->pipelines(), two_runs}];
      if (least == nullptr || candidate.floor < least->floor) least = &candidate;
    }
    std::vector<const Candidate*> more;
    for (const auto& [kind, candidate] : best) {
      const bool is_new = std::find(varied.begin(), varied.end(), candidate) == varied.end();
      if (is_new && candidate->floor < sorted[0].estimate) more.push_back(candidate);
    }
    std::stable_sort(more.begin(), more.end(),
                     [](const Candidate* a, const Candidate* b) { return a->floor < b->floor; });
    if (more.size() > kWithoutGaps) more.resize(kWithoutGaps);
    varied.insert(varied.end(), more.begin(), more.end());
    return varied;
  }

  // Split backwards fill gaps, but gradients of weights come later, and so do
  // the all-reduces of replicas: there both are worth trying. One stage has no
  // gaps.
  static std::vector<bool> SplitsFor(const Candidate& candidate) {
    if (candidate.stages == 1) return {false};
    const bool replicas =
        std::any_of(candidate.chunks.begin(), candidate.chunks.end(),
                    [](const PartitionStage& chunk) { return chunk.devices.count > 1; });
    return replicas ? std::vector<bool>{true, false} : std::vector<bool>{true};
  }

  bool late() const { return planning_.deadline.passed(); }

  // The best order of each, by two threads; the fastest first.
  std::vector<Ordered> OrdersOf(const std::vector<Variant>& variants,
                                const OrderOptions& options) const {
    std::vector<std::optional<Ordered>> found(variants.size());
    ForEachOnTwoThreads(variants.size(), [&](size_t k) {
      if (late()) return;
      const PipeShape shape = ShapeOf(*variants[k].candidate, variants[k].split);
      Result<OrderChoice> choice = BestOrder(shape, options);
      if (!choice.ok()) return;
      OrderChoice::Best best = std::move(choice.value().best);
      const double seconds =
          AfterOrder(*variants[k].candidate, TimeOrders(shape, best.orders).value().ends);
      found[k] = Ordered{variants[k], std::move(best), seconds};
    });
    std::vector<Ordered> ordered;
    for (std::optional<Ordered>& one : found) {
      if (one) ordered.push_back(*std::move(one));
    }
    SortByTime(ordered);
    return ordered;
  }

  static void SortByTime(std::vector<Ordered>& ordered) {
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const Ordered& a, const Ordered& b) { return a.seconds < b.seconds; });
  }

  static OrderOptions QuickOrders() {
    OrderOptions options;
    options.search_items = 0;
    options.thorough = false;
    options.bound = false;
    return options;
  }
  static OrderOptions ThoroughOrders() {
    OrderOptions options;
    options.search_items = kSearchItems;
    options.thorough = true;
    return options;
  }

  // A few orders of the most promising candidates, then all orders of the best
  // of those.
  std::vector<Ordered> OrderCandidates() const {
    std::vector<Variant> variants;
    for (const Candidate* candidate : Varied(candidates_)) {
      for (const bool split : SplitsFor(*candidate)) variants.push_back({candidate, split});
    }
    std::vector<Ordered> ordered = OrdersOf(variants, QuickOrders());
    // As many as there is time for: making orders takes time in proportion to
    // their length.
    std::vector<Variant> best;
    int64_t work = 0;
    for (const Ordered& one : ordered) {
      if (best.size() == kThorough || (!best.empty() && work >= kWork)) break;
      best.push_back(one.variant);
      const Candidate& candidate = *one.variant.candidate;
      work += candidate.costs->microbatches() * static_cast<int64_t>(candidate.chunks.size());
    }
    std::vector<Ordered> thorough = OrdersOf(best, ThoroughOrders());
    std::move(thorough.begin(), thorough.end(), ordered.begin());
    SortByTime(ordered);
    return ordered;
  }

  Status TryCandidates() {
    const std::vector<Ordered> ordered = OrderCandidates();
    const size_t most = planning_.cluster->device_count() > kMany ? 2 : kSimulated;
    HEDDLE_RETURN_IF_ERROR(Simulate(ordered, most, kSimulatedWork));
    for (const Ordered& one : ordered) {
      runners_up_.push_back(fmt::format("{}, {}: some {}", Describe(*one.variant.candidate),
                                        one.order.name, ToText(Seconds{one.seconds})));
      if (runners_up_.size() == 4) break;
    }
    return Ok();
  }

  // How long a simulation takes, counted so that nothing depends on time: microbatches by devices,
  // and the ops that are lowered.
  int64_t WorkOf(const Candidate& candidate) const {
    int64_t devices = 0;
    for (const PartitionStage& chunk : candidate.chunks) devices += chunk.devices.count;
    return candidate.costs->microbatches() * candidate.costs->pipelines() * devices +
           static_cast<int64_t>(planning_.graph.ops().size()) / 4;
  }

  // A few at a time, until one fits and no other looks better, or enough work was done.
  Status Simulate(const std::vector<Ordered>& ordered, size_t most, int64_t most_work) {
    const size_t at_once = planning_.cluster->device_count() > kMany ? 1 : 2;
    int64_t work = 0;
    for (size_t k = 0; k < std::min(most, ordered.size()); k += at_once) {
      const bool enough = work >= most_work && best_.seconds() < 1e200;
      if (enough) break;
      std::vector<Plan> plans;
      const size_t end = std::min(ordered.size(), k + at_once);
      for (size_t j = k; j < end; ++j) {
        plans.push_back(
            PlanOf(*ordered[j].variant.candidate, ordered[j].order.name, ordered[j].order.orders));
        work += WorkOf(*ordered[j].variant.candidate);
      }
      HEDDLE_ASSIGN(const std::vector<Best::Outcome> outcomes, best_.TryAll(std::move(plans)));
      for (size_t j = k; j < end; ++j) {
        if (outcomes[j - k] == Best::Outcome::kFastest) {
          reached_ = *ordered[j].variant.candidate;
        }
      }
      // Estimates may be too high; looking further is for those that have time for it.
      const double close = work < kCloseWork ? kClose : 1;
      if (end < ordered.size() && ordered[end].seconds >= close * best_.seconds()) break;
    }
    return Ok();
  }

  // From the fastest to a neighbour that is faster, while there is one and there is time for it.
  Status Improve() {
    std::set<std::tuple<int64_t, std::vector<int>, std::vector<PartitionStage>>> seen;
    int64_t work = 0;
    while (reached_ && work < kImproveWork && !late()) {
      if (static_cast<int>(reached_->chunks.size()) != reached_->stages) break;  // interleaved
      std::vector<Candidate> near = Neighbours(*reached_);
      std::erase_if(near, [&](const Candidate& one) {
        return one.bound >= best_.seconds() ||
               !seen.emplace(one.costs->microbatches(), one.costs->order(), one.chunks).second;
      });
      std::stable_sort(near.begin(), near.end(), [](const Candidate& a, const Candidate& b) {
        return a.estimate < b.estimate;
      });
      if (near.size() > kNear) near.resize(kNear);
      std::vector<Variant> variants;
      for (const Candidate& one : near) {
        for (const bool split : SplitsFor(one)) variants.push_back({&one, split});
      }
      const double before = best_.seconds();
      work += kNearSimulated * WorkOf(*reached_);
      HEDDLE_RETURN_IF_ERROR(
          Simulate(OrdersOf(variants, QuickOrders()), kNearSimulated, kImproveWork));
      if (best_.seconds() >= before) break;
      improved_ = true;
    }
    return Ok();
  }

  // All orders of the partition that the local search came to.
  Status Finish() {
    if (!improved_) return Ok();
    std::vector<Variant> variants;
    for (const bool split : SplitsFor(*reached_)) variants.push_back({&*reached_, split});
    const std::vector<Ordered> ordered = OrdersOf(variants, ThoroughOrders());
    return Simulate(ordered, ordered.size(), kSimulatedWork);
  }

  // A number of microbatches given by hand has the search to itself. Where there is little to
  // simulate each gets that here, too, so that none is better by hand.
  Status TryEveryCount() {
    if (planning_.request.microbatches) return Ok();
    const std::vector<int64_t> counts = MicrobatchCounts(planning_);
    int64_t work = 0;
    for (const int64_t count : counts) {
      const auto ops = static_cast<int64_t>(planning_.graph.ops().size()) / 4;
      work += kSimulatedEach * (count * planning_.cluster->device_count() + ops);
    }
    if (work > kCountsWork) return Ok();
    for (const int64_t count : counts) {
      if (late()) break;
      Planning given = planning_;
      given.request.microbatches = count;
      Search search(given);
      HEDDLE_RETURN_IF_ERROR(search.FindBest());
      if (search.best_.seconds() >= best_.seconds()) continue;
      HEDDLE_ASSIGN(Plan plan, std::move(search.best_).Take());
      HEDDLE_RETURN_IF_ERROR(best_.Try(std::move(plan)));
    }
    return Ok();
  }

  // Nothing fits by the estimates: what needs least by its nature, to be tried all the same, or for
  // the message to name what it lacks.
  Status TryTheLeastMemory() {
    for (Candidate& candidate : FindLeastMemory(table_)) {
      for (PartitionStage& stage : candidate.chunks) stage.recompute = true;
      const int microbatches = static_cast<int>(candidate.costs->microbatches());
      HEDDLE_ASSIGN(const Best::Outcome outcome,
                    best_.Try(PlanOf(candidate, "1f1b",
                                     OneForwardOneBackward(candidate.stages, microbatches))));
      if (outcome == Best::Outcome::kFastest) reached_ = candidate;
    }
    return Ok();
  }

  Status TryOthers(const std::vector<OtherPlans>& others) {
    for (const OtherPlans& other : others) {
      if (late()) break;
      const double before = best_.seconds();
      HEDDLE_RETURN_IF_ERROR(other.attempt(table_, kStrategy, best_));
      if (best_.seconds() < before) best_.Note("from " + other.whose + ", which is faster here");
    }
    return Ok();
  }

  // With what PE's list order of these stages takes at most, and that order should it be faster.
  Result<Plan> Guaranteed(Plan plan) const {
    const Seconds most = ListGuarantee(planning_, plan);
    if (most.value > 0 && plan.estimate.iteration_seconds > most.value) {
      Best listed(planning_);
      HEDDLE_RETURN_IF_ERROR(listed.Try(ListOrdered(plan)));
      HEDDLE_ASSIGN(Plan other, std::move(listed).Take());
      other.search = std::move(plan.search);
      plan = std::move(other);
    }
    plan.estimate.guaranteed_seconds = most.value;
    return plan;
  }

  void NoteRunnersUp() {
    for (const std::string& text : runners_up_) best_.Note(text);
  }

  static constexpr char kStrategy[] = "pipeline";
  static constexpr size_t kQuick = 16;       // candidates that get a few orders
  static constexpr size_t kWithoutGaps = 4;  // of those that would be best without gaps, besides
  static constexpr double kClose = 1.1;      // times the best: what may be faster all the same
  static constexpr int64_t kCloseWork = 1'000;
  static constexpr size_t kOfEach = 3;    // number of stages
  static constexpr double kFar = 1.6;     // times the best estimate
  static constexpr size_t kThorough = 4;  // variants that get all, at most
  static constexpr int64_t kWork = 1500;
  static constexpr size_t kSimulated = 16;
  static constexpr int64_t kSimulatedWork = 4'000;  // together
  static constexpr int kMany = 256;  // devices: more take seconds and much memory to simulate
  static constexpr int64_t kSearchItems = 20'000;
  static constexpr int64_t kImproveWork = 3'000;  // of all neighbours simulated
  static constexpr size_t kNear = 8;              // of them at a time
  static constexpr size_t kNearSimulated = 4;
  static constexpr int64_t kSimulatedEach = 12;   // plans, of a search with a number given
  static constexpr int64_t kCountsWork = 15'000;  // of all such searches

  const Planning& planning_;
  LayerTable table_;
  Best best_;
  std::vector<Candidate> candidates_;
  std::optional<Candidate> reached_;  // the fastest's
  bool improved_ = false;             // by going to a neighbour
  std::vector<std::string> runners_up_;
};

}  // namespace

Result<Plan> PlanPipeline(const Planning& planning) { return Search(planning).Run({}); }

Result<Plan> PlanPipelineBeside(const std::vector<OtherPlans>& others, const Planning& planning) {
  return Search(planning).Run(others);
}

}  // namespace heddle
