#include "model/hf_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "model/zoo_blocks.h"

namespace heddle {
namespace {

constexpr int64_t kRobertaOffset = 2;  // positions begin behind that of padding
constexpr std::array<std::string_view, 2> kKeys = {"seq", "dropout"};

Status CheckKeys(const ModelSpec& spec) {
  for (const auto& item : spec.values) {
    const std::string& key = item.first;
    if (std::find(kKeys.begin(), kKeys.end(), key) != kKeys.end()) continue;
    const std::vector<std::string> known(kKeys.begin(), kKeys.end());
    return BadInput(fmt::format("model \"{}\"", spec.ToString()),
                    fmt::format("a configuration has no key \"{}\"", key), SuggestName(key, known));
  }
  return Ok();
}

int64_t LongestSequence(const HfConfig& config) {
  switch (config.family) {
    case HfFamily::kVit:
      return 0;
    case HfFamily::kRoberta:
      return std::max<int64_t>(1, config.positions - kRobertaOffset);
    default:
      return std::min(config.positions, kMostHfExtent);
  }
}

Status ApplyKeys(const ModelSpec& spec, HfModel& model) {
  const std::string where = fmt::format("model \"{}\"", spec.ToString());
  model.sequence = LongestSequence(model.config);
  if (const auto seq = spec.values.find("seq"); seq != spec.values.end()) {
    if (seq->second < 1 || seq->second > model.sequence) {
      return BadInput(where, fmt::format("seq = {} is out of range", seq->second),
                      model.sequence == 0
                          ? "images have no sequence: leave it out"
                          : fmt::format("expected 1 to {}", GroupDigits(model.sequence)));
    }
    model.sequence = seq->second;
  }
  if (const auto dropout = spec.values.find("dropout"); dropout != spec.values.end()) {
    if (dropout->second != 0) {
      return BadInput(where, fmt::format("dropout = {}", dropout->second),
                      "0 leaves all dropout out; other rates are the configuration's");
    }
    model.config.dropout = 0;
    model.config.attention_dropout = 0;
    model.config.classifier_dropout = 0;
  }
  return Ok();
}

BlockOptions BlockOf(const HfConfig& c) {
  BlockOptions block;
  block.hidden = c.hidden;
  block.heads = c.heads;
  block.wide = c.wide;
  block.causal = c.head == HfHead::kNextToken;
  block.relu = c.activation == "relu";
  block.dropout = c.dropout;
  block.epsilon = c.epsilon;
  return block;
}

TensorId Blocks(GraphBuilder& g, TensorId x, int64_t layers, const BlockOptions& block) {
  for (int64_t i = 0; i < layers; ++i) {
    const std::string name = fmt::format("block{}", i);
    g.BeginLayer(name);
    x = TransformerBlock(g, name, x, block);
  }
  return x;
}

// The table of learned positions has the rows that a sequence reads, and no others.
TensorId AddPositions(GraphBuilder& g, TensorId x, int64_t sequence, int64_t hidden) {
  return g.BiasAdd("embed.position", "bsh,sh->bsh", x,
                   g.Parameter("embed.positions", {sequence, hidden}));
}

TensorId Logits(GraphBuilder& g, TensorId x, TensorId table, const HfConfig& c) {
  const TensorId output = c.tied ? table : g.Parameter("head.w", {c.vocab, c.hidden});
  return g.Einsum("head.logits", "bsh,vh->bsv", x, output);
}

void Opt(GraphBuilder& g, const HfModel& model) {
  const HfConfig& c = model.config;
  BlockOptions block = BlockOf(c);
  block.norm_after = !c.norm_before;
  const TensorId tokens = g.Input("tokens", DType::kI64, {model.sequence});
  const TensorId targets = g.Input("targets", DType::kI64, {model.sequence});
  g.BeginLayer("embed");
  const TensorId table = g.Parameter("embed.tokens", {c.vocab, c.hidden});
  TensorId x = g.Embedding("embed", tokens, table);
  x = AddPositions(g, x, model.sequence, c.hidden);
  x = Blocks(g, x, c.layers, block);
  g.BeginLayer("head");
  if (c.final_norm) x = Norm(g, "head.ln", x, c.hidden, c.epsilon);
  g.CrossEntropy("xent", Logits(g, x, table, c), targets);
}

// A classifier on the first position, through a layer that `transformers` calls pooler or dense.
void SequenceClasses(GraphBuilder& g, TensorId x, TensorId targets, const HfConfig& c) {
  x = g.SelectFirst("head.first", x);
  if (c.family == HfFamily::kRoberta) x = g.Dropout("head.drop_in", x, c.classifier_dropout);
  x = Linear(g, "head.pool", x, "bh,hn->bn", {c.hidden, c.hidden}, {c.hidden});
  x = g.Dropout("head.drop", g.Tanh("head.tanh", x), c.classifier_dropout);
  x = Linear(g, "head.out", x, "bh,hn->bn", {c.hidden, c.classes}, {c.classes});
  g.CrossEntropy("xent", x, targets);
}

void MaskedTokens(GraphBuilder& g, TensorId x, TensorId table, TensorId targets,
                  const HfConfig& c) {
  x = Linear(g, "head.dense", x, "bsh,hn->bsn", {c.hidden, c.hidden}, {c.hidden});
  const bool relu = c.family == HfFamily::kBert && c.activation == "relu";  // roberta: always GELU
  x = relu ? g.Relu("head.relu", x) : g.Gelu("head.gelu", x);
  x = Norm(g, "head.ln", x, c.hidden, c.epsilon);
  x = g.BiasAdd("head.add", "bsv,v->bsv", Logits(g, x, table, c),
                g.Parameter("head.bias", {c.vocab}, 0, 0));
  g.CrossEntropy("xent", x, targets);
}

// Where there is one type of tokens, its row is a bias; where there are more, they are given.
TensorId AddSegments(GraphBuilder& g, TensorId x, const HfModel& model) {
  const TensorId segments = g.Input("segments", DType::kI64, {model.sequence});
  const TensorId table = g.Parameter("embed.segments", {model.config.types, model.config.hidden});
  return g.Add("embed.sum", x, g.Embedding("embed.segment", segments, table));
}

void Bert(GraphBuilder& g, const HfModel& model) {
  const HfConfig& c = model.config;
  BlockOptions block = BlockOf(c);
  block.norm_after = true;
  const bool masked = c.head == HfHead::kMaskedToken;
  const std::vector<int64_t> sequence = {model.sequence};
  const TensorId tokens = g.Input("tokens", DType::kI64, sequence);
  const TensorId targets =
      g.Input("targets", DType::kI64, masked ? sequence : std::vector<int64_t>());
  g.BeginLayer("embed");
  const TensorId table = g.Parameter("embed.tokens", {c.vocab, c.hidden});
  TensorId x = g.Embedding("embed", tokens, table);
  x = c.types == 1
          ? g.BiasAdd("embed.segment", "bsh,h->bsh", x, g.Parameter("embed.segments", {c.hidden}))
          : AddSegments(g, x, model);
  x = AddPositions(g, x, model.sequence, c.hidden);
  x = g.Dropout("embed.drop", Norm(g, "embed.ln", x, c.hidden, c.epsilon), c.dropout);
  x = Blocks(g, x, c.layers, block);
  g.BeginLayer("head");
  if (masked) {
    MaskedTokens(g, x, table, targets, c);
  } else {
    SequenceClasses(g, x, targets, c);
  }
}

void Vit(GraphBuilder& g, const HfModel& model) {
  const HfConfig& c = model.config;
  const BlockOptions block = BlockOf(c);
  TensorId x = g.Input("x", g.dtype(), {c.channels, c.image, c.image});
  const TensorId targets = g.Input("targets", DType::kI64, {});
  g.BeginLayer("embed");
  const TensorId patches = g.Parameter("embed.w", {c.hidden, c.channels, c.patch, c.patch});
  Window window;
  window.stride = c.patch;
  x = g.Conv2d("embed", x, patches, window);
  x = g.BiasAdd("embed.add", "bcyx,c->bcyx", x, g.Parameter("embed.bias", {c.hidden}, 0, 0));
  x = g.ClassToken("embed.class", x, g.Parameter("embed.token", {c.hidden}));
  x = AddPositions(g, x, g.tensor(x).shape[1], c.hidden);
  x = g.Dropout("embed.drop", x, c.dropout);
  x = Blocks(g, x, c.layers, block);
  g.BeginLayer("head");
  x = g.SelectFirst("head.first", Norm(g, "head.ln", x, c.hidden, c.epsilon));
  x = Linear(g, "head.fc", x, "bk,kn->bn", {c.hidden, c.classes}, {c.classes});
  g.CrossEntropy("xent", x, targets);
}

struct Writer {
  HfFamily family;
  void (*write)(GraphBuilder&, const HfModel&);
};
// The families whose ops heddle has.
constexpr Writer kWriters[] = {{HfFamily::kOpt, Opt},
                               {HfFamily::kBert, Bert},
                               {HfFamily::kRoberta, Bert},
                               {HfFamily::kVit, Vit}};

}  // namespace

bool IsConfigSpec(std::string_view spec) {
  return spec.substr(0, spec.find('?')).ends_with(".json");
}

Result<HfModel> ReadHfModel(const ModelSpec& spec) {
  HEDDLE_RETURN_IF_ERROR(CheckKeys(spec));
  HfModel model;
  HEDDLE_ASSIGN(model.config, LoadHfConfig(spec.name));
  HEDDLE_RETURN_IF_ERROR(ApplyKeys(spec, model));
  model.parts = PartsOf(model.config);
  HEDDLE_ASSIGN(model.parameters, ParametersOf(model.parts, spec.name));
  return model;
}

Status CheckKnownOps(const HfModel& model, const std::string& file) {
  std::vector<std::string> missing;
  for (const HfPart& part : model.parts) {
    if (part.missing)
      missing.push_back(fmt::format("{} ({} at {})", part.op, part.count, part.where));
  }
  if (missing.empty()) return Ok();
  return BadInput(
      file,
      fmt::format("heddle cannot build {}: it lacks {}", model.config.architecture,
                  Join(missing, ", ")),
      model.config.attention_dropout > 0
          ? "config.json?dropout=0 leaves all dropout out; heddle models FILE lists the rest"
          : "heddle models FILE lists what is known and what is not");
}

Status WriteHfModel(GraphBuilder& builder, const HfModel& model) {
  for (const Writer& one : kWriters) {
    if (one.family != model.config.family) continue;
    one.write(builder, model);
    return Ok();
  }
  HEDDLE_CHECK(false && "a family without a writer lacks an op, which was refused before");
  return Ok();
}

}  // namespace heddle
