#include "plan/baseline/pipedream_partition.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace heddle {
namespace {

double StageSeconds(const CutStates& states, int begin, int end, int replicas, double bandwidth) {
  const double r = replicas;
  const double sync = 4 * (r - 1) * states.ParameterBytes(begin, end) / (bandwidth * r);
  return (states.Seconds(begin, end) + sync) / r;
}

// Input and output of a stage that is not the first.
double TransferSeconds(const CutStates& states, int begin, int end, int replicas,
                       double bandwidth) {
  const double in = states[begin - 1].crossing_bytes;
  const double out = end < states.size() ? states[end - 1].crossing_bytes : 0;
  return 2 * std::max(in, out) / (bandwidth * replicas);
}

class Partitioner {
 public:
  Partitioner(const CutStates& states, int groups, int unit, double bandwidth)
      : states_(states), groups_(groups), unit_(unit), bandwidth_(bandwidth) {
    cells_.resize(static_cast<size_t>(states.size() * (groups + 1)));
    for (int j = 0; j < states.size(); ++j) FillAlone(j);
    for (int j = 0; j < states.size(); ++j) {
      for (const int k : states.Within(j)) FillAfter(k, j);
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

  void FillAlone(int j) {
    for (int m = 1; m <= groups_; ++m) {
      cells_[At(j, m)] = {StageSeconds(states_, 0, j + 1, m * unit_, bandwidth_), -1, m};
    }
  }

  // The last stage is what state j has beyond state k, on r groups.
  void FillAfter(int k, int j) {
    for (int r = 1; r < groups_; ++r) {
      const double last = std::max(StageSeconds(states_, k + 1, j + 1, r * unit_, bandwidth_),
                                   TransferSeconds(states_, k + 1, j + 1, r * unit_, bandwidth_));
      for (int m = r + 1; m <= groups_; ++m) {
        const double seconds = std::max(cells_[At(k, m - r)].seconds, last);
        Cell& cell = cells_[At(j, m)];
        if (seconds < cell.seconds) cell = {seconds, k, r};
      }
    }
  }

  const CutStates& states_;
  int groups_;
  int unit_;
  double bandwidth_;
  std::vector<Cell> cells_;
};

}  // namespace

PipeDreamPartition PartitionPipeDream(const CutStates& states, int devices, double bandwidth,
                                      int unit) {
  HEDDLE_CHECK(states.size() >= 1 && bandwidth > 0);
  HEDDLE_CHECK(unit >= 1 && devices >= unit && devices % unit == 0);
  return Partitioner(states, devices / unit, unit, bandwidth).Take();
}

double PipeDreamSeconds(const CutStates& states, const std::vector<PipeDreamStage>& stages,
                        double bandwidth) {
  double slowest = 0;
  for (const PipeDreamStage& stage : stages) {
    slowest =
        std::max(slowest, StageSeconds(states, stage.begin, stage.end, stage.replicas, bandwidth));
    if (stage.begin == 0) continue;
    slowest = std::max(slowest,
                       TransferSeconds(states, stage.begin, stage.end, stage.replicas, bandwidth));
  }
  return slowest;
}

}  // namespace heddle
