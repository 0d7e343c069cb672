#include "plan/baseline/straight_pipeline.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/check.h"

namespace heddle {
namespace {

// The ways to place a stage's devices one by one multiply with the nodes; on larger clusters only
// one is followed.
constexpr int kFewDevices = 64;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Program {
 public:
  // `one_way` places a stage's devices together, fresh first where that is possible: quick, and its
  // pivot is a limit for the whole search.
  Program(const DappleInput& input, int stages, int each, bool one_way, double limit)
      : input_(input), each_(each), one_way_(one_way), limit_(limit) {
    const CutStates& states = *input.states;
    Layer first(static_cast<size_t>(states.size()));
    const NodeCounts none(input.nodes.size(), 0);
    const NodeCounts start = PlaceNext(input.nodes, none, each)[0];
    for (int j = 0; j < states.size(); ++j) {
      const double seconds = states.Seconds(0, j + 1) / each;
      if (seconds <= limit) first[static_cast<size_t>(j)][start] = {seconds, -1, none, start};
    }
    layers_.push_back(std::move(first));
    for (int s = 1; s < stages; ++s) layers_.push_back(Next(layers_.back()));
  }

  std::optional<DappleDecision> Take() const {
    const Places& last = layers_.back().back();
    const auto best = std::min_element(last.begin(), last.end(), [](const auto& a, const auto& b) {
      return a.second.pivot < b.second.pivot;
    });
    if (best == last.end()) return std::nullopt;
    DappleDecision decision;
    decision.family = "straight";
    decision.groups = each_;
    decision.pivot = best->second.pivot;
    int end = input_.states->size();
    NodeCounts used = best->first;
    for (size_t s = layers_.size(); s-- > 0;) {
      const Cell& cell = layers_[s][static_cast<size_t>(end - 1)].at(used);
      decision.stages.push_back({cell.before + 1, end, cell.devices});
      end = cell.before + 1;
      used = cell.used_before;
    }
    std::reverse(decision.stages.begin(), decision.stages.end());
    return decision;
  }

 private:
  struct Cell {
    double pivot = kInfinity;
    int before = -1;         // state that the last stage begins after
    NodeCounts used_before;  // by the stages before
    NodeCounts devices;      // of the last stage
  };
  struct Way {
    NodeCounts devices;
    NodeCounts used_after;
  };
  using Places = std::map<NodeCounts, Cell>;  // by devices in use
  using Layer = std::vector<Places>;          // by state

  Layer Next(const Layer& shorter) {
    Layer longer(shorter.size());
    for (int j = 0; j < static_cast<int>(shorter.size()); ++j) {
      for (const int k : input_.states->Within(j)) {
        const double seconds = input_.states->Seconds(k + 1, j + 1) / each_;
        if (seconds > limit_) continue;
        for (const auto& [used, cell] : shorter[static_cast<size_t>(k)]) {
          Extend(used, cell, k, seconds, longer[static_cast<size_t>(j)]);
        }
      }
    }
    return longer;
  }

  void Extend(const NodeCounts& used, const Cell& cell, int k, double seconds, Places& places) {
    const double before_transfer = std::max(cell.pivot, seconds);
    for (const Way& way : Ways(used)) {
      const auto known = places.find(way.used_after);
      if (known != places.end() && before_transfer >= known->second.pivot) continue;
      const double transfer = DappleTransfer(input_.network, cell.devices, way.devices,
                                             2 * (*input_.states)[k].crossing_bytes);
      const double pivot = std::max(before_transfer, transfer);
      if (pivot > limit_ || (known != places.end() && pivot >= known->second.pivot)) continue;
      places[way.used_after] = {pivot, k, used, way.devices};
    }
  }

  const std::vector<Way>& Ways(const NodeCounts& used) {
    const auto [found, fresh] = ways_.try_emplace(used);
    if (fresh) {
      std::vector<NodeCounts> ways = one_way_ ? PlaceNext(input_.nodes, used, each_)
                                              : PlaceOneByOne(input_.nodes, used, each_);
      if (one_way_) ways.resize(1);
      for (NodeCounts& way : ways) found->second.push_back({way, Plus(used, way)});
    }
    return found->second;
  }

  const DappleInput& input_;
  int each_;
  bool one_way_;
  double limit_;
  std::vector<Layer> layers_;  // by number of stages, from 1
  std::map<NodeCounts, std::vector<Way>> ways_;
};

// The pivot of stages that take about equally long, each on the next devices; infinite where not
// every state lies within all that follow.
double EvenPivot(const DappleInput& input, int stages, int each) {
  const CutStates& states = *input.states;
  const int count = states.size();
  if (count < stages || std::ssize(states.Within(count - 1)) != count - 1) return kInfinity;
  NodeCounts used(input.nodes.size(), 0), before;
  double pivot = 0;
  for (int s = 0, begin = 0; s < stages; ++s) {
    const NodeCounts devices = PlaceNext(input.nodes, used, each)[0];
    int end = s + 1 == stages ? count : begin + 1;
    const double even = states.back().seconds * (s + 1) / stages;
    while (end < count - (stages - 1 - s) && states[end].seconds <= even) ++end;
    pivot = std::max(pivot, states.Seconds(begin, end) / each);
    if (s > 0) {
      pivot = std::max(pivot, DappleTransfer(input.network, before, devices,
                                             2 * states[begin - 1].crossing_bytes));
    }
    used = Plus(used, devices);
    before = devices;
    begin = end;
  }
  return pivot;
}

}  // namespace

std::optional<DappleDecision> StraightPipeline(const DappleInput& input, int stages, int each) {
  HEDDLE_CHECK(stages >= 2 && stages * each <= Sum(input.nodes));
  auto quick =
      Program(input, stages, each, /*one_way=*/true, EvenPivot(input, stages, each)).Take();
  if (!quick || Sum(input.nodes) > kFewDevices) return quick;
  auto best = Program(input, stages, each, /*one_way=*/false, quick->pivot).Take();
  return best ? best : quick;
}

}  // namespace heddle
