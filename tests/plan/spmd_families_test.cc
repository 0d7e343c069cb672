#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "model/zoo.h"
#include "plan/spmd/families.h"
#include "plan/spmd/folded_sweep.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

using testing::ElementsAre;

std::vector<std::pair<size_t, size_t>> SizesOf(const std::vector<SpmdMesh>& meshes) {
  std::vector<std::pair<size_t, size_t>> sizes;
  for (const SpmdMesh& mesh : meshes) sizes.emplace_back(mesh.places(0), mesh.places(1));
  return sizes;
}

Graph MixtureOf(int experts) {
  return BuildModel(fmt::format("tiny-moe?layers=2&experts={}", experts), {.batch = 8}).value();
}

TEST(SpmdFamilies, Meshes) {
  const Cluster cluster = ClusterOf({.nodes = 3, .devices = 4});
  const Graph graph = MixtureOf(8);
  const auto sizes = [&](SpmdFamily family) { return SizesOf(MeshesFor(family, graph, cluster)); };
  EXPECT_THAT(sizes(SpmdFamily::kData), ElementsAre(std::pair(1, 12)));
  EXPECT_THAT(sizes(SpmdFamily::kZero), ElementsAre(std::pair(1, 12), std::pair(3, 4)));
  EXPECT_THAT(sizes(SpmdFamily::kTensor), ElementsAre(std::pair(6, 2), std::pair(3, 4)));
  // Eight experts are too few for twelve devices.
  EXPECT_THAT(sizes(SpmdFamily::kExpert), ElementsAre(std::pair(3, 4)));
}

TEST(SpmdFamilies, MeshesOfOneNode) {
  const Cluster cluster = ClusterOf({.nodes = 1, .devices = 4});
  const Graph graph = MixtureOf(8);
  const auto sizes = [&](SpmdFamily family) { return SizesOf(MeshesFor(family, graph, cluster)); };
  EXPECT_THAT(sizes(SpmdFamily::kZero), ElementsAre(std::pair(1, 4)));
  EXPECT_THAT(sizes(SpmdFamily::kTensor), ElementsAre(std::pair(2, 2), std::pair(1, 4)));
  EXPECT_THAT(sizes(SpmdFamily::kExpert), ElementsAre(std::pair(1, 4)));
}

// The second node is slower, so it may be left out.
TEST(SpmdFamilies, SetsOfNodes) {
  const Cluster mixed = ClusterOf({.nodes = 2, .devices = 2, .slower = 2});
  EXPECT_THAT(NodeSets(mixed, DType::kF32), ElementsAre(ElementsAre(0, 1), ElementsAre(0)));
  const Cluster equal = ClusterOf({.nodes = 3, .devices = 2});
  EXPECT_THAT(NodeSets(equal, DType::kF32), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(0)));
  const Cluster one = ClusterOf({.nodes = 1, .devices = 2});
  EXPECT_THAT(NodeSets(one, DType::kF32), ElementsAre(ElementsAre(0)));
}

// A restricted search keeps to its list, adds up right, and never finds more than a free one.
TEST(SpmdFamilies, AreRestrictionsOfTheSearch) {
  std::mt19937 random(3);
  for (int round = 0; round < 8; ++round) {
    const Graph graph = BuildModel(round % 2 == 0 ? "tiny-moe?layers=2&experts=8" : "tiny-mlp",
                                   {.batch = 16, .clip = round % 4 < 2 ? 1.0 : 0.0})
                            .value();
    const Cluster cluster = ClusterOf(RandomCluster(random));
    const OpCost cost(graph, nullptr);
    for (int k = 0; k < kSpmdFamilies; ++k) {
      const auto family = static_cast<SpmdFamily>(k);
      for (const SpmdMesh& mesh : MeshesFor(family, graph, cluster)) {
        SpmdProblem problem(cost, cluster, mesh);
        const Restriction restriction = RestrictionTo(problem, family);
        const SpmdChoices found =
            SearchFolded(problem, {.most_states = 500, .restriction = &restriction});
        for (size_t op = 0; op < found.choices.size(); ++op) {
          EXPECT_THAT(restriction.choices[op], testing::Contains(found.choices[op]))
              << NameOf(family) << " " << graph.ops()[op].name;
        }
        EXPECT_NEAR(problem.SecondsOf(found.choices), found.seconds, 1e-9 * found.seconds);
        if (!mesh.flat()) continue;  // a free search of two axes takes long
        SweepStatistics statistics;
        const SpmdChoices free = SearchFolded(problem, {.most_states = 500}, &statistics);
        if (statistics.exact) {
          EXPECT_LE(free.seconds, found.seconds * (1 + 1e-9));
        }
      }
    }
  }
}

}  // namespace
}  // namespace heddle
