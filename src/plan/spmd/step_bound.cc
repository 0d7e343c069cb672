// StepTimes of schedule_bound.h.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "plan/spmd/schedule_bound.h"
#include "program/lower/spmd_values.h"

namespace heddle {
namespace {

constexpr int32_t kNone = -1;

class StepWalk {
 public:
  StepWalk(SpmdProblem& problem, const SpmdPlan& plan, int64_t microbatches)
      : problem_(problem),
        plan_(plan),
        microbatches_(microbatches),
        places_(problem.mesh().size()),
        width_(problem.mesh().places(1)),
        clocks_(places_, 0),
        copies_(problem.graph().tensors().size()) {
    for (const SpmdStep& step : plan.steps) {
      if (step.converts()) ++conversions_[{step.tensor, step.to}];
    }
    if (plan.converts_each) FindEach();
    FindExchanged();
    for (const SpmdStep& step : plan.steps) AddItem(step);
    ready_.assign(static_cast<size_t>(slots_) * places_, 0);
  }

  double Least() { return (1 - 1e-9) * Run(&Item::least); }
  double Expected() { return Run(&Item::expected); }

 private:
  enum class When : uint8_t { kEach, kFirst, kLast };
  struct Item {
    When when = When::kEach;
    const std::vector<double>* seconds = nullptr;  // of an op, by place; null: a conversion
    double least = 0, expected = 0;                // of a conversion; 0: nobody talks
    Scope scope = Scope::kAllDevices;
    std::vector<int32_t> waits, makes;  // slots
  };

  double Run(double Item::*exchange) {
    exchange_ = exchange;
    clocks_.assign(places_, 0);
    std::fill(ready_.begin(), ready_.end(), 0);
    for (std::vector<double>& free : group_free_) free.assign(places_, 0);
    constexpr int kMost = 12;
    double before = 0, last = 0;
    for (int repetition = 0; repetition < kMost; ++repetition) {
      const std::optional<double> end = Body();
      if (!end) return Longest();
      const double took = *end - before;
      if (repetition > 1 && std::abs(took - last) <= 1e-9 * took) {
        return std::max(took, Longest());
      }
      last = took;
      before = *end;
    }
    return Longest();
  }

  // Gradients that are exchanged after every microbatch, as in the lowering: all that is done with
  // them is done where the parameter is stored, and they get there at once.
  void FindEach() {
    const Graph& graph = problem_.graph();
    for (size_t p = 0; p < graph.parameters().size(); ++p) {
      each_[graph.parameters()[p].gradient] = plan_.storage[p].layout;
    }
    for (const SpmdStep& step : plan_.steps) {
      if (step.converts()) {
        if (conversions_.at({step.tensor, step.to}) > 1) each_.erase(step.tensor);
        continue;
      }
      const Op& op = graph.op(step.op);
      for (size_t i = 0; i < op.inputs.size(); ++i) {
        const auto found = each_.find(op.inputs[i].tensor);
        if (found == each_.end() || InputLayout(op, i, step.rule) == found->second) continue;
        each_.erase(found);
      }
    }
  }

  ConversionTable& TableOf(TensorId tensor) const {
    return problem_.facts(tensor.value).conversions();
  }

  // Only what goes through an exchange can be waited for.
  void FindExchanged() {
    exchanged_.assign(copies_.size(), false);
    for (const SpmdStep& step : plan_.steps) {
      if (step.converts() && ExchangeOf(step.from, step.to)) {
        exchanged_[static_cast<size_t>(step.tensor.value)] = true;
      }
    }
  }

  // Of a tensor in a layout; kNone: nobody waits for it.
  int32_t SlotOf(TensorId tensor, const Layout& layout) {
    const auto at = static_cast<size_t>(tensor.value);
    if (!exchanged_[at] || problem_.graph().tensor(tensor).role == Role::kInput) return kNone;
    for (const auto& [known, slot] : copies_[at]) {
      if (known == layout) return slot;
    }
    copies_[at].emplace_back(layout, slots_);
    return slots_++;
  }

  When WhenOf(const SpmdStep& step) const {
    const Graph& graph = problem_.graph();
    if (!step.converts()) {
      return graph.op(step.op).phase == Phase::kUpdate ? When::kLast : When::kEach;
    }
    if (step.tensor == graph.clip_norm()) return When::kLast;
    if (IsSum(graph, step.tensor)) return each_.contains(step.tensor) ? When::kEach : When::kLast;
    const bool weight = graph.tensor(step.tensor).role == Role::kParameter;
    const bool once = conversions_.at({step.tensor, step.to}) == 1;
    return weight && once ? When::kFirst : When::kEach;
  }

  void AddItem(const SpmdStep& step) {
    Item item;
    item.when = WhenOf(step);
    const auto add = [&](std::vector<int32_t>& slots, TensorId tensor, const Layout& layout) {
      const int32_t slot = SlotOf(tensor, layout);
      if (slot != kNone) slots.push_back(slot);
    };
    if (step.converts()) {
      add(item.waits, step.tensor, step.from);
      add(item.makes, step.tensor, step.to);
      if (item.makes.empty() || item.waits.empty()) return;
      if (const auto exchange = ExchangeOf(step.from, step.to)) {
        item.scope = exchange->scope;
        const double times = item.when == When::kEach ? static_cast<double>(microbatches_) : 1;
        SetSeconds(step, *exchange, times, item);
        groups_busy_[static_cast<size_t>(item.scope)] += times * item.least;
      }
      items_.push_back(std::move(item));
      return;
    }
    const Op& op = problem_.graph().op(step.op);
    for (size_t k = 0; k < op.inputs.size(); ++k) {
      add(item.waits, op.inputs[k].tensor, InputLayout(op, k, step.rule));
    }
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      add(item.makes, op.outputs[k].tensor, OutputLayout(op, k, step.rule));
    }
    const auto [found, fresh] = seconds_.try_emplace({problem_.op(step.op.value).kind, step.rule});
    if (fresh) found->second = problem_.DeviceSeconds(op, step.rule);
    item.seconds = &found->second;
    items_.push_back(std::move(item));
  }

  // Sums of gradients may share the latency of a bucket.
  void SetSeconds(const SpmdStep& step, const struct Exchange& exchange, double times, Item& item) {
    ConversionTable& table = TableOf(step.tensor);
    const auto key =
        std::tuple(problem_.kind_of(step.tensor.value), step.from, step.to, step.algorithm);
    const auto [found, fresh] = least_.try_emplace(key);
    if (fresh) {
      const auto shares = [&](const Layout& layout) {
        return problem_.exchange().Intern(table.SharesOf(table.space().IndexOf(layout)));
      };
      const int from = shares(step.from), to = shares(step.to);
      found->second.least =
          &problem_.exchange().LeastOf(exchange.kind, exchange.scope, from, to, step.algorithm);
      found->second.together =
          problem_.exchange().TogetherOf(exchange.kind, exchange.scope, from, to, step.algorithm);
    }
    found->second.bytes += times * table.bytes();
    const bool bucket = IsSum(problem_.graph(), step.tensor);
    const ExchangeCost::Least& least = *found->second.least;
    const ExchangeCost::Together& together = found->second.together;
    item.least = (bucket ? 0 : least.latency) + least.slope * table.bytes();
    item.expected = (bucket ? 0 : together.latency) + together.slope * table.bytes();
  }

  // The busiest groups, or the busiest wire, alone.
  double Longest() const {
    std::vector<double> wires(problem_.cluster().wires().size(), 0);
    for (const auto& [key, moved] : least_) {
      for (const auto& [wire, seconds] : moved.least->wires) {
        wires[static_cast<size_t>(wire.value)] += moved.bytes * seconds;
      }
    }
    const double groups = *std::max_element(groups_busy_.begin(), groups_busy_.end());
    return wires.empty() ? groups : std::max(groups, *std::max_element(wires.begin(), wires.end()));
  }

  // When the last device ends; nothing: microbatches do not come to a steady pattern.
  std::optional<double> Body() {
    constexpr int64_t kFew = 4;
    const int64_t count = std::min(microbatches_, kFew);
    std::vector<std::vector<double>> ends;
    for (int64_t m = 0; m < count; ++m) {
      if (m + 1 == count && microbatches_ > count && !Skip(ends)) return std::nullopt;
      Microbatch(m == 0, m + 1 == count);
      ends.push_back(clocks_);
    }
    return *std::max_element(clocks_.begin(), clocks_.end());
  }

  // Puts those between the few and the last behind us, if each takes as long as the one before;
  // what is only expected may be expected to.
  bool Skip(const std::vector<std::vector<double>>& ends) {
    const std::vector<double>&a = ends[ends.size() - 2], &b = ends.back();
    double step = b[0] - a[0];
    for (size_t p = 0; p < places_; ++p) {
      if (exchange_ == &Item::expected) {
        step = std::max(step, b[p] - a[p]);
      } else if (std::abs(b[p] - a[p] - step) > 1e-9 * step) {
        return false;
      }
    }
    const double more = step * static_cast<double>(microbatches_ - 1 - std::ssize(ends));
    for (double& clock : clocks_) clock += more;
    // What is under way is so at the same distance.
    for (double& ready : ready_) ready += more;
    for (std::vector<double>& free : group_free_) {
      for (double& time : free) time += more;
    }
    return true;
  }

  void Microbatch(bool first, bool last) {
    for (const Item& item : items_) {
      if ((item.when == When::kFirst && !first) || (item.when == When::kLast && !last)) continue;
      if (item.seconds != nullptr) {
        Compute(item);
      } else {
        Convert(item);
      }
    }
  }

  double* Ready(int32_t slot) { return ready_.data() + static_cast<size_t>(slot) * places_; }

  void Compute(const Item& item) {
    for (const int32_t slot : item.waits) {
      const double* ready = Ready(slot);
      for (size_t p = 0; p < places_; ++p) clocks_[p] = std::max(clocks_[p], ready[p]);
    }
    for (size_t p = 0; p < places_; ++p) clocks_[p] += (*item.seconds)[p];
    for (const int32_t slot : item.makes) std::copy(clocks_.begin(), clocks_.end(), Ready(slot));
  }

  void Convert(const Item& item) {
    const double* from = Ready(item.waits[0]);
    double* to = Ready(item.makes[0]);
    if (item.least == 0) {
      std::copy(from, from + places_, to);
      return;
    }
    const auto group_of = [&](size_t place) {
      if (item.scope == Scope::kAllDevices) return size_t{0};
      return item.scope == Scope::kInsideNode ? place / width_ : place % width_;
    };
    const bool queues = exchange_ == &Item::expected;
    std::vector<double>& free = group_free_[static_cast<size_t>(item.scope)];
    if (!queues) std::fill(free.begin(), free.end(), 0);
    for (size_t p = 0; p < places_; ++p) {
      free[group_of(p)] = std::max(free[group_of(p)], from[p]);
    }
    for (double& time : free) time += item.*exchange_;
    for (size_t p = 0; p < places_; ++p) to[p] = free[group_of(p)];
  }

  SpmdProblem& problem_;
  const SpmdPlan& plan_;
  int64_t microbatches_;
  size_t places_, width_;
  std::vector<double> clocks_;
  std::map<std::pair<TensorId, Layout>, int> conversions_;  // how often the plan has them
  std::map<TensorId, Layout> each_;
  std::vector<bool> exchanged_;                                  // by tensor
  std::vector<std::vector<std::pair<Layout, int32_t>>> copies_;  // by tensor: layouts and slots
  int32_t slots_ = 0;
  std::vector<Item> items_;
  std::vector<double> ready_;                      // [slot, place]
  std::array<std::vector<double>, 3> group_free_;  // by scope: when its groups have done all before
  double Item::*exchange_ = &Item::least;          // what exchanges take
  std::array<double, 3> groups_busy_{};            // by scope, in a body
  // What all exchanges of a kind move in a body.
  struct Moved {
    const ExchangeCost::Least* least = nullptr;
    ExchangeCost::Together together;
    double bytes = 0;
  };
  std::map<std::pair<int, OpRule>, std::vector<double>> seconds_;
  std::map<std::tuple<int, Layout, Layout, CollectiveAlgorithm>, Moved> least_;
};

}  // namespace

StepTimes StepTimesOf(SpmdProblem& problem, const SpmdPlan& plan, int64_t microbatches) {
  StepWalk walk(problem, plan, microbatches);
  return {walk.Least(), walk.Expected()};
}

}  // namespace heddle
