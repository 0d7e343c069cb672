#include "model/hf_parts.h"

#include <string_view>

namespace heddle {
namespace {

constexpr bool kMissing = true;

class Parts {
 public:
  explicit Parts(const HfConfig& config) : c_(config) {}

  std::vector<HfPart> Take() { return std::move(parts_); }

  void Add(std::string op, std::string where, int64_t count, int64_t parameters,
           bool missing = false) {
    if (count > 0) parts_.push_back({std::move(op), std::move(where), count, parameters, missing});
  }
  void Embedding(std::string where, int64_t rows, int64_t features) {
    Add("embedding", std::move(where), 1, rows * features);
  }
  void Linear(std::string where, int64_t count, int64_t in, int64_t out, bool bias) {
    Add("linear", std::move(where), count, in * out + (bias ? out : 0));
  }
  void LayerNorm(std::string where, int64_t count = 1) {
    Add("layer_norm", std::move(where), count, 2 * c_.hidden);
  }
  void RmsNorm(std::string where, int64_t count, int64_t features) {
    Add("rms_norm", std::move(where), count, features, kMissing);
  }
  // The kind that heddle has is its own name; the others are named for what they lack.
  void Activation(std::string where, int64_t count) {
    const bool known = c_.activation == "gelu" || c_.activation == "relu";
    Add(known ? c_.activation : "activation " + c_.activation, std::move(where), count, 0, !known);
  }
  // The product of two linear layers, one through an activation.
  void GatedMlp(const std::string& where, int64_t count, int64_t wide, bool fused, bool bias) {
    const int64_t h = c_.hidden;
    if (fused) {
      Linear(where + ".gate_up_proj", count, h, 2 * wide, bias);
    } else {
      Linear(where + ".gate_proj", count, h, wide, bias);
      Linear(where + ".up_proj", count, h, wide, bias);
    }
    Add("gated product of " + c_.activation, where + ".act_fn", count, 0, kMissing);
    Linear(where + ".down_proj", count, wide, h, bias);
  }
  // Dropout of attention's probabilities is none of heddle's ops.
  void Probabilities(std::string where, int64_t count) {
    if (c_.attention_dropout > 0) {
      Add("attention_dropout", std::move(where), count, 0, kMissing);
    }
  }

 private:
  const HfConfig& c_;
  std::vector<HfPart> parts_;
};

// --- decoders with rotary positions and RMS norms ---

bool HasQueryNorms(HfFamily family) {
  return family == HfFamily::kQwen3 || family == HfFamily::kQwen3Moe || family == HfFamily::kGemma3;
}

void RotaryAttention(Parts& p, const HfConfig& c) {
  const std::string where = "model.layers.*.self_attn";
  const int64_t all = c.heads * c.head_dim;
  const int64_t shared = c.kv_heads * c.head_dim;
  const bool in_bias = c.attention_bias || c.family == HfFamily::kQwen2;
  if (c.family == HfFamily::kPhi3) {
    p.Linear(where + ".qkv_proj", c.layers, c.hidden, all + 2 * shared, false);
  } else {
    p.Linear(where + ".q_proj", c.layers, c.hidden, all, in_bias);
    p.Linear(where + ".k_proj", c.layers, c.hidden, shared, in_bias);
    p.Linear(where + ".v_proj", c.layers, c.hidden, shared, in_bias);
  }
  if (HasQueryNorms(c.family)) {
    p.RmsNorm(where + ".q_norm", c.layers, c.head_dim);
    p.RmsNorm(where + ".k_norm", c.layers, c.head_dim);
  }
  p.Add(c.partial_rotary ? "rotary_positions of a part" : "rotary_positions", where, 2 * c.layers,
        0, kMissing);
  if (!c.rope_scaling.empty()) {
    p.Add("rotary scaling " + c.rope_scaling, "model.rotary_emb", 1, 0, kMissing);
  }
  if (c.kv_heads != c.heads) p.Add("grouped_queries", where, c.layers, 0, kMissing);
  if (c.window > 0) p.Add("sliding_window", where, c.layers, 0, kMissing);
  if (c.family == HfFamily::kGemma2) p.Add("soft caps", where, c.layers, 0, kMissing);
  p.Probabilities(where, c.layers);
  p.Add("attention", where, c.layers, 0);
  p.Linear(where + ".o_proj", c.layers, all, c.hidden, c.attention_bias);
}

void RotaryMlp(Parts& p, const HfConfig& c) {
  const bool mixed = c.experts > 0;
  const int64_t sparse = mixed ? c.layers - c.dense_layers : 0;
  p.GatedMlp("model.layers.*.mlp", c.layers - sparse, c.wide, c.family == HfFamily::kPhi3,
             c.mlp_bias);
  if (!mixed) return;
  p.Linear("model.layers.*.mlp.gate", sparse, c.hidden, c.experts, false);
  p.Add("top_k_routing", "model.layers.*.mlp.gate", sparse, 0, kMissing);
  p.GatedMlp("model.layers.*.mlp.experts.*", sparse * c.experts, c.expert_wide, false, false);
}

void RotaryDecoder(Parts& p, const HfConfig& c) {
  p.Embedding("model.embed_tokens", c.vocab, c.hidden);
  const bool gemma = c.family == HfFamily::kGemma2 || c.family == HfFamily::kGemma3;
  if (gemma) p.Add("scaled embedding", "model.embed_tokens", 1, 0, kMissing);
  p.RmsNorm("model.layers.*.input_layernorm", c.layers, c.hidden);
  RotaryAttention(p, c);
  p.RmsNorm("model.layers.*.post_attention_layernorm", c.layers, c.hidden);
  if (gemma) {
    p.RmsNorm("model.layers.*.pre_feedforward_layernorm", c.layers, c.hidden);
    p.RmsNorm("model.layers.*.post_feedforward_layernorm", c.layers, c.hidden);
  }
  RotaryMlp(p, c);
  p.RmsNorm("model.norm", 1, c.hidden);
  p.Add("linear", "lm_head", 1, c.tied ? 0 : c.vocab * c.hidden);
}

void Gpt2(Parts& p, const HfConfig& c) {
  p.Embedding("transformer.wte", c.vocab, c.hidden);
  p.Embedding("transformer.wpe", c.positions, c.hidden);
  p.LayerNorm("transformer.h.*.ln_1", c.layers);
  p.Linear("transformer.h.*.attn.c_attn", c.layers, c.hidden, 3 * c.hidden, true);
  p.Probabilities("transformer.h.*.attn", c.layers);
  p.Add("attention", "transformer.h.*.attn", c.layers, 0);
  p.Linear("transformer.h.*.attn.c_proj", c.layers, c.hidden, c.hidden, true);
  p.LayerNorm("transformer.h.*.ln_2", c.layers);
  p.Linear("transformer.h.*.mlp.c_fc", c.layers, c.hidden, c.wide, true);
  p.Activation("transformer.h.*.mlp.act", c.layers);
  p.Linear("transformer.h.*.mlp.c_proj", c.layers, c.wide, c.hidden, true);
  p.LayerNorm("transformer.ln_f");
  p.Add("linear", "lm_head", 1, c.tied ? 0 : c.vocab * c.hidden);
}

void GptNeox(Parts& p, const HfConfig& c) {
  const std::string layer = "gpt_neox.layers.*";
  p.Embedding("gpt_neox.embed_in", c.vocab, c.hidden);
  p.LayerNorm(layer + ".input_layernorm", c.layers);
  p.Linear(layer + ".attention.query_key_value", c.layers, c.hidden, 3 * c.hidden,
           c.attention_bias);
  p.Add(c.partial_rotary ? "rotary_positions of a part" : "rotary_positions", layer + ".attention",
        2 * c.layers, 0, kMissing);
  p.Probabilities(layer + ".attention", c.layers);
  p.Add("attention", layer + ".attention", c.layers, 0);
  p.Linear(layer + ".attention.dense", c.layers, c.hidden, c.hidden, c.attention_bias);
  p.LayerNorm(layer + ".post_attention_layernorm", c.layers);
  p.Linear(layer + ".mlp.dense_h_to_4h", c.layers, c.hidden, c.wide, true);
  p.Activation(layer + ".mlp.act", c.layers);
  p.Linear(layer + ".mlp.dense_4h_to_h", c.layers, c.wide, c.hidden, true);
  p.LayerNorm("gpt_neox.final_layer_norm");
  p.Add("linear", "embed_out", 1, c.tied ? 0 : c.vocab * c.hidden);
}

void Opt(Parts& p, const HfConfig& c) {
  constexpr int64_t kOffset = 2;  // rows before the first position
  const std::string decoder = "model.decoder";
  const std::string layer = decoder + ".layers.*";
  p.Embedding(decoder + ".embed_tokens", c.vocab, c.embedded);
  p.Embedding(decoder + ".embed_positions", c.positions + kOffset, c.hidden);
  if (c.embedded != c.hidden) {
    p.Add("projected embedding", decoder + ".project_in", 1, c.embedded * c.hidden, kMissing);
    p.Add("projected embedding", decoder + ".project_out", 1, c.embedded * c.hidden, kMissing);
  }
  for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
    p.Linear(layer + ".self_attn." + name, c.layers, c.hidden, c.hidden, c.attention_bias);
  }
  p.Probabilities(layer + ".self_attn", c.layers);
  p.Add("attention", layer + ".self_attn", c.layers, 0);
  p.Linear(layer + ".self_attn.out_proj", c.layers, c.hidden, c.hidden, c.attention_bias);
  p.LayerNorm(layer + ".self_attn_layer_norm", c.layers);
  p.Linear(layer + ".fc1", c.layers, c.hidden, c.wide, c.mlp_bias);
  p.Activation(layer + ".activation_fn", c.layers);
  p.Linear(layer + ".fc2", c.layers, c.wide, c.hidden, c.mlp_bias);
  p.LayerNorm(layer + ".final_layer_norm", c.layers);
  if (!c.attention_bias) p.Add("linear without bias", layer, c.layers, 0, kMissing);
  if (c.final_norm) p.LayerNorm(decoder + ".final_layer_norm");
  p.Add("linear", "lm_head", 1, c.tied ? 0 : c.vocab * c.embedded);
}

// --- encoders ---

void EncoderBlocks(Parts& p, const HfConfig& c, const std::string& layer, bool qkv_bias) {
  for (const char* name : {"query", "key", "value"}) {
    p.Linear(layer + ".attention." + name, c.layers, c.hidden, c.hidden, qkv_bias);
  }
  if (!qkv_bias) p.Add("linear without bias", layer + ".attention", c.layers, 0, kMissing);
  p.Probabilities(layer + ".attention", c.layers);
  p.Add("attention", layer + ".attention", c.layers, 0);
  p.Linear(layer + ".attention.output.dense", c.layers, c.hidden, c.hidden, true);
  p.LayerNorm(layer + ".attention.output.LayerNorm", c.layers);
  p.Linear(layer + ".intermediate.dense", c.layers, c.hidden, c.wide, true);
  p.Activation(layer + ".intermediate.act", c.layers);
  p.Linear(layer + ".output.dense", c.layers, c.wide, c.hidden, true);
  p.LayerNorm(layer + ".output.LayerNorm", c.layers);
}

void Bert(Parts& p, const HfConfig& c) {
  const bool roberta = c.family == HfFamily::kRoberta;
  const std::string name = roberta ? "roberta" : "bert";
  p.Embedding(name + ".embeddings.word_embeddings", c.vocab, c.hidden);
  p.Embedding(name + ".embeddings.position_embeddings", c.positions, c.hidden);
  p.Embedding(name + ".embeddings.token_type_embeddings", c.types, c.hidden);
  p.LayerNorm(name + ".embeddings.LayerNorm");
  EncoderBlocks(p, c, name + ".encoder.layer.*", true);
  if (c.head == HfHead::kMaskedToken) {
    const std::string head = roberta ? "lm_head" : "cls.predictions";
    p.Linear(head + ".dense", 1, c.hidden, c.hidden, true);
    p.Activation(head + ".act", 1);
    p.LayerNorm(head + ".layer_norm");
    p.Add("linear", head + ".decoder", 1, c.vocab + (c.tied ? 0 : c.vocab * c.hidden));
    return;
  }
  p.Linear(roberta ? "classifier.dense" : "bert.pooler.dense", 1, c.hidden, c.hidden, true);
  p.Add("tanh", roberta ? "classifier" : "bert.pooler", 1, 0);
  p.Linear(roberta ? "classifier.out_proj" : "classifier", 1, c.hidden, c.classes, true);
}

void Vit(Parts& p, const HfConfig& c) {
  const int64_t side = c.image / c.patch;
  p.Add("conv2d", "vit.embeddings.patch_embeddings", 1,
        c.hidden * c.channels * c.patch * c.patch + c.hidden);
  p.Add("class_token", "vit.embeddings.cls_token", 1, c.hidden);
  p.Embedding("vit.embeddings.position_embeddings", side * side + 1, c.hidden);
  EncoderBlocks(p, c, "vit.encoder.layer.*", c.attention_bias);
  p.LayerNorm("vit.layernorm");
  p.Linear("classifier", 1, c.hidden, c.classes, true);
}

void T5(Parts& p, const HfConfig& c) {
  const int64_t inner = c.heads * c.head_dim;
  p.Embedding("shared", c.vocab, c.hidden);
  struct Stack {
    const char* name;
    int64_t layers;
    int64_t attentions;  // of a layer
  };
  for (const Stack& stack :
       {Stack{"encoder", c.layers, 1}, Stack{"decoder", c.decoder_layers, 2}}) {
    const std::string layer = std::string(stack.name) + ".block.*.layer.*";
    const int64_t attentions = stack.layers * stack.attentions;
    for (const char* name : {"q", "k", "v"}) {
      p.Linear(layer + "." + name, attentions, c.hidden, inner, false);
    }
    p.Linear(layer + ".o", attentions, inner, c.hidden, false);
    p.Add("relative_positions", layer + ".relative_attention_bias", 1, c.buckets * c.heads,
          kMissing);
    p.Add("attention without scale", layer, attentions, 0, kMissing);
    p.RmsNorm(layer + ".layer_norm", attentions + stack.layers, c.hidden);
    p.Linear(layer + ".DenseReluDense.wi", stack.layers * (c.gated ? 2 : 1), c.hidden, c.wide,
             false);
    if (c.gated) {
      p.Add("gated product of " + c.activation, layer + ".DenseReluDense.act", stack.layers, 0,
            kMissing);
    } else {
      p.Activation(layer + ".DenseReluDense.act", stack.layers);
    }
    p.Linear(layer + ".DenseReluDense.wo", stack.layers, c.wide, c.hidden, false);
    p.RmsNorm(std::string(stack.name) + ".final_layer_norm", 1, c.hidden);
  }
  p.Add("linear", "lm_head", 1, c.tied ? 0 : c.vocab * c.hidden);
}

struct FamilyParts {
  HfFamily family;
  void (*write)(Parts&, const HfConfig&);
};
constexpr FamilyParts kFamilies[] = {{HfFamily::kLlama, RotaryDecoder},
                                     {HfFamily::kMistral, RotaryDecoder},
                                     {HfFamily::kQwen2, RotaryDecoder},
                                     {HfFamily::kQwen3, RotaryDecoder},
                                     {HfFamily::kGemma2, RotaryDecoder},
                                     {HfFamily::kGemma3, RotaryDecoder},
                                     {HfFamily::kPhi3, RotaryDecoder},
                                     {HfFamily::kMixtral, RotaryDecoder},
                                     {HfFamily::kQwen3Moe, RotaryDecoder},
                                     {HfFamily::kGpt2, Gpt2},
                                     {HfFamily::kGptNeox, GptNeox},
                                     {HfFamily::kOpt, Opt},
                                     {HfFamily::kBert, Bert},
                                     {HfFamily::kRoberta, Bert},
                                     {HfFamily::kVit, Vit},
                                     {HfFamily::kT5, T5}};

}  // namespace

std::vector<HfPart> PartsOf(const HfConfig& config) {
  Parts parts(config);
  for (const FamilyParts& one : kFamilies) {
    if (one.family == config.family) one.write(parts, config);
  }
  return parts.Take();
}

Result<int64_t> ParametersOf(const std::vector<HfPart>& parts, const std::string& file) {
  constexpr double kMost = 1e15;
  double sum = 0;
  int64_t exact = 0;
  for (const HfPart& part : parts) {
    sum += static_cast<double>(part.count) * static_cast<double>(part.parameters);
    if (sum > kMost) {
      return BadInput(file, "more than 10^15 parameters", "are these the sizes of a model?");
    }
    exact += part.count * part.parameters;
  }
  return exact;
}

}  // namespace heddle
