// Hugging Face configurations: sizes against the published ones, graphs against their counts, and
// what is refused.
#include "model/hf_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/file.h"
#include "model/zoo.h"
#include "support/places.h"

namespace heddle {
namespace {

using testing::HasSubstr;

std::string PathOf(const std::string& name) {
  return SourceDir() + "/tests/model/configs/" + name + ".json";
}

HfModel Read(const std::string& name, const std::string& keys = "") {
  const Result<HfModel> model = ReadHfModel(ParseModelSpec(PathOf(name) + keys).value());
  EXPECT_TRUE(model.ok()) << model.error().ToString();
  return model.ok() ? model.value() : HfModel();
}

struct Published {
  const char* name;
  int64_t parameters;
};

// Of the models that `transformers` builds from these files; tests/python/hf_config_test.py asks
// it.
constexpr Published kPublished[] = {
    {"llama-2-7b", 6738415616},       {"llama-3-8b", 8030261248},
    {"llama-3.1-405b", 405853388800}, {"mistral-7b", 7241732096},
    {"mistral-nemo", 12247782400},    {"qwen2-0.5b", 494032768},
    {"qwen2-7b", 7615616512},         {"qwen3-0.6b", 596049920},
    {"qwen3-8b", 8190735360},         {"gemma-2-2b", 2614341888},
    {"gemma-2-9b", 9241705984},       {"gemma-3-270m", 268098176},
    {"gemma-3-1b", 999885952},        {"phi-3-mini", 3821079552},
    {"phi-3-medium", 13960238080},    {"gpt2", 124439808},
    {"gpt2-xl", 1557611200},          {"pythia-70m", 70426624},
    {"pythia-1.4b", 1414647808},      {"opt-125m", 125239296},
    {"opt-350m", 331196416},          {"opt-1.3b", 1315758080},
    {"mixtral-8x7b", 46702792704},    {"mixtral-8x22b", 140630071296},
    {"qwen3-30b-a3b", 30532122624},   {"qwen3-235b-a22b", 235093634560},
    {"bert-base", 109514298},         {"bert-large", 335174458},
    {"bert-classes", 109485316},      {"roberta-base", 124697433},
    {"roberta-large", 355412057},     {"roberta-classes", 124647170},
    {"vit-base", 86567656},           {"vit-large", 304326632},
    {"t5-small", 60506624},           {"t5-base", 222903552},
    {"flan-t5-small", 76961152},
};

TEST(HfModelTest, ParametersAreThosePublished) {
  std::map<HfFamily, int> sizes;
  for (const Published& one : kPublished) {
    const HfModel model = Read(one.name);
    EXPECT_EQ(model.parameters, one.parameters) << one.name;
    ++sizes[model.config.family];
  }
  for (const auto& choice : Choices<HfFamily>::kTable) {
    EXPECT_GE(sizes[choice.value], 2) << choice.name;
  }
}

// What is built has the parameters that are counted, but for rows of positions that nothing reads.
TEST(HfModelTest, GraphsHaveTheParametersThatAreCounted) {
  const auto trained = [](const std::string& name, const std::string& keys) {
    const Result<Graph> graph = BuildModel(PathOf(name) + keys, {});
    EXPECT_TRUE(graph.ok()) << graph.error().ToString();
    return graph.ok() ? graph.value().parameter_count() : 0;
  };
  const auto counted = [](const std::string& name) { return Read(name).parameters; };
  EXPECT_EQ(trained("bert-base", "?dropout=0"), counted("bert-base"));
  EXPECT_EQ(trained("bert-classes", "?dropout=0"), counted("bert-classes"));
  EXPECT_EQ(trained("vit-base", ""), counted("vit-base"));
  EXPECT_EQ(trained("opt-125m", ""), counted("opt-125m") - 2 * 768);
  EXPECT_EQ(trained("opt-125m", "?seq=128"), counted("opt-125m") - (2050 - 128) * 768);
  EXPECT_EQ(trained("roberta-base", "?dropout=0"), counted("roberta-base") - 2 * 768);
  EXPECT_EQ(trained("roberta-classes", "?dropout=0"), counted("roberta-classes") - 2 * 768);
}

TEST(HfModelTest, DropoutIsWhereTheFamilyHasIt) {
  const auto count = [](const Graph& graph) {
    int drops = 0;
    for (const Op& op : graph.ops()) {
      drops += op.kind == OpKind::kDropout && op.phase == Phase::kForward ? 1 : 0;
    }
    return drops;
  };
  EXPECT_EQ(count(BuildModel(PathOf("opt-125m") + "?seq=8", {}).value()), 24);
  EXPECT_EQ(count(BuildModel(PathOf("opt-125m") + "?seq=8&dropout=0", {}).value()), 0);
  EXPECT_EQ(count(BuildModel(PathOf("vit-base"), {}).value()), 0);
}

TEST(HfModelTest, WhatIsMissingIsNamedWithItsPlace) {
  const auto error = [](const std::string& name, const std::string& keys = "") {
    const Result<Graph> graph = BuildModel(PathOf(name) + keys, {});
    EXPECT_FALSE(graph.ok()) << name;
    EXPECT_EQ(graph.error().kind, ErrorKind::kBadInput);
    return graph.error().ToString();
  };
  const std::string llama = error("llama-3.1-405b");
  EXPECT_THAT(llama, HasSubstr("llama-3.1-405b.json: heddle cannot build LlamaForCausalLM"));
  EXPECT_THAT(llama, HasSubstr("rms_norm (126 at model.layers.*.input_layernorm)"));
  EXPECT_THAT(llama, HasSubstr("grouped_queries (126 at model.layers.*.self_attn)"));
  EXPECT_THAT(llama, HasSubstr("rotary scaling llama3 (1 at model.rotary_emb)"));
  EXPECT_THAT(error("gpt2", "?dropout=0"), HasSubstr("activation gelu_new (12 at"));
  EXPECT_THAT(error("mistral-7b"), HasSubstr("sliding_window (32 at"));
  EXPECT_THAT(error("mixtral-8x7b"), HasSubstr("top_k_routing (32 at"));
  EXPECT_THAT(error("opt-350m"), HasSubstr("projected embedding"));
  // Never silently without it: who wants none of it says so.
  EXPECT_THAT(error("bert-base"),
              HasSubstr("attention_dropout (12 at bert.encoder.layer.*.attention)"));
  EXPECT_THAT(error("bert-base"), HasSubstr("?dropout=0"));
}

TEST(HfModelTest, KeysAreChecked) {
  const auto error = [](const std::string& keys, const char* name = "opt-125m") {
    return BuildModel(PathOf(name) + keys, {}).error().ToString();
  };
  EXPECT_THAT(error("?sqe=8"), HasSubstr("did you mean \"seq\"?"));
  EXPECT_THAT(error("?seq=2049"), HasSubstr("expected 1 to 2,048"));
  EXPECT_THAT(error("?seq=0"), HasSubstr("seq = 0 is out of range"));
  EXPECT_THAT(error("?dropout=10"), HasSubstr("0 leaves all dropout out"));
  EXPECT_THAT(error("?seq=8", "vit-base"), HasSubstr("images have no sequence"));
  EXPECT_THAT(BuildModel("nothing.json", {}).error().ToString(), HasSubstr("nothing.json"));
  EXPECT_FALSE(IsProfileSpec("some/where/config.json?seq=4"));
  EXPECT_TRUE(IsProfileSpec("some/where/layers.txt"));
  EXPECT_THAT(ScaledDown(PathOf("opt-125m")).error().ToString(), HasSubstr("no small copy"));
}

std::string ErrorOf(const std::string& text) {
  const Result<HfConfig> config = ParseHfConfig(text, "c.json");
  if (config.ok()) return "read";
  EXPECT_EQ(config.error().kind, ErrorKind::kBadInput);
  return config.error().ToString();
}

// A llama of few features after one replacement.
std::string After(const std::string& from, const std::string& to) {
  std::string text = R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "vocab_size": 99})";
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return ErrorOf(text.replace(at, from.size(), to));
}

TEST(HfConfigTest, BadFilesAreRefusedWithThePlace) {
  EXPECT_EQ(After("99", "98"), "read");
  EXPECT_THAT(After("\"llama\"", "\"lama\""), HasSubstr("c.json: model_type"));
  EXPECT_THAT(After("\"llama\"", "\"lama\""), HasSubstr("did you mean \"llama\"?"));
  EXPECT_THAT(After("\"llama\"", "\"gemma3\""), HasSubstr("text_config"));
  EXPECT_THAT(After("LlamaForCausalLM", "LlamaForTokenClassification"), HasSubstr("is not read"));
  EXPECT_THAT(After("\"hidden_size\": 64,", ""),
              HasSubstr("hidden_size or n_embd or d_model is missing"));
  EXPECT_THAT(After("64", "-64"), HasSubstr("c.json: hidden_size"));
  EXPECT_THAT(After("64", "1e30"), HasSubstr("c.json: hidden_size"));
  EXPECT_THAT(After("64", "\"64\""), HasSubstr("c.json: hidden_size"));
  EXPECT_THAT(After("64", "63"), HasSubstr("63 features are not a multiple of 4 heads"));
  EXPECT_THAT(After("\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"),
              HasSubstr("4 heads are not a multiple of 3"));
  EXPECT_THAT(After("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 100000"),
              HasSubstr("c.json: num_hidden_layers"));
  EXPECT_THAT(ErrorOf(""), HasSubstr("c.json"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("c.json"));
  EXPECT_THAT(ErrorOf("{\"model_type\": \"lla"), HasSubstr("c.json"));
  EXPECT_THAT(ErrorOf(std::string(100000, '[')), HasSubstr("c.json"));
}

TEST(HfConfigTest, AbsurdSizesAreRefusedInNoTime) {
  const std::string huge = R"({"model_type": "mixtral", "hidden_size": 1048576,
    "num_hidden_layers": 4096, "num_attention_heads": 1, "intermediate_size": 1048576,
    "vocab_size": 1048576, "num_local_experts": 4096})";
  const Result<HfConfig> config = ParseHfConfig(huge, "c.json");
  ASSERT_TRUE(config.ok()) << config.error().ToString();
  const auto parameters = ParametersOf(PartsOf(config.value()), "c.json");
  ASSERT_FALSE(parameters.ok());
  EXPECT_THAT(parameters.error().what, HasSubstr("10^15 parameters"));
  EXPECT_THAT(ErrorOf(R"({"model_type": "vit", "hidden_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 4, "intermediate_size": 64, "image_size": 1048576, "patch_size": 1})"),
              HasSubstr("are too large"));
  EXPECT_THAT(ErrorOf(R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 1,
    "num_attention_heads": 1048576, "head_dim": 1048576, "intermediate_size": 64})"),
              HasSubstr("are too large"));
}

// What a file leaves out, or says is null, is what the family says.
TEST(HfConfigTest, NullsAndAliases) {
  const HfConfig gpt2 = ParseHfConfig(R"({"model_type": "gpt2", "n_embd": 96, "n_layer": 3,
    "n_head": 3, "n_inner": null, "n_positions": 77})",
                                      "c.json")
                            .value();
  EXPECT_EQ(gpt2.wide, 384);
  EXPECT_EQ(gpt2.head_dim, 32);
  EXPECT_EQ(gpt2.kv_heads, 3);
  EXPECT_EQ(gpt2.positions, 77);
  EXPECT_EQ(gpt2.activation, "gelu_new");
  EXPECT_TRUE(gpt2.tied);
  EXPECT_EQ(gpt2.architecture, "GPT2LMHeadModel");
  const HfConfig moe = ParseHfConfig(R"({"model_type": "qwen3_moe", "hidden_size": 64,
    "num_hidden_layers": 6, "num_attention_heads": 4, "intermediate_size": 64, "num_experts": 4,
    "moe_intermediate_size": 16, "decoder_sparse_step": 2, "mlp_only_layers": [1, 2]})",
                                     "c.json")
                           .value();
  EXPECT_EQ(moe.dense_layers, 4);  // 0, 2 and 4 by the step; 1 and 2 by the list
}

}  // namespace
}  // namespace heddle
