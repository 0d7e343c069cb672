#include "model/gradient_writer.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {

// Only profiled layers make constants (masks, positions): they have no backward, and read none of
// what is trained.
GradientWriter::GradientWriter(GraphBuilder& builder)
    : g_(builder), constant_(builder.tensors().size()) {
  for (size_t t = 0; t < constant_.size(); ++t) {
    constant_[t] = builder.tensors()[t].role == Role::kInput;
  }
  for (const Op& op : builder.ops()) {
    if (op.kind != OpKind::kOpaque || op.attributes.profiled_backward.value > 0) continue;
    const bool constant = std::all_of(
        op.inputs.begin(), op.inputs.end(),
        [&](const Operand& input) { return constant_[static_cast<size_t>(input.tensor.value)]; });
    constant_[static_cast<size_t>(op.outputs[0].tensor.value)] = constant;
  }
}

TensorId GradientWriter::GradientOf(TensorId tensor) const {
  const size_t at = static_cast<size_t>(tensor.value);
  return at < gradients_.size() ? gradients_[at] : TensorId{};
}

bool GradientWriter::NeedsGradient(TensorId id) const {
  const Role role = g_.tensor(id).role;
  const auto at = static_cast<size_t>(id.value);
  const bool constant = at < constant_.size() && constant_[at];
  return !constant && (role == Role::kActivation || role == Role::kParameter);
}

void GradientWriter::Contribute(const Op& op, OpKind kind, const std::string& suffix,
                                const std::string& signature, const std::vector<TensorId>& inputs,
                                TensorId target, const OpAttributes& attributes) {
  const std::string name = op.name + suffix;
  if (IsParameter(target)) {
    const TensorId gradient = WeightGradient(target);
    g_.AddOpInto(kind, name, signature, inputs, {gradient}, Phase::kBackwardWeight, op.layer,
                 attributes);
    return;
  }
  if (!NeedsGradient(target)) return;
  const Tensor& value = g_.tensor(target);
  const std::string gradient_name =
      "d." + value.name + (GradientOf(target).valid() ? "." + op.name + suffix : "");
  const TensorId gradient = g_.AddOp(kind, name, signature, inputs,
                                     {{gradient_name, g_.dtype(), Role::kGradient, value.shape}},
                                     Phase::kBackwardInput, op.layer, attributes)[0];
  Accumulate(op, suffix, target, gradient);
}

void GradientWriter::Accumulate(const Op& op, const std::string& suffix, TensorId target,
                                TensorId gradient) {
  const size_t at = static_cast<size_t>(target.value);
  if (gradients_.size() <= at) gradients_.resize(at + 1);
  if (!gradients_[at].valid()) {
    gradients_[at] = gradient;
    return;
  }
  const std::string axes = g_.LettersOf(target);
  const std::string name = op.name + suffix + ".sum" + std::to_string(sums_++);
  // A profile states all the time there is: its sums take none.
  const bool profiled = op.kind == OpKind::kOpaque;
  OpAttributes attributes;
  attributes.profiled_rows = profiled ? 1 : 0;
  gradients_[at] =
      g_.AddOp(profiled ? OpKind::kOpaque : OpKind::kAdd, name, axes + "," + axes + "->" + axes,
               {gradients_[at], gradient}, {{"d." + name, g_.dtype(), Role::kGradient}},
               Phase::kBackwardInput, op.layer, attributes)[0];
}

void GradientWriter::PassThrough(const Op& op, const std::string& suffix, TensorId target,
                                 TensorId gradient) {
  if (NeedsGradient(target)) Accumulate(op, suffix, target, gradient);
}

std::vector<TensorId> GradientWriter::AddIntermediate(const Op& op, OpKind kind,
                                                      const std::string& suffix,
                                                      const std::string& signature,
                                                      const std::vector<TensorId>& inputs,
                                                      const std::vector<std::string>& outputs,
                                                      const OpAttributes& attributes) {
  std::vector<GraphBuilder::NewTensor> made;
  for (const std::string& output : outputs) {
    made.push_back({"d." + op.name + "." + output, DType::kF32, Role::kGradient});
  }
  return g_.AddOp(kind, op.name + suffix, signature, inputs, made, Phase::kBackwardInput, op.layer,
                  attributes);
}

TensorId GradientWriter::WeightGradient(TensorId parameter) {
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

}  // namespace heddle
