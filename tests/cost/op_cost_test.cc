#include "cost/op_cost.h"

#include <gtest/gtest.h>

#include "base/json_field.h"
#include "model/graph_builder.h"
#include "model/zoo.h"

namespace heddle {
namespace {

DeviceTypeSpec Gpu() {
  DeviceTypeSpec type;
  type.name = "gpu";
  type.flops.fill(FlopRate{1e12});
  type.flops[static_cast<size_t>(DType::kBf16)] = FlopRate{4e12};
  type.memory_bandwidth = Bandwidth{1e11};
  type.launch_overhead = Seconds{5e-6};
  return type;
}

const Op& FindOp(const Graph& graph, const std::string& name) {
  return graph.op(*graph.FindOp(name));
}

TEST(OpCostTest, LargeProductIsBoundByCompute) {
  const Graph graph = BuildModel("mlp?inputs=4096&hidden=4096", {.batch = 1024}).value();
  const OpCost cost(graph, nullptr);
  // 2 * 1024 * 4096 * 4096 flops at 1e12/s; traffic of 3 matrices takes less.
  EXPECT_NEAR(cost.RowsSeconds(FindOp(graph, "fc0"), 1024, Gpu()).value,
              5e-6 + 2.0 * 1024 * 4096 * 4096 / 1e12, 1e-12);
}

TEST(OpCostTest, SmallBatchIsBoundByReadingTheWeight) {
  const Graph graph = BuildModel("mlp?inputs=4096&hidden=4096", {.batch = 1024}).value();
  const OpCost cost(graph, nullptr);
  // One row: x 4096, w 4096 * 4096, y 4096 elements of four bytes at 1e11 bytes/s.
  EXPECT_NEAR(cost.RowsSeconds(FindOp(graph, "fc0"), 1, Gpu()).value,
              5e-6 + 4.0 * (4096.0 * 4096 + 2 * 4096) / 1e11, 1e-12);
}

TEST(OpCostTest, ElementwiseIsBoundByMemory) {
  const Graph graph = BuildModel("mlp?inputs=64&hidden=1024", {.batch = 64}).value();
  const OpCost cost(graph, nullptr);
  EXPECT_NEAR(cost.RowsSeconds(FindOp(graph, "fc0.gelu"), 64, Gpu()).value,
              5e-6 + 4.0 * 2 * 64 * 1024 / 1e11, 1e-12);
}

TEST(OpCostTest, DtypeChoosesTheRateAndTheBytes) {
  const Graph graph =
      BuildModel("mlp?inputs=4096&hidden=4096", {.batch = 4096, .dtype = DType::kBf16}).value();
  const OpCost cost(graph, nullptr);
  EXPECT_NEAR(cost.RowsSeconds(FindOp(graph, "fc0"), 4096, Gpu()).value,
              5e-6 + 2.0 * 4096 * 4096 * 4096 / 4e12, 1e-12);
}

TEST(OpCostTest, EmbeddingReadsOnlyTheRowsItTakes) {
  const Graph graph = BuildModel("gpt", {.batch = 2}).value();
  const Op& op = FindOp(graph, "embed");
  // tokens 2*1024 of 8 bytes, taken and written rows 2*1024*768 of 4 bytes each.
  EXPECT_EQ(TrafficOf(graph, op, op.extents).value, 2 * 1024 * 8 + 2 * (2 * 1024 * 768 * 4));
}

TEST(OpCostTest, ProfileOverridesTheRoofline) {
  const Graph graph = BuildModel("tiny-mlp", {.batch = 8}).value();
  const Op& op = FindOp(graph, "fc0");
  EXPECT_EQ(SignatureOf(graph, op, op.extents), "einsum bk,kn->bn b=8 k=32 n=64 f32");
  Profile profile;
  profile.Add("gpu", "einsum bk,kn->bn b=8 k=32 n=64 f32", Seconds{0.25});
  const OpCost cost(graph, &profile);
  EXPECT_EQ(cost.RowsSeconds(op, 8, Gpu()).value, 0.25);
  EXPECT_EQ(cost.RowsSeconds(op, 4, Gpu()).value, 0.125);  // in proportion
  const Op& other = FindOp(graph, "fc1");
  EXPECT_LT(cost.RowsSeconds(other, 8, Gpu()).value, 0.25);  // not measured: roofline
}

// Measured for 4, 8 and 16 samples: 3, 5 and 13 seconds.
TEST(ProfileTest, KnowsOtherNumbersOfSamples) {
  Profile profile;
  for (const auto& [rows, seconds] :
       std::vector<std::pair<int, double>>{{4, 3}, {8, 5}, {16, 13}}) {
    profile.Add("cpu", "gelu bs->bs b=" + std::to_string(rows) + " s=2 f32", Seconds{seconds});
  }
  const auto at = [&](int rows) {
    return profile.Find("cpu", "gelu bs->bs b=" + std::to_string(rows) + " s=2 f32")->value;
  };
  EXPECT_EQ(at(8), 5);
  EXPECT_EQ(at(6), 4);    // between
  EXPECT_EQ(at(12), 9);   //
  EXPECT_EQ(at(32), 26);  // beyond: in proportion to the last
  EXPECT_EQ(at(2), 2);    // below: on the line of the first two
  EXPECT_EQ(at(1), 1.5);  //
  EXPECT_EQ(profile.Find("cpu", "gelu bs->bs b=8 s=3 f32"), std::nullopt);
  EXPECT_EQ(profile.Find("gpu", "gelu bs->bs b=8 s=2 f32"), std::nullopt);
  profile.Add("cpu", "sgd kl,kl->kl k=2 l=3 f32", Seconds{1});
  EXPECT_EQ(profile.Find("cpu", "sgd kl,kl->kl k=2 l=4 f32"), std::nullopt);
}

// Never below proportion: a line that would reach zero before zero samples do.
TEST(ProfileTest, FewSamplesTakeAtLeastTheirShare) {
  Profile profile;
  profile.Add("cpu", "gelu bs->bs b=4 s=2 f32", Seconds{1});
  profile.Add("cpu", "gelu bs->bs b=8 s=2 f32", Seconds{10});
  EXPECT_EQ(profile.Find("cpu", "gelu bs->bs b=2 s=2 f32")->value, 0.5);
}

TEST(OpCostTest, OpaqueScalesWithRowsAndSpeed) {
  GraphBuilder g(32, DType::kF32);
  g.BeginLayer("in");
  const TensorId x = g.Input("x", DType::kF32, {16});
  const TensorId y = g.Opaque("layer", {x}, 8, 100, {Seconds{0.4}, Seconds{0.6}, 32});
  g.CrossEntropy("xent", y, g.Input("t", DType::kI64, {}));
  Op op = g.ops()[0];
  const auto graph = g.tensor(y);
  EXPECT_EQ(graph.shape, (std::vector<int64_t>{32, 8}));
  const Graph any = BuildModel("tiny-mlp", {}).value();
  const OpCost cost(any, nullptr);
  op.inputs.clear();  // the op alone: its tensors belong to another graph
  op.outputs.clear();
  EXPECT_NEAR(cost.RowsSeconds(op, 8, Gpu()).value, 0.1, 1e-12);
  op.attributes.profiled_rate = FlopRate{2e12};  // measured on a device twice as fast
  EXPECT_NEAR(cost.RowsSeconds(op, 8, Gpu()).value, 0.2, 1e-12);
}

TEST(ProfileTest, RoundTripsAndRefusesBadInput) {
  Profile profile;
  profile.Add("v100", "gelu bs->bs b=1 s=2 f32", Seconds{1.5e-5});
  const Profile again = ParseProfile(profile.ToJson().dump(), "p.json").value();
  EXPECT_EQ(again.ContentHash(), profile.ContentHash());
  EXPECT_EQ(again.Find("v100", "gelu bs->bs b=1 s=2 f32")->value, 1.5e-5);
  EXPECT_FALSE(ParseProfile("{}", "p.json").ok());
  const auto negative =
      ParseProfile(R"({"schema": "heddle.profile/1", "device_types": {"a": {"x": -1}}})", "p.json");
  ASSERT_FALSE(negative.ok());
  EXPECT_NE(negative.error().ToString().find("negative"), std::string::npos);
}

}  // namespace
}  // namespace heddle
