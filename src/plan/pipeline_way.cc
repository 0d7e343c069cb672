#include "plan/pipeline_way.h"

#include <algorithm>
#include <limits>
#include <set>

#include "program/plan/row_shares.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

PipelineWay::PipelineWay(const Planning& planning, const Plan& plan, const PipelinePlan& pipeline)
    : planning_(planning), pipeline_(pipeline), cost_(planning.cost()) {
  const std::vector<int64_t> rows = MicrobatchRows(plan.request.batch, plan.microbatches);
  for (const WorkItem& item : pipeline.stages[0].order) {
    if (item.kind != WorkKind::kForward || item.chunk != 0) continue;
    ++sizes_[rows[static_cast<size_t>(item.microbatch)]];
  }
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    for (const LayerRun& run : pipeline.stages[s].chunks) points_.push_back(PointOf(run, s));
  }
  std::sort(points_.begin(), points_.end(),
            [](const WayPoint& a, const WayPoint& b) { return a.layers < b.layers; });
  for (size_t k = 1; k < points_.size(); ++k) AddMessages(points_[k - 1].stage, points_[k]);
}

template <typename Visit>
void PipelineWay::ForEachPair(size_t from, size_t to, int64_t size, const Visit& visit) const {
  const StagePlan& sender = pipeline_.stages[from];
  const StagePlan& receiver = pipeline_.stages[to];
  const std::vector<Range> there = DivideRows(size, sender.shares);
  const std::vector<Range> here = DivideRows(size, receiver.shares);
  for (size_t a = 0, b = 0; a < there.size() && b < here.size();) {
    const int64_t rows =
        std::min(there[a].end, here[b].end) - std::max(there[a].begin, here[b].begin);
    if (rows > 0) visit(IdOf(sender, a), IdOf(receiver, b), rows);
    (there[a].end <= here[b].end ? a : b)++;
  }
}

std::map<WireId, std::vector<WireWork>> PipelineWay::WorkOfWires(size_t start, double end) const {
  std::map<WireId, std::vector<WireWork>> wires;
  double whole = end;  // of one microbatch, there and back
  for (size_t k = start; k < points_.size(); ++k) {
    whole += points_[k].forward + points_[k].backward + (k > start ? points_[k].messages() : 0);
  }
  double there = 0, back = end;  // before the forward message, after the one back
  for (size_t k = start + 1; k < points_.size(); ++k) {
    there += points_[k - 1].forward + (k > start + 1 ? points_[k - 1].message_forward : 0);
    back += points_[k - 1].backward + (k > start + 1 ? points_[k - 1].message_back : 0);
    const size_t before = points_[k - 1].stage, after = points_[k].stage;
    if (before == after) continue;
    const Cut& cut = planning_.chain.cuts[static_cast<size_t>(points_[k].layers.first) - 1];
    AddWires(before, after, cut.forward, there, whole - there - points_[k].message_forward, wires);
    AddWires(after, before, cut.backward, whole - back - points_[k].message_back, back, wires);
  }
  return wires;
}

DeviceId PipelineWay::IdOf(const StagePlan& stage, size_t member) const {
  return *planning_.cluster->FindDevice(stage.devices[member]);
}

// A microbatch passes through some member that has a part of it.
WayPoint PipelineWay::PointOf(const LayerRun& run, size_t s) const {
  const StagePlan& stage = pipeline_.stages[s];
  WayPoint point{run, s, kInfinity, kInfinity};
  std::set<std::pair<int, int64_t>> seen;  // type of device and rows
  for (const auto& [size, unused] : sizes_) {
    const std::vector<Range> ranges = DivideRows(size, stage.shares);
    for (size_t member = 0; member < ranges.size(); ++member) {
      const int type = planning_.cluster->device(IdOf(stage, member)).type;
      const int64_t rows = ranges[member].size();
      if (rows == 0 || !seen.emplace(type, rows).second) continue;
      const double forward = SecondsOf(run, &ChainLayer::forward, rows, type);
      double backward = SecondsOf(run, &ChainLayer::backward_input, rows, type);
      if (stage.recompute) backward += forward;
      point.forward = std::min(point.forward, forward);
      point.backward = std::min(point.backward, backward);
      point.slow_backward = std::max(point.slow_backward, backward);
    }
  }
  return point;
}

double PipelineWay::SecondsOf(const LayerRun& run, OpList ops, int64_t rows, int type) const {
  double seconds = 0;
  for (int l = run.first; l <= run.last; ++l) {
    for (const OpId op : planning_.chain.layers[static_cast<size_t>(l)].*ops) {
      seconds += cost_
                     .RowsSeconds(planning_.graph.op(op), rows,
                                  planning_.cluster->types()[static_cast<size_t>(type)])
                     .value;
    }
  }
  return seconds;
}

void PipelineWay::AddMessages(size_t before, WayPoint& point) const {
  if (before == point.stage) return;
  const Cut& cut = planning_.chain.cuts[static_cast<size_t>(point.layers.first) - 1];
  point.message_forward = LeastMessage(before, point.stage, cut.forward);
  point.message_back = LeastMessage(point.stage, before, cut.backward);
}

void PipelineWay::AddWires(size_t from, size_t to, const std::vector<TensorId>& tensors,
                           double head, double tail,
                           std::map<WireId, std::vector<WireWork>>& wires) const {
  double sample = 0;
  for (const TensorId id : tensors) sample += SampleBytes(id);
  std::map<WireId, double> bytes;
  for (const auto& [size, count] : sizes_) {
    ForEachPair(from, to, size, [&, times = count](DeviceId a, DeviceId b, int64_t rows) {
      for (const WireId wire : planning_.cluster->RouteBetween(a, b).wires) {
        bytes[wire] += times * sample * static_cast<double>(rows);
      }
    });
  }
  for (const auto& [wire, sum] : bytes) {
    const Bandwidth bandwidth =
        planning_.cluster->wires()[static_cast<size_t>(wire.value)].bandwidth;
    wires[wire].push_back({head, sum / bandwidth.value, tail});
  }
}

double PipelineWay::SampleBytes(TensorId id) const {
  const Tensor& tensor = planning_.graph.tensor(id);
  if (!tensor.per_sample) return 0;
  return static_cast<double>(tensor.bytes().value) / static_cast<double>(planning_.graph.batch());
}

// Some member waits for some other's part, at least for the smallest tensor that crosses.
double PipelineWay::LeastMessage(size_t from, size_t to,
                                 const std::vector<TensorId>& tensors) const {
  if (tensors.empty()) return 0;
  double bytes = kInfinity;  // of a sample
  for (const TensorId id : tensors) bytes = std::min(bytes, SampleBytes(id));
  double least = kInfinity;
  for (const auto& [size, unused] : sizes_) {
    ForEachPair(from, to, size, [&](DeviceId a, DeviceId b, int64_t rows) {
      const Route& route = planning_.cluster->RouteBetween(a, b);
      least = std::min(
          least, route.latency.value + bytes * static_cast<double>(rows) / route.bandwidth.value);
    });
  }
  return least < kInfinity ? least : 0;
}

}  // namespace heddle
