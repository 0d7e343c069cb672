#include "model/profiled_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "model/layer_chain.h"
#include "support/places.h"
#include "support/profiles.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

// Milliseconds and bytes; `a` is of 8 samples.
std::string Layer(const std::string& id, const std::string& name, double forward, double backward,
                  int64_t activation, int64_t parameter) {
  return id + " -- " + name + " -- forward_compute_time=" + std::to_string(forward) +
         ", backward_compute_time=" + std::to_string(backward) +
         ", activation_size=" + std::to_string(activation) +
         ", parameter_size=" + std::to_string(parameter) + "\n";
}

Graph Built(const std::string& text, ModelOptions options = {.batch = 16, .profile_batch = 8}) {
  const LayerProfile profile = ParseLayerProfile(text, "graph.txt").value();
  auto graph = BuildProfiledModel(profile, options);
  EXPECT_TRUE(graph.ok()) << graph.error().ToString();
  return std::move(graph).value();
}

// Seconds of one phase's opaque ops, for the profiled number of samples.
double Seconds1(const Graph& graph, Phase phase) {
  double sum = 0;
  for (const Op& op : graph.ops()) {
    if (op.phase == phase) sum += op.attributes.profiled_seconds.value;
  }
  return sum;
}

const Tensor& TensorOf(const Graph& graph, const std::string& name) {
  return graph.tensor(*graph.FindTensor(name));
}

// A mask that every layer reads, a skip connection, two sinks.
const std::string kBranches =
    Layer("in", "Input", 9, 0, 3200, 0) + Layer("mask", "cast", 1, 0, 640, 0) +
    Layer("a", "Conv2d(3, 4)", 2, 4, 6400, 400) + Layer("b", "ReLU", 1, 1, 6400, 0) +
    Layer("c", "Add", 0, 0, 6400, 0) + Layer("aux", "Linear", 1, 2, 32, 90) +
    Layer("out", "Linear", 3, 6, 0, 800) +
    "in -- mask\nin -- a\na -- b\nmask -- b\nb -- c\na -- c\nmask -- "
    "c\nb -- aux\nc -- out\n";

TEST(ProfiledModelTest, LayersTimesAndBytes) {
  const Graph graph = Built(kBranches);
  EXPECT_EQ(graph.layers(), (std::vector<std::string>{"in Input", "mask cast", "a Conv2d", "b ReLU",
                                                      "c Add", "aux Linear", "out Linear"}));
  EXPECT_EQ(TensorOf(graph, "a.y").bytes().value, 16 * 6400 / 8);
  EXPECT_EQ(TensorOf(graph, "a.w").bytes().value, 400);
  EXPECT_EQ(TensorOf(graph, "aux.w").bytes().value, 92);  // 90 bytes are 22.5 elements
  EXPECT_EQ(TensorOf(graph, "out.y").shape, (std::vector<int64_t>{16, 1}));
  EXPECT_NEAR(Seconds1(graph, Phase::kForward), 8e-3, 1e-12);  // reading data costs nothing
  EXPECT_NEAR(Seconds1(graph, Phase::kBackwardInput) + Seconds1(graph, Phase::kBackwardWeight),
              13e-3, 1e-12);
  EXPECT_EQ(graph.op(*graph.FindOp("a")).attributes.profiled_rows, 8);
}

TEST(ProfiledModelTest, WhatIsNotTrainedHasNoGradient) {
  const Graph graph = Built(kBranches);
  EXPECT_FALSE(graph.FindTensor("d.in.y"));
  EXPECT_FALSE(graph.FindTensor("d.mask.y"));
  EXPECT_TRUE(graph.FindTensor("d.a.y"));
  const LayerChain chain = ChainOf(graph);
  EXPECT_EQ(chain.cuts[1].forward.size(), 2U);
  EXPECT_TRUE(chain.cuts[1].backward.empty());
  EXPECT_EQ(chain.cuts[3].forward_bytes.value, (6400 + 6400 + 640) / 8);  // a, b, mask
  EXPECT_EQ(chain.cuts[3].backward_bytes.value, 2 * 6400 / 8);
}

// Sums of gradients and the first layer's backward: neither adds nor loses time.
TEST(ProfiledModelTest, ABackwardThatNobodyWaitsForIsStillSpent) {
  const Graph graph =
      Built(Layer("a", "pool", 1, 5, 64, 0) + Layer("b", "fc", 1, 2, 64, 8) + "a -- b\n");
  EXPECT_NEAR(Seconds1(graph, Phase::kBackwardInput), 6e-3, 1e-12);
  EXPECT_NEAR(Seconds1(graph, Phase::kBackwardWeight), 1e-3, 1e-12);
}

TEST(ProfiledModelTest, BytesHoldInEveryType) {
  const Graph graph = Built(kBranches, {.batch = 16, .dtype = DType::kBf16, .profile_batch = 8});
  EXPECT_EQ(TensorOf(graph, "a.y").bytes().value, 16 * 6400 / 8);
  EXPECT_EQ(TensorOf(graph, "a.w").bytes().value, 400);
}

TEST(ProfiledModelTest, AnyIdBecomesAName) {
  const Graph graph = Built(Layer("1-a", "x y", 1, 1, 8, 8) + Layer("1 a", "", 1, 1, 8, 8) +
                            Layer("x", "\x1b[31m", 1, 1, 8, 8) + "1-a -- 1 a\n1 a -- x\n");
  EXPECT_EQ(graph.layers(), (std::vector<std::string>{"_1_a x", "_1_a_2", "x"}));
}

TEST(ProfiledModelTest, RefusesWhatDoesNotFit) {
  std::string wide = Layer("out", "concat", 1, 1, 8, 0);
  for (int k = 0; k < 47; ++k) {
    const std::string id = "n" + std::to_string(k);
    wide += Layer(id, "fc", 1, 1, 8, 8) + id + " -- out\n";
  }
  const auto too_wide =
      BuildProfiledModel(ParseLayerProfile(wide, "w").value(), {.batch = 4, .profile_batch = 4});
  ASSERT_FALSE(too_wide.ok());
  EXPECT_THAT(too_wide.error().ToString(), HasSubstr("layer out: has 47 inputs"));
  const auto too_large =
      BuildProfiledModel(ParseLayerProfile(Layer("a", "fc", 1, 1, 1LL << 49, 8), "w").value(),
                         {.batch = 1 << 20, .profile_batch = 1});
  ASSERT_FALSE(too_large.ok());
  EXPECT_THAT(too_large.error().ToString(), HasSubstr("too large"));
}

TEST(ProfiledModelTest, BuildModelReadsFiles) {
  EXPECT_TRUE(IsProfileSpec("graph.txt"));
  EXPECT_TRUE(IsProfileSpec("profiles/vgg16"));
  EXPECT_FALSE(IsProfileSpec("gpt?layers=4"));
  const std::string path = SourceDir() + "/examples/profiles/tiny.txt";
  EXPECT_EQ(BuildModel(path, {.batch = 64, .profile_batch = 32}).value().layers().size(), 8U);
  EXPECT_THAT(BuildModel(path, {.batch = 64}).error().ToString(), HasSubstr("--profile-batch"));
  EXPECT_THAT(BuildModel("no/such", {.batch = 64, .profile_batch = 1}).error().ToString(),
              HasSubstr("no/such"));
}

TEST(ProfiledModelTest, OursAndPublishedProfilesKeepTheirTimes) {
  for (const std::filesystem::path& path : AllProfiles()) {
    const LayerProfile profile = LoadLayerProfile(path).value();
    const Graph graph = BuildModel(path.string(), {.batch = 64, .profile_batch = 32}).value();
    double backward = 0;
    for (const ProfiledLayer& layer : profile.layers) backward += layer.backward.value;
    EXPECT_NEAR(Seconds1(graph, Phase::kBackwardInput) + Seconds1(graph, Phase::kBackwardWeight),
                backward, 1e-9)
        << path;
    EXPECT_EQ(ChainOf(graph).layers.size(), profile.layers.size());
  }
}

}  // namespace
}  // namespace heddle
