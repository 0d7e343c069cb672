#include "plan/spmd/estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace heddle {
namespace {

// A tensor in a layout.
struct Copy {
  int tensor, layout;
  size_t number;  // among all copies that there could be
};

class Estimator {
 public:
  Estimator(SpmdProblem& problem, const SpmdPlan& plan)
      : problem_(problem),
        plan_(plan),
        clocks_(problem.mesh().size(), 0),
        bytes_(problem.mesh().size(), 0),
        peak_(problem.mesh().size(), 0),
        parts_(problem.mesh().size()) {
    estimate_.peak_parts.resize(problem.mesh().size());
    size_t count = 0;
    for (size_t t = 0; t < problem.graph().tensors().size(); ++t) {
      first_copy_.push_back(count);
      count += static_cast<size_t>(TableOf(static_cast<int>(t)).space().size());
    }
    stored_.resize(count, false);
    summed_.resize(count, false);
    made_.resize(count, false);
  }

  SpmdEstimate Run() {
    FindUses();
    HoldStorage();
    return Walk();
  }

  SpmdEstimate RunLater() {
    later_ = true;
    FindUses();
    HoldStorage();
    HoldForAll();
    return Walk();
  }

 private:
  SpmdEstimate Walk() {
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const SpmdStep& step = plan_.steps[k];
      if (later_ && IsOfLast(step)) continue;
      if (step.converts()) {
        Convert(step);
      } else {
        Compute(step);
      }
      for (const Copy& copy : dies_after_[k]) {
        if (!stored_[copy.number] && made_[copy.number]) Add(copy, -1);
        made_[copy.number] = false;
      }
    }
    estimate_.stage_seconds = *std::max_element(clocks_.begin(), clocks_.end());
    estimate_.additive_seconds = estimate_.compute_seconds + estimate_.fill_seconds;
    for (const double seconds : estimate_.exchange_seconds) estimate_.additive_seconds += seconds;
    for (const double bytes : peak_) estimate_.peak.push_back({std::llround(bytes)});
    return std::move(estimate_);
  }

  // What comes once, behind all microbatches.
  bool IsOfLast(const SpmdStep& step) const {
    const Graph& graph = problem_.graph();
    if (!step.converts()) return graph.op(step.op).phase == Phase::kUpdate;
    return !plan_.converts_each && graph.tensor(step.tensor).role == Role::kWeightGradient;
  }

  ConversionTable& TableOf(int tensor) const { return problem_.facts(tensor).conversions(); }

  Copy CopyOf(TensorId tensor, int layout) const {
    return {tensor.value, layout,
            first_copy_[static_cast<size_t>(tensor.value)] + static_cast<size_t>(layout)};
  }
  Copy CopyOf(TensorId tensor, const Layout& layout) const {
    return CopyOf(tensor, TableOf(tensor.value).space().IndexOf(layout));
  }

  // What a step reads and writes besides inputs and what is stored.
  template <class Reads, class Writes>
  void ForEachCopy(const SpmdStep& step, Reads reads, Writes writes) const {
    const Graph& graph = problem_.graph();
    const auto passing = [&](TensorId tensor) {
      const Role role = graph.tensor(tensor).role;
      return role != Role::kState && role != Role::kInput;
    };
    if (step.converts()) {
      reads(CopyOf(step.tensor, step.from));
      writes(CopyOf(step.tensor, step.to));
      return;
    }
    const Op& op = graph.op(step.op);
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      if (!passing(op.inputs[k].tensor)) continue;
      reads(CopyOf(op.inputs[k].tensor, InputLayout(op, k, step.rule)));
    }
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      if (!passing(op.outputs[k].tensor)) continue;
      writes(CopyOf(op.outputs[k].tensor, OutputLayout(op, k, step.rule)));
    }
  }

  // A copy that is made again dies at its last use before.
  void FindUses() {
    for (const SpmdStorage& storage : plan_.storage) {
      stored_[CopyOf(storage.parameter, storage.layout).number] = true;
    }
    dies_after_.resize(plan_.steps.size());
    constexpr size_t kNowhere = std::numeric_limits<size_t>::max();
    std::vector<size_t> last(stored_.size(), kNowhere);
    std::vector<Copy> used;  // each once
    const auto use = [&](const Copy& copy, size_t k) {
      if (last[copy.number] == kNowhere) used.push_back(copy);
      last[copy.number] = k;
    };
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const SpmdStep& step = plan_.steps[k];
      ForEachCopy(
          step,
          [&](const Copy& copy) {
            if (!stored_[copy.number]) use(copy, k);
          },
          [&](const Copy& copy) {
            if (stored_[copy.number]) return;
            const size_t before = last[copy.number];
            if (before != kNowhere && step.converts()) dies_after_[before].push_back(copy);
            use(copy, k);
          });
    }
    for (const Copy& copy : used) dies_after_[last[copy.number]].push_back(copy);
  }

  void HoldStorage() {
    const Graph& graph = problem_.graph();
    for (size_t p = 0; p < plan_.storage.size(); ++p) {
      const Parameter& parameter = graph.parameters()[p];
      const Copy stored = CopyOf(plan_.storage[p].parameter, plan_.storage[p].layout);
      Add(stored, 1);
      for (const TensorId state : parameter.states) Add(CopyOf(state, stored.layout), 1);
    }
  }

  // Afterwards they count as stored.
  void HoldForAll() {
    const Graph& graph = problem_.graph();
    std::map<size_t, int> times;  // that a copy of a weight is made
    for (const SpmdStep& step : plan_.steps) {
      if (step.converts()) ++times[CopyOf(step.tensor, step.to).number];
    }
    const auto hold = [&](const Copy& copy) {
      if (stored_[copy.number]) return;
      stored_[copy.number] = true;
      Add(copy, 1);
    };
    for (const SpmdStep& step : plan_.steps) {
      ForEachCopy(
          step, [](const Copy&) {},
          [&](const Copy& copy) {
            const Role role = graph.tensor(TensorId{copy.tensor}).role;
            const bool sum =
                role == Role::kWeightGradient && step.converts() == plan_.converts_each;
            const bool once = role == Role::kParameter && times[copy.number] == 1;
            if (sum || once) hold(copy);
          });
    }
  }

  void Add(const Copy& copy, double sign) {
    ConversionTable& table = TableOf(copy.tensor);
    const std::vector<double>& shares = table.SharesOf(copy.layout);
    const Layout layout = table.space().At(copy.layout);
    for (size_t place = 0; place < bytes_.size(); ++place) {
      const double bytes = sign * table.bytes() * shares[place];
      bytes_[place] += bytes;
      for (size_t axis = 0; axis < kMeshAxes; ++axis) {
        if (layout[axis].kind != ShardKind::kSharded) continue;
        parts_[place][axis][static_cast<size_t>(layout[axis].ratios)] += bytes;
      }
      if (bytes_[place] <= peak_[place]) continue;
      peak_[place] = bytes_[place];
      estimate_.peak_parts[place] = parts_[place];
    }
  }

  void Make(const SpmdStep& step) {
    ForEachCopy(
        step, [](const Copy&) {},
        [&](const Copy& copy) {
          if (stored_[copy.number]) return;
          // A sum of several producers is there already.
          if (!step.converts() && summed_[copy.number]) return;
          if (!step.converts()) summed_[copy.number] = true;
          made_[copy.number] = true;
          Add(copy, 1);
        });
  }

  void Compute(const SpmdStep& step) {
    Make(step);
    const Op& op = problem_.graph().op(step.op);
    const auto [found, fresh] = seconds_.try_emplace({problem_.op(step.op.value).kind, step.rule});
    if (fresh) found->second = problem_.DeviceSeconds(op, step.rule);
    const std::vector<double>& seconds = found->second;
    for (size_t place = 0; place < clocks_.size(); ++place) clocks_[place] += seconds[place];
    estimate_.compute_seconds += *std::max_element(seconds.begin(), seconds.end());
  }

  void Convert(const SpmdStep& step) {
    Make(step);
    ConversionTable& table = TableOf(step.tensor.value);
    const double seconds =
        table.Direct(table.space().IndexOf(step.from), table.space().IndexOf(step.to)).seconds;
    const auto exchange = ExchangeOf(step.from, step.to);
    if (!exchange) {
      estimate_.fill_seconds += seconds;
      for (double& clock : clocks_) clock += seconds;
      return;
    }
    estimate_.exchange_seconds[static_cast<size_t>(exchange->kind)] += seconds;
    estimate_.exchange_bytes[static_cast<size_t>(exchange->kind)] += table.bytes();
    const size_t width = problem_.mesh().places(1);
    const auto group_of = [&](size_t place) {
      if (exchange->scope == Scope::kAllDevices) return size_t{0};
      return exchange->scope == Scope::kInsideNode ? place / width : place % width;
    };
    std::vector<double> ready(problem_.mesh().size(), 0);
    for (size_t place = 0; place < clocks_.size(); ++place) {
      ready[group_of(place)] = std::max(ready[group_of(place)], clocks_[place]);
    }
    for (size_t place = 0; place < clocks_.size(); ++place) {
      clocks_[place] = ready[group_of(place)] + seconds;
    }
  }

  SpmdProblem& problem_;
  const SpmdPlan& plan_;
  bool later_ = false;  // of one of several microbatches, neither the first nor the last
  SpmdEstimate estimate_;
  std::vector<double> clocks_, bytes_, peak_;
  std::vector<RatioParts> parts_;
  std::vector<size_t> first_copy_;             // by tensor: the number of its first copy
  std::vector<bool> stored_, summed_, made_;   // by copy
  std::vector<std::vector<Copy>> dies_after_;  // by step
  std::map<std::pair<int, OpRule>, std::vector<double>> seconds_;  // by kind of op
};

}  // namespace

SpmdEstimate EstimateOf(SpmdProblem& problem, const SpmdPlan& plan) {
  return Estimator(problem, plan).Run();
}

SpmdEstimate LaterEstimateOf(SpmdProblem& problem, const SpmdPlan& plan) {
  return Estimator(problem, plan).RunLater();
}

std::optional<MemoryLack> LackOf(const SpmdProblem& problem, const SpmdEstimate& estimate) {
  std::optional<MemoryLack> worst;
  for (size_t place = 0; place < estimate.peak.size(); ++place) {
    const DeviceId device = problem.mesh().device(place);
    const Bytes available = problem.cluster().type_of(device).memory;
    const Bytes lacks = estimate.peak[place] - available;
    if (lacks.value <= 0) continue;
    if (!worst || lacks > worst->needed - worst->available) {
      worst = MemoryLack{device, estimate.peak[place], available};
    }
  }
  return worst;
}

}  // namespace heddle
