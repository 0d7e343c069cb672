// MemoryLimits: what a program must keep in memory at least, by kind of device, as a sum over ops.
//
// Counted is what no order of steps can avoid: each parameter with the optimizer's state in the
// layout in which it is stored (the choice of its update), and of every activation that backward
// reads the smallest part that any layout leaves, for at the turn from forward to backward some
// copy is there. Devices of one type are one kind: of each kind the smallest part counts, so that a
// program that fits (estimate.h) never exceeds the room of any kind. The reverse does not hold.
//
//   const MemoryLimits limits(problem);
//   limits.BytesOf(op, choice)[kind];     // summed over ops at most limits.room()[kind]
#pragma once

#include <vector>

#include "plan/spmd/problem.h"

namespace heddle {

class MemoryLimits {
 public:
  explicit MemoryLimits(SpmdProblem& problem);

  size_t kinds() const { return room_.size(); }
  // What is left for parameters and their state. May be negative: nothing fits.
  const std::vector<double>& room() const { return room_; }
  // By kind; empty: nothing.
  const std::vector<double>& BytesOf(int op, size_t choice) const {
    const auto& by_choice = bytes_[static_cast<size_t>(op)];
    return by_choice.empty() ? none_ : by_choice[choice];
  }
  // Of a whole program.
  std::vector<double> BytesOf(const std::vector<int>& choices) const;
  bool Fits(const std::vector<double>& bytes) const;

 private:
  void AddKinds(const SpmdProblem& problem);
  void AddStored(SpmdProblem& problem, const Parameter& parameter);
  void TakeActivations(SpmdProblem& problem);
  std::vector<double> Least(const std::vector<double>& shares) const;

  std::vector<size_t> kind_of_;  // by number in the mesh
  std::vector<double> room_;
  std::vector<std::vector<std::vector<double>>> bytes_;  // by op, choice and kind
  std::vector<double> none_;
};

}  // namespace heddle
