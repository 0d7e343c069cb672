#include "model/graph_builder.h"

#include <algorithm>

#include "base/text.h"

namespace heddle {
namespace {

struct Signature {
  std::vector<std::string_view> inputs;
  std::vector<std::string_view> outputs;
  std::string_view work;  // empty: every letter once
};

Signature Split(std::string_view text) {
  Signature signature;
  if (const size_t bar = text.find('|'); bar != std::string_view::npos) {
    signature.work = text.substr(bar + 1);
    text = text.substr(0, bar);
  }
  const size_t arrow = text.find("->");
  HEDDLE_CHECK(arrow != std::string_view::npos);
  signature.inputs = SplitAt(text.substr(0, arrow), ',');
  signature.outputs = SplitAt(text.substr(arrow + 2), ',');
  return signature;
}

// Reads the extents of every letter off the tensors that carry it.
void BindLetters(Op& op, std::string_view letters, const Tensor& tensor) {
  HEDDLE_CHECK(letters.size() == tensor.shape.size());
  for (size_t axis = 0; axis < letters.size(); ++axis) {
    const size_t at = op.IndexOf(letters[axis]);
    if (at == std::string::npos) {
      op.letters.push_back(letters[axis]);
      op.extents.push_back(tensor.shape[axis]);
    } else {
      HEDDLE_CHECK(op.extents[at] == tensor.shape[axis]);
    }
  }
}

}  // namespace

TensorId GraphBuilder::AddTensor(Tensor tensor) {
  tensors_.push_back(std::move(tensor));
  return TensorId{static_cast<int32_t>(tensors_.size()) - 1};
}

TensorId GraphBuilder::Input(std::string name, DType dtype, std::vector<int64_t> shape) {
  shape.insert(shape.begin(), batch_);
  return AddTensor({std::move(name), dtype, std::move(shape), Role::kInput, true});
}

TensorId GraphBuilder::Parameter(std::string name, std::vector<int64_t> shape, double initial_mean,
                                 double initial_deviation) {
  const TensorId id = AddTensor({std::move(name), dtype_, std::move(shape), Role::kParameter});
  parameters_.push_back({id, {}, {}, {}, {}, {}, initial_mean, initial_deviation});
  return id;
}

std::string GraphBuilder::LettersOf(TensorId id) const {
  static constexpr std::string_view kSample = "bstuvw";
  static constexpr std::string_view kPlain = "klmnop";
  const Tensor& t = tensor(id);
  return std::string((t.per_sample ? kSample : kPlain).substr(0, t.shape.size()));
}

OpId GraphBuilder::AddOpInto(OpKind kind, const std::string& name, std::string_view signature,
                             const std::vector<TensorId>& inputs,
                             const std::vector<TensorId>& outputs, Phase phase, LayerId layer,
                             OpAttributes attributes) {
  const Signature parts = Split(signature);
  HEDDLE_CHECK(parts.inputs.size() == inputs.size() && parts.outputs.size() == outputs.size());
  Op op;
  op.name = name;
  op.kind = kind;
  op.phase = phase;
  op.layer = layer;
  op.attributes = attributes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    BindLetters(op, parts.inputs[i], tensor(inputs[i]));
    op.inputs.push_back({inputs[i], std::string(parts.inputs[i])});
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    BindLetters(op, parts.outputs[i], tensor(outputs[i]));
    op.outputs.push_back({outputs[i], std::string(parts.outputs[i])});
  }
  op.work = parts.work.empty() ? op.letters : std::string(parts.work);
  ops_.push_back(std::move(op));
  return OpId{static_cast<int32_t>(ops_.size()) - 1};
}

std::vector<TensorId> GraphBuilder::AddOp(OpKind kind, const std::string& name,
                                          std::string_view signature,
                                          const std::vector<TensorId>& inputs,
                                          const std::vector<NewTensor>& outputs, Phase phase,
                                          LayerId layer, OpAttributes attributes) {
  const Signature parts = Split(signature);
  HEDDLE_CHECK(parts.inputs.size() == inputs.size() && parts.outputs.size() == outputs.size());
  Op letters;
  for (size_t i = 0; i < inputs.size(); ++i) {
    BindLetters(letters, parts.inputs[i], tensor(inputs[i]));
  }
  std::vector<TensorId> ids;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor made{outputs[i].name, outputs[i].dtype, outputs[i].shape, outputs[i].role};
    for (const char letter : made.shape.empty() ? parts.outputs[i] : std::string_view()) {
      const size_t at = letters.IndexOf(letter);
      HEDDLE_CHECK(at != std::string::npos);
      made.shape.push_back(letters.extents[at]);
    }
    made.per_sample = !parts.outputs[i].empty() && parts.outputs[i][0] == 'b';
    ids.push_back(AddTensor(std::move(made)));
  }
  AddOpInto(kind, name, signature, inputs, ids, phase, layer, attributes);
  return ids;
}

TensorId GraphBuilder::Activation(OpKind kind, const std::string& name, std::string_view signature,
                                  const std::vector<TensorId>& inputs, std::vector<int64_t> shape,
                                  OpAttributes attributes) {
  return AddOp(kind, name, signature, inputs,
               {{name + ".y", dtype_, Role::kActivation, std::move(shape)}}, Phase::kForward,
               CurrentLayer(), std::move(attributes))[0];
}

TensorId GraphBuilder::Einsum(const std::string& name, std::string_view signature, TensorId a,
                              TensorId b) {
  return Activation(OpKind::kEinsum, name, signature, {a, b});
}

TensorId GraphBuilder::BiasAdd(const std::string& name, std::string_view signature, TensorId x,
                               TensorId bias) {
  return Activation(OpKind::kBiasAdd, name, signature, {x, bias});
}

TensorId GraphBuilder::Add(const std::string& name, TensorId a, TensorId b) {
  const std::string axes = LettersOf(a);
  return Activation(OpKind::kAdd, name, axes + "," + axes + "->" + axes, {a, b});
}

TensorId GraphBuilder::Unary(OpKind kind, const std::string& name, TensorId x,
                             OpAttributes attributes) {
  const std::string axes = LettersOf(x);
  return Activation(kind, name, axes + "->" + axes, {x}, {}, std::move(attributes));
}

TensorId GraphBuilder::Gelu(const std::string& name, TensorId x) {
  return Unary(OpKind::kGelu, name, x);
}

TensorId GraphBuilder::Relu(const std::string& name, TensorId x) {
  return Unary(OpKind::kRelu, name, x);
}

TensorId GraphBuilder::Tanh(const std::string& name, TensorId x) {
  return Unary(OpKind::kTanh, name, x);
}

TensorId GraphBuilder::Dropout(const std::string& name, TensorId x, double rate) {
  if (rate == 0) return x;
  OpAttributes attributes;
  attributes.rate = rate;
  attributes.mask = name;
  return Unary(OpKind::kDropout, name, x, std::move(attributes));
}

TensorId GraphBuilder::LayerNorm(const std::string& name, TensorId x, TensorId scale,
                                 TensorId shift, double epsilon) {
  std::string lead = LettersOf(x);
  lead.pop_back();
  OpAttributes attributes;
  attributes.epsilon = epsilon;
  return AddOp(OpKind::kLayerNorm, name, lead + "H,H,H->" + lead + "H," + lead + "," + lead,
               {x, scale, shift},
               {{name + ".y", dtype_, Role::kActivation},
                {name + ".mean", DType::kF32, Role::kActivation},
                {name + ".rstd", DType::kF32, Role::kActivation}},
               Phase::kForward, CurrentLayer(), attributes)[0];
}

TensorId GraphBuilder::Attention(const std::string& name, TensorId qkv, bool causal) {
  OpAttributes attributes;
  attributes.causal = causal;
  return AddOp(
      OpKind::kAttention, name, "bSCaD->bSaD,baS|bSSaD", {qkv},
      {{name + ".y", dtype_, Role::kActivation}, {name + ".lse", DType::kF32, Role::kActivation}},
      Phase::kForward, CurrentLayer(), attributes)[0];
}

TensorId GraphBuilder::CrossAttention(const std::string& name, TensorId q, TensorId kv) {
  return AddOp(
      OpKind::kCrossAttention, name, "bTaD,bSCaD->bTaD,baT|bTSaD", {q, kv},
      {{name + ".y", dtype_, Role::kActivation}, {name + ".lse", DType::kF32, Role::kActivation}},
      Phase::kForward, CurrentLayer())[0];
}

TensorId GraphBuilder::Embedding(const std::string& name, TensorId tokens, TensorId table) {
  const std::string axes = LettersOf(tokens);
  return Activation(OpKind::kEmbedding, name, axes + ",vh->" + axes + "h|" + axes + "h",
                    {tokens, table});
}

TensorId GraphBuilder::CrossEntropy(const std::string& name, TensorId logits, TensorId targets) {
  const std::string axes = LettersOf(targets);
  return AddOp(
      OpKind::kCrossEntropy, name, axes + "V," + axes + "->," + axes, {logits, targets},
      {{"loss", DType::kF32, Role::kLoss}, {name + ".lse", DType::kF32, Role::kActivation}},
      Phase::kForward, CurrentLayer())[0];
}

TensorId GraphBuilder::Opaque(const std::string& name, const std::vector<TensorId>& inputs,
                              int64_t output_elements, int64_t parameter_elements,
                              const Times& times) {
  // Only 'b' of an opaque op can be sharded: every other axis gets a letter of its own, blocked.
  static constexpr std::string_view kLetters = "CDEFGHIJKLMNOPQRSTUVWXcdefghijklmnopqrstuvwxyz";
  static_assert(kLetters.size() == kMostOpaqueInputs);
  HEDDLE_CHECK(!inputs.empty() && inputs.size() <= kMostOpaqueInputs);
  OpAttributes attributes;
  attributes.profiled_seconds = times.forward;
  attributes.profiled_backward = times.backward;
  attributes.profiled_rows = times.rows;
  attributes.profiled_rate = times.rate;
  std::string signature;
  std::vector<TensorId> operands = inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    signature += (i == 0 ? "b" : ",b") + std::string(1, kLetters[i]);
  }
  if (parameter_elements > 0) {
    operands.push_back(Parameter(name + ".w", {parameter_elements}));
    signature += ",Z";
  }
  const TensorId out =
      AddTensor({name + ".y", dtype_, {batch_, output_elements}, Role::kActivation, true});
  AddOpInto(OpKind::kOpaque, name, signature + "->bY", operands, {out}, Phase::kForward,
            CurrentLayer(), attributes);
  return out;
}

Result<Graph> GraphBuilder::Finish() {
  std::vector<int32_t> parameter_of(tensors_.size(), -1);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    parameter_of[static_cast<size_t>(parameters_[i].tensor.value)] = static_cast<int32_t>(i);
  }
  for (const Op& op : ops_) {
    if (op.phase != Phase::kForward) continue;
    for (const Operand& input : op.inputs) {
      const int32_t index = parameter_of[static_cast<size_t>(input.tensor.value)];
      if (index < 0) continue;
      std::vector<LayerId>& layers = parameters_[static_cast<size_t>(index)].layers;
      if (layers.empty() || layers.back() != op.layer) layers.push_back(op.layer);
    }
  }
  for (const heddle::Parameter& parameter : parameters_) {
    if (!parameter.update.valid() || parameter.layers.empty()) continue;
    for (const OpId op : {parameter.update, parameter.square}) {
      if (op.valid()) ops_[static_cast<size_t>(op.value)].layer = parameter.layers.front();
    }
  }
  return Graph::Make(std::move(tensors_), std::move(ops_), std::move(parameters_),
                     std::move(layers_), batch_);
}

}  // namespace heddle
