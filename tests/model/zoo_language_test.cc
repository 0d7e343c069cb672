// The zoo's models of text, against what is published of them.
#include <gmock/gmock.h>

#include "op_text.h"
#include "zoo_text.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// Devlin et al. 2019, counted in the released weights with the pooler (109,482,240 and
// 335,141,888), and a classifier of two classes.
TEST(ZooLanguageTest, PublishedParametersOfBert) {
  EXPECT_EQ(Build("bert-base").parameter_count(), 109'482'240 + (2 * 768 + 2));
  EXPECT_EQ(Build("bert-large").parameter_count(), 335'141'888 + (2 * 1024 + 2));
  EXPECT_EQ(Build("bert-base?classes=3").parameter_count(), 109'482'240 + (3 * 768 + 3));
}

// A block: 4 h² + 4 h of attention, 8 h² + 5 h of the feed-forward layer, 4 h of two norms.
constexpr int64_t BlockParameters(int64_t hidden) { return 12 * hidden * hidden + 13 * hidden; }

// "640 M": Fan et al. 2021, table 2.
TEST(ZooLanguageTest, ParametersOfBert48) {
  EXPECT_EQ(Build("bert-48").parameter_count(),
            Build("bert-large").parameter_count() + 24 * BlockParameters(1024));
  EXPECT_NEAR(static_cast<double>(Build("bert-48").parameter_count()), 640e6, 5e6);
}

// A decoder: one table for input and output, positions, 24 blocks, a norm.
TEST(ZooLanguageTest, ParametersOfXlnet) {
  EXPECT_EQ(Build("xlnet-large").parameter_count(),
            32000 * 1024 + 512 * 1024 + 24 * BlockParameters(1024) + 2 * 1024);
}

// "65 · 10⁶": Vaswani et al. 2017, table 3, where positions are not learned.
TEST(ZooLanguageTest, ParametersOfTransformer) {
  const int64_t attention = 4 * 512 * 512 + 4 * 512;
  const int64_t wide = 2 * 512 * 2048 + 2048 + 512;
  const int64_t encoder = attention + wide + 2 * (2 * 512);
  const int64_t decoder = 2 * attention + wide + 3 * (2 * 512);
  const int64_t table = 37000 * 512, positions = 2 * 256 * 512;
  EXPECT_EQ(Build("transformer").parameter_count(), table + positions + 6 * (encoder + decoder));
  EXPECT_NEAR(static_cast<double>(table + 6 * (encoder + decoder)), 65e6, 2e6);
}

// A mixed block has `experts` feed-forward layers instead of one, and a gate.
TEST(ZooLanguageTest, ParametersOfExperts) {
  constexpr int64_t kWide = 8 * 768 * 768 + 5 * 768;
  EXPECT_EQ(Build("bert-moe").parameter_count(),
            Build("bert-base").parameter_count() + 6 * (15 * kWide + 768 * 16));
  EXPECT_EQ(Build("bert-moe?every=12").parameter_count(),
            Build("bert-base").parameter_count() + 15 * kWide + 768 * 16);
}

TEST(ZooLanguageTest, LayersOfBert) {
  const Graph graph = Build("bert-base?layers=2", {.batch = 2});
  EXPECT_EQ(graph.layers(), (std::vector<std::string>{"embed", "block0", "block1", "head"}));
  EXPECT_EQ(TypeOf(graph, "tokens"), "i64[2,512]");
  EXPECT_EQ(TypeOf(graph, "segments"), "i64[2,512]");
  EXPECT_EQ(TypeOf(graph, "targets"), "i64[2]");
  EXPECT_EQ(TypeOf(graph, "embed.segments"), "f32[2,768]");
  EXPECT_EQ(TypeOf(graph, "block1.ln2.y"), "f32[2,512,768]");
  EXPECT_EQ(TypeOf(graph, "head.first.y"), "f32[2,768]");
  EXPECT_EQ(TypeOf(graph, "head.out.add.y"), "f32[2,2]");
  EXPECT_FALSE(OpOf(graph, "block0.attn").attributes.causal);
  EXPECT_EQ(OpOf(graph, "block0.ln1").attributes.epsilon, 1e-12);
  // Normalised after each sum: the branch and the sum both read the block's input.
  EXPECT_EQ(OpOf(graph, "block1.qkv").inputs[0].tensor, graph.FindTensor("block0.ln2.y"));
  EXPECT_EQ(OpOf(graph, "block1.res1").inputs[0].tensor, graph.FindTensor("block0.ln2.y"));
  EXPECT_EQ(OpOf(graph, "block1.ln1").inputs[0].tensor, graph.FindTensor("block1.res1.y"));
}

TEST(ZooLanguageTest, GptLooksBackOnly) {
  const Graph graph = Build("gpt?layers=2");
  EXPECT_TRUE(OpOf(graph, "block0.attn").attributes.causal);
  EXPECT_TRUE(OpOf(Build("xlnet-large?layers=1"), "block0.attn").attributes.causal);
  EXPECT_EQ(OpOf(graph, "block0.ln1").inputs[0].tensor, graph.FindTensor("embed.position.y"));
}

// The encoder's result is read by every decoder block: a skip connection across all cuts.
TEST(ZooLanguageTest, LayersOfTransformer) {
  const Graph graph = Build("transformer?layers=2");
  EXPECT_EQ(graph.layers(), (std::vector<std::string>{"source", "encoder0", "encoder1", "target",
                                                      "decoder0", "decoder1", "head"}));
  const TensorId context = graph.FindTensor("encoder1.ln2.y").value();
  EXPECT_EQ(OpOf(graph, "decoder0.kv").inputs[0].tensor, context);
  EXPECT_EQ(OpOf(graph, "decoder1.kv").inputs[0].tensor, context);
  EXPECT_FALSE(OpOf(graph, "encoder0.attn").attributes.causal);
  EXPECT_TRUE(OpOf(graph, "decoder0.attn").attributes.causal);
  EXPECT_EQ(CountOf(graph, OpKind::kCrossAttention), 2);
  EXPECT_EQ(CountOf(graph, OpKind::kRelu), 4);
  EXPECT_EQ(CountOf(graph, OpKind::kGelu), 0);
  const Parameter& table = graph.parameters()[0];
  EXPECT_EQ(graph.tensor(table.tensor).name, "tokens.table");
  EXPECT_EQ(table.layers, (std::vector<LayerId>{LayerId{0}, LayerId{3}, LayerId{6}}));
}

TEST(ZooLanguageTest, DropoutByKey) {
  // After the embedding, in each block twice, before the classifier.
  EXPECT_EQ(CountOf(Build("bert-base"), OpKind::kDropout), 1 + 2 * 12 + 1);
  EXPECT_EQ(CountOf(Build("bert-base?dropout=0"), OpKind::kDropout), 0);
  EXPECT_EQ(OpOf(Build("bert-base"), "block3.drop2").attributes.rate, 0.1);
  EXPECT_EQ(CountOf(Build("gpt"), OpKind::kDropout), 0);
  EXPECT_EQ(CountOf(Build("gpt?dropout=10"), OpKind::kDropout), 1 + 2 * 12);
  EXPECT_EQ(CountOf(Build("transformer"), OpKind::kDropout), 2 + 2 * 6 + 3 * 6);
  EXPECT_EQ(CountOf(Build("transformer?dropout=0"), OpKind::kDropout), 0);
  EXPECT_EQ(CountOf(Build("mlp?dropout=20"), OpKind::kDropout), 3);  // not behind the last layer
}

// Backward drops what forward dropped: each op of backward names its own forward op.
TEST(ZooLanguageTest, DropoutHasItsOwnBackward) {
  const Graph graph = Build("bert-base?layers=2");
  EXPECT_EQ(CountOf(graph, OpKind::kDropout, Phase::kBackwardInput),
            CountOf(graph, OpKind::kDropout));
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::kDropout) continue;
    EXPECT_EQ(op.name, op.attributes.mask + (op.phase == Phase::kForward ? "" : ".dx"));
  }
}

TEST(ZooLanguageTest, ExpertsInEverySecondBlock) {
  const auto routes = [](const std::string& spec) {
    std::string found;
    const Graph graph = Build(spec);
    for (const Op& op : graph.ops()) {
      if (op.kind == OpKind::kRoute) found += op.name + " ";
    }
    return found;
  };
  EXPECT_EQ(routes("tiny-moe"), "block1.route block3.route ");
  EXPECT_EQ(routes("tiny-moe?every=1"), "block0.route block1.route block2.route block3.route ");
  EXPECT_EQ(routes("tiny-moe?every=3"), "block2.route ");
  const Graph graph = Build("tiny-moe");
  EXPECT_EQ(TypeOf(graph, "block1.fc1.w"), "f32[4,64,256]");
  EXPECT_EQ(TypeOf(graph, "block1.fc1.bias"), "f32[4,256]");  // experts have their own
  EXPECT_EQ(SignatureOf(graph, "block1.fc1.add"), "becf,ef->becf");
  EXPECT_EQ(TypeOf(graph, "block0.fc1.w"), "f32[64,256]");
  EXPECT_EQ(CountOf(graph, OpKind::kBalanceLoss), 2);
  EXPECT_EQ(OpOf(graph, "block1.balance").attributes.weight, 0.01);
}

// ceil(capacity / 100 * seq / experts) tokens per expert and sequence.
TEST(ZooLanguageTest, Capacity) {
  const auto slots = [](const std::string& spec) {
    return OpOf(Build(spec), "block1.route").attributes.capacity;
  };
  EXPECT_EQ(slots("tiny-moe"), 10);               // 1.25 * 32 / 4
  EXPECT_EQ(slots("tiny-moe?capacity=100"), 8);   // just enough when all are used evenly
  EXPECT_EQ(slots("tiny-moe?capacity=101"), 9);   // rounded up
  EXPECT_EQ(slots("tiny-moe?capacity=400"), 32);  // one expert could take all
  EXPECT_EQ(slots("tiny-moe?capacity=1"), 1);
  EXPECT_EQ(slots("tiny-moe?experts=1"), 40);
  EXPECT_EQ(slots("bert-moe"), 40);
  EXPECT_EQ(TypeOf(Build("tiny-moe", {.batch = 2}), "block1.dispatch.y"), "f32[2,4,10,64]");
}

TEST(ZooLanguageTest, ValuesThatMakeNoModel) {
  for (const char* spec : {"bert-base?heads=7", "transformer?heads=7", "bert-moe?heads=7",
                           "xlnet-large?heads=7", "tiny-moe?heads=128"}) {
    EXPECT_THAT(ErrorOf(spec), HasSubstr("is not a multiple of heads = ")) << spec;
    EXPECT_THAT(ErrorOf(spec), HasSubstr("hint: each head gets hidden / heads features")) << spec;
  }
  EXPECT_THAT(ErrorOf("tiny-moe?experts=0"), HasSubstr("experts = 0 is out of range\n  hint: "
                                                       "expected 1 to 4,096"));
  EXPECT_THAT(ErrorOf("tiny-moe?every=0"), HasSubstr("every = 0 is out of range"));
  EXPECT_THAT(ErrorOf("tiny-moe?capacity=0"), HasSubstr("capacity = 0 is out of range"));
  EXPECT_THAT(ErrorOf("bert-base?experts=4"), HasSubstr("bert-base has no parameter \"experts\""));
  EXPECT_THAT(ErrorOf("bert-base?dropout=100"), HasSubstr("expected 0 to 90"));
  EXPECT_THAT(ErrorOf("transformer?wide=0"), HasSubstr("wide = 0 is out of range"));
}

}  // namespace
}  // namespace heddle
