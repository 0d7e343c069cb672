#include "plan/baseline/dapple_search.h"

#include <algorithm>

#include "base/check.h"
#include "plan/baseline/straight_pipeline.h"

namespace heddle {
namespace {

// More stages than this are not searched: the places multiply, and the original tries only two
// numbers of stages.
constexpr int kMostStages = 16;

double ReducedBytes(const DappleInput& input, const DappleStage& stage) {
  const bool more = input.network.counts_next_state && stage.end < input.states->size();
  return input.states->ParameterBytes(stage.begin, stage.end + (more ? 1 : 0));
}

DappleDecision OneStage(const DappleInput& input, int groups) {
  const double devices = Sum(input.nodes);
  return {"one", {{0, input.states->size(), input.nodes}}, groups,
          1,     input.states->back().seconds / devices,   0};
}

// Every cut, every number of devices, every placement; the same decision, changed.
template <class Visit>
void ForEachTwoStages(const DappleInput& input, const Visit& visit) {
  const CutStates& states = *input.states;
  const int devices = Sum(input.nodes);
  const NodeCounts none(input.nodes.size(), 0);
  for (int first = 1; first < devices; ++first) {
    for (const NodeCounts& a : PlaceNext(input.nodes, none, first)) {
      for (const NodeCounts& b : PlaceNext(input.nodes, a, devices - first)) {
        DappleDecision decision{"two", {{0, 0, a}, {0, states.size(), b}}, 1, 1, 0, 0};
        for (int cut = 1; cut < states.size(); ++cut) {
          decision.stages[0].end = decision.stages[1].begin = cut;
          decision.pivot =
              std::max({states.Seconds(0, cut) / first,
                        states.Seconds(cut, states.size()) / (devices - first),
                        DappleTransfer(input.network, a, b, states[cut - 1].crossing_bytes)});
          visit(decision);
        }
      }
    }
  }
}

std::optional<DappleDecision> Straight(const DappleInput& input, int stages) {
  const int each = Sum(input.nodes) / stages;
  if (input.straight == nullptr) return StraightPipeline(input, stages, each);
  const auto [known, is_new] = input.straight->try_emplace(stages);
  if (is_new) known->second = StraightPipeline(input, stages, each);
  return known->second;
}

}  // namespace

double DappleTransfer(const DappleNetwork& network, const NodeCounts& from, const NodeCounts& to,
                      double bytes) {
  if (OnOneNode(to)) {
    // Each sender holds an equal part; those on other nodes send theirs over the network.
    const auto node = static_cast<size_t>(
        std::find_if(to.begin(), to.end(), [](int count) { return count > 0; }) - to.begin());
    const double senders = Sum(from);
    const double away = senders - from[node];
    return away > 0 ? bytes * away / senders / network.point_to_point : bytes / network.local;
  }
  return bytes / network.collective;
}

double DappleAllReduce(const DappleNetwork& network, const NodeCounts& devices, double bytes) {
  const int members = Sum(devices);
  if (members == 1) return 0;
  const double moved = bytes * 2 * (members - 1) / members;
  if (!OnOneNode(devices)) return moved / network.collective;
  return moved / network.local / (network.many_local_links ? members / 2 : 1);
}

double DappleSpeedup(const DappleInput& input, const DappleDecision& decision) {
  if (decision.microbatches < 1) return 0;
  const double total = input.states->back().seconds;
  const auto count = static_cast<double>(decision.microbatches);
  const double parts = decision.groups * count;
  const double block = decision.pivot / count;
  double length = block * (count - 1) + total / parts;
  double late = 0;
  for (size_t i = 0; i < decision.stages.size(); ++i) {
    const DappleStage& stage = decision.stages[i];
    if (i > 0) {
      length += DappleTransfer(input.network, decision.stages[i - 1].devices, stage.devices,
                               (*input.states)[stage.begin - 1].crossing_bytes / parts);
    }
    const double sum = DappleAllReduce(input.network, stage.devices, ReducedBytes(input, stage));
    late = std::max(late, sum - static_cast<double>(i) * block);
  }
  return total / (length + late);
}

std::vector<DappleDecision> SearchDapple(const DappleInput& input, int64_t batch,
                                         int64_t microbatch) {
  HEDDLE_CHECK(input.states->size() >= 1 && batch >= 1 && microbatch >= 1);
  const int devices = Sum(input.nodes);
  const auto estimate = [&](DappleDecision& decision) {
    decision.microbatches = batch / decision.groups / microbatch;
    decision.speedup = DappleSpeedup(input, decision);
  };
  std::vector<DappleDecision> found;
  const auto add = [&](DappleDecision decision) {
    estimate(decision);
    if (decision.speedup > 0) found.push_back(std::move(decision));
  };
  for (int stages = 1; stages <= devices; ++stages) {
    if (devices % stages != 0) continue;
    add(OneStage(input, devices / stages));
    if (stages < 2 || stages > std::min(kMostStages, input.states->size())) continue;
    if (auto straight = Straight(input, stages)) add(*std::move(straight));
  }
  DappleDecision two;
  ForEachTwoStages(input, [&](DappleDecision& decision) {
    estimate(decision);
    if (decision.speedup > two.speedup) two = decision;
  });
  if (two.speedup > 0) found.push_back(std::move(two));
  std::stable_sort(
      found.begin(), found.end(),
      [](const DappleDecision& a, const DappleDecision& b) { return a.speedup > b.speedup; });
  return found;
}

}  // namespace heddle
