// HfConfig: what a Hugging Face config.json says of a model, in one vocabulary for all families.
//
//   HEDDLE_ASSIGN(HfConfig config, LoadHfConfig("opt-125m/config.json"));
//   config.family        // HfFamily::kOpt
//   config.hidden        // of "hidden_size", "n_embd" or "d_model"
//
// Sizes only: no weights, no Python. What a file leaves out is what its family leaves out, as in
// `transformers`. Invariants: every extent is within the limits of a graph's; heads divide what
// they must.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/choices.h"
#include "base/json_fwd.h"
#include "base/result.h"

namespace heddle {

enum class HfFamily : uint8_t {
  kLlama,
  kMistral,
  kQwen2,
  kQwen3,
  kGemma2,
  kGemma3,
  kPhi3,
  kGpt2,
  kGptNeox,
  kOpt,
  kMixtral,
  kQwen3Moe,
  kBert,
  kRoberta,
  kVit,
  kT5,
};
template <>
struct Choices<HfFamily> {
  static constexpr Choice<HfFamily> kTable[] = {
      {HfFamily::kLlama, "llama"},      {HfFamily::kMistral, "mistral"},
      {HfFamily::kQwen2, "qwen2"},      {HfFamily::kQwen3, "qwen3"},
      {HfFamily::kGemma2, "gemma2"},    {HfFamily::kGemma3, "gemma3_text"},
      {HfFamily::kPhi3, "phi3"},        {HfFamily::kGpt2, "gpt2"},
      {HfFamily::kGptNeox, "gpt_neox"}, {HfFamily::kOpt, "opt"},
      {HfFamily::kMixtral, "mixtral"},  {HfFamily::kQwen3Moe, "qwen3_moe"},
      {HfFamily::kBert, "bert"},        {HfFamily::kRoberta, "roberta"},
      {HfFamily::kVit, "vit"},          {HfFamily::kT5, "t5"}};
};

// What stands behind the blocks, and so which loss there is.
enum class HfHead : uint8_t { kNextToken, kMaskedToken, kSequenceClass, kImageClass };

struct HfConfig {
  HfFamily family = HfFamily::kLlama;
  HfHead head = HfHead::kNextToken;
  std::string architecture;  // "LlamaForCausalLM"
  int64_t layers = 0;
  int64_t decoder_layers = 0;  // t5; 0 elsewhere
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t wide = 0;  // of a feed-forward layer
  int64_t vocab = 0;
  int64_t positions = 0;  // that are learned, or the longest sequence
  int64_t types = 0;      // rows of the table of token types
  int64_t embedded = 0;   // opt: features of a token before they are projected
  int64_t classes = 0;    // of a classifier
  int64_t image = 0, patch = 0, channels = 0;
  int64_t window = 0;  // keys that attention sees; 0: all
  int64_t experts = 0, experts_per_token = 0, expert_wide = 0;
  int64_t dense_layers = 0;  // of a mixture of experts: layers without one
  int64_t buckets = 0;       // t5: of relative positions
  bool tied = false;         // one table for input and output
  bool attention_bias = false;
  bool mlp_bias = false;
  bool norm_before = true;  // opt
  bool final_norm = true;   // opt
  bool gated = false;       // t5
  double epsilon = 1e-5;
  double dropout = 0;            // of what is added to the residual, and of embeddings
  double attention_dropout = 0;  // of attention's probabilities
  double classifier_dropout = 0;
  double initializer_range = 0.02;
  std::string activation;       // as the file says
  std::string rope_scaling;     // type of it; empty: none
  bool partial_rotary = false;  // a part of the features turns
  bool parallel_residual = false;
};

// `file` names the source in errors.
Result<HfConfig> ParseHfConfig(const std::string& text, const std::string& file);
Result<HfConfig> LoadHfConfig(const std::string& path);

// Of every size that is an extent of a tensor.
inline constexpr int64_t kMostHfExtent = int64_t{1} << 20;

}  // namespace heddle
