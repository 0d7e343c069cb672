#include "plan/spmd/families.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace heddle {
namespace {

// Smaller parameters may stay whole, as DeepSpeed's "persistence threshold" lets them: a message
// for each bias would cost more than it saves.
constexpr int64_t kLargeElements = 100'000;

// --- Experts
// ---------------------------------------------------------------------------------------

bool LeavesExperts(OpKind kind) {
  return kind == OpKind::kCombine || kind == OpKind::kCombineWeight ||
         kind == OpKind::kDispatchInput;
}

// Which tensors have an axis of experts: [samples, experts, places, features].
std::vector<bool> TensorsByExpert(const Graph& graph) {
  std::vector<bool> by_expert(graph.tensors().size(), false);
  for (const Op& op : graph.ops()) {
    const bool begins = op.kind == OpKind::kDispatch || op.kind == OpKind::kCombineInput;
    const bool goes_on = !LeavesExperts(op.kind) &&
                         std::any_of(op.inputs.begin(), op.inputs.end(), [&](const Operand& input) {
                           return by_expert[static_cast<size_t>(input.tensor.value)];
                         });
    if (!begins && !goes_on) continue;
    for (const Operand& output : op.outputs) {
      if (!graph.tensor(output.tensor).per_sample) continue;
      by_expert[static_cast<size_t>(output.tensor.value)] = true;
    }
  }
  return by_expert;
}

// The op's letter of the experts whose work it does; 0: it does none.
char ExpertLetter(const Op& op, const std::vector<bool>& by_expert) {
  if (LeavesExperts(op.kind)) return 0;
  for (const Operand& input : op.inputs) {
    if (by_expert[static_cast<size_t>(input.tensor.value)]) return input.letters[1];
  }
  return 0;
}

// By tensor: parameters of which each expert has its own, along their first axis.
std::vector<bool> ParametersByExpert(const Graph& graph, const std::vector<bool>& by_expert) {
  std::vector<bool> found(graph.tensors().size(), false);
  for (const Op& op : graph.ops()) {
    const char letter = ExpertLetter(op, by_expert);
    if (letter == 0) continue;
    for (const Operand& input : op.inputs) {
      const bool parameter = graph.tensor(input.tensor).role == Role::kParameter;
      if (parameter && input.letters[0] == letter) {
        found[static_cast<size_t>(input.tensor.value)] = true;
      }
    }
  }
  return found;
}

// --- Restrictions
// ----------------------------------------------------------------------------------

class RestrictionMaker {
 public:
  explicit RestrictionMaker(const SpmdProblem& problem) : problem_(problem) {}

  Restriction To(SpmdFamily family) {
    if (family == SpmdFamily::kExpert) {
      by_expert_ = TensorsByExpert(problem_.graph());
      parameters_by_expert_ = ParametersByExpert(problem_.graph(), by_expert_);
    }
    Restriction restriction;
    for (size_t k = 0; k < problem_.ops().size(); ++k) {
      const Op& op = problem_.graph().ops()[k];
      restriction.choices.emplace_back();
      const std::vector<OpChoice>& choices = *problem_.ops()[k].choices;
      for (size_t c = 0; c < choices.size(); ++c) {
        const OpRule& rule = choices[c].rule;
        if (!problem_.mesh().flat() && !AllowsData(op, rule[0])) continue;
        if (!Allows(family, op, rule[1])) continue;
        restriction.choices.back().push_back(static_cast<int>(c));
      }
      HEDDLE_CHECK(!restriction.choices.back().empty());
    }
    return restriction;
  }

 private:
  // Axis 1 has all that a family divides besides samples. Gradients are squared for clipping
  // wherever they are.
  bool Allows(SpmdFamily family, const Op& op, const AxisRule& rule) const {
    if (op.kind == OpKind::kSquareSum && family != SpmdFamily::kData) return true;
    switch (family) {
      case SpmdFamily::kData:
        return AllowsData(op, rule);
      case SpmdFamily::kZero:
        return AllowsZero(op, rule);
      case SpmdFamily::kTensor:
        return rule.letter != 'b';
      case SpmdFamily::kExpert:
        return AllowsExpert(op, rule);
    }
    return false;
  }

  // Sums of gradients may go on as partial sums.
  static bool AllowsData(const Op& op, const AxisRule& rule) {
    if (op.phase != Phase::kUpdate && Divisible(op, 'b', 2)) return rule.letter == 'b';
    return rule.letter == 0;
  }

  static bool Divisible(const Op& op, char letter, int64_t parts) {
    const size_t at = op.IndexOf(letter);
    return at != std::string::npos && op.extents[at] >= parts;
  }

  bool AllowsZero(const Op& op, const AxisRule& rule) const {
    if (op.phase != Phase::kUpdate) return AllowsData(op, rule);
    const auto places = static_cast<int64_t>(problem_.mesh().places(1));
    const auto dividing = [&](char letter) { return Divisible(op, letter, places); };
    const int64_t elements =
        std::accumulate(op.extents.begin(), op.extents.end(), int64_t{1}, std::multiplies<>());
    const bool must =
        elements >= kLargeElements && std::any_of(op.letters.begin(), op.letters.end(), dividing);
    return rule.letter == 0 ? !must : dividing(rule.letter);
  }

  bool AllowsExpert(const Op& op, const AxisRule& rule) const {
    const auto own = [&](const Operand& operand) {
      return parameters_by_expert_[static_cast<size_t>(operand.tensor.value)];
    };
    if (op.phase == Phase::kUpdate) {
      const auto found = std::find_if(op.outputs.begin(), op.outputs.end(), own);
      return rule.letter == (found == op.outputs.end() ? 0 : found->letters[0]);
    }
    const char letter = ExpertLetter(op, by_expert_);
    return letter == 0 ? AllowsData(op, rule) : rule.letter == letter;
  }

  const SpmdProblem& problem_;
  std::vector<bool> by_expert_, parameters_by_expert_;  // by tensor
};

}  // namespace

std::string_view NameOf(SpmdFamily family) {
  switch (family) {
    case SpmdFamily::kData:
      return "data parallel";
    case SpmdFamily::kZero:
      return "zero";
    case SpmdFamily::kTensor:
      return "tensor parallel";
    case SpmdFamily::kExpert:
      return "expert parallel";
  }
  return "";
}

int64_t ExpertsOf(const Graph& graph) {
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::kDispatch) return graph.tensor(op.outputs[0].tensor).shape[1];
  }
  return 0;
}

std::vector<SpmdMesh> MeshesFor(SpmdFamily family, const Graph& graph, const Cluster& cluster) {
  if (family == SpmdFamily::kData) return {FlatMesh(cluster)};
  std::vector<SpmdMesh> meshes;
  const std::vector<size_t> sizes = GroupSizes(cluster);
  if (family == SpmdFamily::kTensor) {
    for (const size_t size : sizes) meshes.push_back(GroupMesh(cluster, size));
    return meshes;
  }
  meshes.push_back(FlatMesh(cluster));
  const bool expert = family == SpmdFamily::kExpert;
  const auto most = expert ? static_cast<size_t>(ExpertsOf(graph)) : meshes[0].size();
  // As many as are near each other keep the parts.
  const auto fits = std::find_if(sizes.rbegin(), sizes.rend(), [&](size_t n) { return n <= most; });
  if (fits != sizes.rend() && *fits < meshes[0].size()) {
    meshes.push_back(GroupMesh(cluster, *fits));
  }
  if (meshes[0].size() > most) meshes.erase(meshes.begin());
  return meshes;
}

Restriction RestrictionTo(const SpmdProblem& problem, SpmdFamily family) {
  return RestrictionMaker(problem).To(family);
}

}  // namespace heddle
