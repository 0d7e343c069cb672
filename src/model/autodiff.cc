#include "model/autodiff.h"

#include "base/check.h"
#include "model/gradient_rules.h"

namespace heddle {
namespace {

constexpr double kAdamWDecay = 0.01;  // Loshchilov, Hutter 2019, and libtorch's default

// What an optimizer keeps per weight, besides the master copy.
std::vector<std::string> StatesOf(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::kSgd:
      return {};
    case Optimizer::kMomentum:
      return {".m"};
    case Optimizer::kAdam:
    case Optimizer::kAdamW:
      return {".m", ".v"};
  }
  return {};
}

OpKind UpdateOf(Optimizer optimizer) {
  if (optimizer == Optimizer::kSgd) return OpKind::kSgd;
  return optimizer == Optimizer::kMomentum ? OpKind::kMomentum : OpKind::kAdam;
}

// Finish() gives the update ops their layers.
void AddUpdate(GraphBuilder& g, Parameter& parameter, const UpdateOptions& options,
               TensorId clip_norm) {
  const Tensor value = g.tensor(parameter.tensor);
  const std::string axes = g.LettersOf(parameter.tensor);
  std::vector<std::string> states = StatesOf(options.optimizer);
  if (SizeOf(value.dtype) == 2) states.push_back(".master");
  for (const std::string& suffix : states) {
    parameter.states.push_back(
        g.AddTensor({value.name + suffix, DType::kF32, value.shape, Role::kState}));
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
  OpAttributes attributes;
  attributes.decay = options.optimizer == Optimizer::kAdamW ? kAdamWDecay : 0;
  if (clip_norm.valid()) {
    inputs.push_back(clip_norm);
    signature += ",";
    attributes.clip = options.clip;
  }
  parameter.update =
      g.AddOpInto(UpdateOf(options.optimizer), value.name + ".update", signature + "->" + written,
                  inputs, outputs, Phase::kUpdate, LayerId{0}, attributes);
}

// The squared norm of all gradients is a sum over the parameters.
TensorId AddClipNorm(GraphBuilder& g) {
  const TensorId norm = g.AddTensor({"clip.square", DType::kF32, {}, Role::kWeightGradient});
  for (Parameter& parameter : g.parameters()) {
    parameter.square = g.AddOpInto(OpKind::kSquareSum, g.tensor(parameter.tensor).name + ".square",
                                   g.LettersOf(parameter.gradient) + "->", {parameter.gradient},
                                   {norm}, Phase::kUpdate, LayerId{0});
  }
  return norm;
}

}  // namespace

void AddTraining(GraphBuilder& builder, const UpdateOptions& options) {
  GradientWriter writer(builder);
  for (size_t i = builder.ops().size(); i-- > 0;) {
    const Op op = builder.ops()[i];  // a copy: the builder's vector grows
    WriteGradients(writer, op);
  }
  for (const Parameter& parameter : builder.parameters()) {
    HEDDLE_CHECK(parameter.gradient.valid());
  }
  const TensorId norm = options.clip > 0 ? AddClipNorm(builder) : TensorId{};
  for (Parameter& parameter : builder.parameters()) AddUpdate(builder, parameter, options, norm);
}

}  // namespace heddle
