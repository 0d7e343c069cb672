// The way of a microbatch through a pipeline and back, and the least it takes: what bounds on
// orders are made of.
//
//   const PipelineWay through(planning, plan, plan.pipelines[0]);
//   for (const WayPoint& point : through.points()) …
#pragma once

#include <map>
#include <vector>

#include "plan/planning.h"

namespace heddle {

// A run of layers on the way.
struct WayPoint {
  LayerRun layers;
  size_t stage;
  double forward;
  double backward;             // without gradients of weights
  double message_forward = 0;  // from the run before
  double message_back = 0;     // to the run before
  double slow_backward = 0;    // on its slowest device

  double messages() const { return message_forward + message_back; }
};

// Work of one iteration that a wire does for one cut in one direction: it cannot begin before
// `head` after the iteration's first forward, and `tail` remains after it.
struct WireWork {
  double head, seconds, tail;
};

class PipelineWay {
 public:
  // All must outlive it.
  PipelineWay(const Planning& planning, const Plan& plan, const PipelinePlan& pipeline);

  // In the order of the layers.
  const std::vector<WayPoint>& points() const { return points_; }

  // What wires do for messages after points()[start]. `end`: what remains of an iteration after the
  // last backward there.
  std::map<WireId, std::vector<WireWork>> WorkOfWires(size_t start, double end) const;

 private:
  using OpList = std::vector<OpId> ChainLayer::*;

  DeviceId IdOf(const StagePlan& stage, size_t member) const;
  WayPoint PointOf(const LayerRun& run, size_t stage) const;
  double SecondsOf(const LayerRun& run, OpList ops, int64_t rows, int type) const;
  void AddMessages(size_t before, WayPoint& point) const;
  double LeastMessage(size_t from, size_t to, const std::vector<TensorId>& tensors) const;
  void AddWires(size_t from, size_t to, const std::vector<TensorId>& tensors, double head,
                double tail, std::map<WireId, std::vector<WireWork>>& wires) const;
  double SampleBytes(TensorId id) const;
  // Calls visit(sender, receiver, rows) for every pair of members of two stages that have rows of a
  // microbatch of this size in common.
  template <typename Visit>
  void ForEachPair(size_t from, size_t to, int64_t size, const Visit& visit) const;

  const Planning& planning_;
  const PipelinePlan& pipeline_;
  OpCost cost_;
  std::map<int64_t, int> sizes_;  // of this pipeline's microbatches: how many of each
  std::vector<WayPoint> points_;
};

}  // namespace heddle
