#include "plan/spmd/step_list.h"

#include <algorithm>

namespace heddle {
namespace {

class StepList {
 public:
  StepList(SpmdProblem& problem, const std::vector<int>& choices, StepOptions options)
      : problem_(problem), choices_(choices), options_(options) {}

  SpmdPlan Make() {
    NameMesh();
    PlantTrees();
    const std::vector<Op>& ops = problem_.graph().ops();
    std::vector<int> producers(trees_.size(), 0);
    for (const SpmdOp& op : problem_.ops()) {
      for (const Touch& touch : op.touches) {
        producers[static_cast<size_t>(touch.tensor)] += touch.produces ? 1 : 0;
      }
    }
    bool forward = true;
    for (size_t k = 0; k < ops.size(); ++k) {
      if (forward && ops[k].phase != Phase::kForward) {
        forward = false;
        if (options_.gather_again) ForgetGathered();
      }
      const SpmdOp& op = problem_.ops()[k];
      const OpChoice& choice = problem_.choice(static_cast<int>(k), choices_[k]);
      for (size_t t = 0; t < op.touches.size(); ++t) {
        if (!op.touches[t].produces) Bring(op.touches[t].tensor, choice.layouts[t]);
      }
      SpmdStep step;
      step.op = OpId{static_cast<int32_t>(k)};
      step.rule = choice.rule;
      plan_.steps.push_back(step);
      for (const Touch& touch : op.touches) {
        const auto tensor = static_cast<size_t>(touch.tensor);
        if (!touch.produces || --producers[tensor] > 0) continue;
        const Role role = problem_.graph().tensors()[tensor].role;
        if (role == Role::kWeightGradient) BringAll(touch.tensor);
      }
    }
    FillStorage();
    return std::move(plan_);
  }

 private:
  struct Tree {
    std::vector<Conversion> conversions;
    LayoutSet source = 0, made = 0;
  };

  void NameMesh() {
    for (const std::vector<DeviceId>& row : problem_.mesh().rows) {
      plan_.mesh.emplace_back();
      for (const DeviceId id : row) plan_.mesh.back().push_back(problem_.cluster().device(id).name);
    }
    for (size_t axis = 0; axis < kMeshAxes; ++axis) {
      const AxisRatios& ratios = problem_.mesh().ratios[axis];
      plan_.ratios[axis].assign(ratios.begin(), ratios.end());
    }
  }

  void PlantTrees() {
    const size_t count = problem_.graph().tensors().size();
    std::vector<int> sources(count, -1);
    std::vector<LayoutSet> wanted(count, 0);
    for (size_t k = 0; k < choices_.size(); ++k) {
      const SpmdOp& op = problem_.ops()[k];
      const OpChoice& choice = problem_.choice(static_cast<int>(k), choices_[k]);
      for (size_t t = 0; t < op.touches.size(); ++t) {
        const auto tensor = static_cast<size_t>(op.touches[t].tensor);
        if (op.touches[t].produces) {
          sources[tensor] = choice.layouts[t];
        } else {
          wanted[tensor] |= OneLayout(choice.layouts[t]);
        }
      }
    }
    trees_.resize(count);
    for (size_t t = 0; t < count; ++t) {
      if (sources[t] < 0) continue;
      ConversionTable& table = problem_.facts(static_cast<int>(t)).conversions();
      const LayoutSet source = OneLayout(sources[t]);
      trees_[t] = {table.TreeOf(sources[t], wanted[t]), source, source};
    }
  }

  // What has to happen first so that the tensor is there in the layout.
  void Bring(int tensor, int layout) {
    Tree& tree = trees_[static_cast<size_t>(tensor)];
    if ((tree.made & OneLayout(layout)) != 0) return;
    const auto found =
        std::find_if(tree.conversions.begin(), tree.conversions.end(),
                     [&](const Conversion& conversion) { return conversion.to == layout; });
    HEDDLE_CHECK(found != tree.conversions.end());
    Bring(tensor, found->from);
    const LayoutSpace& space = problem_.facts(tensor).conversions().space();
    SpmdStep step;
    step.tensor = TensorId{tensor};
    step.from = space.At(found->from);
    step.to = space.At(found->to);
    step.algorithm = found->algorithm;
    plan_.steps.push_back(step);
    tree.made |= OneLayout(layout);
  }

  void BringAll(int tensor) {
    for (const Conversion& conversion : trees_[static_cast<size_t>(tensor)].conversions) {
      Bring(tensor, conversion.to);
    }
  }

  // All but the source: where conversions are free a tree may come back to it.
  void ForgetGathered() {
    for (const Parameter& parameter : problem_.graph().parameters()) {
      Tree& tree = trees_[static_cast<size_t>(parameter.tensor.value)];
      tree.made = tree.source;
    }
  }

  void FillStorage() {
    const Graph& graph = problem_.graph();
    for (const Parameter& parameter : graph.parameters()) {
      const Op& update = graph.op(parameter.update);
      const auto at = static_cast<size_t>(parameter.update.value);
      const OpChoice& choice = problem_.choice(parameter.update.value, choices_[at]);
      plan_.storage.push_back({parameter.tensor, OutputLayout(update, 0, choice.rule)});
    }
  }

  SpmdProblem& problem_;
  const std::vector<int>& choices_;
  StepOptions options_;
  SpmdPlan plan_;
  std::vector<Tree> trees_;
};

}  // namespace

SpmdPlan StepsOf(SpmdProblem& problem, const std::vector<int>& choices, StepOptions options) {
  return StepList(problem, choices, options).Make();
}

}  // namespace heddle
