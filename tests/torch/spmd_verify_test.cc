// SPMD programs compute what one device would, in fp64: loss, gradients and parameters after three
// steps, with clipping.

#include <gtest/gtest.h>

#include "torch/spmd_fixture.h"

namespace heddle {
namespace {

constexpr char kMlp[] = "tiny-mlp?layers=2";
constexpr char kGpt[] = "tiny-gpt?layers=1&hidden=8&heads=2&seq=4&vocab=12";
constexpr char kResnet[] =
    "resnet152?width=2&image=33&classes=5&blocks1=1&blocks2=1&blocks3=1&blocks4=1";
constexpr char kMoe[] = "tiny-moe?layers=2&hidden=8&heads=2&seq=4&vocab=12&experts=3";

const std::vector<std::vector<std::string>> kTwoByTwo = {{"a:0", "a:1"}, {"b:0", "b:1"}};

TEST(SpmdVerifyTest, DataParallel) {
  const Graph graph = Tiny(kMlp, 6);
  ExpectSpmdParity(DataParallel(graph, FlatMesh(2), {0.5, 0.5}), graph, "even");
  ExpectSpmdParity(DataParallel(graph, FlatMesh(3), {0.5, 0.3, 0.2}), graph, "uneven");
  ExpectSpmdParity(DataParallel(graph, FlatMesh(3), {0.6, 0, 0.4}), graph, "one has nothing");
  const Graph gpt = Tiny(kGpt, 5);
  ExpectSpmdParity(DataParallel(gpt, FlatMesh(3), {0.5, 0.3, 0.2}), gpt, "gpt");
}

TEST(SpmdVerifyTest, ZeroShardsParametersGradientsAndStates) {
  const Graph graph = Tiny(kGpt, 5);
  ExpectSpmdParity(ZeroSharded(graph, FlatMesh(2), {0.5, 0.5}), graph, "even");
  ExpectSpmdParity(ZeroSharded(graph, FlatMesh(3), {0.5, 0, 0.5}), graph, "one has nothing");
}

// Columns, then rows; heads; the table by its rows.
Layout Megatron(const Tensor& tensor) {
  const auto has = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
  if (has("qkv") && tensor.shape.size() == 4) return Inner(2);
  if (has("qkv") && tensor.shape.size() == 3) return Inner(1);
  if (has("fc1.w")) return Inner(1);
  if (has("fc1.b") || has("fc2.w") || has("proj.w") || has("tokens")) return Inner(0);
  return kEverywhere;
}

TEST(SpmdVerifyTest, TensorParallel) {
  const Graph graph = Tiny(kGpt, 4);
  const std::array<std::string, kMeshAxes> forbidden = {"", "bs"};
  ExpectSpmdParity(
      FollowStorage(graph, FlatMesh(2), {{{{1.0}}, {{0.5, 0.5}}}}, Megatron, forbidden), graph,
      "even");
  ExpectSpmdParity(
      FollowStorage(graph, FlatMesh(3), {{{{1.0}}, {{0.6, 0.3, 0.1}}}}, Megatron, forbidden), graph,
      "uneven");
}

TEST(SpmdVerifyTest, TensorParallelInsideDataParallelAcross) {
  const Graph graph = Tiny(kGpt, 5);
  ExpectSpmdParity(FollowStorage(graph, kTwoByTwo, {{{{0.6, 0.4}}, {{0.7, 0.3}}}}, Megatron,
                                 {"shavnkmqcdetfu", "bs"}),
                   graph, "two axes");
}

TEST(SpmdVerifyTest, ExpertParallel) {
  const Graph graph = Tiny(kMoe, 4);
  const auto experts = [](const Tensor& tensor) {
    const bool expert = tensor.shape.size() >= 2 && tensor.shape[0] == 3;
    return expert && tensor.name.find(".fc") != std::string::npos ? Inner(0) : kEverywhere;
  };
  const SpmdPlan plan = FollowStorage(graph, FlatMesh(2), {{{{1.0}}, {{0.5, 0.5}}}}, experts);
  const bool exchanges =
      std::any_of(plan.steps.begin(), plan.steps.end(), [](const SpmdStep& step) {
        const auto conversion = step.converts() ? ConversionOf(step.from, step.to) : std::nullopt;
        return conversion && conversion->exchanges && conversion->kind == CollectiveKind::kAllToAll;
      });
  EXPECT_TRUE(exchanges);
  ExpectSpmdParity(plan, graph, "experts");
}

// The gradient of a weight computed everywhere from gathered factors.
TEST(SpmdVerifyTest, SufficientFactors) {
  const Graph graph = Tiny(kMlp, 4);
  SpmdPlanMaker maker(graph, FlatMesh(3), {{{{1.0}}, {{0.5, 0.3, 0.2}}}});
  maker.Store([](const Tensor&) { return kEverywhere; });
  const SpmdPlan plan = maker.Make([](const Op& op) {
    OpRule rule{};
    const bool factors = op.kind == OpKind::kEinsum && op.phase == Phase::kBackwardWeight;
    if (op.IndexOf('b') != std::string::npos && !factors) rule[1].letter = 'b';
    return rule;
  });
  ExpectSpmdParity(plan, graph, "sfb");
}

TEST(SpmdVerifyTest, RatiosThatChange) {
  const Graph graph = Tiny(kMlp, 7);
  ExpectSpmdParity(ChangingRatios(graph), graph, "ratios");
}

TEST(SpmdVerifyTest, BroadcastParametersAndNormalisation) {
  const Graph graph = BroadcastModel(6);
  ExpectSpmdParity(ChangingRatios(graph), graph, "ratios");
  ExpectSpmdParity(ZeroSharded(graph, FlatMesh(3), {0.5, 0.3, 0.2}), graph, "sharded");
  for (unsigned seed = 0; seed < 4; ++seed) {
    ExpectSpmdParity(RandomSpmdPlan(graph, kTwoByTwo, seed), graph, std::to_string(seed));
  }
}

// Gradients of several microbatches add up, whichever way they are exchanged.
void ExpectParityInParts(const SpmdPlan& plan, const Graph& graph, const std::string& what) {
  for (const int64_t microbatches : {2, 3}) {
    for (const bool each : {false, true}) {
      SpmdPlan parts = plan;
      parts.converts_each = each;
      ExpectSpmdParity(parts, graph,
                       what + (each ? ", each of " : ", ") + std::to_string(microbatches),
                       microbatches);
    }
  }
}

TEST(SpmdVerifyTest, Microbatches) {
  const Graph gpt = Tiny(kGpt, 12);
  ExpectParityInParts(DataParallel(gpt, FlatMesh(3), {0.5, 0, 0.5}), gpt, "data parallel");
  ExpectParityInParts(ZeroSharded(gpt, FlatMesh(3), {0.5, 0.3, 0.2}), gpt, "sharded");
  const Graph images = Tiny(kResnet, 6);  // statistics are those of a microbatch
  ExpectParityInParts(DataParallel(images, FlatMesh(2), {0.7, 0.3}), images, "images");
  const Graph mixed = BroadcastModel(12);
  ExpectParityInParts(ChangingRatios(mixed), mixed, "ratios");
  for (unsigned seed = 0; seed < 4; ++seed) {
    const std::string what = "random " + std::to_string(seed);
    ExpectParityInParts(RandomSpmdPlan(gpt, kTwoByTwo, seed), gpt, what);
    const Graph moe = Tiny(kMoe, 6);
    ExpectParityInParts(RandomSpmdPlan(moe, FlatMesh(3), seed), moe, what);
  }
}

struct Family {
  const char* name;
  const char* model;
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.name; }

class SpmdFamilyTest : public testing::TestWithParam<Family> {};

// Statistics of the batch are synchronised, whatever the shares.
TEST_P(SpmdFamilyTest, DataParallel) {
  const Graph graph = Tiny(GetParam().model, 4);
  ExpectSpmdParity(DataParallel(graph, FlatMesh(3), {0.5, 0, 0.5}), graph, GetParam().name);
}

TEST_P(SpmdFamilyTest, RandomPlans) {
  const Graph graph = Tiny(GetParam().model, 3, Optimizer::kMomentum);
  for (unsigned seed = 0; seed < 3; ++seed) {
    const std::string what = std::string(GetParam().name) + " " + std::to_string(seed);
    ExpectSpmdParity(RandomSpmdPlan(graph, FlatMesh(2 + seed), seed), graph, what + " flat");
    ExpectSpmdParity(RandomSpmdPlan(graph, kTwoByTwo, seed), graph, what + " two axes");
    if (HasFailure()) break;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, SpmdFamilyTest,
    testing::Values(
        Family{"mlp", "tiny-mlp?layers=2&dropout=20"},
        Family{"gpt", "tiny-gpt?layers=1&hidden=8&heads=2&seq=4&vocab=12&dropout=10"},
        Family{"bert", "bert-base?layers=1&hidden=8&heads=2&seq=4&vocab=12"},
        Family{"moe", "tiny-moe?layers=2&hidden=8&heads=2&seq=4&vocab=12&every=1&capacity=75"},
        Family{"vit", "vit?layers=1&hidden=8&heads=2&image=8&patch=4&classes=5&dropout=10"},
        Family{"vgg", "vgg19?width=2&hidden=8&image=32&classes=5"}, Family{"resnet", kResnet}),
    [](const auto& family) { return std::string(family.param.name); });

}  // namespace
}  // namespace heddle
