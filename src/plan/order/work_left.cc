#include "plan/order/work_left.h"

#include <algorithm>
#include <limits>

namespace heddle {

WorkLeft::WorkLeft(const PipeShape& shape) : shape_(shape), left_(shape.stages) {
  const WorkKind backward = shape.split ? WorkKind::kInput : WorkKind::kBackward;
  std::vector<double> shortest_way(shape.stages, std::numeric_limits<double>::infinity());
  double way = shape.split ? shape.chunks[0].weight : 0;
  for (int k = 0; k < shape.places(); ++k) {
    const PipeShape::Chunk& chunk = shape.chunks[k];
    if (k > 0) way += shape.Seconds(backward, k - 1) + shape.CutSeconds(k - 1, true);
    shortest_way[chunk.stage] = std::min(shortest_way[chunk.stage], way);
    Left& left = left_[chunk.stage];
    left.all += shape.microbatches * (chunk.forward + chunk.input + chunk.weight);
    left.chain += shape.microbatches * (chunk.forward + shape.Seconds(backward, k));
  }
  for (int s = 0; s < shape.stages; ++s) left_[s].chain += shortest_way[s];
}

double WorkLeft::Start(const PlacedWork& work, double now) {
  Left& left = left_[shape_.chunks[work.place].stage];
  const double seconds = shape_.Seconds(work.kind, work.place);
  const double all = now + left.all, chain = now + left.chain;
  left.all -= seconds;
  if (work.kind == WorkKind::kWeight) return all;  // the last backward may be over
  left.chain -= seconds;
  return std::max(all, chain);
}

}  // namespace heddle
