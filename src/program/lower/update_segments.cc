#include "program/lower/update_segments.h"

#include <fmt/format.h>

namespace heddle {

std::vector<int32_t> AddUpdates(const Graph& graph, const PlanLayout& layout, SegmentMaker& maker) {
  std::vector<int32_t> updates;
  for (size_t b = 0; b < layout.buckets.size(); ++b) {
    Segment update;
    update.name = fmt::format("U{}", b);
    update.phase = SegmentPhase::kUpdate;
    for (const int32_t p : layout.buckets[b].parameters) {
      const Parameter& parameter = graph.parameters()[static_cast<size_t>(p)];
      update.ops.push_back(maker.OpOf(parameter.update));
      maker.AddPort(update, parameter.gradient, PortUse::kConsume);
      if (maker.versioned()) {
        maker.AddPort(update, parameter.tensor, PortUse::kRead);
        maker.AddPort(update, parameter.tensor, PortUse::kWrite);
        update.ports.back().version_offset = 1;
      } else {
        maker.AddPort(update, parameter.tensor, PortUse::kChange);
      }
      for (const TensorId state : parameter.states) maker.AddPort(update, state, PortUse::kChange);
    }
    if (graph.clip_norm().valid()) maker.AddPort(update, graph.clip_norm(), PortUse::kRead);
    updates.push_back(maker.tables().AddSegment(std::move(update)));
  }
  return updates;
}

}  // namespace heddle
