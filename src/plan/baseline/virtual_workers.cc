#include "plan/baseline/virtual_workers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace heddle {

std::vector<VirtualWorker> NodePartition(const WorkerDevices& devices, int workers) {
  const int count = static_cast<int>(devices.node.size());
  HEDDLE_CHECK(workers >= 1 && workers <= count);
  std::vector<int> nodes = devices.node;
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  std::vector<VirtualWorker> result(static_cast<size_t>(workers));
  for (int d = 0; d < count; ++d) {
    auto worker = static_cast<size_t>(int64_t{d} * workers / count);
    if (static_cast<int>(nodes.size()) == workers) {
      worker = static_cast<size_t>(
          std::lower_bound(nodes.begin(), nodes.end(), devices.node[static_cast<size_t>(d)]) -
          nodes.begin());
    }
    result[worker].push_back(d);
  }
  return result;
}

std::vector<VirtualWorker> EqualDistribution(const WorkerDevices& devices, int workers) {
  HEDDLE_CHECK(workers >= 1 && workers <= static_cast<int>(devices.type.size()));
  std::vector<int> sorted(devices.type.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) {
    return devices.type[static_cast<size_t>(a)] < devices.type[static_cast<size_t>(b)];
  });
  std::vector<VirtualWorker> result(static_cast<size_t>(workers));
  for (size_t k = 0; k < sorted.size(); ++k) {
    result[k % static_cast<size_t>(workers)].push_back(sorted[k]);
  }
  return result;
}

double WorkerStageSeconds(const WorkerCosts& costs, int stage, int first, int last) {
  const auto s = static_cast<size_t>(stage);
  const std::vector<double>& seconds = costs.seconds[s];
  double sum = std::accumulate(seconds.begin() + first, seconds.begin() + last + 1, 0.0);
  if (first > 0) {
    sum += costs.forward_bytes[static_cast<size_t>(first - 1)] / costs.bandwidth[s - 1];
  }
  if (last + 1 < static_cast<int>(seconds.size())) {
    sum += costs.backward_bytes[static_cast<size_t>(last)] / costs.bandwidth[s];
  }
  return sum;
}

namespace {

// Seconds of layers 0..l-1 on one stage's device.
std::vector<double> SumsOf(const std::vector<double>& seconds) {
  std::vector<double> sums(seconds.size() + 1, 0);
  std::partial_sum(seconds.begin(), seconds.end(), sums.begin() + 1);
  return sums;
}

}  // namespace

std::vector<LayerRun> PartitionWorker(const WorkerCosts& costs) {
  const int stages = static_cast<int>(costs.seconds.size());
  HEDDLE_CHECK(stages >= 1);
  const int layers = static_cast<int>(costs.seconds[0].size());
  HEDDLE_CHECK(stages <= layers);
  const auto at = [&](int s, int l) { return static_cast<size_t>(s * (layers + 1) + l); };
  // least[s][l]: the smallest bottleneck of layers 0..l-1 in s stages; cut: where the last begins.
  std::vector<double> least(at(stages + 1, 0), std::numeric_limits<double>::infinity());
  std::vector<int> cut(least.size(), -1);
  least[at(0, 0)] = 0;
  for (int s = 1; s <= stages; ++s) {
    const auto stage = static_cast<size_t>(s - 1);
    const std::vector<double> sums = SumsOf(costs.seconds[stage]);
    // Only the last stage may end with the last layer.
    const int end = s == stages ? layers : layers - 1;
    for (int l = s == stages ? layers : s; l <= end; ++l) {
      double& best = least[at(s, l)];
      const double back =
          l < layers ? costs.backward_bytes[static_cast<size_t>(l - 1)] / costs.bandwidth[stage]
                     : 0;
      for (int first = l - 1; first >= s - 1; --first) {
        const double computes = sums[static_cast<size_t>(l)] - sums[static_cast<size_t>(first)];
        if (computes + back > best) break;  // with more layers only longer
        const double before = least[at(s - 1, first)];
        if (before > best || std::isinf(before)) continue;
        double seconds = computes + back;
        if (first > 0) {
          seconds +=
              costs.forward_bytes[static_cast<size_t>(first - 1)] / costs.bandwidth[stage - 1];
        }
        const double bottleneck = std::max(before, seconds);
        if (bottleneck > best) continue;
        best = bottleneck;
        cut[at(s, l)] = first;
      }
    }
  }
  std::vector<LayerRun> runs(static_cast<size_t>(stages));
  for (int s = stages, l = layers; s >= 1; --s) {
    runs[static_cast<size_t>(s - 1)] = {cut[at(s, l)], l - 1};
    l = cut[at(s, l)];
  }
  return runs;
}

}  // namespace heddle
