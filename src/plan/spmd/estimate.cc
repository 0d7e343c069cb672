#include "plan/spmd/estimate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace heddle {
namespace {

using Copy = std::pair<int, int>;  // tensor, number of its layout

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
  }

  SpmdEstimate Run() {
    FindUses();
    HoldStorage();
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const SpmdStep& step = plan_.steps[k];
      if (step.converts()) {
        Convert(step);
      } else {
        Compute(step);
      }
      for (const Copy& copy : dies_after_[k]) Add(copy, -1);
    }
    estimate_.stage_seconds = *std::max_element(clocks_.begin(), clocks_.end());
    estimate_.additive_seconds = estimate_.compute_seconds + estimate_.fill_seconds;
    for (const double seconds : estimate_.exchange_seconds) estimate_.additive_seconds += seconds;
    for (const double bytes : peak_) estimate_.peak.push_back({std::llround(bytes)});
    return std::move(estimate_);
  }

 private:
  ConversionTable& TableOf(int tensor) const { return problem_.facts(tensor).conversions(); }

  Copy CopyOf(TensorId tensor, const Layout& layout) const {
    return {tensor.value, TableOf(tensor.value).space().IndexOf(layout)};
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
      stored_.push_back(CopyOf(storage.parameter, storage.layout));
    }
    std::sort(stored_.begin(), stored_.end());
    dies_after_.resize(plan_.steps.size());
    std::map<Copy, size_t> last;
    const auto stored = [&](const Copy& copy) {
      return std::binary_search(stored_.begin(), stored_.end(), copy);
    };
    for (size_t k = 0; k < plan_.steps.size(); ++k) {
      const SpmdStep& step = plan_.steps[k];
      ForEachCopy(
          step,
          [&](const Copy& copy) {
            if (!stored(copy)) last[copy] = k;
          },
          [&](const Copy& copy) {
            if (stored(copy)) return;
            const auto found = last.find(copy);
            if (found != last.end() && step.converts()) dies_after_[found->second].push_back(copy);
            last[copy] = k;
          });
    }
    for (const auto& [copy, k] : last) dies_after_[k].push_back(copy);
  }

  void HoldStorage() {
    const Graph& graph = problem_.graph();
    for (size_t p = 0; p < plan_.storage.size(); ++p) {
      const Parameter& parameter = graph.parameters()[p];
      Add(stored_copy(p), 1);
      const int layout = stored_copy(p).second;
      for (const TensorId state : parameter.states) Add({state.value, layout}, 1);
    }
  }
  Copy stored_copy(size_t p) const {
    return CopyOf(plan_.storage[p].parameter, plan_.storage[p].layout);
  }

  void Add(const Copy& copy, double sign) {
    ConversionTable& table = TableOf(copy.first);
    const std::vector<double>& shares = table.SharesOf(copy.second);
    const Layout layout = table.space().At(copy.second);
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
          if (std::binary_search(stored_.begin(), stored_.end(), copy)) return;
          // A sum of several producers is there already.
          if (!step.converts() && !summed_.insert(copy).second) return;
          Add(copy, 1);
        });
  }

  void Compute(const SpmdStep& step) {
    Make(step);
    const Op& op = problem_.graph().op(step.op);
    const std::vector<double> seconds = problem_.DeviceSeconds(op, step.rule);
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
  SpmdEstimate estimate_;
  std::vector<double> clocks_, bytes_, peak_;
  std::vector<RatioParts> parts_;
  std::vector<Copy> stored_;
  std::set<Copy> summed_;
  std::vector<std::vector<Copy>> dies_after_;  // by step
};

}  // namespace

SpmdEstimate EstimateOf(SpmdProblem& problem, const SpmdPlan& plan) {
  return Estimator(problem, plan).Run();
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
