#include "plan/pipeline/spp.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>

#include "plan/order/greedy_orders.h"
#include "plan/order/order_times.h"
#include "plan/order/orders.h"
#include "plan/pipeline/candidate.h"
#include "plan/pipeline/device_order.h"

namespace heddle {
namespace {

struct NamedOrder {
  std::string name;
  std::vector<WorkOrder> orders;
  double seconds;
};

std::vector<double> EndsOf(const PipeShape& shape, const std::vector<WorkOrder>& orders,
                           const OrderTimes& times) {
  std::vector<double> ends;
  const auto places = shape.PlacesByStage();
  for (size_t s = 0; s < orders.size(); ++s) {
    const WorkItem& last = orders[s].back();
    ends.push_back(times.starts[s].back() +
                   shape.Seconds(last.kind, places[s][static_cast<size_t>(last.chunk)]));
  }
  return ends;
}

// The orders that fit, the fastest first.
std::vector<NamedOrder> OrdersFor(const Candidate& candidate, bool split) {
  const PipeShape shape = ShapeOf(candidate, split);
  std::vector<NamedOrder> found;
  const auto add = [&](const std::string& name, std::vector<WorkOrder> orders) {
    const Result<OrderTimes> times = TimeOrders(shape, orders);
    if (!times.ok() || !FitsMemory(shape, times.value())) return;
    const double seconds = AfterOrder(candidate, EndsOf(shape, orders, times.value()));
    found.push_back({name, std::move(orders), seconds});
  };
  const int stages = shape.stages, microbatches = shape.microbatches;
  if (shape.places() == stages) {
    add("1f1b", OneForwardOneBackward(stages, microbatches));
    add("eager-1f1b", WarmUpOrders(EagerInFlight(stages), microbatches));
    add("list", WarmUpOrders(ListInFlight(stages), microbatches));
    add("gpipe", GpipeOrders(stages, microbatches));
  }
  if (shape.HasRoom()) {
    add("event-driven", EventDrivenOrders(shape));
    if (shape.split) add("zero-bubble", GreedyOrders(shape, {}));
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const NamedOrder& a, const NamedOrder& b) { return a.seconds < b.seconds; });
  return found;
}

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
  const int devices = cluster.device_count();
  PartitionOptions options;
  if (devices <= kAny) {
    options.most_skipped = devices;
    return options;
  }
  for (int count = 1; count <= devices; ++count) {
    const bool round =
        (count & (count - 1)) == 0 || (count % 3 == 0 && ((count / 3) & (count / 3 - 1)) == 0);
    if (count <= 4 || round || count == devices) options.counts.push_back(count);
  }
  options.most_skipped = 1;
  if (devices <= kOneByOne) return options;
  const size_t node = cluster.nodes()[0].devices.size();
  const bool equal = std::all_of(cluster.nodes().begin(), cluster.nodes().end(),
                                 [&](const Node& n) { return n.devices.size() == node; });
  if (equal) options.node = static_cast<int>(node);
  options.most_skipped = 0;
  constexpr int kMostStages = 64;
  options.most_stages = kMostStages;
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
    const PartitionOptions options = OptionsFor(*planning_.cluster);
    std::atomic<size_t> next{0};
    std::mutex mutex;
    const auto work = [&] {
      for (size_t k = next++; k < tasks.size(); k = next++) {
        PartitionOptions mine = options;
        {
          const std::lock_guard lock(mutex);
          mine.limit = least_estimate_;
        }
        std::vector<Candidate> found = CandidatesOf(tasks[k], mine, memory_factor);
        const std::lock_guard lock(mutex);
        for (Candidate& candidate : found) {
          least_estimate_ = std::min(least_estimate_, kSlack * candidate.estimate);
          candidates_.push_back(std::move(candidate));
        }
      }
    };
    std::thread other(work);
    work();
    other.join();
    std::stable_sort(
        candidates_.begin(), candidates_.end(),
        [](const Candidate& a, const Candidate& b) { return a.estimate < b.estimate; });
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

  // The most promising are ordered; of these the most promising are simulated.
  Status TryCandidates() {
    constexpr size_t kOrdered = 24;
    constexpr size_t kSimulated = 12, kAtOnce = 4;
    struct Ordered {
      const Candidate* candidate;
      NamedOrder order;
    };
    std::vector<Ordered> ordered;
    for (size_t k = 0; k < std::min(kOrdered, candidates_.size()); ++k) {
      const Candidate& candidate = candidates_[k];
      for (const bool split : {false, true}) {
        std::vector<NamedOrder> orders = OrdersFor(candidate, split);
        if (orders.size() > 2) orders.resize(2);
        for (NamedOrder& order : orders) ordered.push_back({&candidate, std::move(order)});
      }
    }
    std::stable_sort(ordered.begin(), ordered.end(), [](const Ordered& a, const Ordered& b) {
      return a.order.seconds < b.order.seconds;
    });
    // A few at a time, until one fits and no other looks better.
    for (size_t k = 0; k < std::min(kSimulated, ordered.size()); k += kAtOnce) {
      std::vector<Plan> plans;
      const size_t end = std::min(ordered.size(), k + kAtOnce);
      for (size_t j = k; j < end; ++j) {
        plans.push_back(
            PlanOf(*ordered[j].candidate, ordered[j].order.name, ordered[j].order.orders));
      }
      HEDDLE_RETURN_IF_ERROR(best_.TryAll(std::move(plans)));
      if (end < ordered.size() && ordered[end].order.seconds >= best_.seconds()) break;
    }
    for (size_t k = 0; k < std::min<size_t>(6, ordered.size()); ++k) {
      tried_.push_back(fmt::format("{}, {}: {}", Describe(*ordered[k].candidate),
                                   ordered[k].order.name,
                                   ToText(Seconds{ordered[k].order.seconds})));
    }
    return Ok();
  }

  void NoteRunnersUp() {
    for (const std::string& text : tried_) best_.Note("tried " + text);
  }

  // Estimates differ from what the simulator finds: keep some that look a little worse.
  static constexpr double kSlack = 1.25;

  const Planning& planning_;
  LayerTable table_;
  Best best_;
  std::vector<Candidate> candidates_;
  double least_estimate_ = 1e300;
  std::vector<std::string> tried_;
};

}  // namespace

Result<Plan> PlanPipeline(const Planning& planning) { return Search(planning).Run(); }

}  // namespace heddle
