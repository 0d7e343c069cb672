#include "plan/pipeline/spp.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "plan/order/best_order.h"
#include "plan/order/order_times.h"
#include "plan/order/orders.h"
#include "plan/pipeline/candidate.h"
#include "plan/pipeline/device_order.h"
#include "plan/two_threads.h"

namespace heddle {
namespace {

// Of each of so many pipelines: powers of two, within the batch, unless the user says.
std::vector<int64_t> MicrobatchCounts(const Planning& planning, int pipelines) {
  if (const auto given = planning.options.microbatches) {
    if (*given % pipelines != 0) return {};
    return {*given / pipelines};
  }
  constexpr int64_t kMost = 256;
  const int64_t most =
      std::min({planning.options.batch, kMost, int64_t{8} * planning.cluster->device_count()}) /
      pipelines;
  std::vector<int64_t> counts;
  for (int64_t m = 1; m <= most; m *= 2) counts.push_back(m);
  return counts;
}

// The order divided into files that are alike place by place: of the devices of each type each file
// gets as many, neighbours together. Empty: they cannot be.
std::vector<std::vector<int>> FilesOf(const Cluster& cluster, const std::vector<int>& order,
                                      int count) {
  const auto type = [&](int device) { return cluster.device(DeviceId{device}).type; };
  std::map<int, int> all, seen;
  for (const int device : order) ++all[type(device)];
  for (const auto& [unused, devices] : all) {
    if (devices % count != 0) return {};
  }
  std::vector<std::vector<int>> files(static_cast<size_t>(count));
  for (const int device : order) {
    const int each = all[type(device)] / count;
    files[static_cast<size_t>(seen[type(device)]++ / each)].push_back(device);
  }
  for (const std::vector<int>& file : files) {
    for (size_t k = 0; k < file.size(); ++k) {
      if (type(file[k]) != type(files[0][k])) return {};
    }
  }
  return files;
}

// Of replicas: powers of two and three times them, and all.
std::vector<int> RoundCounts(int devices) {
  const auto power = [](int count) { return (count & (count - 1)) == 0; };
  std::vector<int> counts;
  for (int count = 1; count <= devices; ++count) {
    if (power(count) || (count % 3 == 0 && power(count / 3)) || count == devices) {
      counts.push_back(count);
    }
  }
  return counts;
}

// On large clusters not every number of replicas is tried, and only whole nodes and equal parts of
// them where nodes are alike.
PartitionOptions OptionsFor(const Cluster& cluster) {
  constexpr int kAny = 16;     // up to so many devices: any number of replicas
  constexpr int kLeftOut = 2;  // between two stages; before the first and after the last, any
  constexpr int kMostCuts = 64;
  const int devices = cluster.device_count();
  PartitionOptions options;
  options.most_cuts = kMostCuts;
  if (devices <= kAny) {
    options.most_skipped = kLeftOut;
    return options;
  }
  options.counts = RoundCounts(devices);
  options.tolerance = 0.003;
  constexpr int kMostStages = 32;
  options.most_stages = kMostStages;
  const size_t node = cluster.nodes()[0].devices.size();
  const bool equal = std::all_of(cluster.nodes().begin(), cluster.nodes().end(),
                                 [&](const Node& n) { return n.devices.size() == node; });
  if (!equal) return options;
  options.node = static_cast<int>(node);
  // So many devices in so few stages: whole nodes.
  if (devices >= kMostStages * options.node) {
    std::erase_if(options.counts, [&](int count) { return count % options.node != 0; });
  }
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
    std::shared_ptr<const DeviceLine> line;
    int64_t microbatches;
  };

  void FindCandidates(double memory_factor) {
    candidates_.clear();
    std::vector<double> speed;
    for (const Device& device : planning_.cluster->devices()) {
      speed.push_back(table_.SpeedOf(device.type));
    }
    std::vector<Task> tasks;
    for (const std::vector<int>& order : DeviceOrders(*planning_.cluster, speed)) {
      AddTasks({order}, tasks);
      const int most = std::min(kMostPipelines, planning_.cluster->device_count() / 2);
      for (int files = 2; files <= most; files *= 2) {
        AddTasks(FilesOf(*planning_.cluster, order, files), tasks);
      }
    }
    PartitionOptions options = OptionsFor(*planning_.cluster);
    // A coarse search first: what it finds spares the fine one work.
    PartitionOptions coarse = options;
    coarse.most_cuts = kCoarseCuts;
    coarse.most_skipped = 0;
    coarse.equal_parts = true;
    if (coarse.counts.empty()) coarse.counts = RoundCounts(planning_.cluster->device_count());
    std::vector<std::vector<Candidate>> found = CandidatesOf(tasks, coarse, memory_factor);
    for (const std::vector<Candidate>& some : found) {
      for (const Candidate& candidate : some) {
        options.limit = std::min(options.limit, kSlack * candidate.estimate);
      }
    }
    found = CandidatesOf(tasks, options, memory_factor);
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

  void AddTasks(std::vector<std::vector<int>> files, std::vector<Task>& tasks) const {
    if (files.empty()) return;
    const auto pipelines = static_cast<int>(files.size());
    const auto line = std::make_shared<DeviceLine>(table_, std::move(files));
    for (const int64_t m : MicrobatchCounts(planning_, pipelines)) tasks.push_back({line, m});
  }

  // By two threads; each takes the next task.
  std::vector<std::vector<Candidate>> CandidatesOf(const std::vector<Task>& tasks,
                                                   const PartitionOptions& options,
                                                   double memory_factor) const {
    std::vector<std::vector<Candidate>> found(tasks.size());
    ForEachOnTwoThreads(
        tasks.size(), [&](size_t k) { found[k] = CandidatesOf(tasks[k], options, memory_factor); });
    return found;
  }

  std::vector<Candidate> CandidatesOf(const Task& task, const PartitionOptions& options,
                                      double memory_factor) const {
    const auto costs =
        std::make_shared<StageCosts>(table_, task.line, task.microbatches, memory_factor);
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

  // Estimates leave out contention, which hits all partitions of a kind alike:
  // some of every number of stages, the best first.
  static std::vector<const Candidate*> Varied(const std::vector<Candidate>& sorted) {
    std::map<std::pair<int, int>, size_t> seen;  // by pipelines and stages
    std::vector<const Candidate*> varied;
    for (const Candidate& candidate : sorted) {
      if (candidate.estimate > kFar * sorted[0].estimate || varied.size() == kQuick) break;
      if (seen[{candidate.costs->pipelines(), candidate.stages}]++ < kOfEach) {
        varied.push_back(&candidate);
      }
    }
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

  // The best order of each, by two threads; the fastest first.
  static std::vector<Ordered> OrdersOf(const std::vector<Variant>& variants,
                                       const OrderOptions& options) {
    std::vector<std::optional<Ordered>> found(variants.size());
    ForEachOnTwoThreads(variants.size(), [&](size_t k) {
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

  // A few orders of the most promising candidates, then all orders of the best
  // of those.
  std::vector<Ordered> OrderCandidates() const {
    std::vector<Variant> variants;
    for (const Candidate* candidate : Varied(candidates_)) {
      for (const bool split : SplitsFor(*candidate)) variants.push_back({candidate, split});
    }
    OrderOptions options;
    options.search_items = 0;
    options.thorough = false;
    std::vector<Ordered> ordered = OrdersOf(variants, options);
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
    options.search_items = kSearchItems;
    options.thorough = true;
    std::vector<Ordered> thorough = OrdersOf(best, options);
    std::move(thorough.begin(), thorough.end(), ordered.begin());
    SortByTime(ordered);
    return ordered;
  }

  // Simulates a few at a time, until one fits and no other looks better.
  Status TryCandidates() {
    const std::vector<Ordered> ordered = OrderCandidates();
    const int devices = planning_.cluster->device_count();
    const size_t most = devices > kMany ? 2 : devices > kSome ? kSimulated / 2 : kSimulated;
    const size_t at_once = devices > kMany ? 1 : 2;
    for (size_t k = 0; k < std::min(most, ordered.size()); k += at_once) {
      std::vector<Plan> plans;
      const size_t end = std::min(ordered.size(), k + at_once);
      for (size_t j = k; j < end; ++j) {
        plans.push_back(
            PlanOf(*ordered[j].variant.candidate, ordered[j].order.name, ordered[j].order.orders));
      }
      HEDDLE_RETURN_IF_ERROR(best_.TryAll(std::move(plans)));
      if (end < ordered.size() && ordered[end].seconds >= best_.seconds()) break;
    }
    for (const Ordered& one : ordered) {
      runners_up_.push_back(fmt::format("{}, {}: some {}", Describe(*one.variant.candidate),
                                        one.order.name, ToText(Seconds{one.seconds})));
      if (runners_up_.size() == 4) break;
    }
    return Ok();
  }

  // Nothing fits by the estimates: what needs least by its nature, to be tried
  // all the same, or for the message to name what it lacks.
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

  // Estimates differ from what the simulator finds: keep some that look a
  // little worse.
  static constexpr double kSlack = 1.15;
  static constexpr int kMostPipelines = 8;  // side by side
  static constexpr int kCoarseCuts = 16;
  static constexpr size_t kQuick = 32;    // candidates that get a few orders
  static constexpr size_t kOfEach = 4;    // number of stages
  static constexpr double kFar = 1.6;     // times the best estimate
  static constexpr size_t kThorough = 4;  // variants that get all, at most
  static constexpr int64_t kWork = 1500;
  static constexpr size_t kSimulated = 16;
  // Devices: above, a simulation takes tenths of a second, or seconds and much memory.
  static constexpr int kSome = 32, kMany = 256;
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
