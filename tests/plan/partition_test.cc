#include "plan/pipeline/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "random_cluster.h"

namespace heddle {
namespace {

struct Pair {
  double bottleneck, all_reduce;
};

// Every way to place layers first.. on devices at.., appended to `found` by number of stages.
class EveryPartition {
 public:
  explicit EveryPartition(const StageCosts& costs, int skipped)
      : costs_(costs), skipped_(skipped) {}

  std::vector<std::vector<Pair>> Run() {
    Extend(0, {}, {});
    return found_;
  }

 private:
  void Extend(int first, std::vector<PartitionStage> stages, Pair) {
    if (first == costs_.layers()) return Note(stages);
    const int start = stages.empty() ? 0 : stages.back().devices.end();
    const int last = stages.empty() ? costs_.devices() - 1 : start + skipped_;
    for (int at = start; at <= std::min(last, costs_.devices() - 1); ++at) {
      for (int count = 1; at + count <= costs_.devices(); ++count) {
        for (int end = first + 1; end <= costs_.layers(); ++end) {
          stages.push_back({first, end, {at, count}, false});
          Extend(end, stages, {});
          stages.pop_back();
        }
      }
    }
  }

  void Note(const std::vector<PartitionStage>& stages) {
    Pair pair{0, 0};
    for (size_t s = 0; s < stages.size(); ++s) {
      const PartitionStage& stage = stages[s];
      const int depth = static_cast<int>(stages.size() - s);
      pair.bottleneck = std::max(
          pair.bottleneck, costs_.StageOf(stage.first, stage.end, stage.devices, depth).seconds);
      pair.all_reduce = std::max(
          pair.all_reduce,
          costs_.AllReduceSeconds(costs_.AllReduceOver(stage.devices), stage.first, stage.end));
      if (s == 0) continue;
      pair.bottleneck =
          std::max(pair.bottleneck,
                   costs_.ChannelSeconds(
                       costs_.ChannelBetween(stages[s - 1].devices, stage.devices), stage.first));
    }
    if (found_.size() < stages.size()) found_.resize(stages.size());
    if (pair.bottleneck < 1e200) found_[stages.size() - 1].push_back(pair);
  }

  const StageCosts& costs_;
  int skipped_;
  std::vector<std::vector<Pair>> found_;
};

double LeastScore(const std::vector<Pair>& pairs, double cycles) {
  double least = 1e300;
  for (const Pair& p : pairs) least = std::min(least, cycles * p.bottleneck + p.all_reduce);
  return least;
}

TEST(PartitionTest, EqualsEveryWay) {
  std::mt19937 random(3);
  int replicated = 0, skipping = 0;
  for (int round = 0; round < 40; ++round) {
    const int devices = 2 + static_cast<int>(random() % 3);
    const Cluster cluster = RandomCluster(random, devices);
    PlanRequest options;
    options.model =
        fmt::format("mlp?layers={}&hidden={}&inputs=64", 2 + random() % 5, 64 << (random() % 4));
    options.batch = 64;
    const Planning planning = Planning::Make(options, cluster, nullptr).value();
    const LayerTable table(planning);
    std::vector<int> order(static_cast<size_t>(devices));
    for (int d = 0; d < devices; ++d) order[static_cast<size_t>(d)] = d;
    std::shuffle(order.begin(), order.end(), random);
    const StageCosts costs(
        table, std::make_shared<DeviceLine>(table, std::vector<std::vector<int>>{order}),
        int64_t{1} << (random() % 5));
    PartitionOptions search;
    search.most_skipped = static_cast<int>(random() % 3);
    const auto found = FindPartitions(costs, search);
    const auto every = EveryPartition(costs, search.most_skipped).Run();
    for (size_t n = 0; n < every.size(); ++n) {
      const std::vector<Partition> none;
      const std::vector<Partition>& mine = n < found.size() ? found[n] : none;
      EXPECT_EQ(mine.empty(), every[n].empty()) << round << " stages " << n + 1;
      // Any price of the bottleneck finds its best partition.
      for (const double cycles : {1.0, 3.0, 20.0, 1000.0}) {
        std::vector<Pair> pairs;
        for (const Partition& p : mine) pairs.push_back({p.bottleneck, p.all_reduce});
        const double least = LeastScore(every[n], cycles);
        EXPECT_NEAR(LeastScore(pairs, cycles), least, 1e-9 * least) << round << " stages " << n + 1;
      }
      for (const Partition& p : mine) {
        ASSERT_EQ(p.stages.size(), n + 1);
        EXPECT_EQ(p.stages.front().first, 0);
        EXPECT_EQ(p.stages.back().end, costs.layers());
        for (size_t s = 1; s < p.stages.size(); ++s) {
          EXPECT_EQ(p.stages[s].first, p.stages[s - 1].end);
          EXPECT_GE(p.stages[s].devices.at, p.stages[s - 1].devices.end());
          skipping += p.stages[s].devices.at > p.stages[s - 1].devices.end();
        }
        for (const PartitionStage& stage : p.stages) replicated += stage.devices.count > 1;
      }
    }
  }
  EXPECT_GT(replicated, 20);
  EXPECT_GT(skipping, 0);
}

// A limit leaves out only what is slower.
TEST(PartitionTest, LimitKeepsTheBest) {
  std::mt19937 random(5);
  const Cluster cluster = RandomCluster(random, 4);
  PlanRequest options;
  options.model = "mlp?layers=6";
  options.batch = 64;
  const Planning planning = Planning::Make(options, cluster, nullptr).value();
  const LayerTable table(planning);
  const StageCosts costs(
      table, std::make_shared<DeviceLine>(table, std::vector<std::vector<int>>{{0, 1, 2, 3}}), 4);
  const auto all = FindPartitions(costs, {});
  double best = 1e300;
  for (const auto& partitions : all) {
    for (const Partition& p : partitions) best = std::min(best, p.bottleneck);
  }
  PartitionOptions search;
  search.limit = 4 * best * 1.0001;
  const auto some = FindPartitions(costs, search);
  double again = 1e300;
  for (const auto& partitions : some) {
    for (const Partition& p : partitions) again = std::min(again, p.bottleneck);
  }
  EXPECT_EQ(again, best);
}

// With fewer cuts: the same layers, near the best.
TEST(PartitionTest, FewCutsAreNearlyAsGood) {
  std::mt19937 random(5);
  const Cluster cluster = RandomCluster(random, 4);
  PlanRequest options;
  options.model = "gpt?layers=40&seq=64";
  options.batch = 64;
  const Planning planning = Planning::Make(options, cluster, nullptr).value();
  const LayerTable table(planning);
  const StageCosts costs(
      table, std::make_shared<DeviceLine>(table, std::vector<std::vector<int>>{{0, 1, 2, 3}}), 4);
  const auto all = FindPartitions(costs, {});
  PartitionOptions few;
  few.most_cuts = 20;
  const auto some = FindPartitions(costs, few);
  ASSERT_EQ(some.size(), all.size());
  for (size_t n = 0; n < all.size(); ++n) {
    EXPECT_EQ(some[n][0].stages.back().end, costs.layers());
    EXPECT_GE(some[n][0].bottleneck, all[n][0].bottleneck * (1 - 1e-12));
    EXPECT_LE(some[n][0].bottleneck, all[n][0].bottleneck * 1.15);
  }
}

}  // namespace
}  // namespace heddle
