#include "plan/pipeline/candidate_search.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <tuple>

#include "plan/microbatch_counts.h"
#include "plan/pipeline/device_order.h"
#include "plan/two_threads.h"

namespace heddle {
namespace {

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
  Search(const LayerTable& table, double memory_factor)
      : planning_(table.planning()), table_(table), memory_factor_(memory_factor) {}

  std::vector<Candidate> Run() const {
    std::vector<Line> lines;
    for (const std::vector<int>& order : Orders()) {
      AddLine({order}, lines);
      for (const int files : PipelineCounts()) {
        AddLine(FilesOf(*planning_.cluster, order, files), lines);
      }
    }
    PartitionOptions options = OptionsFor(*planning_.cluster);
    std::vector<Task> tasks;
    options.limit = CoarseLimit(lines, options, tasks);
    std::vector<std::vector<Candidate>> found = CandidatesOf(tasks, options);
    std::vector<Candidate> candidates;
    for (std::vector<Candidate>& some : found) {
      std::move(some.begin(), some.end(), std::back_inserter(candidates));
    }
    std::stable_sort(
        candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
          return std::tuple(a.estimate, a.costs->microbatches(), a.stages, a.costs->order()) <
                 std::tuple(b.estimate, b.costs->microbatches(), b.stages, b.costs->order());
        });
    // Device orders that mirror each other give the same.
    const auto alike = [](const Candidate& a, const Candidate& b) {
      return a.estimate == b.estimate && a.bound == b.bound && a.stages == b.stages &&
             a.costs->microbatches() == b.costs->microbatches();
    };
    candidates.erase(std::unique(candidates.begin(), candidates.end(), alike), candidates.end());
    return candidates;
  }

  // One file of all devices, in the smallest microbatches.
  std::vector<Candidate> RunSmallest() const {
    const std::vector<Task> tasks = SmallestTasks();
    PartitionOptions options = OptionsFor(*planning_.cluster);
    options.most_skipped = 0;
    std::vector<Candidate> candidates;
    for (std::vector<Candidate>& some : CandidatesOf(tasks, options)) {
      std::erase_if(some, [](const Candidate& one) {
        return one.stages != static_cast<int>(one.chunks.size());
      });
      std::move(some.begin(), some.end(), std::back_inserter(candidates));
    }
    return candidates;
  }

  // The same with a device for each stage and stages that take equally long: near to what needs
  // least, and off the estimates.
  std::vector<Candidate> BalancedSmallest() const {
    std::vector<Candidate> candidates;
    for (const Task& task : SmallestTasks()) {
      const auto costs =
          std::make_shared<StageCosts>(table_, task.line, task.microbatches, memory_factor_);
      std::vector<int> types = task.line->types();
      types.resize(std::min(types.size(), static_cast<size_t>(table_.layers())));
      Partition partition;
      for (const LayerRun& run :
           BalancedRuns(table_.SecondsFor(costs->rows()), table_.layers(), types)) {
        const int at = static_cast<int>(partition.stages.size());
        partition.stages.push_back({run.first, run.last + 1, {at, 1}, true});
      }
      candidates.push_back(StraightCandidate(costs, partition));
    }
    return candidates;
  }

 private:
  struct Line {
    std::shared_ptr<const DeviceLine> devices;
    std::vector<int64_t> counts;  // of microbatches, of each pipeline
  };
  struct Task {
    std::shared_ptr<const DeviceLine> line;
    int64_t microbatches;
  };

  // Side by side.
  std::vector<int> PipelineCounts() const {
    constexpr int kMost = 32;
    const int devices = planning_.cluster->device_count();
    std::vector<int> counts;
    for (int count = 2; count <= std::min(kMost, devices); ++count) {
      if (devices % count == 0) counts.push_back(count);
    }
    return counts;
  }

  std::vector<Task> SmallestTasks() const {
    std::vector<Task> tasks;
    for (const std::vector<int>& order : Orders()) {
      std::vector<Line> lines;
      AddLine({order}, lines);
      const std::vector<int64_t>& counts = lines[0].counts;
      if (!counts.empty()) tasks.push_back({lines[0].devices, counts.back()});
    }
    return tasks;
  }

  std::vector<std::vector<int>> Orders() const {
    std::vector<double> speed;
    for (const Device& device : planning_.cluster->devices()) {
      speed.push_back(table_.SpeedOf(device.type));
    }
    return DeviceOrders(*planning_.cluster, speed);
  }

  void AddLine(std::vector<std::vector<int>> files, std::vector<Line>& lines) const {
    if (files.empty()) return;
    const auto pipelines = std::ssize(files);
    Line line{std::make_shared<DeviceLine>(table_, std::move(files)), {}};
    for (const int64_t count : MicrobatchCounts(planning_, pipelines)) {
      line.counts.push_back(count / pipelines);
    }
    lines.push_back(std::move(line));
  }

  PartitionOptions CoarseOptions(PartitionOptions coarse) const {
    coarse.most_cuts = kCoarseCuts;
    coarse.most_skipped = 0;
    coarse.equal_parts = true;
    coarse.tolerance = 0;
    if (coarse.counts.empty()) coarse.counts = RoundCounts(planning_.cluster->device_count());
    return coarse;
  }

  // More than `above` microbatches in all pipelines together, and at most `most`.
  static std::vector<Task> TasksOf(const std::vector<Line>& lines, int64_t above, int64_t most) {
    std::vector<Task> tasks;
    for (const Line& line : lines) {
      const auto pipelines = std::ssize(line.devices->files());
      for (const int64_t count : line.counts) {
        if (count * pipelines > above && count * pipelines <= most) {
          tasks.push_back({line.devices, count});
        }
      }
    }
    return tasks;
  }

  // What the coarse search found best.
  struct Coarse {
    PartitionOptions options;
    double estimate = 1e300;
    int64_t microbatches = 0;  // of all pipelines
  };

  bool Improve(const std::vector<Task>& tasks, Coarse& best) const {
    const double before = best.estimate;
    for (const std::vector<Candidate>& some : CandidatesOf(tasks, best.options)) {
      for (const Candidate& candidate : some) {
        if (candidate.estimate >= best.estimate) continue;
        best.estimate = candidate.estimate;
        best.microbatches = candidate.costs->microbatches() * candidate.costs->pipelines();
      }
    }
    best.options.limit = std::min(best.options.limit, kSlack * best.estimate);
    return best.estimate < before;
  }

  // A coarse search first: what it finds spares the fine one work, whose tasks are those worth it.
  // In two halves, for what the first finds spares the second work, too; pipelines of few devices,
  // soon done, are in the first. A limit that threads lower as they go would make the result depend
  // on time. More microbatches than usual as long as they help: two doublings in vain are enough.
  double CoarseLimit(const std::vector<Line>& lines, const PartitionOptions& options,
                     std::vector<Task>& tasks) const {
    constexpr int64_t kMost = 256;
    const int64_t batch = planning_.request.batch;
    int64_t usual = std::min({batch, kMost, int64_t{8} * planning_.cluster->device_count()});
    if (planning_.request.microbatches) usual = batch;
    Coarse best{CoarseOptions(options)};
    tasks = TasksOf(lines, 0, usual);
    const auto middle = tasks.begin() + static_cast<std::ptrdiff_t>(tasks.size() / 2);
    Improve(std::vector<Task>(middle, tasks.end()), best);
    Improve(std::vector<Task>(tasks.begin(), middle), best);
    const int64_t found = best.microbatches;
    int in_vain = found > 0 && 4 * found <= usual ? 2 : (found > 0 && 2 * found <= usual ? 1 : 0);
    for (int64_t most = usual; most < batch && (in_vain < 2 || best.microbatches == 0); most *= 2) {
      const std::vector<Task> more = TasksOf(lines, most, 2 * most);
      in_vain = Improve(more, best) ? 0 : in_vain + 1;
      tasks.insert(tasks.end(), more.begin(), more.end());
    }
    return best.options.limit;
  }

  // By two threads; each takes the next task.
  std::vector<std::vector<Candidate>> CandidatesOf(const std::vector<Task>& tasks,
                                                   const PartitionOptions& options) const {
    std::vector<std::vector<Candidate>> found(tasks.size());
    ForEachOnTwoThreads(tasks.size(),
                        [&](size_t k) { found[k] = CandidatesOf(tasks[k], options); });
    return found;
  }

  std::vector<Candidate> CandidatesOf(const Task& task, const PartitionOptions& options) const {
    if (planning_.deadline.passed()) return {};
    const auto costs =
        std::make_shared<StageCosts>(table_, task.line, task.microbatches, memory_factor_);
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

  static constexpr double kSlack = 1.15;  // above the best estimate
  static constexpr int kCoarseCuts = 16;

  const Planning& planning_;
  const LayerTable& table_;
  double memory_factor_;
};

}  // namespace

std::vector<Candidate> FindCandidates(const LayerTable& table, double memory_factor) {
  return Search(table, memory_factor).Run();
}

std::vector<Candidate> FindLeastMemory(const LayerTable& table) {
  constexpr int kHalvings = 6;
  double found_at = 0, too_much = 1;
  std::vector<Candidate> least = Search(table, found_at).RunSmallest();
  for (int k = 0; k < kHalvings; ++k) {
    const double middle = (found_at + too_much) / 2;
    std::vector<Candidate> some = Search(table, middle).RunSmallest();
    (some.empty() ? too_much : found_at) = middle;
    if (!some.empty()) least = std::move(some);
  }
  constexpr size_t kMost = 8;
  std::vector<Candidate> balanced = Search(table, found_at).BalancedSmallest();
  for (std::vector<Candidate>* some : {&least, &balanced}) {
    if (some->size() > kMost) some->resize(kMost);
  }
  std::move(balanced.begin(), balanced.end(), std::back_inserter(least));
  return least;
}

}  // namespace heddle
