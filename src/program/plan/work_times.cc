#include "program/plan/work_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace heddle {
namespace {

// What has been done of one microbatch in one chunk, and when it ended.
struct Done {
  int32_t forward = -1;
  int32_t backward = -1;
};

// Walks all orders together. A stage that cannot go on waits for a chunk's neighbour, and is looked
// at again when that stage has moved.
class Walk {
 public:
  explicit Walk(const PipelinePlan& pipeline)
      : pipeline_(pipeline), places_(ChunkPlaces(pipeline)), at_(pipeline.stages.size(), 0) {
    size_t chunks = 0;
    for (const auto& of_stage : places_) chunks += of_stage.size();
    done_.resize(chunks);
    starts_.resize(pipeline.stages.size());
    free_.resize(pipeline.stages.size(), 0);
  }

  void Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t s = 0; s < at_.size(); ++s) {
        const size_t before = at_[s];
        while (at_[s] < pipeline_.stages[s].order.size() && TryItem(s)) ++at_[s];
        moved = moved || at_[s] != before;
      }
    }
  }

  // The first item that each stage never got to, or "" when all ran to their end.
  std::string Stuck() const {
    std::string text;
    for (size_t s = 0; s < at_.size(); ++s) {
      const WorkOrder& order = pipeline_.stages[s].order;
      if (at_[s] == order.size()) continue;
      text +=
          fmt::format("{}stage {} at {}", text.empty() ? "" : ", ", s, PrintOrder({order[at_[s]]}));
    }
    return text;
  }

  std::vector<std::vector<int32_t>> starts_;
  std::vector<std::unordered_map<int32_t, Done>> done_;  // by chunk and microbatch

 private:
  bool TryItem(size_t s) {
    const WorkItem& item = pipeline_.stages[s].order[at_[s]];
    const size_t chunk = places_[s][static_cast<size_t>(item.chunk)];
    int32_t ready = 0;
    if (item.kind == WorkKind::kForward) {
      if (chunk > 0) ready = done_[chunk - 1][item.microbatch].forward;
    } else if (item.kind != WorkKind::kWeight && chunk + 1 < done_.size()) {
      ready = done_[chunk + 1][item.microbatch].backward;
    }
    if (ready < 0) return false;
    const int32_t start = std::max(ready, free_[s]);
    free_[s] = start + 1;
    starts_[s].push_back(start);
    Done& done = done_[chunk][item.microbatch];
    if (item.kind == WorkKind::kForward) done.forward = start + 1;
    if (item.kind == WorkKind::kBackward || item.kind == WorkKind::kInput) {
      done.backward = start + 1;
    }
    return true;
  }

  const PipelinePlan& pipeline_;
  std::vector<std::vector<size_t>> places_;
  std::vector<size_t> at_;     // by stage: place in its order
  std::vector<int32_t> free_;  // by stage: when it has nothing to do
};

}  // namespace

std::vector<std::vector<size_t>> ChunkPlaces(const PipelinePlan& pipeline) {
  struct Entry {
    LayerRun layers;
    size_t stage, index;
  };
  std::vector<Entry> entries;
  std::vector<std::vector<size_t>> places;
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    const std::vector<LayerRun>& chunks = pipeline.stages[s].chunks;
    for (size_t c = 0; c < chunks.size(); ++c) entries.push_back({chunks[c], s, c});
    places.emplace_back(chunks.size());
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.layers < b.layers; });
  for (size_t k = 0; k < entries.size(); ++k) places[entries[k].stage][entries[k].index] = k;
  return places;
}

Result<WorkTimes> TimesOf(const PipelinePlan& pipeline, const std::string& where) {
  Walk walk(pipeline);
  walk.Run();
  const std::string stuck = walk.Stuck();
  if (!stuck.empty()) {
    return BadInput(where, "the orders of the stages wait for each other: " + stuck,
                    "each forward needs that of the layers before, each backward that of those "
                    "after");
  }
  WorkTimes times;
  times.starts_ = std::move(walk.starts_);
  for (const auto& of_chunk : walk.done_) {
    times.backward_.emplace_back();
    for (const auto& [microbatch, done] : of_chunk) {
      times.backward_.back()[microbatch] = done.backward - 1;
    }
  }
  return times;
}

}  // namespace heddle
