#include "model/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model_spec.h"
#include "zoo_text.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// GPT-2 "small", "medium", "large", XL: Radford et al. 2019, counted in the released weights.
TEST(ZooTest, ParametersOfGpt2) {
  EXPECT_EQ(Build("gpt").parameter_count(), 124'439'808);
  EXPECT_EQ(Build("gpt?layers=24&hidden=1024&heads=16").parameter_count(), 354'823'168);
  EXPECT_EQ(Build("gpt?layers=36&hidden=1280&heads=20").parameter_count(), 774'030'080);
  EXPECT_EQ(Build("gpt?layers=48&hidden=1600&heads=25").parameter_count(), 1'557'611'200);
}

TEST(ZooTest, ATableOfItsOwnWhenNotTied) {
  EXPECT_EQ(Build("gpt?tied=0").parameter_count(), 124'439'808 + 50257 * 768);
}

TEST(ZooTest, ParametersOfMlp) {
  EXPECT_EQ(Build("mlp?layers=1&inputs=6&outputs=8").parameter_count(), 6 * 8 + 8);
  EXPECT_EQ(Build("mlp?layers=3&inputs=6&hidden=5&outputs=8").parameter_count(),
            (6 * 5 + 5) + (5 * 5 + 5) + (5 * 8 + 8));
}

TEST(ZooTest, OneLayerPerBlock) {
  EXPECT_EQ(Build("gpt").layers().size(), 14U);
  EXPECT_EQ(Build("gpt").layers()[1], "block0");
  EXPECT_EQ(Build("mlp").layers().size(), 4U);
}

TEST(ZooTest, EveryEntryIsAGraph) {
  for (const ZooEntry& entry : Zoo()) {
    const Graph graph = Build(entry.name, {.batch = 2});
    EXPECT_GT(graph.parameter_count(), 0) << entry.name;
    EXPECT_EQ(graph.batch(), 2) << entry.name;
    EXPECT_FALSE(entry.about.empty());
  }
}

// Small enough to compute in a moment, with the layers of the large one.
TEST(ZooTest, SmallCopiesKeepTheLayers) {
  for (const ZooEntry& entry : Zoo()) {
    const Graph large = Build(entry.name);
    const Graph small = Build(ScaledDown(entry.name).value());
    EXPECT_EQ(small.layers(), large.layers()) << entry.name;
    EXPECT_EQ(small.ops().size(), large.ops().size()) << entry.name;
    EXPECT_LT(small.parameter_count(), 300'000) << entry.name;
  }
  EXPECT_EQ(ScaledDown("gpt?layers=5").value(), "gpt?heads=2&hidden=16&layers=5&seq=8&vocab=32");
  EXPECT_FALSE(ScaledDown("nonesuch").ok());
}

TEST(ZooTest, HashesTellModelsApart) {
  const std::string hash = Build("tiny-gpt").ContentHash();
  EXPECT_EQ(Build("tiny-gpt").ContentHash(), hash);
  EXPECT_EQ(Build("tiny-gpt?layers=4").ContentHash(), hash);  // the default, written out
  EXPECT_NE(Build("tiny-gpt?layers=5").ContentHash(), hash);
  EXPECT_NE(Build("tiny-gpt", {.batch = 2}).ContentHash(), hash);
  EXPECT_NE(Build("tiny-gpt", {.dtype = DType::kBf16}).ContentHash(), hash);
  EXPECT_NE(Build("tiny-gpt", {.optimizer = Optimizer::kSgd}).ContentHash(), hash);
}

TEST(ZooTest, UnknownNamesSuggestTheNearest) {
  EXPECT_THAT(ErrorOf("gtp"), HasSubstr("model \"gtp\": no such model in the zoo\n  hint: did you "
                                        "mean \"gpt\"? known: mlp, vgg19"));
  EXPECT_THAT(ErrorOf("tinygpt"), HasSubstr("did you mean \"tiny-gpt\"?"));
  EXPECT_THAT(ErrorOf("gpt?layer=3"),
              HasSubstr("gpt has no parameter \"layer\"\n  hint: did you mean \"layers\"?"));
}

TEST(ZooTest, ValuesThatMakeNoModel) {
  EXPECT_THAT(ErrorOf("gpt?hidden=100&heads=12"),
              HasSubstr("hidden = 100 is not a multiple of heads = 12"));
  EXPECT_THAT(ErrorOf("gpt?layers=0"), HasSubstr("layers = 0 is out of range"));
  EXPECT_THAT(ErrorOf("gpt?layers=100000"), HasSubstr("expected 1 to 4,096"));
  EXPECT_THAT(ErrorOf("gpt?tied=2"), HasSubstr("tied = 2 is out of range"));
  EXPECT_THAT(ErrorOf("mlp?hidden=9223372036854775807"), HasSubstr("out of range"));
  EXPECT_THAT(ErrorOf("gpt?hidden=1048576&heads=1&seq=1048576", {.batch = 1 << 20}),
              HasSubstr("tensor embed.y is too large\n  hint: choose smaller dimensions"));
}

TEST(ModelSpecTest, ReadsAndWritesBack) {
  const ModelSpec spec = ParseModelSpec("gpt?layers=48&hidden=1600").value();
  EXPECT_EQ(spec.name, "gpt");
  EXPECT_EQ(spec.values.at("layers"), 48);
  EXPECT_EQ(spec.ToString(), "gpt?hidden=1600&layers=48");
  EXPECT_EQ(ParseModelSpec("gpt").value().ToString(), "gpt");
}

TEST(ModelSpecTest, Errors) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("no name"));
  EXPECT_THAT(ErrorOf("?layers=2"), HasSubstr("no name"));
  EXPECT_THAT(ErrorOf("gpt?"), HasSubstr("\"\" is not key=value"));
  EXPECT_THAT(ErrorOf("gpt?layers"), HasSubstr("\"layers\" is not key=value"));
  EXPECT_THAT(ErrorOf("gpt?layers=two"), HasSubstr("layers = \"two\" is not a whole number"));
  EXPECT_THAT(ErrorOf("gpt?layers=-2"), HasSubstr("is not a whole number"));
  EXPECT_THAT(ErrorOf("gpt?layers=2&layers=3"), HasSubstr("layers is given twice"));
  EXPECT_THAT(ErrorOf("gpt?layers=99999999999999999999"), HasSubstr("is not a whole number"));
}

}  // namespace
}  // namespace heddle
