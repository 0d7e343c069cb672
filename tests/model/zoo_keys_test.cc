// What holds for every entry of the zoo and every key it takes.
#include <algorithm>
#include <set>

#include "base/file.h"
#include "model/layer_chain.h"
#include "support/places.h"
#include "zoo_text.h"

namespace heddle {

static void PrintTo(const ZooEntry& entry, std::ostream* out) { *out << entry.name; }

namespace {

std::string SpecOf(const std::string& name, const ModelParameters& values) {
  std::string spec = name;
  char separator = '?';
  for (const auto& [key, value] : values) {
    spec += separator + key + "=" + std::to_string(value);
    separator = '&';
  }
  return spec;
}

// Another value for a key that still makes a model: the first that is accepted.
Result<Graph> Changed(const ZooEntry& entry, const std::string& key) {
  const int64_t value = entry.defaults.at(key);
  Result<Graph> graph = BadInput("", "no value to try");
  for (const int64_t other : {value + 1, value * 2, value / 2, value - 1}) {
    if (other == value) continue;
    graph = BuildModel(SpecOf(entry.name, {{key, other}}), {});
    if (graph.ok()) return graph;
  }
  return graph;
}

class ZooKeysTest : public testing::TestWithParam<ZooEntry> {};

TEST_P(ZooKeysTest, EveryKeyChangesTheModel) {
  const ZooEntry& entry = GetParam();
  const std::string hash = Build(entry.name).ContentHash();
  EXPECT_EQ(Build(SpecOf(entry.name, entry.defaults)).ContentHash(), hash)
      << "defaults written out";
  std::set<std::string> hashes = {hash};
  for (const auto& item : entry.defaults) {
    const Result<Graph> graph = Changed(entry, item.first);
    ASSERT_TRUE(graph.ok()) << entry.name << " " << item.first << graph.error().ToString();
    EXPECT_TRUE(hashes.insert(graph.value().ContentHash()).second) << entry.name << item.first;
  }
}

TEST_P(ZooKeysTest, EveryKeyHasBounds) {
  const ZooEntry& entry = GetParam();
  for (const auto& item : entry.defaults) {
    const std::string& key = item.first;
    EXPECT_NE(ErrorOf(SpecOf(entry.name, {{key, (1 << 20) + 1}})).find(key + " = 1048577 is out"),
              std::string::npos);
    if (key == "dropout" || key == "tied") continue;
    EXPECT_NE(ErrorOf(SpecOf(entry.name, {{key, 0}})).find(key + " = 0 is out of range"),
              std::string::npos);
  }
}

// What pipelines rely on: between layers flow samples, never statistics of a batch.
TEST_P(ZooKeysTest, SamplesCrossTheCuts) {
  const Graph graph = Build(GetParam().name);
  for (const Cut& cut : ChainOf(graph).cuts) {
    EXPECT_FALSE(cut.forward.empty());
    for (const auto* tensors : {&cut.forward, &cut.backward}) {
      for (const TensorId id : *tensors) {
        EXPECT_TRUE(graph.tensor(id).per_sample) << graph.tensor(id).name;
      }
    }
  }
}

// Every gradient that is computed is read: autodiff does nothing in vain.
TEST_P(ZooKeysTest, EveryGradientIsUsed) {
  const Graph graph = Build(GetParam().name, {.clip = 1});
  std::set<TensorId> read;
  for (const Op& op : graph.ops()) {
    for (const Operand& input : op.inputs) read.insert(input.tensor);
  }
  for (const Op& op : graph.ops()) {
    for (const Operand& output : op.outputs) {
      const Tensor& tensor = graph.tensor(output.tensor);
      const bool gradient = tensor.role == Role::kGradient || tensor.role == Role::kWeightGradient;
      EXPECT_TRUE(!gradient || read.contains(output.tensor)) << tensor.name;
    }
  }
}

std::string TestName(const testing::TestParamInfo<ZooEntry>& info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooKeysTest, testing::ValuesIn(Zoo()), &TestName);

std::string Grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), ",");
  }
  return text;
}

// docs/models.md has every model with its number of parameters, and every key.
TEST(ZooTest, IsDocumented) {
  const std::string page = ReadFile(SourceDir() + "/docs/models.md").value();
  const auto says = [&](const std::string& text) { return page.find(text) != std::string::npos; };
  for (const ZooEntry& entry : Zoo()) {
    EXPECT_TRUE(says("`" + entry.name + "`")) << entry.name;
    EXPECT_TRUE(says(Grouped(Build(entry.name).parameter_count()))) << entry.name;
    for (const auto& item : entry.defaults) {
      const std::string& key = item.first;
      EXPECT_TRUE(says("`" + key + "`") || key.starts_with("blocks")) << key;
    }
  }
}

// No op is there for nothing: each but the profiled layer occurs in some model.
TEST(ZooTest, UsesEveryOp) {
  std::set<OpKind> used = {OpKind::kOpaque};
  const auto collect = [&](const Graph& graph) {
    for (const Op& op : graph.ops()) used.insert(op.kind);
  };
  for (const ZooEntry& entry : Zoo()) collect(Build(entry.name, {.clip = 1}));
  for (const Optimizer optimizer : kOptimizers) {
    collect(Build("tiny-mlp", {.optimizer = optimizer}));
  }
  for (int kind = 0; kind < kOpKindCount; ++kind) {
    EXPECT_TRUE(used.contains(static_cast<OpKind>(kind))) << InfoOf(static_cast<OpKind>(kind)).name;
  }
}

}  // namespace
}  // namespace heddle
