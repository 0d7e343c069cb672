// NetworkObjective: a real model, cut into the stages of a plan, as the objective of a race.
//
//   NetworkObjective objective(network);           // a BlockNetwork, such as run/torch makes
//   const Curve curve = FindMethod("rpd").value()->run(trial);
//
// Blocks are the plan's stages: it can be cut into these and no others. Seeds change the start, the
// samples and what is dropped; the rule behind the samples stays.
#pragma once

#include <memory>
#include <vector>

#include "lab/objective.h"
#include "run/block_network.h"

namespace heddle {

class NetworkObjective final : public Objective {
 public:
  // `network` must outlive this.
  explicit NetworkObjective(const BlockNetwork& network) : network_(network) {}

  int64_t dimension() const override { return network_.offsets().back(); }
  // 2/L, where a race's grid of step sizes begins: a convention.
  double smoothness() const override { return 4; }
  double lowest() const override { return 0; }
  bool has_constants() const override { return false; }
  double Loss(const double* x) const override { return network_.Loss(x); }
  bool sampled() const override { return true; }
  int64_t most_stages() const override { return network_.blocks(); }
  // REQUIRES: as many as the network has blocks.
  std::vector<Block> Blocks(int stages) const override;
  Pass MakePass() const override;
  void Begin(Pass& pass) const override;
  void Forward(const Block& block, const double* values, Pass& pass) const override;
  void Turn(Pass& pass) const override;
  void Backward(const Block& block, Pass& pass, double* gradient) const override;
  void Reread(const Block& block, const double* values, Pass& pass) const override;
  void Descend(const Block& block, const double* gradient, double step, double* x) const override;
  std::vector<double> Start(uint64_t seed) const override { return network_.Start(seed); }

 private:
  Block BlockOf(int block) const;
  // The network's blocks that `block` consists of: first … last - 1.
  struct Span {
    int first = 0, last = 0;
  };
  Span SpanOf(const Block& block) const;

  const BlockNetwork& network_;
};

}  // namespace heddle
