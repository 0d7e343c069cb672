#include "model/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "base/file.h"
#include "base/json_field.h"
#include "base/text.h"

namespace heddle {
namespace {

constexpr size_t kMostBytes = size_t{1} << 20;
constexpr int64_t kMostLayers = 4096;
constexpr int64_t kMostExperts = 4096;

using Keys = std::initializer_list<std::string_view>;

// Reads the first of several names that is there and not null.
class ConfigReader {
 public:
  explicit ConfigReader(const JsonField& root) : root_(root) {}

  bool Has(std::string_view key) const { return root_.Has(key) && !root_.json()[key].is_null(); }

  Status Int(Keys keys, int64_t least, int64_t most, int64_t& value,
             std::optional<int64_t> usual = {}) const {
    for (const std::string_view key : keys) {
      if (!Has(key)) continue;
      HEDDLE_ASSIGN(value, root_.Int(key, least, most));
      return Ok();
    }
    if (!usual) return Missing(keys);
    value = *usual;
    return Ok();
  }

  Status Extent(Keys keys, int64_t& value, std::optional<int64_t> usual = {}) const {
    return Int(keys, 1, kMostHfExtent, value, usual);
  }

  Status Fraction(Keys keys, double& value, double usual) const {
    value = usual;
    for (const std::string_view key : keys) {
      if (!Has(key)) continue;
      HEDDLE_ASSIGN(value, root_.Number(key));
      if (value >= 0 && value < 1) return Ok();
      HEDDLE_ASSIGN(const JsonField field, root_.Child(key));
      return field.Bad(fmt::format("{} is out of range", value), "expected 0 to below 1");
    }
    return Ok();
  }

  Status Bool(std::string_view key, bool& value, bool usual) const {
    value = usual;
    if (!Has(key)) return Ok();
    HEDDLE_ASSIGN(value, root_.Bool(key));
    return Ok();
  }

  Status Text(Keys keys, std::string& value, std::string_view usual) const {
    value = usual;
    for (const std::string_view key : keys) {
      if (!Has(key)) continue;
      HEDDLE_ASSIGN(value, root_.String(key));
      return Ok();
    }
    return Ok();
  }

  const JsonField& root() const { return root_; }

 private:
  Error Missing(Keys keys) const {
    std::vector<std::string> names(keys.begin(), keys.end());
    return root_.Bad(fmt::format("{} is missing", Join(names, " or ")),
                     "is this the config.json of a model?");
  }

  const JsonField& root_;
};

// What the families have in common, and where they differ when the file says nothing.
struct Usual {
  HfFamily family;
  const char* architecture;
  const char* activation;
  double epsilon;
  bool tied;
  int64_t vocab;
  int64_t positions;
};
constexpr Usual kUsual[] = {
    {HfFamily::kLlama, "LlamaForCausalLM", "silu", 1e-6, false, 32000, 2048},
    {HfFamily::kMistral, "MistralForCausalLM", "silu", 1e-6, false, 32000, 131072},
    {HfFamily::kQwen2, "Qwen2ForCausalLM", "silu", 1e-6, false, 151936, 32768},
    {HfFamily::kQwen3, "Qwen3ForCausalLM", "silu", 1e-6, false, 151936, 32768},
    {HfFamily::kGemma2, "Gemma2ForCausalLM", "gelu_pytorch_tanh", 1e-6, true, 256000, 8192},
    {HfFamily::kGemma3, "Gemma3ForCausalLM", "gelu_pytorch_tanh", 1e-6, true, 262208, 131072},
    {HfFamily::kPhi3, "Phi3ForCausalLM", "silu", 1e-5, false, 32064, 4096},
    {HfFamily::kGpt2, "GPT2LMHeadModel", "gelu_new", 1e-5, true, 50257, 1024},
    {HfFamily::kGptNeox, "GPTNeoXForCausalLM", "gelu", 1e-5, false, 50432, 2048},
    {HfFamily::kOpt, "OPTForCausalLM", "relu", 1e-5, true, 50272, 2048},
    {HfFamily::kMixtral, "MixtralForCausalLM", "silu", 1e-5, false, 32000, 131072},
    {HfFamily::kQwen3Moe, "Qwen3MoeForCausalLM", "silu", 1e-6, false, 151936, 32768},
    {HfFamily::kBert, "BertForMaskedLM", "gelu", 1e-12, true, 30522, 512},
    {HfFamily::kRoberta, "RobertaForMaskedLM", "gelu", 1e-12, true, 50265, 512},
    {HfFamily::kVit, "ViTForImageClassification", "gelu", 1e-12, false, 0, 0},
    {HfFamily::kT5, "T5ForConditionalGeneration", "relu", 1e-6, true, 32128, 512},
};

const Usual& UsualOf(HfFamily family) {
  return *std::find_if(std::begin(kUsual), std::end(kUsual),
                       [&](const Usual& usual) { return usual.family == family; });
}

struct HeadSuffix {
  std::string_view suffix;
  HfHead head;
};
constexpr HeadSuffix kHeads[] = {{"ForCausalLM", HfHead::kNextToken},
                                 {"LMHeadModel", HfHead::kNextToken},
                                 {"ForConditionalGeneration", HfHead::kNextToken},
                                 {"ForMaskedLM", HfHead::kMaskedToken},
                                 {"ForSequenceClassification", HfHead::kSequenceClass},
                                 {"ForImageClassification", HfHead::kImageClass}};

Status ReadFamily(const ConfigReader& reader, HfConfig& config) {
  HEDDLE_ASSIGN(const std::string type, reader.root().String("model_type"));
  const std::string where = reader.root().where() + ": model_type";
  if (type == "gemma3") {
    return BadInput(where, "a gemma3 of images and text",
                    "give its \"text_config\" as a file of its own");
  }
  HEDDLE_ASSIGN(config.family, ReadChoice<HfFamily>(where, type));
  const Usual& usual = UsualOf(config.family);
  config.architecture = usual.architecture;
  if (reader.Has("architectures")) {
    HEDDLE_ASSIGN(const JsonField list, reader.root().Array("architectures"));
    if (list.size() > 0) {
      HEDDLE_ASSIGN(config.architecture, list.Element(0).AsString());
    }
  }
  const auto head = std::find_if(std::begin(kHeads), std::end(kHeads), [&](const HeadSuffix& one) {
    return config.architecture.ends_with(one.suffix);
  });
  const bool decoder = std::string_view(usual.architecture).find("ForMasked") == std::string::npos;
  const bool fits =
      head != std::end(kHeads) &&
      (config.architecture == usual.architecture ||
       (!decoder && (head->head == HfHead::kMaskedToken || head->head == HfHead::kSequenceClass)));
  if (!fits) {
    return reader.root().Bad(
        fmt::format("architectures: {} is not read", Printable(config.architecture)),
        fmt::format("of {} heddle reads {}{}", type, usual.architecture,
                    decoder ? "" : " and its ForSequenceClassification"));
  }
  config.head = head->head;
  return Ok();
}

// "rope_scaling": {"rope_type": …}, or "rope_parameters" of newer files.
Status ReadRotary(const ConfigReader& reader, HfConfig& config) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!reader.Has(key)) continue;
    HEDDLE_ASSIGN(const JsonField rope, reader.root().Object(key));
    const ConfigReader inner(rope);
    HEDDLE_RETURN_IF_ERROR(inner.Text({"rope_type", "type"}, config.rope_scaling, ""));
    if (config.rope_scaling == "default") config.rope_scaling.clear();
  }
  double part = 1;
  for (const std::string_view key : {"rotary_pct", "partial_rotary_factor"}) {
    if (!reader.Has(key)) continue;
    HEDDLE_ASSIGN(part, reader.root().Number(key));
  }
  const bool neox_default = config.family == HfFamily::kGptNeox && !reader.Has("rotary_pct");
  config.partial_rotary = part != 1 || neox_default;
  return Ok();
}

// Whose heads need not be hidden / heads wide, and may share keys.
bool HasOwnHeadSize(HfFamily family) {
  switch (family) {
    case HfFamily::kGpt2:
    case HfFamily::kGptNeox:
    case HfFamily::kOpt:
    case HfFamily::kBert:
    case HfFamily::kRoberta:
    case HfFamily::kVit:
      return false;
    default:
      return true;
  }
}

Status ReadSizes(const ConfigReader& r, HfConfig& c) {
  const Usual& usual = UsualOf(c.family);
  HEDDLE_RETURN_IF_ERROR(r.Extent({"hidden_size", "n_embd", "d_model"}, c.hidden));
  HEDDLE_RETURN_IF_ERROR(
      r.Int({"num_hidden_layers", "n_layer", "num_layers"}, 1, kMostLayers, c.layers));
  HEDDLE_RETURN_IF_ERROR(r.Extent({"num_attention_heads", "n_head", "num_heads"}, c.heads));
  c.kv_heads = c.heads;
  c.head_dim = std::max<int64_t>(1, c.hidden / c.heads);
  if (HasOwnHeadSize(c.family)) {
    HEDDLE_RETURN_IF_ERROR(r.Extent({"num_key_value_heads"}, c.kv_heads, c.heads));
    HEDDLE_RETURN_IF_ERROR(r.Extent({"head_dim", "d_kv"}, c.head_dim, c.head_dim));
  }
  if (c.family == HfFamily::kGpt2) {
    HEDDLE_RETURN_IF_ERROR(r.Extent({"n_inner"}, c.wide, std::min(4 * c.hidden, kMostHfExtent)));
  } else {
    HEDDLE_RETURN_IF_ERROR(r.Extent({"intermediate_size", "ffn_dim", "d_ff"}, c.wide));
  }
  if (c.family == HfFamily::kVit) return Ok();
  HEDDLE_RETURN_IF_ERROR(r.Extent({"vocab_size"}, c.vocab, usual.vocab));
  return r.Int({"max_position_embeddings", "n_positions"}, 1, int64_t{1} << 30, c.positions,
               usual.positions);
}

Status ReadRates(const ConfigReader& r, HfConfig& c) {
  const Usual& usual = UsualOf(c.family);
  HEDDLE_RETURN_IF_ERROR(r.Text({"hidden_activation", "hidden_act", "activation_function"},
                                c.activation, usual.activation));
  HEDDLE_RETURN_IF_ERROR(r.Fraction({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon"},
                                    c.epsilon, usual.epsilon));
  HEDDLE_RETURN_IF_ERROR(r.Bool("tie_word_embeddings", c.tied, usual.tied));
  const bool drops = c.family == HfFamily::kGpt2 || c.family == HfFamily::kOpt ||
                     c.family == HfFamily::kBert || c.family == HfFamily::kRoberta ||
                     c.family == HfFamily::kT5;
  const double rate = drops ? 0.1 : 0;
  HEDDLE_RETURN_IF_ERROR(r.Fraction({"hidden_dropout_prob", "resid_pdrop", "dropout_rate",
                                     "hidden_dropout", "resid_dropout", "dropout"},
                                    c.dropout, rate));
  const bool attention = drops && c.family != HfFamily::kOpt;
  HEDDLE_RETURN_IF_ERROR(r.Fraction(
      {"attention_probs_dropout_prob", "attn_pdrop", "attention_dropout", "dropout_rate"},
      c.attention_dropout, attention ? rate : 0));
  HEDDLE_RETURN_IF_ERROR(r.Fraction({"classifier_dropout"}, c.classifier_dropout, c.dropout));
  return r.Fraction({"initializer_range"}, c.initializer_range, 0.02);
}

Status ReadExperts(const ConfigReader& r, HfConfig& c) {
  HEDDLE_RETURN_IF_ERROR(r.Int({"num_local_experts", "num_experts"}, 1, kMostExperts, c.experts));
  HEDDLE_RETURN_IF_ERROR(
      r.Int({"num_experts_per_tok"}, 1, c.experts, c.experts_per_token,
            std::min<int64_t>(c.experts, c.family == HfFamily::kMixtral ? 2 : 8)));
  c.expert_wide = c.wide;
  if (c.family == HfFamily::kMixtral) return Ok();
  HEDDLE_RETURN_IF_ERROR(r.Extent({"moe_intermediate_size"}, c.expert_wide));
  int64_t step = 1;
  HEDDLE_RETURN_IF_ERROR(r.Int({"decoder_sparse_step"}, 1, kMostLayers, step, 1));
  std::vector<bool> dense(static_cast<size_t>(c.layers), false);
  for (int64_t i = 0; i < c.layers; ++i) dense[static_cast<size_t>(i)] = (i + 1) % step != 0;
  if (r.Has("mlp_only_layers")) {
    HEDDLE_ASSIGN(const std::vector<int64_t> only,
                  r.root().Ints("mlp_only_layers", 0, c.layers - 1));
    for (const int64_t layer : only) dense[static_cast<size_t>(layer)] = true;
  }
  c.dense_layers = std::count(dense.begin(), dense.end(), true);
  return Ok();
}

Status ReadClasses(const ConfigReader& r, HfConfig& c) {
  c.classes = 2;
  for (const std::string_view key : {"id2label", "label2id"}) {
    if (!r.Has(key)) continue;
    HEDDLE_ASSIGN(const JsonField labels, r.root().Object(key));
    c.classes = std::max<int64_t>(1, static_cast<int64_t>(labels.size()));
    return Ok();
  }
  return r.Extent({"num_labels"}, c.classes, 2);
}

Status ReadImages(const ConfigReader& r, HfConfig& c) {
  HEDDLE_RETURN_IF_ERROR(r.Extent({"image_size"}, c.image, 224));
  HEDDLE_RETURN_IF_ERROR(r.Extent({"patch_size"}, c.patch, 16));
  HEDDLE_RETURN_IF_ERROR(r.Extent({"num_channels"}, c.channels, 3));
  const int64_t side = c.image / c.patch;
  if (side * side >= kMostHfExtent || c.channels > kMostHfExtent / c.patch / c.patch) {
    return r.root().Bad(fmt::format("image_size {}, patch_size {}, num_channels {} are too large",
                                    c.image, c.patch, c.channels));
  }
  if (c.image % c.patch == 0) return r.Bool("qkv_bias", c.attention_bias, true);
  return r.root().Bad(
      fmt::format("image_size {} is not a multiple of patch_size {}", c.image, c.patch));
}

Status ReadOpt(const ConfigReader& r, HfConfig& c) {
  bool removed = false;
  HEDDLE_RETURN_IF_ERROR(r.Extent({"word_embed_proj_dim"}, c.embedded, c.hidden));
  HEDDLE_RETURN_IF_ERROR(r.Bool("do_layer_norm_before", c.norm_before, true));
  HEDDLE_RETURN_IF_ERROR(r.Bool("_remove_final_layer_norm", removed, false));
  c.final_norm = c.norm_before && !removed;
  HEDDLE_RETURN_IF_ERROR(r.Bool("enable_bias", c.attention_bias, true));
  c.mlp_bias = c.attention_bias;
  c.epsilon = UsualOf(c.family).epsilon;  // no key changes it
  double layerdrop = 0;
  HEDDLE_RETURN_IF_ERROR(r.Fraction({"layerdrop"}, layerdrop, 0));
  if (layerdrop > 0) return r.root().Bad("layerdrop leaves out layers by chance", "only 0 is read");
  bool affine = true;
  HEDDLE_RETURN_IF_ERROR(r.Bool("layer_norm_elementwise_affine", affine, true));
  if (affine) return Ok();
  return r.root().Bad("layer_norm_elementwise_affine is false",
                      "norms without weights are not read");
}

Status ReadT5(const ConfigReader& r, HfConfig& c) {
  HEDDLE_RETURN_IF_ERROR(r.Int({"num_decoder_layers"}, 1, kMostLayers, c.decoder_layers, c.layers));
  HEDDLE_RETURN_IF_ERROR(r.Extent({"relative_attention_num_buckets"}, c.buckets, 32));
  std::string projection;
  HEDDLE_RETURN_IF_ERROR(r.Text({"feed_forward_proj"}, projection, "relu"));
  c.gated = projection.starts_with("gated-");
  c.activation = c.gated ? projection.substr(6) : projection;
  return Ok();
}

Status ReadBert(const ConfigReader& r, HfConfig& c) {
  HEDDLE_RETURN_IF_ERROR(r.Extent({"type_vocab_size"}, c.types, 2));
  std::string positions;
  HEDDLE_RETURN_IF_ERROR(r.Text({"position_embedding_type"}, positions, "absolute"));
  if (positions != "absolute") {
    return r.root().Bad(fmt::format("position_embedding_type {}", Printable(positions)),
                        "only absolute positions are read");
  }
  bool decoder = false;
  HEDDLE_RETURN_IF_ERROR(r.Bool("is_decoder", decoder, false));
  if (decoder) return r.root().Bad("is_decoder is true", "only encoders are read");
  return ReadClasses(r, c);
}

Status ReadOfFamily(const ConfigReader& r, HfConfig& c) {
  switch (c.family) {
    case HfFamily::kLlama:
      HEDDLE_RETURN_IF_ERROR(r.Bool("attention_bias", c.attention_bias, false));
      return r.Bool("mlp_bias", c.mlp_bias, false);
    case HfFamily::kQwen3:
    case HfFamily::kGemma2:
    case HfFamily::kGemma3:
      return r.Bool("attention_bias", c.attention_bias, false);
    case HfFamily::kQwen3Moe:
      HEDDLE_RETURN_IF_ERROR(r.Bool("attention_bias", c.attention_bias, false));
      return ReadExperts(r, c);
    case HfFamily::kMixtral:
      return ReadExperts(r, c);
    case HfFamily::kGptNeox:
      HEDDLE_RETURN_IF_ERROR(r.Bool("use_parallel_residual", c.parallel_residual, true));
      return r.Bool("attention_bias", c.attention_bias, true);
    case HfFamily::kOpt:
      return ReadOpt(r, c);
    case HfFamily::kBert:
    case HfFamily::kRoberta:
      return ReadBert(r, c);
    case HfFamily::kVit:
      HEDDLE_RETURN_IF_ERROR(ReadClasses(r, c));
      return ReadImages(r, c);
    case HfFamily::kT5:
      return ReadT5(r, c);
    default:
      return Ok();
  }
}

// A window is there unless the file turns it off.
Status ReadWindow(const ConfigReader& r, HfConfig& c) {
  bool used = c.family == HfFamily::kMistral || c.family == HfFamily::kMixtral ||
              c.family == HfFamily::kGemma2 || c.family == HfFamily::kGemma3 ||
              c.family == HfFamily::kPhi3;
  HEDDLE_RETURN_IF_ERROR(r.Bool("use_sliding_window", used, used));
  if (!used) return Ok();
  return r.Int({"sliding_window"}, 1, int64_t{1} << 30, c.window, 0);
}

Status CheckHeads(const HfConfig& c, const JsonField& root) {
  const bool own = HasOwnHeadSize(c.family) && (root.Has("head_dim") || c.family == HfFamily::kT5);
  if (!own && c.hidden % c.heads != 0) {
    return root.Bad(fmt::format("{} features are not a multiple of {} heads", c.hidden, c.heads));
  }
  if (c.heads > kMostHfExtent / c.head_dim) {
    return root.Bad(fmt::format("{} heads of {} features are too large", c.heads, c.head_dim));
  }
  if (c.heads % c.kv_heads == 0) return Ok();
  return root.Bad(
      fmt::format("{} heads are not a multiple of {} key-value heads", c.heads, c.kv_heads));
}

}  // namespace

Result<HfConfig> ParseHfConfig(const std::string& text, const std::string& file) {
  HEDDLE_ASSIGN(const Json json, ParseJson(text, file));
  const JsonField root(json, file);
  HEDDLE_RETURN_IF_ERROR(root.ExpectObject());
  const ConfigReader reader(root);
  HfConfig config;
  HEDDLE_RETURN_IF_ERROR(ReadFamily(reader, config));
  HEDDLE_RETURN_IF_ERROR(ReadSizes(reader, config));
  HEDDLE_RETURN_IF_ERROR(ReadRates(reader, config));
  HEDDLE_RETURN_IF_ERROR(ReadRotary(reader, config));
  HEDDLE_RETURN_IF_ERROR(ReadOfFamily(reader, config));
  HEDDLE_RETURN_IF_ERROR(ReadWindow(reader, config));
  HEDDLE_RETURN_IF_ERROR(CheckHeads(config, root));
  return config;
}

Result<HfConfig> LoadHfConfig(const std::string& path) {
  HEDDLE_ASSIGN(const std::string text, ReadFile(path, kMostBytes));
  return ParseHfConfig(text, path);
}

}  // namespace heddle
