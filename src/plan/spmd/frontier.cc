#include "plan/spmd/frontier.h"

#include <algorithm>

#include "plan/spmd/memory_limits.h"

namespace heddle {
namespace {

void AddBytes(const std::vector<double>& more, std::vector<double>& bytes) {
  if (bytes.empty()) bytes.assign(more.size(), 0);
  for (size_t kind = 0; kind < more.size(); ++kind) bytes[kind] += more[kind];
}

bool KeepsNoMore(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.empty()) return true;
  if (b.empty()) return std::all_of(a.begin(), a.end(), [](double bytes) { return bytes == 0; });
  return std::equal(a.begin(), a.end(), b.begin(), std::less_equal<>());
}

// By tensor: how many ops make it, or a term of it.
std::vector<int> ProducersOf(const SpmdProblem& problem) {
  std::vector<int> producers(problem.graph().tensors().size());
  for (const SpmdOp& op : problem.ops()) {
    for (const Touch& touch : op.touches) {
      if (touch.produces) ++producers[static_cast<size_t>(touch.tensor)];
    }
  }
  return producers;
}

// All that what a step does to the states depends on, without the names of tensors and ops.
std::vector<int> ShapeOf(const SpmdProblem& problem, const FrontierStep& step) {
  std::vector<int> shape = {static_cast<int>(step.live.size())};
  const auto add = [&](const auto& numbers) {
    shape.push_back(static_cast<int>(numbers.size()));
    shape.insert(shape.end(), numbers.begin(), numbers.end());
  };
  for (const int op : step.ops) shape.push_back(problem.op(op).kind);
  for (const int tensor : step.touched) {
    const Role role = problem.graph().tensors()[static_cast<size_t>(tensor)].role;
    shape.push_back(problem.kind_of(tensor));
    shape.push_back(role == Role::kWeightGradient ? 1 : 0);
  }
  add(step.place);
  for (const std::vector<int>& touch : step.touch) add(touch);
  add(step.closes);
  add(step.after);
  add(step.open_sum);
  return shape;
}

}  // namespace

std::vector<FrontierStep> FrontierSteps(const SpmdProblem& problem, const OpOrder& order) {
  std::vector<FrontierStep> steps;
  std::vector<int> left(problem.graph().tensors().size());
  for (size_t t = 0; t < left.size(); ++t) left[t] = problem.touches_of(static_cast<int>(t));
  const std::vector<int> producers = ProducersOf(problem);
  std::vector<int> seen(left.size());
  std::vector<int> live;
  std::map<std::vector<int>, int> kinds;
  for (const std::vector<int>& ops : order) {
    FrontierStep step;
    step.ops = ops;
    step.live = live;
    for (const int op : ops) {
      step.touch.emplace_back();
      for (const Touch& touch : problem.op(op).touches) {
        const auto found = std::find(step.touched.begin(), step.touched.end(), touch.tensor);
        step.touch.back().push_back(static_cast<int>(found - step.touched.begin()));
        if (found == step.touched.end()) step.touched.push_back(touch.tensor);
        --left[static_cast<size_t>(touch.tensor)];
        seen[static_cast<size_t>(touch.tensor)] += touch.produces ? 1 : 0;
      }
    }
    for (const int tensor : step.touched) {
      const auto found = std::find(live.begin(), live.end(), tensor);
      step.place.push_back(found == live.end() ? -1 : static_cast<int>(found - live.begin()));
      step.closes.push_back(left[static_cast<size_t>(tensor)] == 0);
    }
    std::vector<int> next;
    for (size_t k = 0; k < live.size(); ++k) {
      const auto found = std::find(step.touched.begin(), step.touched.end(), live[k]);
      const auto index = found - step.touched.begin();
      if (found == step.touched.end()) {
        step.after.push_back(static_cast<int>(k));
      } else if (!step.closes[static_cast<size_t>(index)]) {
        step.after.push_back(-1 - static_cast<int>(index));
      } else {
        continue;
      }
      next.push_back(live[k]);
    }
    for (size_t k = 0; k < step.touched.size(); ++k) {
      if (step.place[k] >= 0 || step.closes[k]) continue;
      step.after.push_back(-1 - static_cast<int>(k));
      next.push_back(step.touched[k]);
    }
    live = std::move(next);
    for (const int tensor : live) {
      const auto at = static_cast<size_t>(tensor);
      step.open_sum.push_back(seen[at] > 0 && seen[at] < producers[at]);
    }
    step.kind =
        kinds.try_emplace(ShapeOf(problem, step), static_cast<int>(kinds.size())).first->second;
    steps.push_back(std::move(step));
  }
  HEDDLE_CHECK(live.empty());
  return steps;
}

OpOrder ProgramOrder(const SpmdProblem& problem) {
  OpOrder order;
  for (size_t k = 0; k < problem.ops().size(); ++k) order.push_back({static_cast<int>(k)});
  return order;
}

std::vector<int> ChoicesOf(const SpmdProblem& problem, const FrontierStep& step, uint32_t choices) {
  std::vector<int> numbers;
  for (const int op : step.ops) {
    const auto count = static_cast<uint32_t>(problem.op(op).choices->size());
    numbers.push_back(static_cast<int>(choices % count));
    choices /= count;
  }
  return numbers;
}

StepOutcomes::StepOutcomes(SpmdProblem& problem, const FrontierStep& step,
                           const Restriction* restriction, bool prune, const MemoryLimits* limits)
    : problem_(problem),
      step_(step),
      restriction_(restriction),
      prune_(prune),
      limits_(limits),
      by_op_(step.ops.size()) {}

// Facts here are those of the op's Touches; one tensor may be touched twice.
const std::vector<Outcome>& StepOutcomes::OfOp(size_t number, const std::vector<FactId>& facts) {
  const auto [found, fresh] = by_op_[number].try_emplace(facts);
  std::vector<Outcome>& outcomes = found->second;
  if (!fresh) return outcomes;
  const SpmdOp& op = problem_.op(step_.ops[number]);
  const std::vector<int>& touch = step_.touch[number];
  const std::vector<int> any;
  const std::vector<int>& some =
      restriction_ != nullptr ? restriction_->Of(step_.ops[number]) : any;
  const size_t count = some.empty() ? op.choices->size() : some.size();
  for (size_t k = 0; k < count; ++k) {
    const size_t c = some.empty() ? k : static_cast<size_t>(some[k]);
    const OpChoice& choice = (*op.choices)[c];
    Outcome outcome{static_cast<uint32_t>(c), choice.seconds, facts, {}};
    if (limits_ != nullptr) outcome.bytes = limits_->BytesOf(step_.ops[number], c);
    for (size_t t = 0; t < touch.size() && outcome.seconds < kNever; ++t) {
      FactTable& table = problem_.facts(op.touches[t].tensor);
      const FactId before = outcome.facts[t];
      const FactId after = op.touches[t].produces ? table.Produce(before, choice.layouts[t])
                                                  : table.Want(before, choice.layouts[t]);
      outcome.seconds +=
          after == FactTable::kBroken ? kNever : table.Paid(after) - table.Paid(before);
      for (size_t same = 0; same < touch.size(); ++same) {
        if (touch[same] == touch[t]) outcome.facts[same] = after;
      }
    }
    if (outcome.seconds < kNever) outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

const std::vector<Outcome>& StepOutcomes::Of(const std::vector<FactId>& touched) {
  const auto [found, fresh] = outcomes_.try_emplace(touched);
  if (!fresh) return found->second;
  std::vector<Outcome> outcomes = {{0, 0, touched, {}}};
  uint32_t radix = 1;
  for (size_t k = 0; k < step_.ops.size(); ++k) {
    const std::vector<int>& touch = step_.touch[k];
    std::vector<Outcome> next;
    std::vector<FactId> facts(touch.size());
    for (const Outcome& before : outcomes) {
      for (size_t t = 0; t < touch.size(); ++t) {
        facts[t] = before.facts[static_cast<size_t>(touch[t])];
      }
      for (const Outcome& change : OfOp(k, facts)) {
        Outcome after = before;
        after.choices += radix * change.choices;
        after.seconds += change.seconds;
        if (!change.bytes.empty()) AddBytes(change.bytes, after.bytes);
        for (size_t t = 0; t < touch.size(); ++t) {
          after.facts[static_cast<size_t>(touch[t])] = change.facts[t];
        }
        next.push_back(std::move(after));
      }
    }
    radix *= static_cast<uint32_t>(problem_.op(step_.ops[k]).choices->size());
    if (prune_) Prune(next, k + 1 == step_.ops.size());
    outcomes = std::move(next);
  }
  found->second = std::move(outcomes);
  return found->second;
}

// Between the ops of a step any gradient of a weight may be one.
bool StepOutcomes::MayBeOpenSum(size_t touched, bool last) const {
  if (!last) {
    const auto tensor = static_cast<size_t>(step_.touched[touched]);
    return problem_.graph().tensors()[tensor].role == Role::kWeightGradient;
  }
  const auto found =
      std::find(step_.after.begin(), step_.after.end(), -1 - static_cast<int>(touched));
  return found != step_.after.end() &&
         step_.open_sum[static_cast<size_t>(found - step_.after.begin())];
}

void StepOutcomes::Prune(std::vector<Outcome>& outcomes, bool last) const {
  std::stable_sort(outcomes.begin(), outcomes.end(),
                   [](const Outcome& a, const Outcome& b) { return a.seconds < b.seconds; });
  std::vector<bool> open_sum;
  for (size_t k = 0; k < step_.touched.size(); ++k) open_sum.push_back(MayBeOpenSum(k, last));
  std::vector<Outcome> good;
  for (Outcome& outcome : outcomes) {
    const bool beaten = std::any_of(good.begin(), good.end(), [&](const Outcome& other) {
      if (!KeepsNoMore(other.bytes, outcome.bytes)) return false;
      double seconds = other.seconds;
      for (size_t k = 0; k < outcome.facts.size() && seconds <= outcome.seconds; ++k) {
        if (last && step_.closes[k]) continue;
        seconds +=
            GapOf(problem_.facts(step_.touched[k]), other.facts[k], outcome.facts[k], open_sum[k]);
      }
      return seconds <= outcome.seconds;
    });
    if (!beaten) good.push_back(std::move(outcome));
  }
  outcomes = std::move(good);
}

}  // namespace heddle
