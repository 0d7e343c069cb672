#include "model/layer_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "support/profiles.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

const std::string kNumbers =
    "forward_compute_time=1.5, backward_compute_time=3, activation_size=8, parameter_size=16";

std::string Layer(const std::string& id, const std::string& name = "layer") {
  return id + " -- " + name + " -- " + kNumbers + "\n";
}

std::string ErrorOf(const std::string& text) {
  const auto profile = ParseLayerProfile(text, "graph.txt");
  return profile.ok() ? "accepted" : profile.error().ToString();
}

// "a>b c>d"
std::string EdgesOf(const LayerProfile& profile) {
  std::string text;
  for (const auto& [from, to] : profile.edges) {
    text += (text.empty() ? "" : " ") + profile.layers[static_cast<size_t>(from)].id + ">" +
            profile.layers[static_cast<size_t>(to)].id;
  }
  return text;
}

TEST(LayerProfileTest, LayersAndEdgesInAnyOrder) {
  const LayerProfile profile =
      ParseLayerProfile("\tnode1 -- node2\r\n" + Layer("node2", "relu") + "\n    node1 -- node3\n" +
                            Layer("node3") + Layer("node1", "conv") +
                            "node3 -- node2\nnode1 -- node2",
                        "graph.txt")
          .value();
  ASSERT_EQ(profile.layers.size(), 3U);
  EXPECT_EQ(profile.layers[0].id, "node2");
  EXPECT_EQ(profile.layers[0].description, "relu");
  EXPECT_DOUBLE_EQ(profile.layers[0].forward.value, 1.5e-3);
  EXPECT_DOUBLE_EQ(profile.layers[0].backward.value, 3e-3);
  EXPECT_EQ(profile.layers[0].activation_bytes, 8);
  EXPECT_EQ(profile.layers[0].parameter_bytes, 16);
  EXPECT_EQ(EdgesOf(profile), "node1>node2 node1>node3 node3>node2");
  EXPECT_EQ(profile.TopologicalOrder(), (std::vector<int>{2, 1, 0}));
}

TEST(LayerProfileTest, NamesHoldAnything) {
  for (const std::string name :
       {"Conv2d(3, 64, kernel_size=(3, 3))", "LSTM(  (a): x  (b): y)", "a -- b", "x[1; 2]",
        "a -- forward_compute_time=7, b", "-- --", "#", ""}) {
    const auto profile = ParseLayerProfile(Layer("node1", name), "graph.txt");
    ASSERT_TRUE(profile.ok()) << name << ": " << profile.error().ToString();
    EXPECT_EQ(profile.value().layers[0].description, name);
    EXPECT_EQ(profile.value().layers[0].parameter_bytes, 16);
  }
}

TEST(LayerProfileTest, ListsOfSizesAreSummed) {
  const LayerProfile profile =
      ParseLayerProfile(
          "n -- LSTM -- forward_compute_time=0, backward_compute_time=0.000, "
          "activation_size=[6291456.0; 131072.0;131072.0], parameter_size=[1]",
          "graph.txt")
          .value();
  EXPECT_EQ(profile.layers[0].activation_bytes, 6291456 + 2 * 131072);
  EXPECT_EQ(profile.layers[0].parameter_bytes, 1);
}

TEST(LayerProfileTest, APartitionedProfileReadsLikeThePlainOne) {
  const LayerProfile profile =
      ParseLayerProfile("n -- fc -- " + kNumbers + " -- stage_id=3", "graph.txt").value();
  EXPECT_EQ(profile.layers[0].description, "fc");
}

TEST(LayerProfileTest, TiesGoToTheEarlierInTheFile) {
  const LayerProfile profile =
      ParseLayerProfile(Layer("d") + Layer("c") + Layer("b") + Layer("a") + "a -- c\n", "graph.txt")
          .value();
  EXPECT_EQ(profile.TopologicalOrder(), (std::vector<int>{0, 2, 3, 1}));
}

TEST(LayerProfileTest, RefusesWithTheLine) {
  const std::string two = Layer("a") + Layer("b");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "graph.txt: no layers"},
      {two + "hello\n", "graph.txt:3: \"hello\" is neither a layer nor an edge"},
      {two + "\ta -- c\n", "graph.txt:3: an edge with the unknown layer \"c\""},
      {two + "a -- b\n\tb -- a\n", "graph.txt:1: layer a depends on itself"},
      {two + Layer("c") + "a -- a\na -- b\nb -- c\n", "graph.txt:1: layer a depends on itself"},
      {two + Layer("a"), "graph.txt:3: layer a is given twice"},
      {"a -- " + kNumbers, "graph.txt:1: a layer without a name"},
      {"a -- x -- forward_compute_time=1, backward_compute_time=1, activation_size=1\n",
       "graph.txt:1: no parameter_size"},
      {"a -- x -- " + kNumbers + ", colour=3", "graph.txt:1: \"colour=3\" is not a field"},
      {"a -- x -- " + kNumbers + ", parameter_size=3", "parameter_size is given twice"},
      {"a -- b -- c\n", "\"c\" is not a field"}};
  for (const auto& [text, expected] : cases) EXPECT_THAT(ErrorOf(text), HasSubstr(expected));
}

TEST(LayerProfileTest, RefusesNumbersThatNothingTakes) {
  for (const std::string bad : {"-1", "nan", "inf", "1e400", "", "x", "1 2", "1e20", "[1; -1]",
                                "[1; 2", "1; 2", "[]", "[1;]", "[1e15; 1e15]"}) {
    EXPECT_THAT(ErrorOf("a -- x -- forward_compute_time=1, backward_compute_time=1, "
                        "activation_size=" +
                        bad + ", parameter_size=1"),
                HasSubstr("graph.txt:1: activation_size = \"" + bad + "\""));
    EXPECT_THAT(ErrorOf("a -- x -- forward_compute_time=1, backward_compute_time=" + bad +
                        ", activation_size=1, parameter_size=1"),
                HasSubstr("graph.txt:1: backward_compute_time = \"" + bad + "\""));
  }
  EXPECT_THAT(ErrorOf("a -- x -- forward_compute_time=[1; 2], backward_compute_time=1, "
                      "activation_size=1, parameter_size=1"),
              HasSubstr("forward_compute_time"));
}

TEST(LayerProfileTest, OursAndPublishedProfiles) {
  for (const std::filesystem::path& path : AllProfiles()) {
    const auto profile = LoadLayerProfile(path);
    ASSERT_TRUE(profile.ok()) << profile.error().ToString();
    EXPECT_GE(profile.value().layers.size(), 5U);
    EXPECT_GE(profile.value().edges.size() + 3, profile.value().layers.size());
    EXPECT_EQ(profile.value().TopologicalOrder().size(), profile.value().layers.size());
  }
}

}  // namespace
}  // namespace heddle
