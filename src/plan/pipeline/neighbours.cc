#include "plan/pipeline/neighbours.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "plan/microbatch_counts.h"

namespace heddle {
namespace {

using Stages = std::vector<PartitionStage>;

class Finder {
 public:
  explicit Finder(const Candidate& from) : from_(from) {}

  std::vector<Candidate> All() {
    for (size_t s = 0; s + 1 < from_.chunks.size(); ++s) {
      MoveCut(s);
      MoveDevice(s);
      Join(s);
    }
    for (size_t s = 0; s < from_.chunks.size(); ++s) Divide(s);
    ChangeCount();
    // Pipelines side by side have to stay alike.
    if (from_.costs->pipelines() == 1) ExchangeDevices();
    return std::move(found_);
  }

 private:
  // Keeps it if every stage fits; whether it recomputes is decided anew.
  void Keep(const std::shared_ptr<const StageCosts>& costs, Stages stages) {
    const auto count = static_cast<int>(stages.size());
    for (int s = 0; s < count; ++s) {
      PartitionStage& stage = stages[static_cast<size_t>(s)];
      const auto cost = costs->StageOf(stage.first, stage.end, stage.devices, count - s);
      if (std::isinf(cost.seconds)) return;
      stage.recompute = cost.recompute;
    }
    found_.push_back(StraightCandidate(costs, {std::move(stages), 0, 0}));
  }
  void Keep(Stages stages) { Keep(from_.costs, std::move(stages)); }

  // The same stages with more or fewer microbatches.
  void ChangeCount() {
    const LayerTable& table = from_.costs->table();
    const int64_t pipelines = from_.costs->pipelines(), all = from_.costs->microbatches();
    for (int round = 0; round < kRefinements; ++round) {
      for (const int64_t count : CountsNear(table.planning(), all * pipelines, round, pipelines)) {
        Keep(std::make_shared<StageCosts>(table, from_.costs->line_pointer(), count / pipelines,
                                          from_.costs->memory_factor()),
             from_.chunks);
      }
    }
  }

  // Between stages s and s + 1: by a few layers, and to the next place in either direction where
  // clearly less is sent.
  void MoveCut(size_t s) {
    const int now = from_.chunks[s].end;
    std::set<int> cuts;
    for (const int step : {-4, -2, -1, 1, 2, 4}) cuts.insert(now + step);
    const LayerTable& table = from_.costs->table();
    const auto bytes = [&](int cut) { return table.ForwardBytes(cut) + table.BackwardBytes(cut); };
    for (const int step : {-1, 1}) {
      constexpr double kLess = 0.75;
      int cut = now + step;
      const auto inside = [&] {
        return cut > from_.chunks[s].first && cut < from_.chunks[s + 1].end;
      };
      while (inside() && bytes(cut) > kLess * bytes(now)) cut += step;
      cuts.insert(cut);
    }
    for (const int cut : cuts) {
      if (cut <= from_.chunks[s].first || cut >= from_.chunks[s + 1].end) continue;
      Stages stages = from_.chunks;
      stages[s].end = stages[s + 1].first = cut;
      Keep(std::move(stages));
    }
  }

  void MoveDevice(size_t s) {
    const DeviceRange left = from_.chunks[s].devices, right = from_.chunks[s + 1].devices;
    if (left.count > 1) {
      Stages stages = from_.chunks;
      stages[s].devices.count--;
      stages[s + 1].devices = {left.end() - 1, right.end() - left.end() + 1};
      Keep(std::move(stages));
    }
    if (right.count > 1) {
      Stages stages = from_.chunks;
      stages[s].devices.count = right.at + 1 - left.at;
      stages[s + 1].devices = {right.at + 1, right.count - 1};
      Keep(std::move(stages));
    }
  }

  void Join(size_t s) {
    Stages stages = from_.chunks;
    const PartitionStage after = stages[s + 1];
    stages[s].end = after.end;
    stages[s].devices.count = after.devices.end() - stages[s].devices.at;
    stages.erase(stages.begin() + static_cast<std::ptrdiff_t>(s) + 1);
    Keep(std::move(stages));
  }

  // One device off either end, with as many of the layers.
  void Divide(size_t s) {
    const PartitionStage whole = from_.chunks[s];
    const int layers = whole.end - whole.first;
    if (whole.devices.count < 2 || layers < 2) return;
    for (const int first : {1, whole.devices.count - 1, whole.devices.count / 2}) {
      Stages stages = from_.chunks;
      const int part = std::clamp(layers * first / whole.devices.count, 1, layers - 1);
      stages[s].end = whole.first + part;
      stages[s].devices.count = first;
      stages.insert(stages.begin() + static_cast<std::ptrdiff_t>(s) + 1,
                    {whole.first + part,
                     whole.end,
                     {whole.devices.at + first, whole.devices.count - first},
                     false});
      Keep(std::move(stages));
    }
  }

  // Of different stages; devices of one type in one node are the same.
  void ExchangeDevices() {
    const std::vector<int>& order = from_.costs->order();
    constexpr size_t kMostDevices = 32;
    if (order.size() > kMostDevices) return;
    const Cluster& cluster = *from_.costs->table().planning().cluster;
    std::vector<int> stage_at(order.size(), -1);
    for (size_t s = 0; s < from_.chunks.size(); ++s) {
      const DeviceRange range = from_.chunks[s].devices;
      for (int k = range.at; k < range.end(); ++k)
        stage_at[static_cast<size_t>(k)] = static_cast<int>(s);
    }
    const auto kind = [&](size_t place) {
      const Device& device = cluster.device(DeviceId{order[place]});
      return std::pair(device.node, device.type);
    };
    std::set<std::tuple<int, int, std::pair<int, int>, std::pair<int, int>>> seen;
    for (size_t a = 0; a < order.size(); ++a) {
      for (size_t b = a + 1; b < order.size(); ++b) {
        if (stage_at[a] == stage_at[b] || kind(a) == kind(b)) continue;
        if (!seen.emplace(stage_at[a], stage_at[b], kind(a), kind(b)).second) continue;
        std::vector<int> other = order;
        std::swap(other[a], other[b]);
        KeepOrder(other);
      }
    }
  }

  void KeepOrder(const std::vector<int>& order) {
    const LayerTable& table = from_.costs->table();
    const auto line = std::make_shared<DeviceLine>(table, std::vector<std::vector<int>>{order});
    Keep(std::make_shared<StageCosts>(table, line, from_.costs->microbatches(),
                                      from_.costs->memory_factor()),
         from_.chunks);
  }

  const Candidate& from_;
  std::vector<Candidate> found_;
};

}  // namespace

std::vector<Candidate> Neighbours(const Candidate& candidate) { return Finder(candidate).All(); }

}  // namespace heddle
