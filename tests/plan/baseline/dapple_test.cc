#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

#include "plan/baseline/dapple_search.h"
#include "plan/baseline/straight_pipeline.h"
#include "support/profiles.h"

namespace heddle {
namespace {

// A profile of `profiled` samples, for `batch` of them.
CutStates ScaledStates(const std::string& name, double profiled, double batch) {
  LayerProfile profile = LoadLayerProfile(ProfilePath(name)).value();
  for (ProfiledLayer& layer : profile.layers) {
    layer.forward.value *= batch / profiled;
    layer.backward.value *= batch / profiled;
    layer.activation_bytes *= batch / profiled;
  }
  return CutStates::Of(profile);
}

struct Published {
  const char* profile;
  int64_t profiled;
  int64_t batch;
  double speedup;
  std::vector<int> states, devices;  // of both stages, as counted here
};

void PrintTo(const Published& published, std::ostream* out) {
  *out << published.profile << ", batch " << published.batch;
}

// What the authors' planner prints on two nodes of eight V100s, at their constants, where their
// profiles are; and of ours, a tower of equal floors, which is cut in the middle (its speedup
// as found once).
class DapplePublished : public testing::TestWithParam<Published> {};

TEST_P(DapplePublished, IsReproduced) {
  const Published& published = GetParam();
  const std::string name = std::string("dapple-") + published.profile;
  const CutStates states = ScaledStates(name, static_cast<double>(published.profiled),
                                        static_cast<double>(published.batch));
  const DappleInput input{&states, {8, 8}, {}};
  const DappleDecision best = SearchDapple(input, published.batch, published.profiled)[0];
  EXPECT_NEAR(best.speedup, published.speedup, 0.0051);
  std::vector<int> split, devices;
  for (const DappleStage& stage : best.stages) {
    split.push_back(stage.end - stage.begin);
    devices.push_back(Sum(stage.devices));
  }
  EXPECT_EQ(split, published.states);
  EXPECT_EQ(devices, published.devices);
}

// Its planner prints a stage as (first, last), the second without its last state: 30/24 of 55
// states are 30 and 25 here, that is 24 of the 48 layers of BERT on each side.
INSTANTIATE_TEST_SUITE_P(Table, DapplePublished,
                         testing::ValuesIn(WithProfiles<Published>(
                             "dapple-",
                             {Published{"tower", 4, 128, 12.5, {13, 13}, {8, 8}},
                              Published{"bert-48-pbs-2", 2, 64, 12.34, {30, 25}, {8, 8}},
                              Published{"xlnet-36-pbs-1", 1, 128, 14.82, {22, 19}, {8, 8}},
                              Published{"vgg-19-pbs-32", 32, 2048, 12.06, {18, 7}, {15, 1}}})),
                         [](const auto& test) {
                           std::string name = test.param.profile;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// The original crashes with 32 devices.
TEST(DappleTest, ThirtyTwoDevicesAndMore) {
  const CutStates states = ScaledStates("dapple-tower", 4, 256);
  for (const NodeCounts& nodes : {NodeCounts(4, 8), NodeCounts(8, 8)}) {
    const DappleInput input{&states, nodes, {}};
    const DappleDecision best = SearchDapple(input, 256, 4)[0];
    EXPECT_GT(best.speedup, 0.4 * Sum(nodes));
    EXPECT_LT(best.speedup, Sum(nodes));
  }
}

TEST(NodePlacementTest, Policies) {
  EXPECT_EQ(PlaceNext({8, 8}, {3, 0}, 4), (std::vector<NodeCounts>{{0, 4}, {4, 0}, {2, 2}}));
  // Neither fresh nor used nodes have enough: only scattering is left.
  EXPECT_EQ(PlaceNext({8, 8}, {7, 0}, 9), (std::vector<NodeCounts>{{1, 8}}));
  EXPECT_EQ(PlaceOneByOne({2, 2}, {0, 0}, 2), (std::vector<NodeCounts>{{1, 1}, {2, 0}}));
}

TEST(DappleTest, TransfersAndSums) {
  const DappleNetwork network;
  // To one node: what is not there already comes point to point.
  EXPECT_DOUBLE_EQ(DappleTransfer(network, {8, 7}, {0, 1}, 15e9), 8);
  EXPECT_DOUBLE_EQ(DappleTransfer(network, {4, 0}, {4, 0}, 25e9), 1);
  EXPECT_DOUBLE_EQ(DappleTransfer(network, {4, 0}, {4, 4}, 3e9), 1);
  EXPECT_DOUBLE_EQ(DappleAllReduce(network, {1, 0}, 1e9), 0);
  EXPECT_DOUBLE_EQ(DappleAllReduce(network, {8, 8}, 1.6e9), 1);
  EXPECT_DOUBLE_EQ(DappleAllReduce(network, {8, 0}, 8e9), 14.0 / 100);
}

CutStates RandomChain() {
  std::vector<CutState> states;
  CutState sum;
  const int layers = *rc::gen::inRange(2, 7);
  for (int l = 0; l < layers; ++l) {
    sum.seconds += *rc::gen::inRange(1, 9);
    sum.parameter_bytes += *rc::gen::inRange(0, 9);
    sum.crossing_bytes = l + 1 < layers ? *rc::gen::inRange(0, 30) * 1e8 : 0;
    ++sum.layers;
    states.push_back(sum);
  }
  return CutStates::OfChain(std::move(states));
}

// The smallest pivot of all cuts and all sequences of placements.
double Enumerate(const DappleInput& input, int each, int stages, int begin, const NodeCounts& used,
                 const NodeCounts& previous) {
  const CutStates& states = *input.states;
  if (stages == 0) return begin == states.size() ? 0 : std::numeric_limits<double>::infinity();
  double best = std::numeric_limits<double>::infinity();
  const auto ways = begin == 0 ? std::vector<NodeCounts>{PlaceNext(input.nodes, used, each)[0]}
                               : PlaceOneByOne(input.nodes, used, each);
  for (const NodeCounts& way : ways) {
    const double transfer = begin == 0 ? 0
                                       : DappleTransfer(input.network, previous, way,
                                                        2 * states[begin - 1].crossing_bytes);
    for (int end = begin + 1; end <= states.size(); ++end) {
      best =
          std::min(best, std::max({transfer, states.Seconds(begin, end) / each,
                                   Enumerate(input, each, stages - 1, end, Plus(used, way), way)}));
    }
  }
  return best;
}

// For each set of devices in use only the best way there is kept, whatever its last stage's own
// devices. With two stages that loses nothing; with more it may, as the original does.
RC_GTEST_PROP(DappleTest, StraightPipelineEqualsEnumeration, ()) {
  const CutStates states = RandomChain();
  const int each = *rc::gen::inRange(1, 3);
  const DappleInput input{&states, NodeCounts(2, 2 * each), {}};
  const int stages = *rc::gen::inRange(2, std::min(4, states.size()) + 1);
  const NodeCounts none(2, 0);
  const double best = Enumerate(input, each, stages, 0, none, none);
  const auto found = StraightPipeline(input, stages, each);
  RC_ASSERT(found.has_value());
  RC_ASSERT(found->pivot >= best * (1 - 1e-12));
  RC_ASSERT(found->stages.size() == static_cast<size_t>(stages));
  RC_ASSERT(found->stages.front().begin == 0 && found->stages.back().end == states.size());
  if (stages <= 2) RC_ASSERT(found->pivot <= best * (1 + 1e-12));
}

}  // namespace
}  // namespace heddle
