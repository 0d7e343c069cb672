#include "model/zoo_families.h"

#include <fmt/format.h>

#include "model/graph_builder.h"

namespace heddle {
namespace {

// Parameter names follow the op: "block3.fc1.w", "block3.fc1.bias".
TensorId Linear(GraphBuilder& g, const std::string& name, TensorId x, std::string_view signature,
                std::vector<int64_t> weight, std::vector<int64_t> bias) {
  const std::string y(signature.substr(signature.find("->") + 2));
  const std::string bias_axes = y.substr(y.size() - bias.size());
  const TensorId w = g.Parameter(name + ".w", std::move(weight));
  const TensorId product = g.Einsum(name, signature, x, w);
  const TensorId b = g.Parameter(name + ".bias", std::move(bias), 0, 0);
  return g.BiasAdd(name + ".add", y + "," + bias_axes + "->" + y, product, b);
}

TensorId Norm(GraphBuilder& g, const std::string& name, TensorId x, int64_t hidden) {
  const TensorId scale = g.Parameter(name + ".scale", {hidden}, 1, 0);
  const TensorId shift = g.Parameter(name + ".shift", {hidden}, 0, 0);
  return g.LayerNorm(name, x, scale, shift);
}

// x + attention(norm(x)), then x + mlp(norm(x)): the pre-norm block of GPT-2.
TensorId TransformerBlock(GraphBuilder& g, const std::string& name, TensorId x, int64_t hidden,
                          int64_t heads) {
  const int64_t features = hidden / heads;
  const TensorId normed = Norm(g, name + ".ln1", x, hidden);
  const TensorId qkv = Linear(g, name + ".qkv", normed, "bsh,hcad->bscad",
                              {hidden, 3, heads, features}, {3, heads, features});
  const TensorId mixed = g.Attention(name + ".attn", qkv, /*causal=*/true);
  const TensorId projected =
      Linear(g, name + ".proj", mixed, "bsad,adh->bsh", {heads, features, hidden}, {hidden});
  const TensorId attended = g.Add(name + ".res1", x, projected);
  const TensorId normed2 = Norm(g, name + ".ln2", attended, hidden);
  const TensorId wide =
      Linear(g, name + ".fc1", normed2, "bsh,hf->bsf", {hidden, 4 * hidden}, {4 * hidden});
  const TensorId active = g.Gelu(name + ".gelu", wide);
  const TensorId narrow =
      Linear(g, name + ".fc2", active, "bsf,fh->bsh", {4 * hidden, hidden}, {hidden});
  return g.Add(name + ".res2", attended, narrow);
}

}  // namespace

Status WriteMlp(GraphBuilder& g, const ModelParameters& p) {
  const int64_t layers = p.at("layers");
  TensorId x = g.Input("x", g.dtype(), {p.at("inputs")});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  int64_t width = p.at("inputs");
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = fmt::format("fc{}", i);
    const bool last = i + 1 == layers;
    const int64_t next = last ? p.at("outputs") : p.at("hidden");
    g.BeginLayer(name);
    x = Linear(g, name, x, "bk,kn->bn", {width, next}, {next});
    if (!last) x = g.Gelu(name + ".gelu", x);
    width = next;
  }
  g.CrossEntropy("xent", x, targets);
  return Ok();
}

Status WriteGpt(GraphBuilder& g, const ModelParameters& p) {
  const int64_t hidden = p.at("hidden");
  const int64_t heads = p.at("heads");
  if (hidden % heads != 0) {
    return BadInput("", fmt::format("hidden = {} is not a multiple of heads = {}", hidden, heads),
                    "each head gets hidden / heads features");
  }
  const TensorId tokens = g.Input("tokens", DType::kI64, {p.at("seq")});
  const TensorId targets = g.Input("targets", DType::kI64, {p.at("seq")});
  g.BeginLayer("embed");
  const TensorId table = g.Parameter("embed.tokens", {p.at("vocab"), hidden});
  const TensorId positions = g.Parameter("embed.positions", {p.at("seq"), hidden});
  TensorId x = g.Embedding("embed", tokens, table);
  x = g.BiasAdd("embed.position", "bsh,sh->bsh", x, positions);
  for (int64_t i = 0; i < p.at("layers"); ++i) {
    const std::string name = fmt::format("block{}", i);
    g.BeginLayer(name);
    x = TransformerBlock(g, name, x, hidden, heads);
  }
  g.BeginLayer("head");
  x = Norm(g, "head.ln", x, hidden);
  const TensorId output =
      p.at("tied") != 0 ? table : g.Parameter("head.w", {p.at("vocab"), hidden});
  const TensorId logits = g.Einsum("head.logits", "bsh,vh->bsv", x, output);
  g.CrossEntropy("xent", logits, targets);
  return Ok();
}

}  // namespace heddle
