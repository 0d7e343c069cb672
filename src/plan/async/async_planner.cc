#include "plan/async/async_planner.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/microbatch_counts.h"
#include "plan/pipeline/candidate.h"
#include "plan/pipeline/device_order.h"

namespace heddle {
namespace {

// Microbatches of one update: one, or any number for 2BW.
std::vector<int64_t> CountsFor(const Planning& planning) {
  if (planning.request.versions != WeightVersions::kTwo) return {1};
  return MicrobatchCounts(planning);
}

// 2BW has the weights of two updates: those of the next must be there before a stage's backward
// wants them.
bool EnoughFor(const Planning& planning, int64_t stages, int64_t microbatches) {
  return planning.request.versions != WeightVersions::kTwo || microbatches >= stages - 1;
}

Plan AsyncPlanOf(const Planning& planning, const Candidate& candidate) {
  const int64_t microbatches = candidate.costs->microbatches();
  const std::vector<WorkOrder> orders(static_cast<size_t>(candidate.stages),
                                      ForwardsAndBackwardsInTurn(microbatches));
  Plan plan = PlanOf(candidate, std::string(NameOf(planning.request.versions)), orders);
  plan.strategy = "async";
  plan.microbatches = microbatches;
  plan.async = AsyncPlan{planning.request.versions};
  return plan;
}

// Of an update: the slowest machine for its microbatches, and the sums of a replicated stage.
double PeriodOf(const Partition& partition, int64_t microbatches) {
  return static_cast<double>(microbatches) * partition.bottleneck + partition.all_reduce;
}

class Search {
 public:
  explicit Search(const Planning& planning)
      : planning_(planning), table_(planning), best_(planning) {}

  Result<Plan> Run() {
    if (planning_.request.microbatches.value_or(1) != 1 &&
        planning_.request.versions != WeightVersions::kTwo) {
      return Usage(
          "--microbatches with --strategy async",
          "each microbatch is an update of its own; --versions 2bw has several per update");
    }
    if (planning_.request.clip > 0) {
      return Infeasible("async", "stages update without waiting for each other",
                        "clipping needs all gradients at once; leave out --clip");
    }
    Find();
    if (found_.empty() && planning_.deadline.passed()) return OutOfTime("async");
    if (found_.empty()) {
      return Infeasible(
          "async",
          fmt::format("no stages fit in memory with {} samples at once", planning_.request.batch),
          "an update sees one microbatch, so a smaller --batch; or --versions 2bw");
    }
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Found& a, const Found& b) { return a.seconds < b.seconds; });
    std::optional<Error> refused;
    for (size_t k = 0; k < found_.size() && k < kMostTried; ++k) {
      if (found_[k].seconds >= best_.seconds()) break;
      const Result<Best::Outcome> outcome = best_.Try(AsyncPlanOf(planning_, found_[k].candidate));
      if (outcome.ok()) continue;
      if (outcome.error().kind != ErrorKind::kInfeasible) return outcome.error();
      refused = outcome.error();  // stages that share weights
    }
    if (refused && best_.tried() == 0) return *refused;
    return std::move(best_).Take();
  }

 private:
  struct Found {
    Candidate candidate;
    double seconds;
  };

  void Find() {
    std::vector<double> speed;
    for (const Device& device : planning_.cluster->devices()) {
      speed.push_back(table_.SpeedOf(device.type));
    }
    for (std::vector<int>& order : DeviceOrders(*planning_.cluster, speed)) {
      const auto line =
          std::make_shared<DeviceLine>(table_, std::vector<std::vector<int>>{std::move(order)});
      for (const int64_t microbatches : CountsFor(planning_)) {
        if (!planning_.deadline.passed()) FindOn(line, microbatches);
      }
    }
  }

  void FindOn(const std::shared_ptr<const DeviceLine>& line, int64_t microbatches) {
    const auto costs = std::make_shared<StageCosts>(table_, line, microbatches);
    PartitionOptions options;
    options.most_cuts = 64;
    for (const auto& partitions : FindPartitions(*costs, options)) {
      const Partition* best = nullptr;
      for (const Partition& partition : partitions) {
        if (best == nullptr || PeriodOf(partition, microbatches) < PeriodOf(*best, microbatches)) {
          best = &partition;
        }
      }
      if (best == nullptr) continue;
      Partition plain = *best;
      const bool recomputes = std::any_of(plain.stages.begin(), plain.stages.end(),
                                          [](const PartitionStage& s) { return s.recompute; });
      const auto stages = std::ssize(plain.stages);
      if (!EnoughFor(planning_, stages, microbatches)) continue;
      if (recomputes) continue;  // a forward made again would need its version again
      found_.push_back({StraightCandidate(costs, plain), PeriodOf(plain, microbatches)});
    }
  }

  static constexpr size_t kMostTried = 16;

  const Planning& planning_;
  LayerTable table_;
  Best best_;
  std::vector<Found> found_;
};

}  // namespace

Result<Plan> PlanAsync(const Planning& planning) { return Search(planning).Run(); }

}  // namespace heddle
