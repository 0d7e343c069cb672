#include "plan/async/local_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "plan/least_memory.h"
#include "plan/microbatch_counts.h"
#include "plan/pipeline/device_order.h"
#include "plan/pipeline/stage_partition.h"

namespace heddle {
namespace {

// "11 11 5 5", "8 each"; of many replicas "12 x16, 7 x48".
std::string StepsText(const std::vector<int64_t>& steps) {
  constexpr size_t kMostListed = 8;
  const bool even =
      std::all_of(steps.begin(), steps.end(), [&](int64_t count) { return count == steps[0]; });
  if (even) return fmt::format("{} each", steps[0]);
  if (steps.size() <= kMostListed) return fmt::format("{}", fmt::join(steps, " "));
  std::string text;
  for (size_t first = 0; first < steps.size();) {
    size_t end = first + 1;
    while (end < steps.size() && steps[end] == steps[first]) ++end;
    text += fmt::format("{}{} x{}", first == 0 ? "" : ", ", steps[first], end - first);
    first = end;
  }
  return text;
}

class Search {
 public:
  explicit Search(const Planning& planning)
      : planning_(planning),
        layers_(planning.chain.size()),
        seconds_(planning, planning.request.batch),
        least_(LeastMemoryOf(planning)) {}

  Result<Plan> Run() {
    if (planning_.request.clip > 0) {
      return Infeasible("local", "replicas update without waiting for each other",
                        "clipping needs all gradients at once; leave out --clip");
    }
    const ReplicaPlace place = planning_.request.replicas;
    if (place != ReplicaPlace::kPipelined) HEDDLE_RETURN_IF_ERROR(TryWhole());
    if (place != ReplicaPlace::kWhole) HEDDLE_RETURN_IF_ERROR(TryPipelined());
    if (!best_ && late()) return OutOfTime("local");
    if (!best_) {
      return Infeasible("local", "nothing fits; closest: " + lacks_where_,
                        "a smaller --batch, which one local update sees, larger devices or "
                        "--optimizer sgd need less");
    }
    HEDDLE_ASSIGN(const Evaluation evaluation, Evaluate(planning_, *best_, false));
    FillEstimate(planning_, evaluation, *best_);
    best_->search.candidates = tried_;
    best_->search.notes = {fmt::format(
        "a round is {} batches, {} by replica, and then the average; {} per batch",
        best_->local->updates(), StepsText(best_->local->steps), ToText(Seconds{best_seconds_}))};
    if (late()) best_->search.notes.emplace_back(kCutShort);
    return *std::move(best_);
  }

 private:
  double SecondsOn(int device) const {
    return seconds_.Of(planning_.cluster->devices()[static_cast<size_t>(device)].type, 0,
                       layers_ - 1);
  }

  StagePlan StageOn(int device, LayerRun layers, int64_t microbatches) const {
    StagePlan stage;
    stage.chunks = {layers};
    stage.devices = {planning_.cluster->devices()[static_cast<size_t>(device)].name};
    stage.shares = {1};
    stage.order = ForwardsAndBackwardsInTurn(microbatches);
    return stage;
  }

  // With all devices that have room for the weights, and without the slowest ones: a round waits
  // for every replica.
  Status TryWhole() {
    std::vector<int> devices(static_cast<size_t>(planning_.cluster->device_count()));
    std::iota(devices.begin(), devices.end(), 0);
    std::erase_if(devices, [&](int device) {
      const Bytes has = planning_.type_of(device).memory;
      const Bytes lack = Bytes{static_cast<int64_t>(least_.weights)} - has;
      if (lack.value > 0)
        NoteLack(lack, DeviceLack(device, lack, "parameters and optimizer state"));
      return lack.value > 0;
    });
    while (!devices.empty() && !late()) {
      const bool may_be_faster = WholeBound(devices, 1) < best_seconds_;
      if (may_be_faster) HEDDLE_RETURN_IF_ERROR(TryWholeOn(devices));
      double slowest = 0;
      for (const int device : devices) slowest = std::max(slowest, SecondsOn(device));
      std::erase_if(devices, [&](int device) { return SecondsOn(device) == slowest; });
    }
    return Ok();
  }

  // "device 2 (b:0) needs 12.4 GiB for … and has 12.0 GiB: 410 MiB too much".
  std::string DeviceLack(int device, Bytes lack, const std::string& what) const {
    const Bytes has = planning_.type_of(device).memory;
    return fmt::format("device {} ({}) needs {} for {} alone and has {}: {} too much", device,
                       planning_.cluster->device(DeviceId{device}).name, ToText(has + lack), what,
                       ToText(has), ToText(lack));
  }

  // Whether each has room for its model and the activations of a microbatch, which are not computed
  // again. With several microbatches all gradients add up; with one each is soon used.
  bool HaveRoomFor(const std::vector<int>& devices, int64_t microbatches) {
    const int64_t rows = (planning_.request.batch + microbatches - 1) / microbatches;
    const double needed =
        least_.With(static_cast<double>(rows)) + (microbatches > 1 ? least_.gradients : 0);
    for (const int device : devices) {
      const Bytes has = planning_.type_of(device).memory;
      const Bytes lack = Bytes{static_cast<int64_t>(needed)} - has;
      if (lack.value <= 0) continue;
      NoteLack(lack, DeviceLack(device, lack,
                                fmt::format("the model and the activations of {} samples", rows)));
      return false;
    }
    return true;
  }

  // A batch is at least as long as all together take for one, were they never to wait.
  double WholeBound(const std::vector<int>& devices, int64_t microbatches) const {
    const LayerSeconds seconds(planning_,
                               std::max<int64_t>(1, planning_.request.batch / microbatches));
    double speed = 0;
    for (const int device : devices) {
      const int type = planning_.cluster->device(DeviceId{device}).type;
      speed += 1 / (static_cast<double>(microbatches) * seconds.Of(type, 0, layers_ - 1));
    }
    return 1 / speed;
  }

  Status TryWholeOn(const std::vector<int>& devices) {
    const auto plan_of = [&](int64_t m) {
      Plan plan = planning_.Blank("local", "whole");
      plan.microbatches = m;
      plan.all_reduce = CheapestAllReduce(planning_, devices, plan.bucket);
      std::vector<double> speeds;
      for (const int device : devices) {
        plan.pipelines.push_back({{StageOn(device, {0, layers_ - 1}, m)}});
        speeds.push_back(1 / SecondsOn(device));
      }
      plan.local = LocalPlan{UpdatesBySpeed(speeds, planning_.request.every)};
      return plan;
    };
    CountTuning tuning;  // a device alone: more microbatches only need less memory
    tuning.in_vain = 0;
    tuning.bound = [&](int64_t m) { return WholeBound(devices, m); };
    tuning.attempt = [&](int64_t m) -> Result<CountTuning::Trial> {
      if (!HaveRoomFor(devices, m)) return CountTuning::Trial{};
      HEDDLE_ASSIGN(const double seconds, Try(plan_of(m)));
      return CountTuning::Trial{
          std::isfinite(seconds) ? CountTuning::Fit::kPlain : CountTuning::Fit::kNone, seconds};
    };
    return TuneMicrobatches(planning_, tuning);
  }

  Status TryPipelined() {
    if (planning_.request.microbatches.value_or(1) != 1) return Ok();  // an update is one
    std::vector<double> speed;
    for (int d = 0; d < planning_.cluster->device_count(); ++d) speed.push_back(1 / SecondsOn(d));
    for (std::vector<int>& order : DeviceOrders(*planning_.cluster, speed)) {
      if (late()) break;
      const size_t stages = std::min(order.size(), static_cast<size_t>(layers_));
      order.resize(stages);
      std::vector<int> types;
      for (const int d : order) {
        types.push_back(planning_.cluster->devices()[static_cast<size_t>(d)].type);
      }
      const std::vector<LayerRun> runs = BalancedRuns(seconds_, layers_, types);
      double slowest = 0;  // of the stages, for a batch: no round is faster
      for (size_t s = 0; s < stages; ++s) {
        slowest = std::max(slowest, seconds_.Of(types[s], runs[s].first, runs[s].last));
      }
      if (slowest >= best_seconds_) continue;
      // Fewer replicas than stages need less memory and leave stages idle.
      for (size_t replicas = stages; replicas > 0 && !late(); replicas /= 2) {
        if (!HaveRoom(order, runs, static_cast<int64_t>(replicas))) continue;
        Plan plan = planning_.Blank("local", "pipelined");
        plan.pipelines.emplace_back();
        for (size_t s = 0; s < stages; ++s) {
          plan.pipelines[0].stages.push_back(StageOn(order[s], runs[s], 1));
        }
        plan.local = LocalPlan{std::vector<int64_t>(replicas, planning_.request.every)};
        const Result<double> seconds = Try(std::move(plan));
        if (!seconds.ok() && seconds.error().kind == ErrorKind::kInfeasible) {
          if (lacks_where_.empty()) lacks_where_ = seconds.error().what;  // weights in two stages
          return Ok();
        }
        if (!seconds.ok()) return seconds.error();
        if (std::isfinite(seconds.value())) break;
      }
    }
    return Ok();
  }

  // Whether every stage has room for its parameters and their state, once for each replica.
  bool HaveRoom(const std::vector<int>& devices, const std::vector<LayerRun>& runs,
                int64_t replicas) {
    for (size_t s = 0; s < devices.size(); ++s) {
      const Bytes lack = WeightsOf(runs[s]) * replicas - planning_.type_of(devices[s]).memory;
      if (lack.value <= 0) continue;
      NoteLack(lack,
               DeviceLack(devices[s], lack,
                          fmt::format("parameters and optimizer state of {} replicas", replicas)));
      return false;
    }
    return true;
  }

  Bytes WeightsOf(const LayerRun& run) const {
    const Graph& graph = planning_.graph;
    std::set<int32_t> parameters;
    for (int l = run.first; l <= run.last; ++l) {
      const ChainLayer& layer = planning_.chain.layers[static_cast<size_t>(l)];
      parameters.insert(layer.parameters.begin(), layer.parameters.end());
    }
    Bytes bytes;
    for (const int32_t p : parameters) {
      const Parameter& parameter = graph.parameters()[static_cast<size_t>(p)];
      bytes = bytes + graph.tensor(parameter.tensor).bytes();
      for (const TensorId state : parameter.states) bytes = bytes + graph.tensor(state).bytes();
    }
    return bytes;
  }

  // Seconds per batch; infinite: it does not fit.
  Result<double> Try(Plan plan) {
    ++tried_;
    HEDDLE_ASSIGN(const Evaluation evaluation, EvaluateQuickly(planning_, plan, Seconds{kNoLimit}));
    if (evaluation.lacks.value > 0) {
      NoteLack(evaluation.lacks, evaluation.lacks_where);
      return kNoLimit;
    }
    const double seconds = plan.seconds_per_batch(evaluation.simulation.iteration.value);
    if (seconds < best_seconds_) {
      best_seconds_ = seconds;
      best_ = std::move(plan);
    }
    return seconds;
  }

  void NoteLack(Bytes lack, std::string where) {
    if (!lacks_where_.empty() && lack >= least_lack_) return;
    least_lack_ = lack;
    lacks_where_ = std::move(where);
  }

  bool late() const { return planning_.deadline.passed(); }

  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  const Planning& planning_;
  int layers_;
  LayerSeconds seconds_;  // of one batch
  LeastMemory least_;
  int64_t tried_ = 0;
  std::optional<Plan> best_;
  double best_seconds_ = kNoLimit;  // per batch
  Bytes least_lack_;
  std::string lacks_where_;
};

}  // namespace

std::vector<int64_t> UpdatesBySpeed(const std::vector<double>& speeds, int64_t every) {
  std::vector<int64_t> updates(speeds.size(), 1);
  // One after the other to whoever would be done with it first.
  const auto end = [&](size_t k) { return static_cast<double>(updates[k] + 1) / speeds[k]; };
  for (int64_t left = (every - 1) * std::ssize(speeds); left > 0; --left) {
    size_t first = 0;
    for (size_t k = 1; k < speeds.size(); ++k) {
      if (end(k) < end(first)) first = k;
    }
    ++updates[first];
  }
  return updates;
}

Result<Plan> PlanLocal(const Planning& planning) { return Search(planning).Run(); }

}  // namespace heddle
