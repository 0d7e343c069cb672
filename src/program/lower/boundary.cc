#include "program/lower/boundary.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace heddle {
namespace {

// What both have; an empty range where they do not meet.
Slice Common(const Slice& a, const Slice& b) {
  Slice common;
  for (size_t axis = 0; axis < a.size(); ++axis) {
    const int64_t begin = std::max(a[axis].begin, b[axis].begin);
    common.push_back({begin, std::max(begin, std::min(a[axis].end, b[axis].end))});
  }
  return common;
}

}  // namespace

std::vector<Parcel> ParcelsBetween(const BoundarySide& giver, const BoundarySide& taker) {
  std::map<Slice, std::vector<size_t>> holders;  // of each different part
  for (size_t d = 0; d < giver.parts.size(); ++d) holders[giver.parts[d]].push_back(d);
  std::vector<int64_t> given(giver.devices.size(), 0);  // elements
  std::vector<Parcel> parcels;
  for (size_t t = 0; t < taker.devices.size(); ++t) {
    for (const auto& [part, having] : holders) {
      Slice common = Common(part, taker.parts[t]);
      const int64_t elements = ElementsOf(common);
      if (elements == 0) continue;
      const auto cost = [&](size_t d) {
        return std::tuple(giver.nodes[d] != taker.nodes[t], given[d], d);
      };
      const size_t nearest = *std::min_element(
          having.begin(), having.end(), [&](size_t a, size_t b) { return cost(a) < cost(b); });
      given[nearest] += elements;
      parcels.push_back({giver.devices[nearest], taker.devices[t], std::move(common)});
    }
  }
  return parcels;
}

StageLanes::StageLanes(const PipelinePlan& pipeline, const Graph& graph)
    : pipeline_(pipeline), g_(graph), places_(ChunkPlaces(pipeline)) {
  for (size_t s = 0; s < places_.size(); ++s) {
    for (size_t c = 0; c < places_[s].size(); ++c) {
      if (places_[s][c] >= chunk_at_.size()) chunk_at_.resize(places_[s][c] + 1);
      chunk_at_[places_[s][c]] = {s, c};
    }
    for (auto& direction : ends_) direction.emplace_back(places_[s].size());
  }
  for (size_t k = 0; k + 1 < chunk_at_.size(); ++k) {
    AddLanes(k, k + 1);
    AddLanes(k + 1, k);
  }
  std::map<TensorId, TensorId> gradients;  // by parameter
  for (const Parameter& parameter : graph.parameters()) {
    gradients[parameter.tensor] = parameter.gradient;
  }
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    for (const SpmdStorage& stored : pipeline.stages[s].body->program.storage) {
      holders_[gradients.at(stored.parameter)].push_back(s);
    }
  }
}

const ChunkSteps& StageLanes::StepsAt(size_t place) const {
  const auto& [stage, chunk] = chunk_at_[place];
  return pipeline_.stages[stage].body->shape.chunks[chunk];
}

// Activations go to the run of layers after it, gradients to the one before.
void StageLanes::AddLanes(size_t giver_place, size_t taker_place) {
  const bool forward = taker_place > giver_place;
  const auto& [giver, giver_chunk] = chunk_at_[giver_place];
  const auto& [taker, taker_chunk] = chunk_at_[taker_place];
  if (giver == taker) return;  // it is there
  for (const BodyArrival& arrival : StepsAt(taker_place).arrivals) {
    const bool activation = g_.tensor(arrival.tensor).role == Role::kActivation;
    if (activation != forward) continue;
    const auto lane = static_cast<int32_t>(lanes_.size());
    lanes_.push_back({arrival.tensor, giver, taker, arrival.layout});
    const FlowCrossing crossing{arrival.tensor, arrival.layout, lane};
    ends_[forward][giver][giver_chunk].out.push_back(crossing);
    ends_[forward][taker][taker_chunk].in.push_back(crossing);
  }
}

StageFlow StageLanes::FlowOf(size_t stage, const WorkTimes& times, int receive_ahead,
                             int free_behind) const {
  StageFlow flow;
  flow.alone = false;
  flow.receive_ahead = static_cast<size_t>(receive_ahead);
  const WorkOrder& order = pipeline_.stages[stage].order;
  const std::vector<int32_t>& starts = times.starts()[stage];
  for (const WorkItem& item : order) {
    flow.items.push_back({item.chunk, item.kind == WorkKind::kForward, item.microbatch, {}});
  }
  for (size_t k = 0; k < order.size(); ++k) {
    const size_t place = places_[stage][static_cast<size_t>(order[k].chunk)];
    if (flow.items[k].forward || place == 0) continue;
    const int32_t taken = times.BackwardStart(place - 1, order[k].microbatch);
    for (size_t j = k + static_cast<size_t>(free_behind); j < order.size(); ++j) {
      if (starts[j] < taken) continue;
      flow.items[j].taken.push_back(k);
      break;
    }
  }
  for (size_t c = 0; c < places_[stage].size(); ++c) {
    flow.ends.push_back({ends_[0][stage][c], ends_[1][stage][c]});
  }
  for (const auto& [gradient, holders] : holders_) {
    const bool mine = std::find(holders.begin(), holders.end(), stage) != holders.end();
    if (mine && holders.size() > 1) flow.tied.push_back(gradient);
  }
  return flow;
}

}  // namespace heddle
