#include "plan/cycle_bound.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "cost/comm_phases.h"
#include "plan/pipeline_way.h"
#include "program/plan/row_shares.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The wire is busy with any of its work from the earliest head among it to the latest tail.
double WireBound(const std::vector<WireWork>& works) {
  double bound = 0;
  for (const WireWork& first : works) {
    for (const WireWork& last : works) {
      double seconds = 0;
      for (const WireWork& work : works) {
        if (work.head >= first.head && work.tail >= last.tail) seconds += work.seconds;
      }
      if (seconds > 0) bound = std::max(bound, first.head + seconds + last.tail);
    }
  }
  return bound;
}

// All-reduces of one iteration that a device takes part in.
class GradientSums {
 public:
  GradientSums(const Planning& planning, const Program& program)
      : cluster_(*planning.cluster),
        program_(program),
        compete_(planning.request.links != LinkModel::kChannels) {
    for (const Parameter& parameter : planning.graph.parameters()) {
      layers_[planning.graph.tensor(parameter.gradient).name] = &parameter.layers;
    }
    for (size_t d = 0; d < program.devices.size(); ++d) numbers_[program.devices[d].name] = d;
  }

  // Seconds of the busiest wire, for those with gradients of these layers; of the longest where
  // they do not compete.
  double SecondsOf(const std::string& device, const LayerRun& run) const {
    const DeviceProgram& list = program_.devices[numbers_.at(device)];
    WireLoads loads;
    double longest = 0;
    for (const Instruction& in : list.list(Section::kBody)) {
      if (in.code != OpCode::kCollective || !Touches(list, in, run)) continue;
      std::vector<DeviceId> group;
      for (const int32_t member : program_.group(in.target).devices) {
        const std::string& name = program_.devices[static_cast<size_t>(member)].name;
        group.push_back(*cluster_.FindDevice(name));
      }
      Bytes bytes;
      for (const BufferRef& ref : Operands(list, in)) bytes += program_.BytesOf(ref.tensor, -1);
      const std::vector<Bytes> sizes = {bytes};
      const CommCost cost =
          NetworkCost(cluster_).Collective({in.kind, group, sizes, in.algorithm, 0});
      if (!compete_) longest = std::max(longest, cost.seconds.value);
      if (compete_) loads.Add(cost.loads, 1);
    }
    return std::max(longest, loads.Longest(cluster_).value);
  }

 private:
  static std::span<const BufferRef> Operands(const DeviceProgram& list, const Instruction& in) {
    return {list.operands.data() + in.first_operand, static_cast<size_t>(in.operand_count)};
  }

  bool Touches(const DeviceProgram& list, const Instruction& in, const LayerRun& run) const {
    for (const BufferRef& ref : Operands(list, in)) {
      const auto found = layers_.find(program_.tensor(ref.tensor).name);
      if (found == layers_.end()) continue;  // no gradient
      for (const LayerId layer : *found->second) {
        if (layer.value >= run.first && layer.value <= run.last) return true;
      }
    }
    return false;
  }

  const Cluster& cluster_;
  const Program& program_;
  bool compete_;
  std::map<std::string, const std::vector<LayerId>*> layers_;  // by name of the gradient
  std::map<std::string, size_t> numbers_;                      // of devices
};

// What one device of a stage spends on gradients of weights, which an order may put off.
struct WeightWork {
  double all = 0;
  double longest = 0;  // for one microbatch
};

WeightWork WeightWorkOf(const Planning& planning, const Plan& plan, const StagePlan& stage,
                        size_t member) {
  const OpCost cost = planning.cost();
  const DeviceTypeSpec& type =
      planning.cluster->type_of(*planning.cluster->FindDevice(stage.devices[member]));
  const std::vector<int64_t> rows = MicrobatchRows(plan.request.batch, plan.microbatches);
  std::map<int64_t, int> times;  // by rows of this device: microbatches with so many
  for (const WorkItem& item : stage.order) {
    if (item.kind != WorkKind::kForward || item.chunk != 0) continue;
    const auto ranges = DivideRows(rows[static_cast<size_t>(item.microbatch)], stage.shares);
    ++times[ranges[member].size()];
  }
  WeightWork work;
  for (const auto& [count, microbatches] : times) {
    if (count == 0) continue;
    double seconds = 0;
    for (const LayerRun& run : stage.chunks) {
      for (int l = run.first; l <= run.last; ++l) {
        for (const OpId op : planning.chain.layers[static_cast<size_t>(l)].backward_weight) {
          seconds += cost.RowsSeconds(planning.graph.op(op), count, type).value;
        }
      }
    }
    work.all += microbatches * seconds;
    work.longest = std::max(work.longest, seconds);
  }
  return work;
}

// One pipeline of a plan, from a stage's first forward of an iteration to that of the next.
class Cycle {
 public:
  Cycle(const Planning& planning, const Plan& plan, const PipelinePlan& pipeline,
        const std::map<std::string, DeviceUse>& uses, const GradientSums& sums)
      : pipeline_(pipeline),
        uses_(uses),
        sums_(sums),
        wires_(planning.request.links != LinkModel::kChannels),
        way_(planning, plan, pipeline) {
    for (const StagePlan& stage : pipeline.stages) {
      weights_.emplace_back();
      for (size_t j = 0; j < stage.devices.size(); ++j) {
        weights_.back().push_back(WeightWorkOf(planning, plan, stage, j));
      }
    }
  }

  double Bound() const {
    // Of interleaved stages later runs do not wait for the first.
    const size_t starts = way_.points().size() > pipeline_.stages.size() ? 1 : way_.points().size();
    double bound = 0;
    for (size_t start = 0; start < starts; ++start) bound = std::max(bound, BoundFrom(start));
    return bound;
  }

 private:
  double BoundFrom(size_t start) const {
    const WayPoint& first = way_.points()[start];
    const double end = EndOfRun(first);
    double bound = SummedAtLast(first);
    if (wires_) {
      for (const auto& [wire, works] : way_.WorkOfWires(start, end)) {
        bound = std::max(bound, WireBound(works));
      }
    }
    double before = 0;
    std::vector<bool> seen(pipeline_.stages.size(), false);
    for (size_t k = start; k < way_.points().size(); ++k) {
      const WayPoint& point = way_.points()[k];
      if (k > start) before += point.messages();
      // A device's first run has the least before it.
      if (!seen[point.stage]) bound = std::max(bound, before + WorkOf(point.stage) + end);
      seen[point.stage] = true;
      before += point.forward + point.backward;
    }
    return bound;
  }

  // Of the stage's busiest device, without what can be put off.
  double WorkOf(size_t s) const {
    double most = 0;
    const StagePlan& stage = pipeline_.stages[s];
    for (size_t j = 0; j < stage.devices.size(); ++j) {
      const DeviceUse& use = uses_.at(stage.devices[j]);
      most = std::max(most, (use.busy - use.updating).value - weights_[s][j].all);
    }
    return most;
  }

  // What passes between the last backward of a run and its next forward at least: the sum of its
  // gradients, which are complete only then, or the update of its weights (weights are updated
  // while other gradients are summed).
  double EndOfRun(const WayPoint& point) const {
    const StagePlan& stage = pipeline_.stages[point.stage];
    // An interleaved stage might put off the update of its later runs.
    double update = stage.chunks.size() == 1 ? kInfinity : 0;
    for (const std::string& device : stage.devices) {
      update = std::min(update, uses_.at(device).updating.value);
    }
    // Members of a stage take part in the same sums.
    const double sums = sums_.SecondsOf(stage.devices[0], point.layers);
    return std::max(sums - point.slow_backward, update);
  }

  // No gradient is complete before a device's last piece of work begins; after that all are summed.
  double SummedAtLast(const WayPoint& point) const {
    const StagePlan& stage = pipeline_.stages[point.stage];
    if (stage.chunks.size() > 1) return 0;
    double bound = 0;
    const double sums = sums_.SecondsOf(stage.devices[0], point.layers);
    for (size_t j = 0; j < stage.devices.size(); ++j) {
      const DeviceUse& use = uses_.at(stage.devices[j]);
      const double last = point.slow_backward + weights_[point.stage][j].longest;
      bound = std::max(bound, (use.busy - use.updating).value - last + sums);
    }
    return bound;
  }

  const PipelinePlan& pipeline_;
  const std::map<std::string, DeviceUse>& uses_;
  const GradientSums& sums_;
  bool wires_;  // are shared
  PipelineWay way_;
  std::vector<std::vector<WeightWork>> weights_;  // by stage and member
};

}  // namespace

Seconds OrderBound(const Planning& planning, const Plan& plan, const Evaluation& evaluation) {
  double bound = 0;
  std::map<std::string, DeviceUse> uses;
  for (const DeviceUse& use : evaluation.simulation.devices) {
    bound = std::max(bound, use.busy.value);
    uses[use.device] = use;
  }
  for (const WireUse& use : evaluation.simulation.wires) {
    if (planning.request.links == LinkModel::kChannels) break;  // which wires do not hold up
    const Wire& wire = planning.cluster->wires()[static_cast<size_t>(use.wire.value)];
    bound = std::max(bound, use.bytes / wire.bandwidth.value);
  }
  // Updates overlap: there is no cycle. Of divided layers nobody knows one.
  if (plan.async || plan.local || plan.has_bodies()) return Seconds{bound};
  const GradientSums sums(planning, evaluation.program);
  for (const PipelinePlan& pipeline : plan.pipelines) {
    bound = std::max(bound, Cycle(planning, plan, pipeline, uses, sums).Bound());
  }
  return Seconds{bound};
}

}  // namespace heddle
