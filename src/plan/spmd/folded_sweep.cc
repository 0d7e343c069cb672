#include "plan/spmd/folded_sweep.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

namespace heddle {
namespace {

// States with the same live tensors: a row of facts each.
struct States {
  size_t width = 0;
  std::vector<FactId> facts;
  std::vector<double> seconds;
  std::vector<uint32_t> parent;  // in the states before the step
  std::vector<uint32_t> choice;

  size_t size() const { return seconds.size(); }
  const FactId* row(size_t k) const { return facts.data() + k * width; }
};

uint64_t HashOf(const FactId* facts, size_t count) {
  uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (size_t k = 0; k < count; ++k) {
    hash = (hash ^ facts[k]) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 32;
  }
  return hash;
}

// Finds a row of facts among those of a States by open addressing.
class RowIndex {
 public:
  explicit RowIndex(const States& states) : states_(states), slots_(64, kFree) {}

  // The number of the equal row, or of the last one of `states`, which is new.
  size_t Add() {
    const size_t last = states_.facts.size() / std::max<size_t>(1, states_.width) - 1;
    if (2 * (count_ + 1) > slots_.size()) Grow();
    const size_t slot = Find(last);
    if (slots_[slot] != kFree) return slots_[slot];
    slots_[slot] = static_cast<uint32_t>(last);
    ++count_;
    return last;
  }

 private:
  static constexpr uint32_t kFree = 0xffffffff;

  size_t Find(size_t row) const {
    const FactId* facts = states_.row(row);
    const size_t bytes = states_.width * sizeof(FactId);
    size_t slot = HashOf(facts, states_.width) & (slots_.size() - 1);
    while (slots_[slot] != kFree && std::memcmp(states_.row(slots_[slot]), facts, bytes) != 0) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return slot;
  }

  void Grow() {
    std::vector<uint32_t> old(slots_.size() * 2, kFree);
    std::swap(old, slots_);
    for (const uint32_t row : old) {
      if (row != kFree) slots_[Find(row)] = row;
    }
  }

  const States& states_;
  std::vector<uint32_t> slots_;
  size_t count_ = 0;
};

// Some states, and whether another can be had from one of them by conversions for no more. Each
// tensor has few different facts, so the gaps of a state to all of them are looked up once.
class Dominators {
 public:
  Dominators(const States& all, const std::vector<FactTable*>& tables,
             const std::vector<bool>& open_sum)
      : all_(all), tables_(tables), open_sum_(open_sum), numbers_(all.facts.size()) {
    std::vector<uint32_t> known;  // by fact: its number; kNone: not seen
    for (size_t t = 0; t < all.width; ++t) {
      known.assign(known.size(), kNone);
      for (size_t k = 0; k < all.size(); ++k) {
        const FactId fact = all.row(k)[t];
        if (fact >= known.size()) known.resize(fact + size_t{1}, kNone);
        if (known[fact] == kNone) {
          known[fact] = static_cast<uint32_t>(columns_.size());
          columns_.push_back({t, fact});
        }
        numbers_[k * all.width + t] = known[fact];
      }
    }
  }

  void Add(size_t k) {
    seconds_.push_back(all_.seconds[k]);
    for (const auto& [t, fact] : columns_) {
      gaps_.push_back(GapOf(*tables_[t], all_.row(k)[t], fact, open_sum_[t]));
    }
  }

  bool Beat(size_t k) const {
    const double limit = all_.seconds[k];
    const uint32_t* numbers = numbers_.data() + k * all_.width;
    const double* gaps = gaps_.data();
    for (const double first : seconds_) {
      double seconds = first;
      for (size_t t = 0; t < all_.width && seconds <= limit; ++t) seconds += gaps[numbers[t]];
      if (seconds <= limit) return true;
      gaps += columns_.size();
    }
    return false;
  }

 private:
  static constexpr uint32_t kNone = 0xffffffff;
  struct Column {
    size_t tensor;
    FactId fact;
  };

  const States& all_;
  const std::vector<FactTable*>& tables_;
  const std::vector<bool>& open_sum_;
  std::vector<uint32_t> numbers_;  // [state, tensor]: of the fact among the columns
  std::vector<Column> columns_;
  std::vector<double> seconds_;  // of the dominators
  std::vector<double> gaps_;     // [dominator, column]
};

// How the states after each step of a layer came about.
struct LayerTrace {
  struct Step {
    std::vector<uint32_t> parent;
    std::vector<uint32_t> choice;
  };
  std::vector<Step> steps;
  std::vector<uint32_t> parent;  // of the states after the layer, among those before it
};

// From the states after some steps to those before them.
std::vector<uint32_t> ParentsThrough(const std::vector<LayerTrace::Step>& steps) {
  std::vector<uint32_t> parent = steps.back().parent;
  for (size_t k = steps.size() - 1; k-- > 0;) {
    for (uint32_t& row : parent) row = steps[k].parent[row];
  }
  return parent;
}

class Sweep {
 public:
  Sweep(SpmdProblem& problem, const SweepOptions& options, SweepStatistics& statistics)
      : problem_(problem),
        options_(options),
        statistics_(statistics),
        kept_steps_(FoldedStepsOf(problem)),
        steps_(*kept_steps_) {}

  SpmdChoices Run() {
    states_.seconds = {0};
    const std::vector<size_t> begins = LayerBegins();
    Traces traces;
    std::vector<std::vector<int>> shapes;
    for (size_t layer = 0; layer + 1 < begins.size(); ++layer) {
      shapes.push_back(ShapeOf(begins[layer], begins[layer + 1]));
    }
    std::vector<States> ends;  // states after each layer
    for (size_t layer = 0; layer + 1 < begins.size(); ++layer) {
      if (const size_t period = PeriodOf(shapes, ends); period > 0) {
        const double more = states_.seconds[0] - ends[layer - 1 - period].seconds[0];
        states_ = ends[layer - period];
        for (double& seconds : states_.seconds) seconds += more;
        traces.push_back(traces[layer - period]);
        ends.push_back(states_);
        continue;
      }
      if (const size_t period = StridesOf(shapes, ends, traces); period > 0) {
        states_ = Followed(ends[layer - 1 - period], ends[layer - period], *traces[layer - period]);
        traces.push_back(traces[layer - period]);
        ends.push_back(states_);
        continue;
      }
      auto trace = std::make_shared<LayerTrace>();
      for (size_t k = begins[layer]; k < begins[layer + 1]; ++k) {
        Advance(steps_[k]);
        if (k + 1 == begins[layer + 1]) SortRows();
        trace->steps.push_back({std::move(states_.parent), std::move(states_.choice)});
      }
      trace->parent = ParentsThrough(trace->steps);
      traces.push_back(std::move(trace));
      ends.push_back(states_);
      ++statistics_.layers_swept;
    }
    HEDDLE_CHECK(states_.size() == 1);
    return Trace(begins, traces);
  }

 private:
  using Traces = std::vector<std::shared_ptr<const LayerTrace>>;
  static constexpr size_t kMostPeriod = 4;  // kinds of layers that take turns

  std::vector<size_t> LayerBegins() const {
    std::vector<size_t> begins;
    const std::vector<Op>& ops = problem_.graph().ops();
    for (size_t k = 0; k < steps_.size(); ++k) {
      const LayerId layer = ops[static_cast<size_t>(steps_[k].ops[0])].layer;
      if (k == 0 || ops[static_cast<size_t>(steps_[k - 1].ops[0])].layer != layer)
        begins.push_back(k);
    }
    begins.push_back(steps_.size());
    return begins;
  }

  // All that the transition of some steps depends on, without the names of tensors and ops.
  std::vector<int> ShapeOf(size_t begin, size_t end) const {
    std::vector<int> shape;
    for (size_t k = begin; k < end; ++k) AddShape(steps_[k], shape);
    return shape;
  }

  void AddShape(const FrontierStep& step, std::vector<int>& shape) const {
    shape.push_back(step.kind);
    if (options_.restriction == nullptr) return;
    for (const int op : step.ops) {
      const std::vector<int>& some = options_.restriction->Of(op);
      shape.push_back(static_cast<int>(some.size()));
      shape.insert(shape.end(), some.begin(), some.end());
    }
  }

  // Steps alike have the same, found once.
  StepOutcomes& OutcomesOf(const FrontierStep& step) {
    std::vector<int> shape;
    AddShape(step, shape);
    return outcomes_.try_emplace(std::move(shape), problem_, step, options_.restriction, true)
        .first->second;
  }

  // How many layers ago there was one like the next, with states before it that differ from the
  // present ones by the same each, up to rounding; 0: nowhere near.
  size_t PeriodOf(const std::vector<std::vector<int>>& shapes,
                  const std::vector<States>& ends) const {
    const size_t layer = ends.size();
    for (size_t period = 1; period <= kMostPeriod && period < layer; ++period) {
      const States& before = ends[layer - 1 - period];
      if (shapes[layer] != shapes[layer - period]) continue;
      if (before.facts != states_.facts || before.size() != states_.size()) continue;
      const double more = states_.seconds[0] - before.seconds[0];
      const double tolerance = 1e-11 * states_.seconds[0];
      bool same = true;
      for (size_t k = 0; k < states_.size() && same; ++k) {
        same = std::abs(states_.seconds[k] - before.seconds[k] - more) <= tolerance;
      }
      if (same) return period;
    }
    return 0;
  }

  // States may fall behind each other forever, each at its own pace. Where for two periods all came
  // from the same ones and grew by the same, they go on so until one overtakes another, and what
  // then changes is found by sweeping the last layers of a run. The period; 0: not yet, or too near
  // the end.
  size_t StridesOf(const std::vector<std::vector<int>>& shapes, const std::vector<States>& ends,
                   const Traces& traces) const {
    constexpr size_t kSwept = 3;  // periods at the end
    const size_t layer = ends.size();
    for (size_t period = 1; period <= kMostPeriod && 2 * period < layer; ++period) {
      const size_t last = layer + kSwept * period;
      if (last >= shapes.size()) continue;
      bool repeats = true;
      for (size_t k = layer - period; k <= last && repeats; ++k) {
        repeats = shapes[k] == shapes[k - period];
      }
      const States &one = ends[layer - 1 - period], &two = ends[layer - 1 - 2 * period];
      repeats = repeats && one.facts == states_.facts && two.facts == one.facts &&
                traces[layer - period]->parent == traces[layer - 2 * period]->parent;
      const double tolerance = 1e-11 * states_.seconds[0];
      for (size_t k = 0; k < states_.size() && repeats; ++k) {
        const double grew = states_.seconds[k] - one.seconds[k];
        repeats = std::abs(grew - (one.seconds[k] - two.seconds[k])) <= tolerance;
      }
      if (repeats) return period;
    }
    return 0;
  }

  // The present states after a layer that led from `before` to `after`, each as it came about then.
  States Followed(const States& before, const States& after, const LayerTrace& trace) const {
    States next = after;
    for (size_t k = 0; k < next.size(); ++k) {
      const uint32_t from = trace.parent[k];
      next.seconds[k] = states_.seconds[from] + after.seconds[k] - before.seconds[from];
    }
    return next;
  }

  void Advance(const FrontierStep& step) {
    StepOutcomes& outcomes = OutcomesOf(step);
    States next;
    next.width = step.after.size();
    RowIndex rows(next);
    std::vector<FactId> touched(step.touched.size());
    for (size_t k = 0; k < states_.size(); ++k) {
      const FactId* facts = states_.row(k);
      for (size_t t = 0; t < touched.size(); ++t) {
        touched[t] = step.place[t] < 0 ? FactTable::kNothing : facts[step.place[t]];
      }
      for (const Outcome& outcome : outcomes.Of(touched)) AddRow(step, k, outcome, next, rows);
    }
    states_ = Undominated(step, next);
    statistics_.states += static_cast<int64_t>(states_.size());
    statistics_.most_states =
        std::max(statistics_.most_states, static_cast<int64_t>(states_.size()));
  }

  void AddRow(const FrontierStep& step, size_t parent, const Outcome& outcome, States& next,
              RowIndex& rows) const {
    const FactId* facts = states_.row(parent);
    for (const int from : step.after) {
      next.facts.push_back(from >= 0 ? facts[from] : outcome.facts[static_cast<size_t>(-1 - from)]);
    }
    const double seconds = states_.seconds[parent] + outcome.seconds;
    const size_t row = next.width == 0 ? 0 : rows.Add();
    if (row < next.size()) {
      next.facts.resize(next.size() * next.width);
      if (seconds >= next.seconds[row]) return;
    } else {
      next.seconds.push_back(0);
      next.parent.push_back(0);
      next.choice.push_back(0);
    }
    next.seconds[row] = seconds;
    next.parent[row] = static_cast<uint32_t>(parent);
    next.choice[row] = outcome.choices;
  }

  // Without the states that one of the cheapest can become for less.
  States Undominated(const FrontierStep& step, const States& all) {
    std::vector<FactTable*> tables;
    for (const int from : step.after) {
      const int tensor = from >= 0 ? step.live[static_cast<size_t>(from)]
                                   : step.touched[static_cast<size_t>(-1 - from)];
      tables.push_back(&problem_.facts(tensor));
    }
    std::vector<uint32_t> order(all.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t t = 0; t < all.width; ++t) {
      if (step.after[t] < 0) DropNeighbours(all, t, *tables[t], step.open_sum[t], order);
    }
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return all.seconds[a] != all.seconds[b] ? all.seconds[a] < all.seconds[b] : a < b;
    });
    const bool many = statistics_.states > options_.many_states;
    const size_t most = many ? std::min(kFewStates, options_.most_states) : options_.most_states;
    States kept;
    kept.width = all.width;
    Dominators dominators(all, tables, step.open_sum);
    for (const uint32_t k : order) {
      if (dominators.Beat(k)) continue;
      if (kept.size() == most) {
        statistics_.exact = false;
        break;
      }
      if (kept.size() < kMostDominators) dominators.Add(k);
      kept.facts.insert(kept.facts.end(), all.row(k), all.row(k) + all.width);
      kept.seconds.push_back(all.seconds[k]);
      kept.parent.push_back(all.parent[k]);
      kept.choice.push_back(all.choice[k]);
    }
    return kept;
  }

  // Of the states that differ in tensor `t` alone, only those are left that no other can become.
  void DropNeighbours(const States& all, size_t t, FactTable& table, bool open_sum,
                      std::vector<uint32_t>& order) {
    const auto rest_hash = [&](uint32_t k) {
      return HashOf(all.row(k), t) * 31 + HashOf(all.row(k) + t + 1, all.width - t - 1);
    };
    std::vector<std::pair<uint64_t, uint32_t>> hashed;
    hashed.reserve(order.size());
    for (const uint32_t k : order) hashed.emplace_back(rest_hash(k), k);
    std::sort(hashed.begin(), hashed.end(), [&](const auto& a, const auto& b) {
      if (a.first != b.first) return a.first < b.first;
      const double x = all.seconds[a.second], y = all.seconds[b.second];
      return x != y ? x < y : a.second < b.second;
    });
    const auto same_rest = [&](uint32_t a, uint32_t b) {
      const FactId *x = all.row(a), *y = all.row(b);
      return std::equal(x, x + t, y) && std::equal(x + t + 1, x + all.width, y + t + 1);
    };
    order.clear();
    size_t first = 0;  // in `order`, of the group
    for (size_t i = 0; i < hashed.size(); ++i) {
      const uint32_t k = hashed[i].second;
      if (i > 0 && hashed[i].first != hashed[i - 1].first) first = order.size();
      const FactId fact = all.row(k)[t];
      const bool beaten = std::any_of(
          order.begin() + static_cast<std::ptrdiff_t>(first), order.end(), [&](uint32_t other) {
            const double seconds =
                all.seconds[other] + GapOf(table, all.row(other)[t], fact, open_sum);
            return seconds <= all.seconds[k] && same_rest(other, k);
          });
      if (!beaten) order.push_back(k);
    }
  }

  // In order of facts, so that the states of different layers can be compared.
  void SortRows() {
    std::vector<size_t> order(states_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::lexicographical_compare(states_.row(a), states_.row(a) + states_.width,
                                          states_.row(b), states_.row(b) + states_.width);
    });
    States sorted;
    sorted.width = states_.width;
    for (const size_t k : order) {
      sorted.facts.insert(sorted.facts.end(), states_.row(k), states_.row(k) + states_.width);
      sorted.seconds.push_back(states_.seconds[k]);
      sorted.parent.push_back(states_.parent[k]);
      sorted.choice.push_back(states_.choice[k]);
    }
    states_ = std::move(sorted);
  }

  SpmdChoices Trace(const std::vector<size_t>& begins, const Traces& traces) const {
    SpmdChoices found{states_.seconds[0], std::vector<int>(problem_.ops().size())};
    uint32_t row = 0;
    for (size_t layer = traces.size(); layer-- > 0;) {
      for (size_t k = traces[layer]->steps.size(); k-- > 0;) {
        const LayerTrace::Step& step = traces[layer]->steps[k];
        const FrontierStep& ops = steps_[begins[layer] + k];
        const std::vector<int> choices = ChoicesOf(problem_, ops, step.choice[row]);
        for (size_t j = 0; j < choices.size(); ++j) {
          found.choices[static_cast<size_t>(ops.ops[j])] = choices[j];
        }
        row = step.parent[row];
      }
    }
    return found;
  }

  static constexpr size_t kMostDominators = 40;
  static constexpr size_t kFewStates = 100;

  SpmdProblem& problem_;
  const SweepOptions& options_;
  SweepStatistics& statistics_;
  FoldedSteps kept_steps_;
  const std::vector<FrontierStep>& steps_;
  std::map<std::vector<int>, StepOutcomes> outcomes_;  // by shape of the step, all pruned
  States states_;
};

}  // namespace

FoldedSteps FoldedStepsOf(SpmdProblem& problem) {
  if (problem.steps() == nullptr) {
    problem.KeepSteps(std::make_shared<const std::vector<FrontierStep>>(
        FrontierSteps(problem, FoldedOrder(problem))));
  }
  return problem.steps();
}

SpmdChoices SearchFolded(SpmdProblem& problem, const SweepOptions& options,
                         SweepStatistics* statistics) {
  SweepStatistics own;
  return Sweep(problem, options, statistics != nullptr ? *statistics : own).Run();
}

}  // namespace heddle
