#include "plan/pipeline/stage_partition.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace heddle {

LayerSeconds::LayerSeconds(const Planning& planning, int64_t rows) {
  const OpCost cost = planning.cost();
  for (const DeviceTypeSpec& type : planning.cluster->types()) {
    std::vector<double> sums = {0};
    for (const ChainLayer& layer : planning.chain.layers) {
      double sum = 0;
      for (const auto* ops : {&layer.forward, &layer.backward}) {
        for (const OpId id : *ops) sum += cost.RowsSeconds(planning.graph.op(id), rows, type).value;
      }
      sums.push_back(sums.back() + sum);
    }
    sums_.push_back(std::move(sums));
  }
}

std::vector<LayerRun> BalancedRuns(const LayerSeconds& seconds, int layers,
                                   const std::vector<int>& types) {
  const int runs = static_cast<int>(types.size());
  HEDDLE_CHECK(runs >= 1 && runs <= layers);
  const auto at = [&](int k, int l) { return static_cast<size_t>(k * (layers + 1) + l); };
  // least[k][l]: the smallest bottleneck of layers 0..l-1 in k runs; cut[k][l]: where the last
  // begins.
  std::vector<double> least(at(runs + 1, 0), std::numeric_limits<double>::infinity());
  std::vector<int> cut(least.size(), -1);
  least[at(0, 0)] = 0;
  for (int k = 1; k <= runs; ++k) {
    for (int l = k; l <= layers - (runs - k); ++l) {
      for (int first = l - 1; first >= k - 1; --first) {
        const double last_run = seconds.Of(types[static_cast<size_t>(k - 1)], first, l - 1);
        const double bottleneck = std::max(least[at(k - 1, first)], last_run);
        if (bottleneck < least[at(k, l)]) {
          least[at(k, l)] = bottleneck;
          cut[at(k, l)] = first;
        }
        if (last_run >= least[at(k, l)]) break;  // longer runs are only slower
      }
    }
  }
  std::vector<LayerRun> result(static_cast<size_t>(runs));
  for (int k = runs, l = layers; k >= 1; --k) {
    const int first = cut[at(k, l)];
    result[static_cast<size_t>(k - 1)] = {first, l - 1};
    l = first;
  }
  return result;
}

}  // namespace heddle
