#include "model/zoo_blocks.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

namespace heddle {
namespace {

constexpr double kBalanceWeight = 0.01;  // Fedus, Zoph, Shazeer 2022 (Switch Transformer)

TensorId SelfAttention(GraphBuilder& g, const std::string& name, TensorId x,
                       const BlockOptions& o) {
  const int64_t features = o.hidden / o.heads;
  const TensorId qkv = Linear(g, name + ".qkv", x, "bsh,hcad->bscad",
                              {o.hidden, 3, o.heads, features}, {3, o.heads, features});
  const TensorId mixed = g.Attention(name + ".attn", qkv, o.causal);
  return Linear(g, name + ".proj", mixed, "bsad,adh->bsh", {o.heads, features, o.hidden},
                {o.hidden});
}

TensorId ContextAttention(GraphBuilder& g, const std::string& name, TensorId x, TensorId context,
                          const BlockOptions& o) {
  const int64_t features = o.hidden / o.heads;
  const TensorId q = Linear(g, name + ".q", x, "bth,had->btad", {o.hidden, o.heads, features},
                            {o.heads, features});
  const TensorId kv = Linear(g, name + ".kv", context, "bsh,hcad->bscad",
                             {o.hidden, 2, o.heads, features}, {2, o.heads, features});
  const TensorId mixed = g.CrossAttention(name + ".cross", q, kv);
  return Linear(g, name + ".cross_proj", mixed, "btad,adh->bth", {o.heads, features, o.hidden},
                {o.hidden});
}

TensorId FeedForward(GraphBuilder& g, const std::string& name, TensorId x, const BlockOptions& o) {
  const TensorId wide =
      Linear(g, name + ".fc1", x, "bsh,hf->bsf", {o.hidden, o.width()}, {o.width()});
  const TensorId active = o.relu ? g.Relu(name + ".relu", wide) : g.Gelu(name + ".gelu", wide);
  return Linear(g, name + ".fc2", active, "bsf,fh->bsh", {o.width(), o.hidden}, {o.hidden});
}

// Each token goes to the one expert its gate prefers, if that has room in this sequence.
TensorId Experts(GraphBuilder& g, const std::string& name, TensorId x, const BlockOptions& o) {
  const TensorId gate = g.Parameter(name + ".gate.w", {o.hidden, o.experts});
  const TensorId logits = g.Einsum(name + ".gate", "bsh,he->bse", x, gate);
  const TensorId probabilities = g.Softmax(name + ".gate.softmax", logits);
  const GraphBuilder::Routing routing = g.Route(name + ".route", probabilities, o.capacity);
  g.BalanceLoss(name + ".balance", probabilities, routing, kBalanceWeight);
  const TensorId sent = g.Dispatch(name + ".dispatch", x, routing, o.experts);
  const TensorId wide = Linear(g, name + ".fc1", sent, "bech,ehf->becf",
                               {o.experts, o.hidden, o.width()}, {o.width()});
  const TensorId active = g.Gelu(name + ".gelu", wide);
  const TensorId narrow = Linear(g, name + ".fc2", active, "becf,efh->bech",
                                 {o.experts, o.width(), o.hidden}, {o.hidden});
  return g.Combine(name + ".combine", narrow, routing);
}

using Branch = std::function<TensorId(TensorId)>;

// The residual connection around a branch, with its normalisation before or after.
TensorId Residual(GraphBuilder& g, const std::string& name, const std::string& number, TensorId x,
                  const BlockOptions& o, const Branch& branch) {
  const std::string norm = name + ".ln" + number;
  const TensorId input = o.norm_after ? x : Norm(g, norm, x, o.hidden, o.epsilon);
  const TensorId added = g.Dropout(name + ".drop" + number, branch(input), o.dropout);
  const TensorId sum = g.Add(name + ".res" + number, x, added);
  return o.norm_after ? Norm(g, norm, sum, o.hidden, o.epsilon) : sum;
}

}  // namespace

double HeDeviation(int64_t fan_in) { return std::sqrt(2.0 / static_cast<double>(fan_in)); }

TensorId Linear(GraphBuilder& g, const std::string& name, TensorId x, std::string_view signature,
                std::vector<int64_t> weight, std::vector<int64_t> bias, double deviation) {
  const std::string y(signature.substr(signature.find("->") + 2));
  const bool per_expert = y.starts_with("be");  // experts have biases of their own
  const std::string bias_axes = (per_expert ? "e" : "") + y.substr(y.size() - bias.size());
  if (per_expert) bias.insert(bias.begin(), weight.front());
  const TensorId w = g.Parameter(name + ".w", std::move(weight), 0, deviation);
  const TensorId product = g.Einsum(name, signature, x, w);
  const TensorId b = g.Parameter(name + ".bias", std::move(bias), 0, 0);
  return g.BiasAdd(name + ".add", y + "," + bias_axes + "->" + y, product, b);
}

TensorId Norm(GraphBuilder& g, const std::string& name, TensorId x, int64_t hidden,
              double epsilon) {
  const TensorId scale = g.Parameter(name + ".scale", {hidden}, 1, 0);
  const TensorId shift = g.Parameter(name + ".shift", {hidden}, 0, 0);
  return g.LayerNorm(name, x, scale, shift, epsilon);
}

Status CheckHeads(int64_t hidden, int64_t heads) {
  if (hidden % heads == 0) return Ok();
  return BadInput("", fmt::format("hidden = {} is not a multiple of heads = {}", hidden, heads),
                  "each head gets hidden / heads features");
}

TensorId TransformerBlock(GraphBuilder& g, const std::string& name, TensorId x,
                          const BlockOptions& o) {
  x = Residual(g, name, "1", x, o, [&](TensorId in) { return SelfAttention(g, name, in, o); });
  return Residual(g, name, "2", x, o, [&](TensorId in) {
    return o.experts > 0 ? Experts(g, name, in, o) : FeedForward(g, name, in, o);
  });
}

TensorId DecoderBlock(GraphBuilder& g, const std::string& name, TensorId x, TensorId context,
                      const BlockOptions& o) {
  x = Residual(g, name, "1", x, o, [&](TensorId in) { return SelfAttention(g, name, in, o); });
  x = Residual(g, name, "2", x, o,
               [&](TensorId in) { return ContextAttention(g, name, in, context, o); });
  return Residual(g, name, "3", x, o, [&](TensorId in) { return FeedForward(g, name, in, o); });
}

}  // namespace heddle
