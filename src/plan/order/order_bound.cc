#include "plan/order/order_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "plan/order/chain_steps.h"

namespace heddle {
namespace {

class HeadsAndTails {
 public:
  HeadsAndTails(const PipeShape& shape, const std::vector<ChainStep>& steps)
      : shape_(shape), steps_(steps), count_(static_cast<int>(steps_.size())) {
    tasks_.resize(static_cast<size_t>(count_) * shape.microbatches);
    waits_.resize(tasks_.size());
    for (int t = 0; t < count_; ++t) {
      if (steps_[t].kind == WorkKind::kForward && !steps_[t].message) AddMemoryWaits(t);
    }
    for (int m = 0; m < shape.microbatches; ++m) {
      for (int t = 0; t < count_; ++t) FillHead(t, m);
    }
    for (int m = shape.microbatches; m-- > 0;) {
      for (int t = count_; t-- > 0;) FillTail(t, m);
    }
  }

  std::vector<MachineTask> Take() { return std::move(tasks_); }

 private:
  size_t Index(int step, int microbatch) const {
    return static_cast<size_t>(microbatch) * count_ + step;
  }

  // The forward of microbatch m makes m + 1 microbatches that were kept by then. If n parts of them
  // must have been given back, it waits for the n-th step that gives such a part back.
  void AddMemoryWaits(int forward) {
    const PipeShape::Chunk& chunk = shape_.chunks[steps_[forward].place];
    const double limit = shape_.limit(chunk.stage);
    if (chunk.kept <= 0 || std::isinf(limit)) return;
    for (int t = 0; t < count_; ++t) {
      if (steps_[t].message || steps_[t].place != steps_[forward].place) continue;
      const double part = shape_.Released(steps_[t].kind, steps_[t].place);
      for (int m = 0; m < shape_.microbatches && part > 0; ++m) {
        // At best all m before it have given back their other part.
        const double over = chunk.kept * (m + 1) - limit * (1 + 1e-9) - m * (chunk.kept - part);
        const int needed = std::min(m, static_cast<int>(std::ceil(over / part)));
        if (needed > 0) waits_[Index(forward, m)].push_back(Index(t, needed - 1));
      }
    }
  }

  void FillHead(int t, int m) {
    MachineTask& task = tasks_[Index(t, m)];
    task.seconds = steps_[t].seconds;
    const auto after = [&](const MachineTask& other) {
      task.head = std::max(task.head, other.head + other.seconds);
    };
    if (steps_[t].before >= 0) after(tasks_[Index(steps_[t].before, m)]);
    if (m > 0) after(tasks_[Index(t, m - 1)]);
    for (const size_t k : waits_[Index(t, m)]) after(tasks_[k]);
    // Its machine has by then done the steps before it, of this microbatch and all before.
    double work = m * steps_[t].seconds;
    double from = m > 0 ? tasks_[Index(t, 0)].head : std::numeric_limits<double>::infinity();
    for (int b = steps_[t].before; b >= 0; b = steps_[b].before) {
      if (steps_[b].machine != steps_[t].machine) continue;
      work += (m + 1) * steps_[b].seconds;
      from = std::min(from, tasks_[Index(b, 0)].head);
    }
    if (work > 0) task.head = std::max(task.head, from + work);
  }

  void FillTail(int t, int m) {
    MachineTask& task = tasks_[Index(t, m)];
    // Others that wait for this one have already said so.
    const int rest = shape_.microbatches - 1 - m;
    double work = rest * steps_[t].seconds;
    double least =
        rest > 0 ? tasks_[Index(t, m + rest)].tail : std::numeric_limits<double>::infinity();
    for (int a = t + 1; a < count_; ++a) {
      if (steps_[a].machine != steps_[t].machine || !ComesAfter(a, t)) continue;
      work += (rest + 1) * steps_[a].seconds;
      least = std::min(least, tasks_[Index(a, m + rest)].tail);
    }
    if (work > 0) task.tail = std::max(task.tail, work + least);
    const auto before = [&](size_t k) {
      tasks_[k].tail = std::max(tasks_[k].tail, task.seconds + task.tail);
    };
    if (steps_[t].before >= 0) before(Index(steps_[t].before, m));
    if (m > 0) before(Index(t, m - 1));
    for (const size_t k : waits_[Index(t, m)]) before(k);
  }

  // All steps lie on one chain but the weight parts, after which nothing comes.
  bool ComesAfter(int later, int earlier) const {
    return steps_[earlier].message || steps_[earlier].kind != WorkKind::kWeight ||
           steps_[later].before == earlier;
  }

  const PipeShape& shape_;
  const std::vector<ChainStep>& steps_;
  int count_;
  std::vector<MachineTask> tasks_;          // by microbatch and step
  std::vector<std::vector<size_t>> waits_;  // by task: those that memory puts before it
};

}  // namespace

// Jackson's preemptive schedule: always the task with the longest tail of those that may start.
double OneMachineBound(std::vector<MachineTask> tasks) {
  std::sort(tasks.begin(), tasks.end(),
            [](const MachineTask& a, const MachineTask& b) { return a.head < b.head; });
  const auto shorter_tail = [](const MachineTask& a, const MachineTask& b) {
    return a.tail < b.tail;
  };
  std::priority_queue<MachineTask, std::vector<MachineTask>, decltype(shorter_tail)> ready(
      shorter_tail);
  double now = 0, bound = 0;
  for (size_t next = 0; next < tasks.size() || !ready.empty();) {
    if (ready.empty()) now = std::max(now, tasks[next].head);
    while (next < tasks.size() && tasks[next].head <= now) ready.push(tasks[next++]);
    MachineTask task = ready.top();
    ready.pop();
    const double until =
        next < tasks.size() ? tasks[next].head : std::numeric_limits<double>::infinity();
    if (now + task.seconds <= until) {
      now += task.seconds;
      bound = std::max(bound, now + task.tail);
    } else {
      task.seconds -= until - now;
      now = until;
      ready.push(task);
    }
  }
  return bound;
}

std::vector<MachineTask> ChainTasks(const PipeShape& shape, const std::vector<ChainStep>& steps) {
  return HeadsAndTails(shape, steps).Take();
}

double OrderBound(const PipeShape& shape) {
  CheckShape(shape);
  const std::vector<ChainStep> steps = ChainSteps(shape);
  const std::vector<MachineTask> tasks = ChainTasks(shape, steps);
  std::vector<std::vector<MachineTask>> by_machine(MachineCount(shape));
  for (size_t k = 0; k < tasks.size(); ++k) {
    by_machine[steps[k % steps.size()].machine].push_back(tasks[k]);
  }
  double bound = 0;
  for (std::vector<MachineTask>& of_machine : by_machine) {
    bound = std::max(bound, OneMachineBound(std::move(of_machine)));
  }
  return bound;
}

}  // namespace heddle
