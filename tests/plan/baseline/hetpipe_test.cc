#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

#include "plan/baseline/virtual_workers.h"

namespace heddle {
namespace {

// Two nodes with four devices each, of two types.
const WorkerDevices kMixed8 = {{0, 0, 0, 0, 1, 1, 1, 1}, {0, 0, 0, 0, 1, 1, 1, 1}};

TEST(VirtualWorkersTest, Allocations) {
  EXPECT_EQ(NodePartition(kMixed8, 2), (std::vector<VirtualWorker>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(EqualDistribution(kMixed8, 2),
            (std::vector<VirtualWorker>{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(EqualDistribution(kMixed8, 4),
            (std::vector<VirtualWorker>{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST(VirtualWorkersTest, NodesOfDifferentSizeStayWhole) {
  const WorkerDevices devices = {{0, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 0, 0}};
  EXPECT_EQ(NodePartition(devices, 2), (std::vector<VirtualWorker>{{0, 1, 2, 3, 4}, {5}}));
}

double Bottleneck(const WorkerCosts& costs, const std::vector<LayerRun>& runs) {
  double slowest = 0;
  for (size_t s = 0; s < runs.size(); ++s) {
    slowest = std::max(slowest,
                       WorkerStageSeconds(costs, static_cast<int>(s), runs[s].first, runs[s].last));
  }
  return slowest;
}

// Against all ways to cut the chain.
RC_GTEST_PROP(VirtualWorkersTest, PartitionEqualsEnumeration, ()) {
  WorkerCosts costs;
  const int layers = *rc::gen::inRange(1, 8);
  const int stages = *rc::gen::inRange(1, std::min(layers, 4) + 1);
  for (int s = 0; s < stages; ++s) {
    costs.seconds.emplace_back();
    for (int l = 0; l < layers; ++l) costs.seconds.back().push_back(*rc::gen::inRange(1, 20));
    if (s > 0) costs.bandwidth.push_back(*rc::gen::inRange(1, 5));
  }
  for (int l = 1; l < layers; ++l) {
    costs.forward_bytes.push_back(*rc::gen::inRange(0, 20));
    costs.backward_bytes.push_back(*rc::gen::inRange(0, 20));
  }
  double best = std::numeric_limits<double>::infinity();
  for (int mask = 0; mask < 1 << (layers - 1); ++mask) {
    std::vector<LayerRun> runs = {{0, 0}};
    for (int l = 1; l < layers; ++l) {
      if ((mask >> (l - 1) & 1) != 0) {
        runs.push_back({l, l});
      } else {
        runs.back().last = l;
      }
    }
    if (static_cast<int>(runs.size()) == stages) best = std::min(best, Bottleneck(costs, runs));
  }
  const std::vector<LayerRun> found = PartitionWorker(costs);
  RC_ASSERT(found.front().first == 0 && found.back().last == layers - 1);
  RC_ASSERT(std::abs(Bottleneck(costs, found) - best) <= 1e-12 * best);
}

}  // namespace
}  // namespace heddle
