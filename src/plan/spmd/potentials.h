// Potentials: a lower bound of what any partial program still has to cost, as a sum over tensors.
//
// A tensor is touched by some ops, one after the other; each touch leads from fact to fact and adds
// to the cost (touch_chain.h). Put a price p(touch, layout) on every layout in which an op may
// touch a tensor, paid by the tensor and paid back to the op. A program has both, so its cost stays
// what it is, but now ops and tensors can be looked at each by itself:
//
//   own(op)        = min over choices c of  seconds(c) - sum over its touches of p(touch, layout)
//   u(t, j, fact)  = min over layouts l of  step(fact, l) + p(j, l) + u(t, j + 1, fact after l)
//   h(state)       = sum over ops to come of own(op)
//                  + sum over tensors of u(t, touches so far, fact)
//
// h never exceeds what the state still has to cost, whatever the prices, and it is consistent: for
// an op with choice c, own(op) is at most what c costs less its prices, and each u(t, j, fact) at
// most the step, its price and u(t, j + 1, fact after); the prices cancel, so that h(before) is at
// most c's cost with its conversions plus h(after). At the end h is 0.
//
// Prices that make h large are found by coordinate ascent: an op takes over all that its tensors
// know about its layouts, and gives it away to those that are touched again later (earlier, on the
// way back), to each an equal part of what is left; the bound never falls. This is sequential
// reweighted message passing (Kolmogorov 2015) on the graph of ops and tensors, with the
// handing-out of Tourani et al. 2018. It ends at or near the bound of the linear relaxation in
// which a tensor's conversions are exact and ops and tensors must agree on each layout.
//
// On the way, choices that no program below a known cost can have are excluded: their h is infinite
// from then on, and everything gets faster.
//
// With memory limits, bytes have prices too (a Lagrangian): h then bounds cost + sum of price *
// (bytes - room), which for what fits is at most the cost.
//
//   Potentials potentials(problem, steps, nullptr);
//   potentials.Improve({.upper = known.seconds});
//   potentials.bound();                              // no program costs less
#pragma once

#include <memory>
#include <vector>

#include "plan/spmd/frontier.h"
#include "plan/spmd/memory_limits.h"
#include "plan/spmd/touch_chain.h"

namespace heddle {

class Potentials {
 public:
  // All must outlive this; the limits may be null. All prices are zero.
  Potentials(SpmdProblem& problem, const std::vector<FrontierStep>& steps,
             const MemoryLimits* limits);

  struct Effort {
    double upper = kNever;     // programs of this cost and more are of no interest
    int passes = 60;           // there and back
    double worthwhile = 1e-5;  // less than that part of the bound: the end
  };
  // Whether a further pass might help.
  bool Improve(const Effort& effort);

  // By kind of device, for its bytes. REQUIRES: there are limits.
  void SetBytePrices(const std::vector<double>& prices);
  const std::vector<double>& byte_prices() const { return byte_prices_; }
  // What the choices that look best to ops by themselves keep.
  std::vector<double> FavouriteBytes() const;

  double bound() const { return rest_[0]; }  // h of the beginning
  // h of a state before step k: this, …
  double Rest(size_t k) const { return rest_[k]; }
  // … this for each of the tensors that are live there, by place among them, …
  double Of(size_t k, size_t place, FactId fact);
  // … and this for the bytes kept so far.
  double OfBytes(const std::vector<double>& bytes) const;

  // What is not excluded.
  Restriction Open() const;

 private:
  struct OpTouch {
    int tensor = 0;
    size_t level = 0;                         // touches of the tensor before
    std::vector<double> price;                // by slot
    std::vector<int> open;                    // slots that are not excluded
    const std::vector<int>* slots = nullptr;  // by choice
  };
  struct OpNode {
    int number = 0;
    std::vector<double> own;  // by choice; infinite: excluded
    std::vector<OpTouch> touches;
  };
  struct TensorNode {
    const TouchChain* chain = nullptr;
    std::vector<std::vector<double>> from;  // by level and fact: the least to get there
    std::vector<std::vector<double>> to;    // u: the least from there on
  };
  using MannerKey = std::pair<int, std::vector<size_t>>;  // kind of op, which of its touches

  void AddOps(std::vector<std::vector<MannerKey>>& by_tensor);
  void AddTensors(const std::vector<std::vector<MannerKey>>& by_tensor);
  void FindLevels();
  bool GoesOn(const OpTouch& touch, bool forward) const;
  void Update(OpNode& op, bool forward);
  void Exclude(OpNode& op) const;
  void Collect(const OpTouch& touch, std::vector<double>& marginal) const;
  void CarryForward(const OpTouch& touch);
  void CarryBack(const OpTouch& touch);
  double ConstantOfBytes() const;  // of the room
  double BoundAtEnd() const;
  void SumUp();

  SpmdProblem& problem_;
  const std::vector<FrontierStep>& steps_;
  const MemoryLimits* limits_;
  std::map<MannerKey, TouchManner> manners_;
  std::vector<std::unique_ptr<TouchChain>> chains_;
  std::vector<OpNode> ops_;     // in the order of the steps
  std::vector<size_t> begins_;  // by step: its first op; one more
  std::vector<TensorNode> tensors_;
  std::vector<std::vector<size_t>> levels_;  // by step and place: touches so far
  std::vector<double> byte_prices_;
  std::vector<double> rest_;                    // by step; one more
  double upper_ = kNever;                       //
  double before_pass_ = -kNever;                // the bound before a way there or back
  std::vector<std::vector<double>> marginals_;  // by touch of the op in hand
  // By step and place: u by fact, looked up once; negative infinity: not yet.
  std::vector<std::vector<std::vector<double>>> looked_up_;
};

}  // namespace heddle
