// SpmdProblem: what the searches choose from. Every op has a rule to choose; every tensor costs the
// conversions between the layout its producer gives and those its readers want. That is all:
//
//   seconds = sum over ops of the rule's seconds + sum over tensors of TreeSeconds (conversions.h)
//
// A parameter is produced by its update, in the layout in which it is stored between steps, so the
// rule of the update is the choice of storage: the optimizer's state lies the same way, and the
// gradient is wanted so (P→R is an all-reduce, P→S what ZeRO does). Inputs are there in any layout.
// A gradient with several producers must have the same layout from each.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cost/op_cost.h"
#include "plan/deadline.h"
#include "plan/spmd/alike.h"
#include "plan/spmd/facts.h"

namespace heddle {

struct OpChoice {
  OpRule rule;
  std::array<int, kMeshAxes> rules;  // their numbers among the op's rules of an axis
  double seconds = 0;                // of the slowest device, and the price of memory
  std::vector<int> layouts;          // of each Touch
  double unpriced = 0;               // seconds of the slowest device alone
};

// An operand whose layout matters.
struct Touch {
  int tensor = 0;
  bool produces = false;
};

struct SpmdOp {
  std::vector<Touch> touches;
  const std::vector<OpChoice>* choices = nullptr;  // shared by ops that are alike
  int kind = 0;                                    // ops of the same kind share their choices
  double least = 0;                                // seconds of the cheapest choice
};

struct FrontierStep;
// The folded order of a model's ops and what is live on the way: found by the first sweep, the same
// for every mesh.
using FoldedSteps = std::shared_ptr<const std::vector<FrontierStep>>;

struct SpmdProblemOptions {
  std::shared_ptr<const Alike> alike;  // of the model; null: to be found
  FoldedSteps steps;                   // of another problem with the same model; may be null
  Deadline deadline;                   // of searches in several sweeps
};

class SpmdProblem {
 public:
  // All but the options must outlive this.
  SpmdProblem(const OpCost& cost, const Cluster& cluster, const SpmdMesh& mesh,
              SpmdProblemOptions options = {});

  const Graph& graph() const { return cost_.graph(); }
  const Cluster& cluster() const { return cluster_; }
  const SpmdMesh& mesh() const { return mesh_; }
  const std::vector<SpmdOp>& ops() const { return ops_; }
  const SpmdOp& op(int number) const { return ops_[static_cast<size_t>(number)]; }
  const OpChoice& choice(int op, int number) const {
    return (*ops_[static_cast<size_t>(op)].choices)[static_cast<size_t>(number)];
  }

  // Ops that touch the tensor, each as often as it does.
  int touches_of(int tensor) const { return touch_counts_[static_cast<size_t>(tensor)]; }
  const std::shared_ptr<const Alike>& alike() const { return options_.alike; }
  // Tensors of the same number share a table.
  int kind_of(int tensor) const { return alike()->tensors[static_cast<size_t>(tensor)]; }
  FactTable& facts(int tensor) { return *tables_[static_cast<size_t>(kind_of(tensor))]; }
  ExchangeCost& exchange() { return exchange_; }

  bool late() const { return options_.deadline.passed(); }

  // Null until a sweep has found them.
  const FoldedSteps& steps() const { return options_.steps; }
  void KeepSteps(FoldedSteps steps) { options_.steps = std::move(steps); }

  // Seconds per byte that a device keeps from one step to the next or from forward to backward, by
  // number in the mesh; empty, as at first: memory costs nothing.
  void SetPrices(std::vector<double> prices);

  // Of the rule on each device, by number in the mesh.
  std::vector<double> DeviceSeconds(const Op& op, const OpRule& rule);

  // Of all choices together, one per op. REQUIRES: producers of one gradient agree.
  double SecondsOf(const std::vector<int>& choices);

 private:
  void AddTables();
  void AddOp(const Op& op);
  std::vector<OpChoice> ChoicesOf(const Op& op, const SpmdOp& made);
  double PriceOf(const Op& op, const OpRule& rule);
  bool SavedForBackward(TensorId tensor) const {
    return alike()->saved[static_cast<size_t>(tensor.value)];
  }

  const OpCost& cost_;
  const Cluster& cluster_;
  const SpmdMesh& mesh_;
  SpmdProblemOptions options_;
  ShardSizes sizes_;
  ExchangeCost exchange_;
  std::vector<SpmdOp> ops_;
  std::vector<int> touch_counts_;
  std::vector<std::unique_ptr<FactTable>> tables_;               // by kind of tensor
  std::vector<std::unique_ptr<std::vector<OpChoice>>> choices_;  // by kind of op
  std::vector<double> prices_;
};

}  // namespace heddle
