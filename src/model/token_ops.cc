// The builder's ops on tokens: class tokens and mixtures of experts.
#include "model/graph_builder.h"

namespace heddle {

TensorId GraphBuilder::ClassToken(const std::string& name, TensorId features, TensorId token) {
  const std::vector<int64_t>& shape = tensor(features).shape;
  return Activation(OpKind::kClassToken, name, "bhYX,h->bSh|bSh", {features, token},
                    {shape[0], 1 + shape[2] * shape[3], shape[1]});
}

TensorId GraphBuilder::SelectFirst(const std::string& name, TensorId x) {
  return Activation(OpKind::kSelectFirst, name, "bSh->bh|bh", {x});
}

TensorId GraphBuilder::Softmax(const std::string& name, TensorId x) {
  std::string axes = LettersOf(x);
  axes.back() = 'E';
  return Activation(OpKind::kSoftmax, name, axes + "->" + axes, {x});
}

GraphBuilder::Routing GraphBuilder::Route(const std::string& name, TensorId probabilities,
                                          int64_t capacity) {
  OpAttributes attributes;
  attributes.capacity = capacity;
  const std::vector<TensorId> made = AddOp(OpKind::kRoute, name, "bSE->bS,bS", {probabilities},
                                           {{name + ".chosen", dtype_, Role::kActivation},
                                            {name + ".slot", DType::kI64, Role::kActivation}},
                                           Phase::kForward, CurrentLayer(), attributes);
  return {made[0], made[1], capacity};
}

TensorId GraphBuilder::Dispatch(const std::string& name, TensorId x, const Routing& routing,
                                int64_t experts) {
  OpAttributes attributes;
  attributes.capacity = routing.capacity;
  const std::vector<int64_t>& shape = tensor(x).shape;
  return Activation(OpKind::kDispatch, name, "bSh,bS->beCh|beCh", {x, routing.slot},
                    {shape[0], experts, routing.capacity, shape[2]}, attributes);
}

TensorId GraphBuilder::Combine(const std::string& name, TensorId y, const Routing& routing) {
  OpAttributes attributes;
  attributes.capacity = routing.capacity;
  return Activation(OpKind::kCombine, name, "beCh,bS,bS->bSh|bSh",
                    {y, routing.slot, routing.chosen}, {}, attributes);
}

void GraphBuilder::BalanceLoss(const std::string& name, TensorId probabilities,
                               const Routing& routing, double weight) {
  OpAttributes attributes;
  attributes.weight = weight;
  attributes.capacity = routing.capacity;
  AddOp(OpKind::kBalanceLoss, name, "bSE,bS->|bSE", {probabilities, routing.slot},
        {{name + ".loss", DType::kF32, Role::kLoss}}, Phase::kForward, CurrentLayer(), attributes);
}

}  // namespace heddle
