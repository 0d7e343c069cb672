#include <gtest/gtest.h>

#include <random>
#include <set>

#include "plan/spmd/conversions.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

// Each conversion starts from what is there and makes what is not; the source is there already,
// even where everything is free; all of them together cost what TreeSeconds says.
TEST(SpmdConversions, TreesGrowFromTheSource) {
  std::mt19937 random(4);
  const Cluster cluster = ClusterOf({.nodes = 2, .devices = 2});
  for (int round = 0; round < 200; ++round) {
    SpmdMesh mesh = round % 2 == 0 ? NodeMesh(cluster) : FlatMesh(cluster);
    if (round % 3 == 0) SetRandomRatios(random, mesh);
    ShardSizes sizes(mesh);
    ExchangeCost exchange(cluster, mesh);
    Tensor tensor;
    tensor.shape = {4, round % 5 == 0 ? 1 : 6};
    ConversionTable table(tensor, cluster, mesh, sizes, exchange);
    const auto layout = [&] {
      return static_cast<int>(random() % static_cast<unsigned>(table.space().size()));
    };
    const int source = layout();
    LayoutSet wanted = 0;
    for (int k = 0; k < 4; ++k) wanted |= OneLayout(layout());
    const double seconds = table.TreeSeconds(source, wanted);
    if (seconds == kNever) continue;
    std::set<int> there = {source};
    double sum = 0;
    for (const Conversion& conversion : table.TreeOf(source, wanted)) {
      EXPECT_TRUE(there.contains(conversion.from));
      EXPECT_TRUE(there.insert(conversion.to).second);
      sum += conversion.seconds;
    }
    while (wanted != 0) EXPECT_TRUE(there.contains(TakeFirst(wanted)));
    EXPECT_LE(sum, seconds * (1 + 1e-9));
  }
}

}  // namespace
}  // namespace heddle
