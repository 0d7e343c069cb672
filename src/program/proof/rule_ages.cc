#include "program/proof/rule_ages.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace heddle {
namespace {

// visit(device, segment) for each time that a device works on layers.
template <class Visit>
void ForEachWork(const Program& program, Visit visit) {
  for (size_t d = 0; d < program.devices.size(); ++d) {
    for (const auto& list : program.devices[d].sections) {
      for (const Instruction& in : list) {
        if (in.code != OpCode::kCompute) continue;
        const Segment& segment = program.segment(in.target);
        const bool works = segment.phase != SegmentPhase::kUpdate && segment.first_layer >= 0;
        if (works) visit(d, segment);
      }
    }
  }
}

bool ReadsNewest(UpdateRule rule) {
  return rule == UpdateRule::kUnstated || rule == UpdateRule::kFlush || rule == UpdateRule::kLocal;
}

}  // namespace

StagesBehind::StagesBehind(const Program& program) {
  std::vector<int32_t> first(program.devices.size(), INT32_MAX);
  ForEachWork(program, [&](size_t device, const Segment& segment) {
    first[device] = std::min(first[device], segment.first_layer);
  });
  std::vector<int32_t> begins = first;
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  stages = std::ssize(begins);
  for (const int32_t layer : first) {
    of_device.push_back(begins.end() - std::upper_bound(begins.begin(), begins.end(), layer));
  }
}

LayerAge AgeByRule(UpdateRule rule, int64_t behind, int64_t stages) {
  switch (rule) {
    case UpdateRule::kStash:
      return {behind, behind};
    case UpdateRule::kVertical:
      return {stages - 1, stages - 1};
    case UpdateRule::kNone:
      return {behind, 0};
    case UpdateRule::kTwo:
      return {1, 1};
    case UpdateRule::kUnstated:
    case UpdateRule::kFlush:
    case UpdateRule::kLocal:
      return {};
  }
  return {};
}

Result<std::vector<LayerAge>> AgesByRule(const Program& program, const std::string& file) {
  if (ReadsNewest(program.rule)) return std::vector<LayerAge>();
  const StagesBehind behind(program);
  std::vector<std::optional<LayerAge>> ages(static_cast<size_t>(program.layers));
  int32_t ambiguous = -1;
  ForEachWork(program, [&](size_t device, const Segment& segment) {
    const LayerAge age = AgeByRule(program.rule, behind.of_device[device], behind.stages);
    for (int32_t layer = segment.first_layer; layer <= segment.last_layer; ++layer) {
      std::optional<LayerAge>& known = ages[static_cast<size_t>(layer)];
      if (!known) known = age;
      if (known->forward != age.forward || known->backward != age.backward) ambiguous = layer;
    }
  });
  if (ambiguous >= 0) {
    return BadInput(file, fmt::format("layer {} is computed in several stages, which read weights "
                                      "of several ages",
                                      ambiguous));
  }
  std::vector<LayerAge> known;
  for (const std::optional<LayerAge>& age : ages) known.push_back(age.value_or(LayerAge{}));
  return known;
}

}  // namespace heddle
