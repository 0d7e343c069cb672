#include "plan/async/local_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

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
        seconds_(planning, planning.options.batch) {}

  Result<Plan> Run() {
    if (planning_.options.clip > 0) {
      return Infeasible("local", "replicas update without waiting for each other",
                        "clipping needs all gradients at once; leave out --clip");
    }
    const ReplicaPlace place = planning_.options.replicas;
    if (place != ReplicaPlace::kPipelined) HEDDLE_RETURN_IF_ERROR(TryWhole());
    if (place != ReplicaPlace::kWhole) HEDDLE_RETURN_IF_ERROR(TryPipelined());
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

  // With all devices, and without the slowest ones: a round waits for every replica.
  Status TryWhole() {
    std::vector<int> devices(static_cast<size_t>(planning_.cluster->device_count()));
    std::iota(devices.begin(), devices.end(), 0);
    while (!devices.empty()) {
      HEDDLE_RETURN_IF_ERROR(TryWholeOn(devices));
      double slowest = 0;
      for (const int device : devices) slowest = std::max(slowest, SecondsOn(device));
      std::erase_if(devices, [&](int device) { return SecondsOn(device) == slowest; });
    }
    return Ok();
  }

  // Smaller microbatches until it fits.
  Status TryWholeOn(const std::vector<int>& devices) {
    const auto asked = planning_.options.microbatches;
    for (int64_t m = asked.value_or(1); m <= asked.value_or(planning_.options.batch); m *= 2) {
      Plan plan = planning_.Blank("local", "whole");
      plan.microbatches = m;
      plan.all_reduce = CheapestAllReduce(planning_, devices, plan.bucket);
      std::vector<double> speeds;
      for (const int device : devices) {
        plan.pipelines.push_back({{StageOn(device, {0, layers_ - 1}, m)}});
        speeds.push_back(1 / SecondsOn(device));
      }
      plan.local = LocalPlan{UpdatesBySpeed(speeds, planning_.options.every)};
      HEDDLE_ASSIGN(const bool fits, Try(std::move(plan)));
      if (fits) break;
    }
    return Ok();
  }

  Status TryPipelined() {
    if (planning_.options.microbatches.value_or(1) != 1) return Ok();  // an update is one
    std::vector<double> speed;
    for (int d = 0; d < planning_.cluster->device_count(); ++d) speed.push_back(1 / SecondsOn(d));
    for (std::vector<int>& order : DeviceOrders(*planning_.cluster, speed)) {
      const size_t stages = std::min(order.size(), static_cast<size_t>(layers_));
      order.resize(stages);
      std::vector<int> types;
      for (const int d : order) {
        types.push_back(planning_.cluster->devices()[static_cast<size_t>(d)].type);
      }
      const std::vector<LayerRun> runs = BalancedRuns(seconds_, layers_, types);
      // Fewer replicas than stages need less memory and leave stages idle.
      for (size_t replicas = stages; replicas > 0; replicas /= 2) {
        Plan plan = planning_.Blank("local", "pipelined");
        plan.pipelines.emplace_back();
        for (size_t s = 0; s < stages; ++s) {
          plan.pipelines[0].stages.push_back(StageOn(order[s], runs[s], 1));
        }
        plan.local = LocalPlan{std::vector<int64_t>(replicas, planning_.options.every)};
        const Result<bool> fits = Try(std::move(plan));
        if (!fits.ok() && fits.error().kind == ErrorKind::kInfeasible) {
          lacks_where_ = fits.error().what;  // stages that share weights
          return Ok();
        }
        if (!fits.ok()) return fits.error();
        if (fits.value()) break;
      }
    }
    return Ok();
  }

  Result<bool> Try(Plan plan) {
    ++tried_;
    HEDDLE_ASSIGN(const Evaluation evaluation, EvaluateQuickly(planning_, plan, Seconds{kNoLimit}));
    if (evaluation.lacks.value > 0) {
      if (lacks_where_.empty() || evaluation.lacks < least_lack_) {
        least_lack_ = evaluation.lacks;
        lacks_where_ = evaluation.lacks_where;
      }
      return false;
    }
    const double seconds = plan.seconds_per_batch(evaluation.simulation.iteration.value);
    if (seconds < best_seconds_) {
      best_seconds_ = seconds;
      best_ = std::move(plan);
    }
    return true;
  }

  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  const Planning& planning_;
  int layers_;
  LayerSeconds seconds_;  // of one batch
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
