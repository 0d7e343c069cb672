#include "plan/baseline/pipedream_partition.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace heddle {
namespace {

// Sums of seconds differ by so much with the order in which they are added.
constexpr double kRounding = 1e-9;

// What a stage costs whatever the number of its replicas.
struct StageCost {
  StageCost(const CutStates& states, int begin, int end)
      : seconds(states.Seconds(begin, end)), parameters(states.ParameterBytes(begin, end)) {
    if (begin == 0) return;
    const double in = states[begin - 1].crossing_bytes;
    const double out = end < states.size() ? states[end - 1].crossing_bytes : 0;
    crossing = std::max(in, out);
  }

  double Seconds(int replicas, double bandwidth) const {
    const double r = replicas;
    const double sync = 4 * (r - 1) * parameters / (bandwidth * r);
    return std::max((seconds + sync) / r, 2 * crossing / (bandwidth * r));
  }

  double seconds, parameters;
  double crossing = 0;  // input or output of a stage that is not the first
};

// What takes longer than the limit is in no best partition. So the stages after state j, which have
// its rest of the work, need some groups at least, and those up to j can have no more than the
// others; and they need as many as the fewest with which they were within the limit.
class Partitioner {
 public:
  Partitioner(const CutStates& states, int groups, int unit, double bandwidth, double limit)
      : states_(states),
        groups_(groups),
        unit_(unit),
        bandwidth_(bandwidth),
        limit_(limit * (1 + kRounding)) {
    const auto count = static_cast<size_t>(states.size());
    cells_.resize(count * static_cast<size_t>(groups + 1));
    slowest_from_.resize(static_cast<size_t>(groups + 1));
    fewest_.resize(count, groups + 1);
    for (int j = 0; j < states.size(); ++j) {
      most_.push_back(MostGroups(j));
      FillAlone(j);
    }
    for (int j = 0; j < states.size(); ++j) {
      changed_ = true;
      for (const int k : states.Within(j)) FillAfter(k, j);
      fewest_[static_cast<size_t>(j)] = FewestGroups(j);
    }
  }

  PipeDreamPartition Take() const {
    PipeDreamPartition partition;
    int j = states_.size() - 1;
    int m = groups_;
    partition.seconds = cells_[At(j, m)].seconds;
    while (j >= 0) {
      const Cell& cell = cells_[At(j, m)];
      partition.stages.push_back({cell.before + 1, j + 1, cell.groups * unit_});
      j = cell.before;
      m -= cell.groups;
    }
    std::reverse(partition.stages.begin(), partition.stages.end());
    return partition;
  }

 private:
  struct Cell {
    double seconds = std::numeric_limits<double>::infinity();
    int before = -1;  // the state that the last stage begins after; -1: it is the only one
    int groups = 0;   // of devices, of the last stage
  };

  size_t At(int state, int groups) const {
    return static_cast<size_t>(state * (groups_ + 1) + groups);
  }

  // For the stages up to state j, with enough left for the others.
  int MostGroups(int j) const {
    const double rest = states_.back().seconds - states_[j].seconds;
    const double need = rest / (limit_ * unit_) * (1 - kRounding);
    return groups_ - static_cast<int>(std::min<double>(groups_, std::ceil(need)));
  }

  int FewestGroups(int j) const {
    for (int m = 1; m <= groups_; ++m) {
      if (cells_[At(j, m)].seconds <= limit_) return m;
    }
    return groups_ + 1;
  }

  void FillAlone(int j) {
    const StageCost whole(states_, 0, j + 1);
    for (int m = 1; m <= groups_; ++m) {
      cells_[At(j, m)] = {whole.Seconds(m * unit_, bandwidth_), -1, m};
    }
  }

  // The last stage is what state j has beyond state k, on r groups. It is of no use to those that
  // are as fast without.
  void FillAfter(int k, int j) {
    const int before = fewest_[static_cast<size_t>(k)], most = most_[static_cast<size_t>(j)];
    if (before >= most) return;
    if (changed_) FindSlowest(j);
    const StageCost stage(states_, k + 1, j + 1);
    for (int r = 1; r + before <= most; ++r) {
      const double last = stage.Seconds(r * unit_, bandwidth_);
      if (last > limit_) continue;
      for (int m = r + before; m <= most && last < slowest_from_[static_cast<size_t>(m)]; ++m) {
        const double seconds = std::max(cells_[At(k, m - r)].seconds, last);
        Cell& cell = cells_[At(j, m)];
        if (seconds >= cell.seconds) continue;
        cell = {seconds, k, r};
        changed_ = true;
      }
    }
  }

  void FindSlowest(int j) {
    double slowest = 0;
    for (int m = most_[static_cast<size_t>(j)]; m >= 1; --m) {
      slowest = std::max(slowest, cells_[At(j, m)].seconds);
      slowest_from_[static_cast<size_t>(m)] = slowest;
    }
    changed_ = false;
  }

  const CutStates& states_;
  int groups_;
  int unit_;
  double bandwidth_;
  double limit_;
  std::vector<Cell> cells_;
  std::vector<int> fewest_, most_;  // groups of the stages up to a state
  // Of the state at hand, by number of groups: with so many or more.
  std::vector<double> slowest_from_;
  bool changed_ = true;  // since they were found
};

}  // namespace

PipeDreamPartition PartitionPipeDream(const CutStates& states, int devices, double bandwidth,
                                      int unit, double limit) {
  HEDDLE_CHECK(states.size() >= 1 && bandwidth > 0);
  HEDDLE_CHECK(unit >= 1 && devices >= unit && devices % unit == 0);
  return Partitioner(states, devices / unit, unit, bandwidth, limit).Take();
}

double PipeDreamSeconds(const CutStates& states, const std::vector<PipeDreamStage>& stages,
                        double bandwidth) {
  double slowest = 0;
  for (const PipeDreamStage& stage : stages) {
    const StageCost cost(states, stage.begin, stage.end);
    slowest = std::max(slowest, cost.Seconds(stage.replicas, bandwidth));
  }
  return slowest;
}

}  // namespace heddle
