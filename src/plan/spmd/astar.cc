#include "plan/spmd/astar.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "plan/spmd/astar_column.h"
#include "plan/spmd/byte_prices.h"
#include "plan/spmd/folded_sweep.h"
#include "plan/spmd/potentials.h"

namespace heddle {
namespace {

class AStar {
 public:
  AStar(SpmdProblem& problem, const AStarOptions& options)
      : problem_(problem), options_(options), steps_(FoldedStepsOf(problem)) {
    potentials_.push_back(std::make_unique<Potentials>(problem, *steps_, options.limits));
    if (options.limits != nullptr) FindLeastBytes();
  }

  AStarResult Run() {
    if (options_.incumbent != nullptr) {
      result_.best = {problem_.SecondsOf(*options_.incumbent), *options_.incumbent};
    }
    // Better programs make better potentials, and the other way round.
    bool more = true;
    for (int passes = 0; passes < options_.most_passes && more; passes += kPasses) {
      more = potentials_[0]->Improve(
          {result_.best.seconds, std::min(kPasses, options_.most_passes - passes)});
      Begin();
      if (!Over()) Round(kQuick);
      more = more && waits_ && !result_.proven() && !options_.deadline.passed();
    }
    if (options_.limits != nullptr && options_.byte_prices && !Over()) AddPrices();
    result_.root_bound = result_.bound;
    while (!Over()) {
      Round(kTogether);
      const int64_t until = result_.expanded + kTogether * std::ssize(*steps_);
      while (result_.expanded < until && !Over()) {
        ExpandSome(lowest_, kTogether);
        RaiseBound();
      }
    }
    return std::move(result_);
  }

 private:
  static constexpr int kQuick = 4, kTogether = 16, kPasses = 10;

  bool Over() const {
    return result_.proven() || !waits_ || result_.expanded >= options_.most_expanded ||
           options_.deadline.passed();
  }

  // What of each kind the steps from the k-th on keep at least.
  void FindLeastBytes() {
    least_bytes_.assign(steps_->size() + 1, std::vector<double>(options_.limits->kinds(), 0));
    for (size_t k = steps_->size(); k-- > 0;) {
      least_bytes_[k] = least_bytes_[k + 1];
      for (const int op : (*steps_)[k].ops) {
        for (size_t kind = 0; kind < least_bytes_[k].size(); ++kind) {
          double least = kNever;
          for (size_t c = 0; c < problem_.op(op).choices->size(); ++c) {
            const std::vector<double>& bytes = options_.limits->BytesOf(op, c);
            least = std::min(least, bytes.empty() ? 0 : bytes[kind]);
          }
          least_bytes_[k][kind] += least;
        }
      }
    }
  }

  // A second bound, with prices for bytes.
  void AddPrices() {
    auto priced = std::make_unique<Potentials>(problem_, *steps_, options_.limits);
    if (!FindBytePrices(*options_.limits, {result_.best.seconds, kPasses}, *priced)) return;
    potentials_.push_back(std::move(priced));
    Begin();
  }

  // Empty queues but for the first, with what the potentials leave open.
  void Begin() {
    open_ = potentials_[0]->Open();
    outcomes_.clear();
    for (const FrontierStep& step : *steps_) {
      outcomes_.emplace_back(problem_, step, &open_, /*prune=*/true, options_.limits);
    }
    columns_ = std::vector<StateColumn>(steps_->size() + 1);
    StateColumn::State first;
    first.bytes.assign(options_.limits != nullptr ? options_.limits->kinds() : 0, 0);
    const double promise = PromiseOf(0, {}, first);
    columns_[0].Offer({}, std::move(first), promise);
    RaiseBound();
  }

  void Round(int together) {
    for (size_t k = 0; k < steps_->size(); ++k) ExpandSome(k, together);
    RaiseBound();
  }

  double PromiseOf(size_t k, const Facts& facts, const StateColumn::State& state) {
    if (k == steps_->size()) return state.seconds;
    double rest = 0;
    for (const auto& potentials : potentials_) {
      double one = potentials->Rest(k) + potentials->OfBytes(state.bytes);
      for (size_t place = 0; place < facts.size(); ++place) {
        one += potentials->Of(k, place, facts[place]);
      }
      rest = std::max(rest, one);
    }
    return state.seconds + rest;
  }

  bool Hopeless(double promise) const { return promise >= result_.best.seconds; }

  bool HasRoom(size_t k, const std::vector<double>& bytes) const {
    if (options_.limits == nullptr) return true;
    std::vector<double> least = bytes;
    for (size_t kind = 0; kind < least.size(); ++kind) least[kind] += least_bytes_[k][kind];
    return options_.limits->Fits(least);
  }

  void ExpandSome(size_t k, int count) {
    for (int n = 0; n < count && result_.expanded < options_.most_expanded; ++n) {
      const StateColumn::Entry* top = columns_[k].Top();
      if (top == nullptr || Hopeless(top->promise)) return;
      Expand(k, columns_[k].Take());
      ++result_.expanded;
    }
  }

  void Expand(size_t k, uint32_t number) {
    const FrontierStep& step = (*steps_)[k];
    const StateColumn::State& before = columns_[k].state(number);
    Facts touched;
    for (const int place : step.place) {
      touched.push_back(place < 0 ? FactTable::kNothing
                                  : (*before.facts)[static_cast<size_t>(place)]);
    }
    for (const Outcome& outcome : outcomes_[k].Of(touched)) {
      Facts facts;
      for (const int from : step.after) {
        facts.push_back(from >= 0 ? (*before.facts)[static_cast<size_t>(from)]
                                  : outcome.facts[static_cast<size_t>(-1 - from)]);
      }
      StateColumn::State after{nullptr, before.seconds + outcome.seconds, before.bytes, number,
                               outcome.choices};
      for (size_t kind = 0; kind < outcome.bytes.size(); ++kind) {
        after.bytes[kind] += outcome.bytes[kind];
      }
      const double promise = PromiseOf(k + 1, facts, after);
      if (Hopeless(promise) || !HasRoom(k + 1, after.bytes)) continue;
      columns_[k + 1].Offer(std::move(facts), std::move(after), promise);
    }
    if (k + 1 == steps_->size()) TakePrograms();
  }

  void TakePrograms() {
    StateColumn& last = columns_.back();
    while (last.Top() != nullptr && !Hopeless(last.Top()->promise)) {
      std::vector<int> choices = Trace(last.Take());
      // Less than its label says if a state on the way was reached for less since.
      const double seconds = problem_.SecondsOf(choices);
      if (options_.fits && !options_.fits(choices)) {
        unfit_ = std::min(unfit_, seconds);
      } else if (seconds < result_.best.seconds) {
        result_.best = {seconds, std::move(choices)};
      }
    }
  }

  std::vector<int> Trace(uint32_t number) const {
    std::vector<int> found(problem_.ops().size());
    for (size_t k = steps_->size(); k > 0; --k) {
      const StateColumn::State& state = columns_[k].state(number);
      const FrontierStep& step = (*steps_)[k - 1];
      const std::vector<int> choices = ChoicesOf(problem_, step, state.choice);
      for (size_t j = 0; j < choices.size(); ++j) {
        found[static_cast<size_t>(step.ops[j])] = choices[j];
      }
      number = state.parent;
    }
    return found;
  }

  // The least promise of all that waits is a bound. Labels that led to a program that does not fit
  // may have hidden others that do, so the bound does not go beyond that program.
  void RaiseBound() {
    double least = result_.best.seconds;
    waits_ = false;
    for (size_t k = 0; k < steps_->size(); ++k) {
      const StateColumn::Entry* top = columns_[k].Top();
      if (top == nullptr || top->promise >= least) continue;
      least = top->promise;
      lowest_ = k;
      waits_ = true;
    }
    result_.bound = std::max(result_.bound, std::min(least, unfit_));
  }

  SpmdProblem& problem_;
  const AStarOptions& options_;
  FoldedSteps steps_;
  std::vector<std::unique_ptr<Potentials>> potentials_;  // without and with prices for bytes
  std::vector<std::vector<double>> least_bytes_;         // by step and kind
  Restriction open_;
  std::vector<StepOutcomes> outcomes_;
  std::vector<StateColumn> columns_;
  bool waits_ = true;      // something that may lead to a cheaper program
  size_t lowest_ = 0;      // the column of the least promise
  double unfit_ = kNever;  // the cheapest program that the limits let pass and that does not fit
  AStarResult result_;
};

}  // namespace

AStarResult SearchAStar(SpmdProblem& problem, const AStarOptions& options) {
  return AStar(problem, options).Run();
}

}  // namespace heddle
