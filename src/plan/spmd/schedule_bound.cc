#include "plan/spmd/schedule_bound.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "plan/few_microbatches.h"
#include "program/lower/lower.h"
#include "program/lower/spmd_schedule.h"
#include "program/plan/plan.h"

namespace heddle {
namespace {

bool Same(double a, double b, double scale) { return std::abs(a - b) <= 1e-9 * scale; }

class Walk {
 public:
  Walk(SpmdProblem& problem, const SpmdPlan& plan, int64_t microbatches)
      : problem_(problem),
        plan_(plan),
        schedule_(ScheduleOf(
            plan, problem.graph(),
            {Plan().bucket, LowerOptions().free_behind, static_cast<int32_t>(microbatches)})),
        microbatches_(microbatches),
        places_(problem.mesh().size()),
        width_(problem.mesh().places(1)),
        clocks_(places_, 0),
        group_free_(kScopes * places_, 0) {
    NumberBuffers();
    for (const SpmdPiece& piece : schedule_.pieces) CostPiece(piece);
  }

  // The period once it is steady; nothing: it is not.
  std::optional<double> Period() {
    constexpr int kMost = 12;
    double before = 0, last = 0;
    for (int repetition = 0; repetition < kMost; ++repetition) {
      boundaries_.clear();
      for (size_t k = 0; k < schedule_.pieces.size(); ++k) Step(k);
      const double end = *std::max_element(clocks_.begin(), clocks_.end());
      const double took = end - before;
      if (repetition > 1 && Same(took, last, took)) return took;
      last = took;
      before = end;
    }
    return std::nullopt;
  }

  // What each further microbatch takes: by how much the one before the last comes later than the
  // one before that, in all that is under way.
  std::optional<double> BetweenMicrobatches() const {
    const size_t count = boundaries_.size();
    if (static_cast<int64_t>(count) != microbatches_ || count < 4) return std::nullopt;
    const std::vector<double>&a = boundaries_[count - 3], &b = boundaries_[count - 2],
          &c = boundaries_[count - 1];
    const double step = c[0] - b[0];
    for (size_t k = 0; k < a.size(); ++k) {
      const bool idle = a[k] == b[k] && b[k] == c[k];  // a group that has nothing to do
      if (idle && k >= places_) continue;
      if (!Same(b[k] - a[k], step, step) || !Same(c[k] - b[k], step, step)) return std::nullopt;
    }
    return step;
  }

 private:
  static constexpr size_t kScopes = 3;
  // What a piece takes: a compute by device, an exchange alone.
  struct Cost {
    const std::vector<double>* compute = nullptr;
    double exchange = 0;
    Scope scope = Scope::kAllDevices;
  };

  const SpmdValue& value(int32_t id) const { return schedule_.values[static_cast<size_t>(id)]; }
  ConversionTable& TableOf(int32_t id) const {
    return problem_.facts(value(id).tensor.value).conversions();
  }
  int LayoutOf(int32_t id) const { return TableOf(id).space().IndexOf(value(id).layout); }

  // Only buffers that exchanges touch can be waited for.
  void NumberBuffers() {
    slots_.assign(schedule_.buffers.size(), -1);
    int32_t count = 0;
    for (const SpmdPiece& piece : schedule_.pieces) {
      if (piece.code != OpCode::kCollective) continue;
      for (const auto* ids : {&piece.from, &piece.to}) {
        for (const int32_t id : *ids) {
          int32_t& slot = slots_[static_cast<size_t>(value(id).buffer)];
          if (slot < 0) slot = count++;
        }
      }
    }
    read_until_.assign(static_cast<size_t>(count) * places_, 0);
    written_at_.assign(static_cast<size_t>(count) * places_, 0);
  }

  // --- What pieces take ------------------------------------------------------------------------

  void CostPiece(const SpmdPiece& piece) {
    Cost cost;
    if (piece.code == OpCode::kCollective) cost = ExchangeCostOf(piece);
    if (piece.code == OpCode::kCompute) cost.compute = &ComputeSeconds(piece);
    costs_.push_back(cost);
  }

  // Microbatches have pieces of the same steps.
  const std::vector<double>& ComputeSeconds(const SpmdPiece& piece) {
    if (piece.steps.empty()) {
      moves_.push_back(std::make_unique<std::vector<double>>(MoveSeconds(piece)));
      return *moves_.back();
    }
    const auto [found, fresh] = computes_.try_emplace(piece.steps);
    if (!fresh) return found->second;
    found->second.assign(places_, 0);
    for (const size_t k : piece.steps) {
      const SpmdStep& step = plan_.steps[k];
      const auto [op, is_new] = ops_.try_emplace({problem_.op(step.op.value).kind, step.rule});
      if (is_new) op->second = problem_.DeviceSeconds(problem_.graph().op(step.op), step.rule);
      for (size_t p = 0; p < places_; ++p) found->second[p] += op->second[p];
    }
    return found->second;
  }

  std::vector<double> MoveSeconds(const SpmdPiece& piece) const {
    const std::vector<double>& from = TableOf(piece.from[0]).SharesOf(LayoutOf(piece.from[0]));
    const std::vector<double>& to = TableOf(piece.to[0]).SharesOf(LayoutOf(piece.to[0]));
    std::vector<double> seconds(places_, 0);
    for (size_t p = 0; p < places_; ++p) {
      const bool moves = from[p] > 0 && to[p] > 0 && !(piece.masks && p > 0);
      if (!moves) continue;
      const DeviceTypeSpec& type = problem_.cluster().type_of(problem_.mesh().device(p));
      const double bytes = TableOf(piece.to[0]).bytes() * (std::min(from[p], to[p]) + to[p]);
      seconds[p] = type.launch_overhead.value + bytes / type.memory_bandwidth.value;
    }
    return seconds;
  }

  Cost ExchangeCostOf(const SpmdPiece& piece) {
    Cost cost;
    const int axis = piece.conversion.axis;
    cost.scope = axis == kMeshAxes ? Scope::kAllDevices
                 : axis == 0       ? Scope::kBetweenNodes
                                   : Scope::kInsideNode;
    for (size_t k = 0; k < piece.from.size(); ++k) {  // a bucket has the latency of one
      const auto key = std::tuple(problem_.kind_of(value(piece.from[k]).tensor.value),
                                  LayoutOf(piece.from[k]), LayoutOf(piece.to[k]), piece.algorithm);
      const auto [found, fresh] = exchanges_.try_emplace(key);
      if (fresh) found->second = &LeastOf(piece, k, cost.scope);
      const double bytes = TableOf(piece.from[k]).bytes();
      cost.exchange += bytes * found->second->slope + (k == 0 ? found->second->latency : 0);
    }
    return cost;
  }

  // An all-reduce into a copy of its own reads what it writes: the layout of partial sums is that
  // of the sum but for the axis, and so are their shares.
  const ExchangeCost::Least& LeastOf(const SpmdPiece& piece, size_t k, Scope scope) {
    ExchangeCost& exchange = problem_.exchange();
    const auto shares = [&](int32_t id) {
      return exchange.Intern(TableOf(id).SharesOf(LayoutOf(id)));
    };
    return exchange.LeastOf(piece.conversion.kind, scope, shares(piece.from[k]),
                            shares(piece.to[k]), piece.algorithm);
  }

  // --- The walk --------------------------------------------------------------------------------

  void Step(size_t k) {
    const SpmdPiece& piece = schedule_.pieces[k];
    if (piece.code == OpCode::kCollective) return Exchange(piece, costs_[k]);
    if (piece.code == OpCode::kFree) {
      for (const int32_t id : piece.freed) Wait(id, /*alone=*/true);
      return;
    }
    const bool begins = !piece.steps.empty() && piece.phase == SegmentPhase::kForward &&
                        piece.microbatch == static_cast<int32_t>(boundaries_.size());
    if (begins) {
      boundaries_.push_back(clocks_);
      boundaries_.back().insert(boundaries_.back().end(), group_free_.begin(), group_free_.end());
    }
    for (const SpmdPort& port : piece.ports) Wait(port.value, port.use != PortUse::kRead);
    for (size_t p = 0; p < places_; ++p) clocks_[p] += (*costs_[k].compute)[p];
  }

  int32_t SlotOf(int32_t id) const { return slots_[static_cast<size_t>(value(id).buffer)]; }

  // Until nobody fills the buffer, and alone: nor reads it.
  void Wait(int32_t id, bool alone) {
    if (SlotOf(id) < 0) return;
    const size_t first = static_cast<size_t>(SlotOf(id)) * places_;
    for (size_t p = 0; p < places_; ++p) {
      clocks_[p] = std::max(clocks_[p], written_at_[first + p]);
      if (alone) clocks_[p] = std::max(clocks_[p], read_until_[first + p]);
    }
  }

  size_t GroupOf(Scope scope, size_t place) const {
    if (scope == Scope::kAllDevices) return 0;
    return scope == Scope::kInsideNode ? place / width_ : place % width_;
  }

  void Exchange(const SpmdPiece& piece, const Cost& cost) {
    const bool in_place = piece.conversion.kind == CollectiveKind::kAllReduce;
    for (const int32_t id : piece.from) Wait(id, in_place);
    for (const int32_t id : piece.to) Wait(id, /*alone=*/true);
    // On one row all devices are the row.
    const Scope scope = problem_.mesh().flat() ? Scope::kInsideNode : cost.scope;
    double* free = group_free_.data() + static_cast<size_t>(scope) * places_;
    for (size_t p = 0; p < places_; ++p) {
      double& group = free[GroupOf(scope, p)];
      group = std::max(group, clocks_[p]);
    }
    for (size_t g = 0; g < (scope == Scope::kAllDevices   ? 1
                            : scope == Scope::kInsideNode ? places_ / width_
                                                          : width_);
         ++g) {
      free[g] += cost.exchange;
    }
    for (const auto* ids : {&piece.from, &piece.to}) {
      for (const int32_t id : *ids) {
        const bool writes = ids == &piece.to || in_place;
        const size_t first = static_cast<size_t>(SlotOf(id)) * places_;
        for (size_t p = 0; p < places_; ++p) {
          (writes ? written_at_ : read_until_)[first + p] = free[GroupOf(scope, p)];
        }
      }
    }
  }

  SpmdProblem& problem_;
  const SpmdPlan& plan_;
  SpmdSchedule schedule_;
  int64_t microbatches_;
  size_t places_, width_;
  std::vector<Cost> costs_;                      // by piece
  std::vector<int32_t> slots_;                   // by buffer; -1: no exchange touches it
  std::vector<double> clocks_;                   // by place
  std::vector<double> group_free_;               // [scope, group]
  std::vector<double> read_until_, written_at_;  // [slot, place]
  std::vector<std::vector<double>> boundaries_;  // clocks and groups where microbatches begin
  std::map<std::vector<size_t>, std::vector<double>> computes_;  // by steps
  std::vector<std::unique_ptr<std::vector<double>>> moves_;
  std::map<std::pair<int, OpRule>, std::vector<double>> ops_;
  std::map<std::tuple<int, int, int, CollectiveAlgorithm>, const ExchangeCost::Least*> exchanges_;
};

}  // namespace

double ScheduleBound(SpmdProblem& problem, const SpmdPlan& plan, int64_t microbatches) {
  // Where numbers are added in another order than the simulator does.
  constexpr double kRounding = 1 - 1e-9;
  for (const int64_t few : kFewMicrobatches) {
    if (2 * few > microbatches) break;
    Walk walk(problem, plan, few);
    const std::optional<double> period = walk.Period();
    const std::optional<double> step = walk.BetweenMicrobatches();
    if (period && step) {
      return kRounding * (*period + static_cast<double>(microbatches - few) * *step);
    }
  }
  return kRounding * Walk(problem, plan, microbatches).Period().value_or(0);
}

}  // namespace heddle
