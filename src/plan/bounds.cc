#include "plan/bounds.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <map>
#include <set>

#include "program/plan/row_shares.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Least seconds per sample of an op, over the sizes a device can be given.
double SampleSeconds(const Planning& planning, const Op& op, const DeviceTypeSpec& type) {
  const OpCost cost = planning.cost();
  double least = kInfinity;
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

// A run of layers on a microbatch's way through the pipeline, and the least it takes.
struct WayPoint {
  LayerRun layers;
  size_t stage;
  double forward;
  double backward;           // without gradients of weights
  double messages = 0;       // from the run before and back to it
  double slow_backward = 0;  // on its slowest device
};

// What of a plan the way through it depends on.
class Way {
 public:
  Way(const Planning& planning, const Plan& plan, const PipelinePlan& pipeline)
      : planning_(planning), pipeline_(pipeline), cost_(planning.cost()) {
    for (const int64_t rows : MicrobatchRows(plan.batch, plan.microbatches)) sizes_.insert(rows);
  }

  std::vector<WayPoint> Points() const {
    std::vector<WayPoint> way;
    for (size_t s = 0; s < pipeline_.stages.size(); ++s) {
      for (const LayerRun& run : pipeline_.stages[s].chunks) way.push_back(PointOf(run, s));
    }
    std::sort(way.begin(), way.end(),
              [](const WayPoint& a, const WayPoint& b) { return a.layers < b.layers; });
    for (size_t k = 1; k < way.size(); ++k) AddMessages(way[k - 1].stage, way[k]);
    return way;
  }

 private:
  DeviceId IdOf(const StagePlan& stage, size_t member) const {
    return *planning_.cluster->FindDevice(stage.devices[member]);
  }

  // A microbatch passes through some member that has a part of it.
  WayPoint PointOf(const LayerRun& run, size_t s) const {
    const StagePlan& stage = pipeline_.stages[s];
    WayPoint point{run, s, kInfinity, kInfinity};
    std::set<std::pair<int, int64_t>> seen;  // type of device and rows
    for (const int64_t size : sizes_) {
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

  double SecondsOf(const LayerRun& run, OpList ops, int64_t rows, int type) const {
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

  void AddMessages(size_t before, WayPoint& point) const {
    if (before == point.stage) return;
    const Cut& cut = planning_.chain.cuts[static_cast<size_t>(point.layers.first) - 1];
    point.messages = LeastMessage(before, point.stage, cut.forward) +
                     LeastMessage(point.stage, before, cut.backward);
  }

  // Some member waits for some other's part, at least for the smallest tensor that crosses.
  double LeastMessage(size_t from, size_t to, const std::vector<TensorId>& tensors) const {
    double bytes = kInfinity;  // of a sample
    for (const TensorId id : tensors) {
      const Tensor& tensor = planning_.graph.tensor(id);
      const auto whole = static_cast<double>(tensor.bytes().value);
      const auto batch = static_cast<double>(planning_.graph.batch());
      bytes = std::min(bytes, tensor.per_sample ? whole / batch : 0);
    }
    if (tensors.empty()) return 0;
    double least = kInfinity;
    for (const int64_t size : sizes_) {
      const std::vector<Range> there = DivideRows(size, pipeline_.stages[from].shares);
      const std::vector<Range> here = DivideRows(size, pipeline_.stages[to].shares);
      for (size_t a = 0, b = 0; a < there.size() && b < here.size();) {
        const int64_t rows =
            std::min(there[a].end, here[b].end) - std::max(there[a].begin, here[b].begin);
        if (rows > 0) {
          const Route& route = planning_.cluster->RouteBetween(IdOf(pipeline_.stages[from], a),
                                                               IdOf(pipeline_.stages[to], b));
          least = std::min(least, route.latency.value +
                                      bytes * static_cast<double>(rows) / route.bandwidth.value);
        }
        (there[a].end <= here[b].end ? a : b)++;
      }
    }
    return least < kInfinity ? least : 0;
  }

  const Planning& planning_;
  const PipelinePlan& pipeline_;
  OpCost cost_;
  std::set<int64_t> sizes_;  // of microbatches
};

// Of the gradients of these layers between the stage's devices; weights shared with other layers
// aside, and so are pipelines side by side, whose sums go over more devices.
double AllReduceSeconds(const Planning& planning, const Plan& plan, const StagePlan& stage,
                        const LayerRun& run) {
  if (stage.devices.size() < 2 || plan.pipelines.size() > 1) return 0;
  Bytes bytes;
  for (const Parameter& parameter : planning.graph.parameters()) {
    const bool inside =
        parameter.layers.front().value >= run.first && parameter.layers.back().value <= run.last;
    if (inside) bytes += planning.graph.tensor(parameter.gradient).bytes();
  }
  std::vector<DeviceId> group;
  for (const std::string& name : stage.devices) {
    group.push_back(*planning.cluster->FindDevice(name));
  }
  // A run without weights has no sums, and its devices need not be able to make them.
  if (bytes.value == 0) return 0;
  const std::vector<Bytes> sizes = {bytes};
  return NetworkCost(*planning.cluster)
      .Collective({CollectiveKind::kAllReduce, group, sizes, plan.all_reduce, 0})
      .seconds.value;
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
  const std::vector<WayPoint> way = Way(planning, plan, pipeline).Points();
  const StagePlan& first = pipeline.stages[way.front().stage];
  // An interleaved stage might put off the update of its later runs.
  double update = first.chunks.size() == 1 ? kInfinity : 0;
  for (const std::string& device : first.devices) {
    update = std::min(update, uses.at(device).updating.value);
  }
  // The first run's gradients are complete, and can be summed, only after the last microbatch came
  // back to it; weights are updated while other gradients are summed.
  const double sums = AllReduceSeconds(planning, plan, first, way.front().layers);
  const double shown = std::max(0.0, sums - way.front().slow_backward);
  double bound = 0;
  double before = 0;
  std::vector<bool> seen(pipeline.stages.size(), false);
  for (const WayPoint& point : way) {
    before += point.messages;
    if (!seen[point.stage]) {
      seen[point.stage] = true;
      const StagePlan& stage = pipeline.stages[point.stage];
      for (size_t j = 0; j < stage.devices.size(); ++j) {
        const DeviceUse& use = uses.at(stage.devices[j]);
        const double work =
            (use.busy - use.updating).value - WeightSeconds(planning, plan, stage, j);
        bound = std::max(bound, before + work + std::max(shown, update));
      }
    }
    before += point.forward + point.backward;
  }
  return bound;
}

}  // namespace

Seconds FamilyBound(const Planning& planning, bool divides_ops) {
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
  const auto batch = static_cast<double>(planning.options.batch);
  const double shared = speed > 0 ? batch * work / speed : 0;
  if (divides_ops) return Seconds{shared};
  // Gradients of weights may wait: they are not on the way.
  const auto way =
      LayerSampleSeconds(planning, {&ChainLayer::forward, &ChainLayer::backward_input});
  double latency = 0;
  for (size_t l = 0; l < reference.size(); ++l) {
    double least = kInfinity;
    for (size_t type = 0; type < way.size(); ++type) {
      if (speed_of[type] >= 0) least = std::min(least, way[type][l]);
    }
    latency += least;
  }
  return Seconds{std::max(shared, latency)};
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
