#include "run/torch/reference.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "run/data/synthetic.h"

namespace heddle {

at::Tensor BatchOf(const Graph& graph, TensorId input, const TrainOptions& options, int64_t step) {
  const Tensor& tensor = graph.tensor(input);
  const DType dtype = tensor.dtype == DType::kI64 ? DType::kI64 : options.dtype;
  const std::vector<double> values =
      SyntheticInput(graph, input, options.seed, step * graph.batch(), graph.batch());
  return ToTensor(values, tensor.shape, dtype);
}

namespace {

// One step after another on the whole batch.
class DirectTraining {
 public:
  DirectTraining(const Graph& graph, const TrainOptions& options, const NormalisationGroups& groups,
                 const std::vector<LayerAge>& ages, Rounding* rounding)
      : g_(graph), options_(options), ops_(graph, groups), ages_(ages), rounding_(rounding) {
    for (const Parameter& parameter : graph.parameters()) {
      kept_[parameter.tensor] = InitialTensor(graph, parameter.tensor, options);
      for (const TensorId state : parameter.states) {
        kept_[state] = InitialTensor(graph, state, options);
      }
    }
  }

  // Which batch of the data it sees, and what it counts as.
  struct Place {
    int64_t batch;
    int64_t step;          // of the run
    int64_t update;        // of these weights
    int64_t first_sample;  // of the step
  };

  // Returns the loss.
  double Step(const Place& place) {
    values_ = kept_;  // the same storage: updates are in place
    if (!ages_.empty()) {
      for (const Parameter& parameter : g_.parameters()) {
        versions_[parameter.tensor].push_back(kept_.at(parameter.tensor).clone());
      }
    }
    for (size_t t = 0; t < g_.tensors().size(); ++t) {
      const TensorId id{static_cast<int32_t>(t)};
      if (g_.tensor(id).role == Role::kInput) values_[id] = BatchOf(g_, id, options_, place.batch);
    }
    context_.batch = g_.batch();
    context_.learning_rate =
        options_.schedule.At(place.step, options_.total_steps, options_.learning_rate);
    context_.step = place.step;
    context_.update = place.update;
    context_.first_sample = place.first_sample;
    context_.seed = options_.seed;
    context_.dtype = ScalarOf(options_.dtype);
    double loss = 0;
    for (const Op& op : g_.ops()) {
      const std::vector<at::Tensor> outputs = rounding_ != nullptr ? RunOff(op) : Run(op);
      for (size_t o = 0; o < outputs.size(); ++o) {
        const TensorId id = op.outputs[o].tensor;
        const bool sums = values_.contains(id);  // a tied weight's gradient
        values_[id] = sums ? values_[id] + outputs[o] : outputs[o];
        if (g_.tensor(id).role == Role::kLoss) loss += outputs[o].item<double>();
      }
    }
    return loss;
  }

  const at::Tensor& value(TensorId id) const { return values_.at(id); }

  // Everything that is kept becomes the mean over all.
  static void Average(std::vector<DirectTraining>& all, const std::vector<double>& shares) {
    for (const auto& [id, first] : all[0].kept_) {
      at::Tensor mean = at::zeros_like(first);
      for (size_t r = 0; r < all.size(); ++r) mean.add_(all[r].kept_.at(id), shares[r]);
      if (Rounding* rounding = all[0].rounding_) rounding->Disturb(mean, rounding->Once());
      for (DirectTraining& one : all) one.kept_.at(id).copy_(mean);
    }
  }

  Trained Left() const {
    Trained trained;
    for (const Parameter& parameter : g_.parameters()) {
      trained.gradients[g_.tensor(parameter.gradient).name] = value(parameter.gradient);
      trained.parameters[g_.tensor(parameter.tensor).name] = value(parameter.tensor);
    }
    return trained;
  }

 private:
  const at::Tensor& InputOf(const Op& op, TensorId id) const {
    const bool weight = g_.tensor(id).role == Role::kParameter && op.phase != Phase::kUpdate;
    if (ages_.empty() || !weight) return values_.at(id);
    const LayerAge& age = ages_[static_cast<size_t>(op.layer.value)];
    const int64_t older = op.phase == Phase::kForward ? age.forward : age.backward;
    return versions_.at(id)[static_cast<size_t>(std::max<int64_t>(0, context_.step - older))];
  }

  std::vector<at::Tensor> Run(const Op& op) {
    std::vector<at::Tensor> inputs;
    for (const Operand& input : op.inputs) inputs.push_back(InputOf(op, input.tensor));
    return Run(op, inputs);
  }

  // The same, with operands that are off by what rounding does to them.
  std::vector<at::Tensor> RunOff(const Op& op) {
    if (op.phase == Phase::kUpdate && op.kind != OpKind::kSquareSum) return UpdateOff(op);
    const Rounding::Error error = rounding_->Of(op);
    std::vector<at::Tensor> inputs;
    for (const Operand& input : op.inputs) {
      inputs.push_back(rounding_->Disturbed(InputOf(op, input.tensor), error));
    }
    std::vector<at::Tensor> outputs = Run(op, inputs);
    for (at::Tensor& output : outputs) rounding_->Disturb(output, error);
    return outputs;
  }

  // An update writes to its operands; all read the same norm.
  std::vector<at::Tensor> UpdateOff(const Op& op) {
    for (const Operand& input : op.inputs) {
      if (input.tensor == g_.clip_norm()) continue;
      rounding_->Disturb(values_.at(input.tensor), rounding_->Once());
    }
    return Run(op);
  }

  std::vector<at::Tensor> Run(const Op& op, const std::vector<at::Tensor>& inputs) {
    return ops_.Run(op, inputs, context_);
  }

  const Graph& g_;
  const TrainOptions& options_;
  GraphOps ops_;
  const std::vector<LayerAge>& ages_;
  std::map<TensorId, std::vector<at::Tensor>> versions_;  // by step: before its update
  Rounding* rounding_;                                    // or null
  KernelContext context_;
  std::map<TensorId, at::Tensor> kept_, values_;
};

}  // namespace

Trained TrainDirectly(const Graph& graph, const TrainOptions& options, int64_t steps,
                      const NormalisationGroups& groups, const std::vector<LayerAge>& ages,
                      Rounding* rounding) {
  DirectTraining training(graph, options, groups, ages, rounding);
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    losses.push_back(training.Step({step, step, step, 0}));
  }
  Trained trained = training.Left();
  trained.losses = std::move(losses);
  return trained;
}

std::vector<Trained> TrainLocally(const Graph& graph, const TrainOptions& options, int64_t rounds,
                                  const NormalisationGroups& groups, const LocalPlan& local,
                                  Rounding* rounding) {
  const auto replicas = local.steps.size();
  const std::vector<LayerAge> ages;
  std::vector<DirectTraining> all;
  std::vector<double> shares;
  for (const int64_t steps : local.steps) {
    all.emplace_back(graph, options, groups, ages, rounding);
    shares.push_back(static_cast<double>(steps) / static_cast<double>(local.updates()));
  }
  const std::vector<LocalUpdate> turns = UpdatesInTurn(local);
  const auto count = static_cast<int64_t>(turns.size());
  const int64_t steps_per_round = count / static_cast<int64_t>(replicas);
  std::vector<double> losses(static_cast<size_t>(rounds * steps_per_round), 0);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int64_t u = 0; u < count; ++u) {
      const auto [replica, own] = turns[static_cast<size_t>(u)];
      const int64_t step = round * steps_per_round + u * steps_per_round / count;
      const int64_t update = round * local.steps[static_cast<size_t>(replica)] + own;
      const double loss = all[static_cast<size_t>(replica)].Step(
          {round * count + u, step, update, u * graph.batch()});
      losses[static_cast<size_t>(step)] += loss / static_cast<double>(replicas);
    }
    DirectTraining::Average(all, shares);
  }
  std::vector<Trained> trained;
  for (const DirectTraining& one : all) {
    trained.push_back(one.Left());
    trained.back().losses = losses;
  }
  return trained;
}

}  // namespace heddle
