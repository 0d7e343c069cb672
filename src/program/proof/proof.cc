#include "program/proof/proof.h"

#include <fmt/format.h>

#include <algorithm>

#include "program/proof/proof_walk.h"

namespace heddle {
namespace {

bool Any(const Program& program, bool (*what)(const Segment&)) {
  return std::any_of(program.segments.begin(), program.segments.end(), what);
}

// Why the segments' insides are not known well enough for anything to be said; empty: they are.
std::string WhyUnknown(const Program& program, const Graph* graph, bool& opaque) {
  const bool with_ops = Any(program, [](const Segment& s) { return !s.ops.empty(); });
  opaque = !with_ops;
  constexpr size_t kMostOps = 1'000'000;  // of all segments together: a few hundred MiB
  size_t ops = 0;
  for (const Segment& segment : program.segments) ops += segment.ops.size();
  if (ops > kMostOps) return "its segments have more than a million ops";
  if (with_ops && graph == nullptr) return "its segments name ops, and the model is not given";
  const bool joint = Any(program, [](const Segment& s) { return s.joint; });
  if (opaque && joint) return "joint segments without ops";
  if (opaque) return "";
  for (const ProgramTensor& tensor : program.tensors) {
    const auto id = graph->FindTensor(tensor.name);
    if (!id || graph->tensor(*id).role != tensor.role) {
      return fmt::format("the model has no {} as it is here", tensor.name);
    }
    const Tensor& known = graph->tensor(*id);
    const size_t first = known.per_sample ? 1 : 0;
    const bool alike =
        known.shape.size() == tensor.shape.size() &&
        std::equal(known.shape.begin() + static_cast<std::ptrdiff_t>(first), known.shape.end(),
                   tensor.shape.begin() + static_cast<std::ptrdiff_t>(first));
    if (!alike) return fmt::format("the model's {} has another shape", tensor.name);
  }
  return "";
}

}  // namespace

Proof ProveProgram(const Program& program, const Graph* graph, const std::vector<Step>& steps) {
  // Where nothing is trained there is nothing to prove of gradients.
  const bool updates =
      Any(program, [](const Segment& s) { return s.phase == SegmentPhase::kUpdate; });
  if (!updates && program.updates == 0) return {};
  bool opaque = false;
  std::string unknown = WhyUnknown(program, graph, opaque);
  if (!unknown.empty()) return {std::nullopt, std::move(unknown)};
  VersionRules rules(program, IsRelative(program));
  if (!rules.unknown().empty()) return {std::nullopt, rules.unknown()};
  return ProofWalk(program, opaque ? nullptr : graph, steps, rules).Run();
}

}  // namespace heddle
