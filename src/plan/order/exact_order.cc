#include "plan/order/exact_order.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

#include "plan/order/chain_steps.h"
#include "plan/order/order_bound.h"

namespace heddle {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// What has been decided so far. Every step goes by microbatch, so that counts say what is done.
struct State {
  std::vector<int> done;                  // by step: how many microbatches
  std::vector<std::vector<double>> ends;  // by step and microbatch
  std::vector<double> free;               // by machine
  std::vector<double> memory;             // by stage, after all its work so far
  std::vector<char> barred;               // by step: see BranchAndBound::BarOf
};

// States with the same counts are compared by when the rest could start.
class SeenStates {
 public:
  // Whether none seen before is everywhere as early; then the new one is remembered.
  bool AddIfNew(const std::string& counts, std::vector<double> times) {
    std::vector<std::vector<double>>& seen = by_counts_[counts];
    for (const std::vector<double>& other : seen) {
      if (EverywhereAsEarly(other, times)) return false;
    }
    std::erase_if(seen, [&](const auto& other) { return EverywhereAsEarly(times, other); });
    if (seen.size() < kMostPerCounts) seen.push_back(std::move(times));
    return true;
  }

 private:
  static constexpr size_t kMostPerCounts = 64;

  static bool EverywhereAsEarly(const std::vector<double>& a, const std::vector<double>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) { return x <= y; });
  }

  std::unordered_map<std::string, std::vector<std::vector<double>>> by_counts_;
};

class BranchAndBound {
 public:
  BranchAndBound(const PipeShape& shape, double known, int64_t most_nodes)
      : shape_(shape),
        steps_(ChainSteps(shape)),
        count_(static_cast<int>(steps_.size())),
        tasks_(ChainTasks(shape, steps_)),
        places_(shape.PlacesByStage()),
        most_nodes_(most_nodes) {
    best_.makespan = known;
    lower_ = OrderBound(shape);
  }

  ExactOrder Run() {
    State state;
    state.done.assign(count_, 0);
    state.ends.assign(count_, std::vector<double>(shape_.microbatches, 0));
    state.free.assign(MachineCount(shape_), 0);
    state.memory.assign(shape_.stages, 0);
    state.barred.assign(count_, 0);
    Visit(state);
    best_.proven = best_.nodes < most_nodes_;
    return best_;
  }

 private:
  bool Better(double time) const { return time < best_.makespan * (1 - 1e-9); }

  void Visit(const State& state) {
    if (best_.nodes >= most_nodes_ || !Better(lower_)) return;
    ++best_.nodes;
    const int first = FirstToEnd(state);
    if (first < 0) {
      Finish(state);
      return;
    }
    std::vector<State> children;
    const double end = Start(state, first) + steps_[first].seconds;
    for (int t = 0; t < count_; ++t) {
      if (steps_[t].machine != steps_[first].machine) continue;
      if (t == first || Start(state, t) < end) children.push_back(After(state, t));
    }
    if (MayBeBarred(first)) children.push_back(BarOf(state, first));
    VisitAll(children);
  }

  // The most promising first.
  void VisitAll(const std::vector<State>& children) {
    std::vector<std::pair<double, size_t>> by_bound;
    for (size_t k = 0; k < children.size(); ++k) by_bound.push_back({Bound(children[k]), k});
    std::sort(by_bound.begin(), by_bound.end());
    for (const auto& [bound, k] : by_bound) {
      if (!Better(bound)) return;
      if (seen_.AddIfNew(CountsOf(children[k]), TimesOf(children[k]))) Visit(children[k]);
    }
  }

  // Nothing can come next: all is done, or memory has led into a dead end.
  void Finish(const State& state) {
    for (const int done : state.done) {
      if (done < shape_.microbatches) return;
    }
    const double makespan = *std::max_element(state.free.begin(), state.free.end());
    best_.makespan = std::min(best_.makespan, makespan);
  }

  // When the next microbatch could do this step, of the state as it is; never if it may not yet.
  double Start(const State& state, int t) const {
    const ChainStep& step = steps_[t];
    const int m = state.done[t];
    if (m == shape_.microbatches || state.barred[t] != 0) return kNever;
    if (step.before >= 0 && state.done[step.before] <= m) return kNever;
    if (IsForward(step) && !FitsLimit(state.memory[step.machine] + shape_.chunks[step.place].kept,
                                      shape_.limit(step.machine))) {
      return kNever;
    }
    return std::max(state.free[step.machine], step.before >= 0 ? state.ends[step.before][m] : 0);
  }

  int FirstToEnd(const State& state) const {
    int first = -1;
    double earliest = kNever;
    for (int t = 0; t < count_; ++t) {
      const double end = Start(state, t) + steps_[t].seconds;
      if (end < earliest) earliest = end, first = t;
    }
    return first;
  }

  State After(const State& state, int t) const {
    const ChainStep& step = steps_[t];
    State next = state;
    const double end = Start(state, t) + step.seconds;
    next.ends[t][next.done[t]++] = end;
    next.free[step.machine] = end;
    if (step.message) return next;
    next.memory[step.machine] -= shape_.Released(step.kind, step.place);
    if (!IsForward(step)) return next;
    next.memory[step.machine] += shape_.chunks[step.place].kept;
    for (int other = 0; other < count_; ++other) {
      if (other != t && steps_[other].machine == step.machine) next.barred[other] = 0;
    }
    return next;
  }

  // Work that could end before all others of its machine start may as well be done at once: except
  // a forward whose memory another chunk of the stage should have first.
  bool MayBeBarred(int t) const {
    return IsForward(steps_[t]) && places_[steps_[t].machine].size() > 1 &&
           shape_.limit(steps_[t].machine) < kNever;
  }

  // The branch where this forward waits for a forward of another chunk.
  static State BarOf(const State& state, int t) {
    State next = state;
    next.barred[t] = 1;
    return next;
  }

  // The one-machine bound of what is left, for every machine.
  double Bound(const State& state) const {
    std::vector<std::vector<MachineTask>> left(state.free.size());
    std::vector<MachineTask> tasks = tasks_;
    for (int m = 0; m < shape_.microbatches; ++m) {
      for (int t = 0; t < count_; ++t) {
        if (m < state.done[t]) continue;
        const ChainStep& step = steps_[t];
        MachineTask& task = tasks[Index(t, m)];
        task.head = std::max(task.head, state.free[step.machine]);
        if (step.before >= 0) task.head = std::max(task.head, EndOf(state, tasks, step.before, m));
        if (m > 0) task.head = std::max(task.head, EndOf(state, tasks, t, m - 1));
        left[step.machine].push_back(task);
      }
    }
    double bound = *std::max_element(state.free.begin(), state.free.end());
    for (std::vector<MachineTask>& of_machine : left) {
      bound = std::max(bound, OneMachineBound(std::move(of_machine)));
    }
    return bound;
  }

  double EndOf(const State& state, const std::vector<MachineTask>& tasks, int t, int m) const {
    if (m < state.done[t]) return state.ends[t][m];
    return tasks[Index(t, m)].head + tasks[Index(t, m)].seconds;
  }

  size_t Index(int t, int m) const { return static_cast<size_t>(m) * steps_.size() + t; }

  static bool IsForward(const ChainStep& step) {
    return !step.message && step.kind == WorkKind::kForward;
  }

  static std::string CountsOf(const State& state) {
    std::string counts(state.barred.begin(), state.barred.end());
    for (const int done : state.done) counts.push_back(static_cast<char>(done));
    return counts;
  }

  // All that the rest depends on: when machines are free, and when inputs are there that are not
  // yet used. An input is as good as early if its machine is not free before.
  std::vector<double> TimesOf(const State& state) const {
    std::vector<double> times = state.free;
    for (int t = 0; t < count_; ++t) {
      if (steps_[t].before < 0) continue;
      for (int m = state.done[t]; m < state.done[steps_[t].before]; ++m) {
        times.push_back(std::max(state.ends[steps_[t].before][m], state.free[steps_[t].machine]));
      }
    }
    return times;
  }

  const PipeShape& shape_;
  std::vector<ChainStep> steps_;
  int count_;
  std::vector<MachineTask> tasks_;
  std::vector<std::vector<int>> places_;
  int64_t most_nodes_;
  double lower_ = 0;
  SeenStates seen_;
  ExactOrder best_;
};

}  // namespace

Result<ExactOrder> SolveOrder(const PipeShape& shape, double known, int64_t most_nodes) {
  CheckShape(shape);
  if (!shape.HasRoom()) return Infeasible("pipeline", "a stage has no room for one microbatch");
  return BranchAndBound(shape, known, most_nodes).Run();
}

}  // namespace heddle
