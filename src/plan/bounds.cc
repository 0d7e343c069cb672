#include "plan/bounds.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>

#include "program/plan/row_shares.h"

namespace heddle {
namespace {

// Least seconds per sample of an op, over the sizes a device can be given.
double SampleSeconds(const Planning& planning, const Op& op, const DeviceTypeSpec& type) {
  const OpCost cost = planning.cost();
  double least = std::numeric_limits<double>::infinity();
  for (int64_t rows = planning.options.batch; rows >= 1; rows /= 2) {
    const double seconds = cost.RowsSeconds(op, rows, type).value;
    least = std::min(least, seconds / static_cast<double>(rows));
    if (planning.profile == nullptr) break;  // a roofline is cheapest per sample at its largest
  }
  return least;
}

// By device type and layer, of the given kinds of ops.
using OpList = std::vector<OpId> ChainLayer::*;
std::vector<std::vector<double>> LayerSampleSeconds(const Planning& planning,
                                                    std::initializer_list<OpList> parts) {
  std::vector<std::vector<double>> seconds;
  for (const DeviceTypeSpec& type : planning.cluster->types()) {
    std::vector<double> layers;
    for (const ChainLayer& layer : planning.chain.layers) {
      double sum = 0;
      for (const OpList ops : parts) {
        for (const OpId id : layer.*ops)
          sum += SampleSeconds(planning, planning.graph.op(id), type);
      }
      layers.push_back(sum);
    }
    seconds.push_back(std::move(layers));
  }
  return seconds;
}

// A run of layers on its way through the pipeline, and the least time a microbatch spends in it,
// forward and back.
struct WayPoint {
  LayerRun layers;
  size_t stage;
  double seconds;
};

std::vector<WayPoint> WayThrough(const Planning& planning, const Plan& plan,
                                 const PipelinePlan& pipeline) {
  const OpCost cost = planning.cost();
  const int64_t least_rows = plan.batch / plan.microbatches;
  std::vector<WayPoint> way;
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    const StagePlan& stage = pipeline.stages[s];
    const DeviceTypeSpec& type =
        planning.cluster->type_of(*planning.cluster->FindDevice(stage.devices[0]));
    for (const LayerRun& run : stage.chunks) {
      double seconds = 0;
      for (int l = run.first; l <= run.last && stage.devices.size() == 1; ++l) {
        const ChainLayer& layer = planning.chain.layers[static_cast<size_t>(l)];
        for (const auto* ops : {&layer.forward, &layer.backward_input}) {
          for (const OpId op : *ops) {
            seconds += cost.RowsSeconds(planning.graph.op(op), least_rows, type).value;
          }
        }
      }
      way.push_back({run, s, seconds});
    }
  }
  std::sort(way.begin(), way.end(),
            [](const WayPoint& a, const WayPoint& b) { return a.layers < b.layers; });
  return way;
}

// What one device of a stage spends on gradients of weights, which an order may put off.
double WeightSeconds(const Planning& planning, const Plan& plan, const StagePlan& stage,
                     size_t member) {
  const OpCost cost = planning.cost();
  const DeviceTypeSpec& type =
      planning.cluster->type_of(*planning.cluster->FindDevice(stage.devices[member]));
  const std::vector<int64_t> rows = MicrobatchRows(plan.batch, plan.microbatches);
  std::map<int64_t, int> times;  // by rows of this device: microbatches with so many
  for (const WorkItem& item : stage.order) {
    if (item.kind != WorkKind::kForward || item.chunk != 0) continue;
    const auto ranges = DivideRows(rows[static_cast<size_t>(item.microbatch)], stage.shares);
    ++times[ranges[member].size()];
  }
  double seconds = 0;
  for (const auto& [count, microbatches] : times) {
    if (count == 0) continue;
    for (const LayerRun& run : stage.chunks) {
      for (int l = run.first; l <= run.last; ++l) {
        for (const OpId op : planning.chain.layers[static_cast<size_t>(l)].backward_weight) {
          seconds += microbatches * cost.RowsSeconds(planning.graph.op(op), count, type).value;
        }
      }
    }
  }
  return seconds;
}

double CycleBound(const Planning& planning, const Plan& plan, const PipelinePlan& pipeline,
                  const std::map<std::string, DeviceUse>& uses) {
  const std::vector<WayPoint> way = WayThrough(planning, plan, pipeline);
  const StagePlan& first = pipeline.stages[way.front().stage];
  // An interleaved stage might put off the update of its later runs.
  double update = first.chunks.size() == 1 ? std::numeric_limits<double>::infinity() : 0;
  for (const std::string& device : first.devices) {
    update = std::min(update, uses.at(device).updating.value);
  }
  double bound = 0;
  double before = 0;
  std::vector<bool> seen(pipeline.stages.size(), false);
  for (const WayPoint& point : way) {
    if (!seen[point.stage]) {
      seen[point.stage] = true;
      const StagePlan& stage = pipeline.stages[point.stage];
      for (size_t j = 0; j < stage.devices.size(); ++j) {
        const DeviceUse& use = uses.at(stage.devices[j]);
        const double work =
            (use.busy - use.updating).value - WeightSeconds(planning, plan, stage, j);
        bound = std::max(bound, before + work + update);
      }
    }
    before += point.seconds;
  }
  return bound;
}

}  // namespace

Seconds FamilyBound(const Planning& planning) {
  const auto seconds = LayerSampleSeconds(planning, {&ChainLayer::forward, &ChainLayer::backward});
  const auto& devices = planning.cluster->devices();
  const std::vector<double>& reference = seconds[static_cast<size_t>(devices[0].type)];
  double work = 0;
  for (const double layer : reference) work += layer;
  double speed = 0;
  std::vector<double> speed_of(seconds.size(), -1);
  for (const Device& device : devices) {
    double& type_speed = speed_of[static_cast<size_t>(device.type)];
    if (type_speed < 0) {
      const std::vector<double>& mine = seconds[static_cast<size_t>(device.type)];
      for (size_t l = 0; l < mine.size(); ++l) {
        if (mine[l] > 0) type_speed = std::max(type_speed, reference[l] / mine[l]);
      }
    }
    speed += type_speed;
  }
  // Gradients of weights may wait: they are not on the way.
  const auto way =
      LayerSampleSeconds(planning, {&ChainLayer::forward, &ChainLayer::backward_input});
  double latency = 0;
  for (size_t l = 0; l < reference.size(); ++l) {
    double least = std::numeric_limits<double>::infinity();
    for (size_t type = 0; type < way.size(); ++type) {
      if (speed_of[type] >= 0) least = std::min(least, way[type][l]);
    }
    latency += least;
  }
  const auto batch = static_cast<double>(planning.options.batch);
  return Seconds{std::max(speed > 0 ? batch * work / speed : 0, latency)};
}

Seconds OrderBound(const Planning& planning, const Plan& plan, const Evaluation& evaluation) {
  double bound = 0;
  std::map<std::string, DeviceUse> uses;
  for (const DeviceUse& use : evaluation.simulation.devices) {
    bound = std::max(bound, use.busy.value);
    uses[use.device] = use;
  }
  for (const WireUse& use : evaluation.simulation.wires) {
    const Wire& wire = planning.cluster->wires()[static_cast<size_t>(use.wire.value)];
    bound = std::max(bound, use.bytes / wire.bandwidth.value);
  }
  for (const PipelinePlan& pipeline : plan.pipelines) {
    bound = std::max(bound, CycleBound(planning, plan, pipeline, uses));
  }
  return Seconds{bound};
}

}  // namespace heddle
