#include "plan/pipeline/spp.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>

#include "plan/order/best_order.h"
#include "plan/order/greedy_orders.h"
#include "plan/order/order_times.h"
#include "plan/order/orders.h"
#include "plan/pipeline/candidate.h"
#include "plan/pipeline/device_order.h"
#include "plan/two_threads.h"

namespace heddle {
namespace {

// Powers of two, within the batch, unless the user says.
std::vector<int64_t> MicrobatchCounts(const Planning& planning) {
  if (planning.options.microbatches) return {*planning.options.microbatches};
  constexpr int64_t kMost = 256;
  const int64_t most =
      std::min({planning.options.batch, kMost, int64_t{8} * planning.cluster->device_count()});
  std::vector<int64_t> counts;
  for (int64_t m = 1; m <= most; m *= 2) counts.push_back(m);
  return counts;
}

// On large clusters not every number of replicas is tried, and whole nodes above one node.
PartitionOptions OptionsFor(const Cluster& cluster) {
  constexpr int kAny = 16;       // up to so many devices: any number of replicas, any left out
  constexpr int kOneByOne = 64;  // up to so many: devices one by one
  constexpr int kMostCuts = 64;
  const int devices = cluster.device_count();
  PartitionOptions options;
  options.most_cuts = kMostCuts;
  if (devices <= kAny) {
    options.most_skipped = devices;
    return options;
  }
  for (int count = 1; count <= devices; ++count) {
    const bool round =
        (count & (count - 1)) == 0 || (count % 3 == 0 && ((count / 3) & (count / 3 - 1)) == 0);
    if (count <= 4 || round || count == devices) options.counts.push_back(count);
  }
  options.tolerance = 0.003;
  constexpr int kMostStages = 32;
  options.most_stages = kMostStages;
  if (devices <= kOneByOne) return options;
  const size_t node = cluster.nodes()[0].devices.size();
  const bool equal = std::all_of(cluster.nodes().begin(), cluster.nodes().end(),
                                 [&](const Node& n) { return n.devices.size() == node; });
  if (equal) options.node = static_cast<int>(node);
  return options;
}

class Search {
 public:
  explicit Search(const Planning& planning)
      : planning_(planning), table_(planning), best_(planning) {}

  Result<Plan> Run() {
    for (const double factor : {1.0, 1.2, 1.5}) {
      FindCandidates(factor);
      HEDDLE_RETURN_IF_ERROR(TryCandidates());
      if (best_.seconds() < 1e200) break;
    }
    if (best_.seconds() > 1e200) HEDDLE_RETURN_IF_ERROR(TryTheLeastMemory());
    NoteRunnersUp();
    return std::move(best_).Take();
  }

 private:
  struct Task {
    std::vector<int> order;
    int64_t microbatches;
  };

  // By two threads; each takes the next task.
  void FindCandidates(double memory_factor) {
    candidates_.clear();
    std::vector<double> speed;
    for (const Device& device : planning_.cluster->devices()) {
      speed.push_back(table_.SpeedOf(device.type));
    }
    std::vector<Task> tasks;
    for (const std::vector<int>& order : DeviceOrders(*planning_.cluster, speed)) {
      for (const int64_t m : MicrobatchCounts(planning_)) tasks.push_back({order, m});
    }
    // Where a good one is likely first: its estimate spares the others work.
    const int64_t likely = 2 * planning_.cluster->device_count();
    std::stable_sort(tasks.begin(), tasks.end(), [&](const Task& a, const Task& b) {
      return std::abs(std::log2(a.microbatches) - std::log2(likely)) <
             std::abs(std::log2(b.microbatches) - std::log2(likely));
    });
    const PartitionOptions options = OptionsFor(*planning_.cluster);
    // The first sets the limit for the others, so that what is found does not depend on threads.
    std::vector<std::vector<Candidate>> found(tasks.size());
    PartitionOptions limited = options;
    found[0] = CandidatesOf(tasks[0], options, memory_factor);
    for (const Candidate& candidate : found[0]) {
      limited.limit = std::min(limited.limit, kSlack * candidate.estimate);
    }
    ForEachOnTwoThreads(tasks.size() - 1, [&](size_t k) {
      found[k + 1] = CandidatesOf(tasks[k + 1], limited, memory_factor);
    });
    for (std::vector<Candidate>& some : found) {
      std::move(some.begin(), some.end(), std::back_inserter(candidates_));
    }
    std::stable_sort(
        candidates_.begin(), candidates_.end(), [](const Candidate& a, const Candidate& b) {
          return std::tuple(a.estimate, a.costs->microbatches(), a.stages, a.costs->order()) <
                 std::tuple(b.estimate, b.costs->microbatches(), b.stages, b.costs->order());
        });
    // Device orders that mirror each other give the same.
    const auto alike = [](const Candidate& a, const Candidate& b) {
      return a.estimate == b.estimate && a.bound == b.bound && a.stages == b.stages &&
             a.costs->microbatches() == b.costs->microbatches();
    };
    candidates_.erase(std::unique(candidates_.begin(), candidates_.end(), alike),
                      candidates_.end());
  }

  std::vector<Candidate> CandidatesOf(const Task& task, const PartitionOptions& options,
                                      double memory_factor) const {
    const auto costs =
        std::make_shared<StageCosts>(table_, task.order, task.microbatches, memory_factor);
    std::vector<Candidate> found;
    for (const auto& partitions : FindPartitions(*costs, options)) {
      for (const Partition& partition : partitions) {
        found.push_back(StraightCandidate(costs, partition));
      }
    }
    const int devices = std::min(costs->devices(), costs->layers() / 2);
    if (devices >= 2 && task.microbatches >= devices) {
      for (const TwoRuns shape : {TwoRuns::kVShaped, TwoRuns::kInterleaved}) {
        found.push_back(TwoRunCandidate(costs, devices, shape));
      }
    }
    return found;
  }

  struct Ordered {
    const Candidate* candidate;
    OrderChoice::Best order;
    double seconds;  // until the last gradient is summed
  };

  // Estimates leave out contention, which hits all partitions of a kind alike: some of every number
  // of stages, the best first.
  static std::vector<const Candidate*> Varied(const std::vector<Candidate>& sorted) {
    std::map<int, size_t> seen;
    std::vector<const Candidate*> varied;
    for (const Candidate& candidate : sorted) {
      if (candidate.estimate > kFar * sorted[0].estimate || varied.size() == kQuick) break;
      if (seen[candidate.stages]++ < kOfEach) varied.push_back(&candidate);
    }
    return varied;
  }

  // Split backwards fill gaps, but gradients of weights come later, and so do the all-reduces of
  // replicas: there both are worth trying. One stage has no gaps.
  static std::vector<bool> SplitsFor(const Candidate& candidate) {
    if (candidate.stages == 1) return {false};
    const bool replicas =
        std::any_of(candidate.chunks.begin(), candidate.chunks.end(),
                    [](const PartitionStage& chunk) { return chunk.devices.count > 1; });
    return replicas ? std::vector<bool>{true, false} : std::vector<bool>{true};
  }

  // What the quickest of some orders made at once takes.
  static double QuickSeconds(const Candidate& candidate) {
    const PipeShape shape = ShapeOf(candidate, /*split=*/true);
    double least = std::numeric_limits<double>::infinity();
    if (!shape.HasRoom()) return least;
    std::vector<std::vector<WorkOrder>> tries = {GreedyOrders(shape, {})};
    if (shape.places() == shape.stages) {
      tries.push_back(OneForwardOneBackward(shape.stages, shape.microbatches));
    }
    for (const std::vector<WorkOrder>& orders : tries) {
      const Result<OrderTimes> times = TimeOrders(shape, orders);
      if (!times.ok() || !FitsMemory(shape, times.value())) continue;
      least = std::min(least, AfterOrder(candidate, times.value().ends));
    }
    return least;
  }

  // The best orders of the most promising; the fastest first.
  std::vector<Ordered> OrderCandidates() const {
    const std::vector<const Candidate*> some = Varied(candidates_);
    std::vector<std::pair<double, const Candidate*>> quick(some.size());
    ForEachOnTwoThreads(some.size(), [&](size_t k) {
      quick[k] = {QuickSeconds(*some[k]), some[k]};
    });
    std::stable_sort(quick.begin(), quick.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    // As many as there is time for: making orders takes time in proportion to their length.
    int64_t work = 0;
    size_t count = 0;
    while (count < quick.size() && quick[count].first < 1e200 && (count < kLeast || work < kWork)) {
      const Candidate& candidate = *quick[count++].second;
      work += candidate.costs->microbatches() * static_cast<int64_t>(candidate.chunks.size());
    }
    std::vector<std::vector<Ordered>> found(count);
    ForEachOnTwoThreads(count, [&](size_t k) {
      const Candidate& candidate = *quick[k].second;
      for (const bool split : SplitsFor(candidate)) {
        const PipeShape shape = ShapeOf(candidate, split);
        OrderOptions options;
        options.search_items = kSearchItems;
        Result<OrderChoice> choice = BestOrder(shape, options);
        if (!choice.ok()) continue;
        OrderChoice::Best best = std::move(choice.value().best);
        const double seconds = AfterOrder(candidate, TimeOrders(shape, best.orders).value().ends);
        found[k].push_back({&candidate, std::move(best), seconds});
      }
    });
    std::vector<Ordered> ordered;
    for (std::vector<Ordered>& some_orders : found) {
      std::move(some_orders.begin(), some_orders.end(), std::back_inserter(ordered));
    }
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](const Ordered& a, const Ordered& b) { return a.seconds < b.seconds; });
    return ordered;
  }

  // Simulates a few at a time, until one fits and no other looks better.
  Status TryCandidates() {
    const std::vector<Ordered> ordered = OrderCandidates();
    const size_t most = planning_.cluster->device_count() > kMany ? kAtOnce : kSimulated;
    for (size_t k = 0; k < std::min(most, ordered.size()); k += kAtOnce) {
      std::vector<Plan> plans;
      const size_t end = std::min(ordered.size(), k + kAtOnce);
      for (size_t j = k; j < end; ++j) {
        plans.push_back(
            PlanOf(*ordered[j].candidate, ordered[j].order.name, ordered[j].order.orders));
      }
      HEDDLE_RETURN_IF_ERROR(best_.TryAll(std::move(plans)));
      if (end < ordered.size() && ordered[end].seconds >= best_.seconds()) break;
    }
    for (const Ordered& one : ordered) {
      runners_up_.push_back(fmt::format("{}, {}: some {}", Describe(*one.candidate), one.order.name,
                                        ToText(Seconds{one.seconds})));
      if (runners_up_.size() == 4) break;
    }
    return Ok();
  }

  // Nothing fits by the estimates: what needs least by its nature, to be tried all the same, or for
  // the message to name what it lacks.
  Status TryTheLeastMemory() {
    FindCandidates(/*memory_factor=*/0);
    std::map<std::pair<int64_t, int>, const Candidate*> deepest;  // by microbatches and stages
    for (const Candidate& candidate : candidates_) {
      if (static_cast<int>(candidate.chunks.size()) != candidate.stages) continue;
      deepest.try_emplace({-candidate.costs->microbatches(), -candidate.stages}, &candidate);
    }
    int tried = 0;
    for (const auto& [key, found] : deepest) {
      if (++tried > 4) break;
      Candidate candidate = *found;
      for (PartitionStage& stage : candidate.chunks) stage.recompute = true;
      const int microbatches = static_cast<int>(candidate.costs->microbatches());
      HEDDLE_RETURN_IF_ERROR(best_.Try(
          PlanOf(candidate, "1f1b", OneForwardOneBackward(candidate.stages, microbatches))));
    }
    return Ok();
  }

  void NoteRunnersUp() {
    for (const std::string& text : runners_up_) best_.Note(text);
  }

  // Estimates differ from what the simulator finds: keep some that look a little worse.
  static constexpr double kSlack = 1.15;
  static constexpr size_t kQuick = 32;  // candidates that get a quick order
  static constexpr size_t kOfEach = 4;  // number of stages
  static constexpr double kFar = 1.6;   // times the best estimate
  static constexpr size_t kLeast = 4;   // and the best orders, at least
  static constexpr int64_t kWork = 4000;
  static constexpr size_t kSimulated = 16, kAtOnce = 2;
  static constexpr int kMany = 256;  // devices: simulating takes seconds
  static constexpr int64_t kSearchItems = 20'000;

  const Planning& planning_;
  LayerTable table_;
  Best best_;
  std::vector<Candidate> candidates_;
  std::vector<std::string> runners_up_;
};

}  // namespace

Result<Plan> PlanPipeline(const Planning& planning) { return Search(planning).Run(); }

}  // namespace heddle
