#include "plan/baseline/stage_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "plan/microbatch_counts.h"

namespace heddle {
namespace {

// Simulations of large clusters take seconds: so many microbatches on so many devices are simulated
// in all, and four plans at least.
constexpr int64_t kSimulatedWork = 1 << 18;
constexpr int kSimulatedAtLeast = 4;

// Estimates of memory are close: what lacks more than this part of it by them is not worth a try
// where something else fits.
constexpr double kClose = 0.1;

double ParameterBytes(const Planning& planning, const ChainLayer& layer) {
  double bytes = 0;
  for (const int32_t p : layer.parameters) {
    const Parameter& parameter = planning.graph.parameters()[static_cast<size_t>(p)];
    bytes += static_cast<double>(planning.graph.tensor(parameter.tensor).bytes().value);
  }
  return bytes;
}

WorkOrder EarlyBackwardOrder(const std::vector<int32_t>& microbatches, size_t warm_up) {
  WorkOrder order;
  for (size_t k = 0; k < microbatches.size() + warm_up; ++k) {
    if (k < microbatches.size()) order.push_back({WorkKind::kForward, 0, microbatches[k]});
    if (k >= warm_up) order.push_back({WorkKind::kBackward, 0, microbatches[k - warm_up]});
  }
  return order;
}

}  // namespace

CutStates ChainStates(const LayerTable& table, int64_t rows, double scale, double parameter_scale) {
  const Planning& planning = table.planning();
  const LayerSeconds& seconds = table.SecondsFor(rows);
  const std::vector<Device>& devices = planning.cluster->devices();
  std::vector<double> weight(planning.cluster->types().size(), 0);
  for (const Device& device : devices) {
    weight[static_cast<size_t>(device.type)] += 1.0 / static_cast<double>(devices.size());
  }
  std::vector<CutState> states;
  CutState sum;
  for (int l = 0; l < planning.chain.size(); ++l) {
    const auto at = static_cast<size_t>(l);
    for (size_t type = 0; type < weight.size(); ++type) {
      sum.seconds += scale * weight[type] * seconds.Of(static_cast<int>(type), l, l);
    }
    sum.parameter_bytes += parameter_scale * ParameterBytes(planning, planning.chain.layers[at]);
    sum.crossing_bytes = 0;
    if (at < planning.chain.cuts.size()) {
      const Cut& cut = planning.chain.cuts[at];
      const auto bytes = static_cast<double>((cut.forward_bytes + cut.backward_bytes).value);
      sum.crossing_bytes = scale * static_cast<double>(rows) * bytes / 2;
    }
    ++sum.layers;
    states.push_back(sum);
  }
  return CutStates::OfChain(std::move(states));
}

namespace {

PipelinePlan EarlyBackward(const Planning& planning, const std::vector<StageChoice>& stages,
                           const std::vector<int32_t>& microbatches, int depth) {
  PipelinePlan pipeline;
  for (size_t s = 0; s < stages.size(); ++s) {
    StagePlan stage;
    stage.chunks = {stages[s].layers};
    for (const int device : stages[s].devices) {
      stage.devices.push_back(planning.cluster->device(DeviceId{device}).name);
    }
    stage.shares.assign(stage.devices.size(), 1);
    const size_t warm_up = static_cast<size_t>(depth) * (stages.size() - 1 - s);
    stage.order = EarlyBackwardOrder(microbatches, std::min(warm_up, microbatches.size()));
    pipeline.stages.push_back(std::move(stage));
  }
  return pipeline;
}

// Microbatches of pipeline p of so many.
std::vector<int32_t> Dealt(int64_t microbatches, size_t p, size_t pipelines) {
  std::vector<int32_t> mine;
  for (size_t m = p; m < static_cast<size_t>(microbatches); m += pipelines) {
    mine.push_back(static_cast<int32_t>(m));
  }
  return mine;
}

int64_t DevicesOf(const StageDecision& decision) {
  int64_t devices = 0;
  for (const auto& stages : decision.pipelines) {
    for (const StageChoice& stage : stages) devices += std::ssize(stage.devices);
  }
  return devices;
}

}  // namespace

Plan Attempts::PlanOf(const Attempt& attempt) const {
  const StageDecision& decision = attempt.decision;
  Plan plan = table_.blank();
  plan.strategy = strategy_;
  plan.order_name = attempt.order;
  plan.microbatches = decision.microbatches;
  const size_t pipelines = decision.pipelines.size();
  for (size_t p = 0; p < pipelines; ++p) {
    plan.pipelines.push_back(EarlyBackward(planning_, decision.pipelines[p],
                                           Dealt(plan.microbatches, p, pipelines), decision.depth));
  }
  plan.all_reduce = sums_.Choose(GradientGroups(planning_, decision));
  return plan;
}

void Attempts::Add(StageDecision decision, const std::string& order, double estimate) {
  const auto pipelines = std::ssize(decision.pipelines);
  if (decision.microbatches < pipelines || decision.microbatches > planning_.request.batch) return;
  if (!seen_.insert(decision).second) return;
  Attempt attempt{std::move(decision), order, estimate, 0};
  attempt.bound = bound_.Of(attempt.decision);
  if (attempt.bound < best_.seconds()) attempt.bound = bound_.WithWires(attempt.decision, sums_);
  double& least = bounds_.try_emplace(attempt.decision.microbatches, attempt.bound).first->second;
  least = std::min(least, attempt.bound);
  attempts_.push_back(std::move(attempt));
}

double Attempts::LackOf(const StageDecision& decision, bool recompute) const {
  const int64_t batch = planning_.request.batch, m = decision.microbatches;
  const int64_t rows = (batch + m - 1) / m, each = m / std::ssize(decision.pipelines);
  double worst = -1;
  for (const auto& stages : decision.pipelines) {
    for (size_t s = 0; s < stages.size(); ++s) {
      const auto count = std::ssize(stages[s].devices);
      const auto after = static_cast<int64_t>(stages.size() - 1 - s);
      const int64_t in_flight = std::min(each, decision.depth * after + 1);
      const double peak = table_.MemoryOf(stages[s].layers.first, stages[s].layers.last + 1)
                              .Peak(static_cast<double>((rows + count - 1) / count),
                                    static_cast<double>(in_flight), recompute);
      for (const int device : stages[s].devices) {
        const auto capacity = static_cast<double>(planning_.type_of(device).memory.value);
        worst = std::max(worst, peak / capacity - 1);
      }
    }
  }
  return worst;
}

// Whether it fits, with recomputation if need be.
Result<bool> Attempts::Try(const Attempt& attempt) {
  work_ += attempt.decision.microbatches * DevicesOf(attempt.decision) /
           std::ssize(attempt.decision.pipelines);
  Plan plan = PlanOf(attempt);
  HEDDLE_ASSIGN(bool fits, TryOne(plan));
  if (fits) return true;
  for (PipelinePlan& pipeline : plan.pipelines) {
    for (StagePlan& stage : pipeline.stages) stage.recompute = true;
  }
  return TryOne(plan);
}

Result<bool> Attempts::TryOne(const Plan& plan) {
  HEDDLE_ASSIGN(const Best::Outcome outcome, best_.Try(plan));
  return outcome != Best::Outcome::kDoesNotFit;
}

// What was collected, the best estimate first.
Status Attempts::Simulate() {
  std::vector<Attempt> attempts = std::exchange(attempts_, {});
  std::stable_sort(attempts.begin(), attempts.end(),
                   [](const Attempt& a, const Attempt& b) { return a.estimate < b.estimate; });
  constexpr size_t kBeforeMemory = 2;
  int tried = 0;
  for (size_t k = 0; k < attempts.size(); ++k) {
    if (attempts[k].bound >= best_.seconds()) continue;
    if (planning_.deadline.passed()) break;
    const bool fits_any = std::isfinite(best_.seconds());
    const bool beside = std::isfinite(others_);
    if (beside && LackOf(attempts[k].decision, /*recompute=*/true) > kClose) continue;
    if (!fits_any && tried == kBeforeMemory) {
      attempts.erase(attempts.begin(), attempts.begin() + static_cast<std::ptrdiff_t>(k));
      return SimulateLeastFirst(std::move(attempts));
    }
    if (tried >= kSimulatedAtLeast && work_ >= kSimulatedWork) {
      ++left_out_;
      continue;
    }
    ++tried;
    HEDDLE_RETURN_IF_ERROR(Try(attempts[k]));
  }
  return Ok();
}

// Where memory decides: what has room by the estimates, the fastest first; then what lacks least.
// Of what lacks much the closest are tried, for the message.
Status Attempts::SimulateLeastFirst(std::vector<Attempt> attempts) {
  constexpr int kClosest = 3;
  std::vector<std::pair<double, const Attempt*>> order;
  for (const Attempt& attempt : attempts) {
    order.emplace_back(std::max(0.0, LackOf(attempt.decision, /*recompute=*/true)), &attempt);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  int tried = 0;
  for (const auto& [lack, attempt] : order) {
    if (attempt->bound >= best_.seconds()) continue;
    if (planning_.deadline.passed()) break;
    const bool fits_any = std::isfinite(best_.seconds());
    if (lack > kClose && (tried >= kClosest || fits_any)) break;
    if (fits_any && work_ >= kSimulatedWork) {
      ++left_out_;
      continue;
    }
    ++tried;
    HEDDLE_RETURN_IF_ERROR(Try(*attempt));
  }
  return Ok();
}

// Where somebody else leads: the numbers of microbatches with which these might come near him; in
// the first round all, since bounds do not tell which would have been the best. Where there is much
// to simulate, none.
std::vector<int64_t> Attempts::Promising(int round) const {
  constexpr size_t kCounts = 2;
  constexpr double kNear = 1.1;
  constexpr int64_t kLittle = 2048;
  const int64_t most = planning_.request.batch * planning_.cluster->device_count();
  if (!std::isfinite(best_.seconds()) || most > kLittle) return {};
  std::vector<std::pair<double, int64_t>> counts;
  for (const auto& [count, bound] : bounds_) {
    if (bound < kNear * best_.seconds()) counts.emplace_back(bound, count);
  }
  std::sort(counts.begin(), counts.end());
  std::vector<int64_t> promising;
  for (const auto& [unused, count] : counts) {
    if (round == 0 || promising.size() < kCounts) promising.push_back(count);
  }
  return promising;
}

Status Attempts::Run(const Proposer& propose) {
  const auto late = [&] { return planning_.deadline.passed(); };
  for (const int64_t m : MicrobatchCounts(planning_)) {
    if (late()) break;
    propose(m);
  }
  HEDDLE_RETURN_IF_ERROR(Simulate());
  for (int round = 0; round < kRefinements; ++round) {
    const bool leads = best_.seconds() < others_;
    for (const int64_t count : leads ? std::vector{best_.microbatches()} : Promising(round)) {
      for (const int64_t m : CountsNear(planning_, count, round)) {
        if (!late()) propose(m);
      }
    }
    HEDDLE_RETURN_IF_ERROR(Simulate());
  }
  if (left_out_ > 0 && !std::isfinite(others_)) {
    best_.Note(fmt::format("{} candidates that it thinks slower were not simulated", left_out_));
  }
  return Ok();
}

}  // namespace heddle
