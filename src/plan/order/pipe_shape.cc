#include "plan/order/pipe_shape.h"

#include "base/check.h"

namespace heddle {

double PipeShape::Seconds(WorkKind kind, int place) const {
  const Chunk& chunk = chunks[place];
  switch (kind) {
    case WorkKind::kForward:
      return chunk.forward;
    case WorkKind::kBackward:
      return chunk.input + chunk.weight;
    case WorkKind::kInput:
      return chunk.input;
    case WorkKind::kWeight:
      break;
  }
  return chunk.weight;
}

double PipeShape::CutSeconds(int cut, bool backward) const {
  if (chunks[cut].stage == chunks[cut + 1].stage) return 0;
  return backward ? cuts[cut].backward : cuts[cut].forward;
}

double PipeShape::Released(WorkKind kind, int place) const {
  const Chunk& chunk = chunks[place];
  switch (kind) {
    case WorkKind::kForward:
      return 0;
    case WorkKind::kBackward:
      return chunk.kept;
    case WorkKind::kInput:
      return chunk.kept - chunk.kept_for_weight;
    case WorkKind::kWeight:
      break;
  }
  return chunk.kept_for_weight;
}

std::vector<std::vector<int>> PipeShape::PlacesByStage() const {
  std::vector<std::vector<int>> by_stage(stages);
  for (int k = 0; k < places(); ++k) by_stage[chunks[k].stage].push_back(k);
  return by_stage;
}

std::vector<double> PipeShape::KeptByStage() const {
  std::vector<double> kept(stages, 0);
  for (const Chunk& chunk : chunks) kept[chunk.stage] += chunk.kept;
  return kept;
}

PipeShape::Layout PipeShape::LayoutOf() const {
  bool interleaved = places() % stages == 0;
  bool v_shaped = places() == 2 * stages;
  for (int k = 0; k < places(); ++k) {
    interleaved = interleaved && chunks[k].stage == k % stages;
    v_shaped = v_shaped && chunks[k].stage == (k < stages ? k : 2 * stages - 1 - k);
  }
  if (interleaved) return places() == stages ? Layout::kStraight : Layout::kInterleaved;
  return v_shaped ? Layout::kVShaped : Layout::kOther;
}

bool PipeShape::HasRoom() const {
  const std::vector<double> kept = KeptByStage();
  for (int s = 0; s < stages; ++s) {
    if (!FitsLimit(kept[s], limit(s))) return false;
  }
  return true;
}

bool FitsLimit(double used, double limit) { return used <= limit * (1 + 1e-9); }

void CheckShape(const PipeShape& shape) {
  HEDDLE_CHECK(shape.stages >= 1 && shape.microbatches >= 1 && !shape.chunks.empty());
  HEDDLE_CHECK(shape.cuts.size() + 1 == shape.chunks.size());
  HEDDLE_CHECK(shape.limits.empty() || shape.limits.size() == static_cast<size_t>(shape.stages));
  for (const PipeShape::Chunk& chunk : shape.chunks) {
    HEDDLE_CHECK(chunk.stage >= 0 && chunk.stage < shape.stages);
    HEDDLE_CHECK(chunk.forward >= 0 && chunk.input >= 0 && chunk.weight >= 0);
    HEDDLE_CHECK(chunk.kept_for_weight >= 0 && chunk.kept >= chunk.kept_for_weight);
  }
  for (const PipeShape::Cut& cut : shape.cuts) HEDDLE_CHECK(cut.forward >= 0 && cut.backward >= 0);
}

}  // namespace heddle
