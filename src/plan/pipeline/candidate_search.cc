#include "plan/pipeline/candidate_search.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <tuple>

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
  Search(const LayerTable& table, double memory_factor)
      : planning_(table.planning()), table_(table), memory_factor_(memory_factor) {}

  std::vector<Candidate> Run() const {
    std::vector<double> speed;
    for (const Device& device : planning_.cluster->devices()) {
      speed.push_back(table_.SpeedOf(device.type));
    }
    std::vector<Task> tasks;
    for (const std::vector<int>& order : DeviceOrders(*planning_.cluster, speed)) {
      AddTasks({order}, tasks);
      for (const int files : PipelineCounts()) {
        AddTasks(FilesOf(*planning_.cluster, order, files), tasks);
      }
    }
    PartitionOptions options = OptionsFor(*planning_.cluster);
    options.limit = CoarseLimit(tasks, options);
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

 private:
  struct Task {
    std::shared_ptr<const DeviceLine> line;
    int64_t microbatches;
  };

  // Side by side: few, or as many as there are devices.
  std::vector<int> PipelineCounts() const {
    constexpr int kFew = 8, kMost = 32;
    const int devices = planning_.cluster->device_count();
    std::vector<int> counts;
    for (int count = 2; count <= std::min(kMost, devices); ++count) {
      if (devices % count == 0 && (count <= kFew || count == devices)) counts.push_back(count);
    }
    return counts;
  }

  void AddTasks(std::vector<std::vector<int>> files, std::vector<Task>& tasks) const {
    if (files.empty()) return;
    const auto pipelines = static_cast<int>(files.size());
    const auto line = std::make_shared<DeviceLine>(table_, std::move(files));
    for (const int64_t m : MicrobatchCounts(planning_, pipelines)) tasks.push_back({line, m});
  }

  // A coarse search first: what it finds spares the fine one work. In two halves, for what the
  // first finds spares the second work, too; pipelines of few devices, soon done, are in the first.
  // A limit that threads lower as they go would make the result depend on time.
  double CoarseLimit(const std::vector<Task>& tasks, PartitionOptions coarse) const {
    coarse.most_cuts = kCoarseCuts;
    coarse.most_skipped = 0;
    coarse.equal_parts = true;
    coarse.tolerance = 0;
    if (coarse.counts.empty()) coarse.counts = RoundCounts(planning_.cluster->device_count());
    const auto middle = tasks.begin() + static_cast<std::ptrdiff_t>(tasks.size() / 2);
    for (const auto& half :
         {std::vector<Task>(middle, tasks.end()), std::vector<Task>(tasks.begin(), middle)}) {
      const std::vector<std::vector<Candidate>> found = CandidatesOf(half, coarse);
      for (const std::vector<Candidate>& some : found) {
        for (const Candidate& candidate : some) {
          coarse.limit = std::min(coarse.limit, kSlack * candidate.estimate);
        }
      }
    }
    return coarse.limit;
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

}  // namespace heddle
