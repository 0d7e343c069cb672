#include "model/autodiff.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {
namespace {

class Autodiff {
 public:
  Autodiff(GraphBuilder& builder, Optimizer optimizer)
      : g_(builder), optimizer_(optimizer), forward_ops_(builder.ops().size()) {}

  void Run() {
    for (size_t i = forward_ops_; i-- > 0;) {
      const Op op = g_.ops()[i];  // a copy: the builder's vector grows below
      DifferentiateOp(op);
    }
    for (Parameter& parameter : g_.parameters()) AddUpdate(parameter);
  }

 private:
  // Gradient of the op's first output; invalid when nothing depends on it.
  TensorId OutputGradient(const Op& op) const { return GradientOf(op.outputs[0].tensor); }

  TensorId GradientOf(TensorId tensor) const {
    const size_t at = static_cast<size_t>(tensor.value);
    return at < gradients_.size() ? gradients_[at] : TensorId{};
  }

  bool IsParameter(TensorId id) const { return g_.tensor(id).role == Role::kParameter; }
  bool NeedsGradient(TensorId id) const {
    const Role role = g_.tensor(id).role;
    return role == Role::kActivation || role == Role::kParameter;
  }

  // Emits an op whose one output is (a contribution to) the gradient of `target`.
  void Contribute(const Op& op, OpKind kind, const std::string& suffix,
                  const std::string& signature, const std::vector<TensorId>& inputs,
                  TensorId target, OpAttributes attributes = {}) {
    const std::string name = op.name + suffix;
    if (IsParameter(target)) {
      const TensorId gradient = WeightGradient(target);
      g_.AddOpInto(kind, name, signature, inputs, {gradient}, Phase::kBackwardWeight, op.layer,
                   attributes);
      return;
    }
    if (!NeedsGradient(target)) return;
    const Tensor& value = g_.tensor(target);
    const TensorId earlier = GradientOf(target);
    const std::string gradient_name =
        "d." + value.name + (earlier.valid() ? "." + op.name + suffix : "");
    TensorId gradient =
        g_.AddOp(kind, name, signature, inputs, {{gradient_name, g_.dtype(), Role::kGradient}},
                 Phase::kBackwardInput, op.layer, attributes)[0];
    Accumulate(op, suffix, target, gradient);
  }

  // Sets, or adds to, the gradient of an activation.
  void Accumulate(const Op& op, const std::string& suffix, TensorId target, TensorId gradient) {
    const size_t at = static_cast<size_t>(target.value);
    if (gradients_.size() <= at) gradients_.resize(at + 1);
    if (!gradients_[at].valid()) {
      gradients_[at] = gradient;
      return;
    }
    const std::string axes = g_.LettersOf(target);
    const std::string name = op.name + suffix + ".sum" + std::to_string(sums_++);
    gradients_[at] =
        g_.AddOp(OpKind::kAdd, name, axes + "," + axes + "->" + axes, {gradients_[at], gradient},
                 {{"d." + name, g_.dtype(), Role::kGradient}}, Phase::kBackwardInput, op.layer)[0];
  }

  // Passes the output's gradient on unchanged (residual additions).
  void PassThrough(const Op& op, const std::string& suffix, TensorId target, TensorId gradient) {
    if (NeedsGradient(target)) Accumulate(op, suffix, target, gradient);
  }

  TensorId WeightGradient(TensorId parameter) {
    for (Parameter& p : g_.parameters()) {
      if (p.tensor != parameter) continue;
      if (!p.gradient.valid()) {
        const Tensor& value = g_.tensor(parameter);
        p.gradient =
            g_.AddTensor({"g." + value.name, value.dtype, value.shape, Role::kWeightGradient});
      }
      return p.gradient;
    }
    HEDDLE_CHECK(false && "not a parameter");
    return {};
  }

  void DifferentiateOp(const Op& op);
  void DifferentiateEinsum(const Op& op, TensorId dy);
  void DifferentiateLayerNorm(const Op& op, TensorId dy);
  void DifferentiateOpaque(const Op& op, TensorId dy);
  void AddUpdate(Parameter& parameter);

  GraphBuilder& g_;
  Optimizer optimizer_;
  size_t forward_ops_;
  std::vector<TensorId> gradients_;  // by forward tensor
  int sums_ = 0;
};

// y = einsum(a, b): da = einsum(dy, b), db = einsum(a, dy), the letters exchanged.
void Autodiff::DifferentiateEinsum(const Op& op, TensorId dy) {
  const std::string& a = op.inputs[0].letters;
  const std::string& b = op.inputs[1].letters;
  const std::string& y = op.outputs[0].letters;
  Contribute(op, OpKind::kEinsum, ".da", y + "," + b + "->" + a, {dy, op.inputs[1].tensor},
             op.inputs[0].tensor);
  Contribute(op, OpKind::kEinsum, ".db", a + "," + y + "->" + b, {op.inputs[0].tensor, dy},
             op.inputs[1].tensor);
}

void Autodiff::DifferentiateLayerNorm(const Op& op, TensorId dy) {
  const TensorId x = op.inputs[0].tensor;
  const TensorId scale = op.inputs[1].tensor;
  const TensorId mean = op.outputs[1].tensor;
  const TensorId rstd = op.outputs[2].tensor;
  const std::string lead = op.outputs[1].letters;
  const std::string stats = "," + lead + "," + lead;
  Contribute(op, OpKind::kLayerNormInput, ".dx",
             lead + "H," + lead + "H,H" + stats + "->" + lead + "H", {dy, x, scale, mean, rstd}, x);
  Contribute(op, OpKind::kLayerNormScale, ".dscale", lead + "h," + lead + "h" + stats + "->h",
             {dy, x, mean, rstd}, scale);
  Contribute(op, OpKind::kReduceSum, ".dshift", lead + "h->h", {dy}, op.inputs[2].tensor);
}

// A profile states one backward time. A layer without weights spends it on its inputs; one with
// weights half and half, as a matrix product would (both parts are products of the same size).
void Autodiff::DifferentiateOpaque(const Op& op, TensorId dy) {
  const bool has_weight = IsParameter(op.inputs.back().tensor);
  const size_t activations = op.inputs.size() - (has_weight ? 1 : 0);
  size_t targets = 0;
  for (size_t i = 0; i < activations; ++i) targets += NeedsGradient(op.inputs[i].tensor) ? 1 : 0;
  OpAttributes attributes;
  attributes.profiled_rows = op.attributes.profiled_rows;
  std::vector<TensorId> inputs;
  std::string letters;
  if (dy.valid()) {
    inputs.push_back(dy);
    letters = "bY";
  }
  for (const Operand& input : op.inputs) {
    inputs.push_back(input.tensor);
    letters += (letters.empty() ? "" : ",") + input.letters;
  }
  const Seconds backward = op.attributes.profiled_backward;
  const Seconds for_inputs = has_weight && targets > 0 ? backward / 2 : backward;
  // Deliver to the inputs from the last to the first; the time is divided evenly among them.
  for (size_t i = activations; i-- > 0;) {
    attributes.profiled_seconds = for_inputs / static_cast<double>(std::max<size_t>(1, targets));
    Contribute(op, OpKind::kOpaque, ".dx" + std::to_string(i),
               letters + "->" + op.inputs[i].letters, inputs, op.inputs[i].tensor, attributes);
  }
  if (has_weight) {
    attributes.profiled_seconds = targets > 0 ? backward / 2 : backward;
    Contribute(op, OpKind::kOpaque, ".dw", letters + "->Z", inputs, op.inputs.back().tensor,
               attributes);
  }
}

void Autodiff::DifferentiateOp(const Op& op) {
  const TensorId dy = OutputGradient(op);
  const bool starts = op.kind == OpKind::kCrossEntropy || op.kind == OpKind::kOpaque;
  if (!dy.valid() && !starts) return;
  const std::string& y = op.outputs[0].letters;
  switch (op.kind) {
    case OpKind::kEinsum:
      DifferentiateEinsum(op, dy);
      break;
    case OpKind::kBiasAdd:
      PassThrough(op, ".dx", op.inputs[0].tensor, dy);
      Contribute(op, OpKind::kReduceSum, ".dbias", y + "->" + op.inputs[1].letters, {dy},
                 op.inputs[1].tensor);
      break;
    case OpKind::kAdd:
      PassThrough(op, ".da", op.inputs[0].tensor, dy);
      PassThrough(op, ".db", op.inputs[1].tensor, dy);
      break;
    case OpKind::kGelu:
      Contribute(op, OpKind::kGeluBackward, ".dx", y + "," + y + "->" + y,
                 {dy, op.inputs[0].tensor}, op.inputs[0].tensor);
      break;
    case OpKind::kRelu:
      Contribute(op, OpKind::kReluBackward, ".dx", y + "," + y + "->" + y,
                 {dy, op.outputs[0].tensor}, op.inputs[0].tensor);
      break;
    case OpKind::kLayerNorm:
      DifferentiateLayerNorm(op, dy);
      break;
    case OpKind::kAttention:
      Contribute(op, OpKind::kAttentionInput, ".dqkv", "bSaD,bSCaD,bSaD,baS->bSCaD|bSSaD",
                 {dy, op.inputs[0].tensor, op.outputs[0].tensor, op.outputs[1].tensor},
                 op.inputs[0].tensor, op.attributes);
      break;
    case OpKind::kEmbedding: {
      const std::string& tokens = op.inputs[0].letters;
      Contribute(op, OpKind::kEmbeddingWeight, ".dtable", y + "," + tokens + "->vh|" + y,
                 {dy, op.inputs[0].tensor}, op.inputs[1].tensor);
      break;
    }
    case OpKind::kCrossEntropy: {
      const std::string& logits = op.inputs[0].letters;
      const std::string& targets = op.inputs[1].letters;
      Contribute(op, OpKind::kCrossEntropyInput, ".dx",
                 logits + "," + targets + "," + targets + "->" + logits,
                 {op.inputs[0].tensor, op.inputs[1].tensor, op.outputs[1].tensor},
                 op.inputs[0].tensor);
      break;
    }
    case OpKind::kOpaque:
      DifferentiateOpaque(op, dy);
      break;
    default:
      HEDDLE_CHECK(false && "a forward op without a gradient rule");
  }
}

void Autodiff::AddUpdate(Parameter& parameter) {
  const Tensor value = g_.tensor(parameter.tensor);
  const std::string axes = g_.LettersOf(parameter.tensor);
  std::vector<std::string> states;
  if (optimizer_ == Optimizer::kAdam) states = {".m", ".v"};
  if (SizeOf(value.dtype) == 2) states.push_back(".master");
  for (const std::string& suffix : states) {
    parameter.states.push_back(
        g_.AddTensor({value.name + suffix, DType::kF32, value.shape, Role::kState}));
  }
  std::vector<TensorId> inputs = {parameter.tensor, parameter.gradient};
  std::vector<TensorId> outputs = {parameter.tensor};
  std::string signature = axes + "," + axes;
  std::string written = axes;
  for (const TensorId state : parameter.states) {
    inputs.push_back(state);
    outputs.push_back(state);
    signature += "," + axes;
    written += "," + axes;
  }
  HEDDLE_CHECK(parameter.gradient.valid());
  const OpKind kind = optimizer_ == Optimizer::kAdam ? OpKind::kAdam : OpKind::kSgd;
  parameter.update = g_.AddOpInto(kind, value.name + ".update", signature + "->" + written, inputs,
                                  outputs, Phase::kUpdate, LayerId{0});  // Finish sets the layer
}

}  // namespace

void AddTraining(GraphBuilder& builder, Optimizer optimizer) { Autodiff(builder, optimizer).Run(); }

}  // namespace heddle
