// Models of text, and the MLP.
#include <fmt/format.h>

#include "model/zoo_blocks.h"
#include "model/zoo_families.h"

namespace heddle {
namespace {

double Fraction(const ModelParameters& p, const std::string& key) {
  return static_cast<double>(p.at(key)) / 100;
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
    if (!last) x = g.Dropout(name + ".drop", g.Gelu(name + ".gelu", x), Fraction(p, "dropout"));
    width = next;
  }
  g.CrossEntropy("xent", x, targets);
  return Ok();
}

Status WriteGpt(GraphBuilder& g, const ModelParameters& p) {
  BlockOptions block;
  block.hidden = p.at("hidden");
  block.heads = p.at("heads");
  block.causal = true;
  block.dropout = Fraction(p, "dropout");
  HEDDLE_RETURN_IF_ERROR(CheckHeads(block.hidden, block.heads));
  const TensorId tokens = g.Input("tokens", DType::kI64, {p.at("seq")});
  const TensorId targets = g.Input("targets", DType::kI64, {p.at("seq")});
  g.BeginLayer("embed");
  const TensorId table = g.Parameter("embed.tokens", {p.at("vocab"), block.hidden});
  const TensorId positions = g.Parameter("embed.positions", {p.at("seq"), block.hidden});
  TensorId x = g.Embedding("embed", tokens, table);
  x = g.BiasAdd("embed.position", "bsh,sh->bsh", x, positions);
  x = g.Dropout("embed.drop", x, block.dropout);
  for (int64_t i = 0; i < p.at("layers"); ++i) {
    const std::string name = fmt::format("block{}", i);
    g.BeginLayer(name);
    x = TransformerBlock(g, name, x, block);
  }
  g.BeginLayer("head");
  x = Norm(g, "head.ln", x, block.hidden);
  const TensorId output =
      p.at("tied") != 0 ? table : g.Parameter("head.w", {p.at("vocab"), block.hidden});
  const TensorId logits = g.Einsum("head.logits", "bsh,vh->bsv", x, output);
  g.CrossEntropy("xent", logits, targets);
  return Ok();
}

// BERT with the pooler and a classifier on the first position, as it is fine-tuned.
Status WriteBert(GraphBuilder& g, const ModelParameters& p) {
  constexpr int64_t kSegments = 2;
  BlockOptions block;
  block.hidden = p.at("hidden");
  block.heads = p.at("heads");
  block.norm_after = true;
  block.dropout = Fraction(p, "dropout");
  block.epsilon = 1e-12;
  HEDDLE_RETURN_IF_ERROR(CheckHeads(block.hidden, block.heads));
  const int64_t experts = p.contains("experts") ? p.at("experts") : 0;
  const int64_t hidden = block.hidden;
  const TensorId tokens = g.Input("tokens", DType::kI64, {p.at("seq")});
  const TensorId segments = g.Input("segments", DType::kI64, {p.at("seq")});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("embed");
  TensorId x = g.Embedding("embed", tokens, g.Parameter("embed.tokens", {p.at("vocab"), hidden}));
  const TensorId segment =
      g.Embedding("embed.segment", segments, g.Parameter("embed.segments", {kSegments, hidden}));
  x = g.Add("embed.sum", x, segment);
  x = g.BiasAdd("embed.position", "bsh,sh->bsh", x,
                g.Parameter("embed.positions", {p.at("seq"), hidden}));
  x = g.Dropout("embed.drop", Norm(g, "embed.ln", x, hidden, block.epsilon), block.dropout);
  for (int64_t i = 0; i < p.at("layers"); ++i) {
    const std::string name = fmt::format("block{}", i);
    g.BeginLayer(name);
    const bool mixed = experts > 0 && i % p.at("every") == p.at("every") - 1;
    block.experts = mixed ? experts : 0;
    if (mixed) {
      const int64_t room = p.at("seq") * p.at("capacity");
      block.capacity = (room + 100 * experts - 1) / (100 * experts);
    }
    x = TransformerBlock(g, name, x, block);
  }
  g.BeginLayer("head");
  x = g.SelectFirst("head.first", x);
  x = Linear(g, "head.pool", x, "bh,hn->bn", {hidden, hidden}, {hidden});
  x = g.Dropout("head.drop", g.Tanh("head.tanh", x), block.dropout);
  const int64_t classes = p.at("classes");
  x = Linear(g, "head.out", x, "bh,hn->bn", {hidden, classes}, {classes});
  g.CrossEntropy("xent", x, targets);
  return Ok();
}

// Vaswani et al. 2017, with learned positions; one table for source, target and output.
Status WriteTransformer(GraphBuilder& g, const ModelParameters& p) {
  BlockOptions block;
  block.hidden = p.at("hidden");
  block.heads = p.at("heads");
  block.wide = p.at("wide");
  block.relu = true;
  block.norm_after = true;
  block.dropout = Fraction(p, "dropout");
  HEDDLE_RETURN_IF_ERROR(CheckHeads(block.hidden, block.heads));
  const std::vector<int64_t> positions = {p.at("seq"), block.hidden};
  const TensorId source = g.Input("source", DType::kI64, {p.at("seq")});
  const TensorId tokens = g.Input("tokens", DType::kI64, {p.at("seq")});
  const TensorId targets = g.Input("targets", DType::kI64, {p.at("seq")});
  g.BeginLayer("source");
  const TensorId table = g.Parameter("tokens.table", {p.at("vocab"), block.hidden});
  const auto embed = [&](const std::string& name, TensorId words) {
    const TensorId place = g.Parameter(name + ".positions", positions);
    const TensorId sum =
        g.BiasAdd(name + ".position", "bsh,sh->bsh", g.Embedding(name, words, table), place);
    return g.Dropout(name + ".drop", sum, block.dropout);
  };
  TensorId context = embed("source", source);
  for (int64_t i = 0; i < p.at("layers"); ++i) {
    const std::string name = fmt::format("encoder{}", i);
    g.BeginLayer(name);
    context = TransformerBlock(g, name, context, block);
  }
  block.causal = true;
  g.BeginLayer("target");
  TensorId x = embed("target", tokens);
  for (int64_t i = 0; i < p.at("layers"); ++i) {
    const std::string name = fmt::format("decoder{}", i);
    g.BeginLayer(name);
    x = DecoderBlock(g, name, x, context, block);
  }
  g.BeginLayer("head");
  const TensorId logits = g.Einsum("head.logits", "bsh,vh->bsv", x, table);
  g.CrossEntropy("xent", logits, targets);
  return Ok();
}

}  // namespace heddle
