// MinibatchModel: a LinearModel whose microbatches are B of its rows instead of all of them.
//
//   const MinibatchModel model(kind, samples, labels, decay, start, {.batch = 5});
//   pass.draw = {seed, 3};      its samples are rows 15 … 19, or what epoch's shuffle has there
//
// Microbatch m takes the rows at positions mB … mB + B - 1 of an endless stream of epochs: in their
// own order, or each epoch in an order of its own, which the seed decides. Loss, smoothness and
// lowest are those of all rows.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lab/linear_model.h"

namespace heddle {

enum class RowOrder : uint8_t { kCyclic, kShuffled };

struct MinibatchRule {
  int64_t batch = 1;
  RowOrder order = RowOrder::kCyclic;
};

class MinibatchModel : public LinearModel {
 public:
  // REQUIRES: as of LinearModel, and 1 <= batch <= rows.
  MinibatchModel(LinearKind kind, SampleMatrix samples, std::vector<double> labels, double decay,
                 LinearStart start, const MinibatchRule& rule,
                 std::optional<LinearConstants> constants = std::nullopt);

  bool sampled() const override { return true; }

  Pass MakePass() const override;
  void Begin(Pass& pass) const override;
  void Forward(const Block& block, const double* values, Pass& pass) const override;
  void Turn(Pass& pass) const override;
  void Backward(const Block& block, Pass& pass, double* gradient) const override;
  void Reread(const Block& block, const double* values, Pass& pass) const override;

 private:
  const double* RowOf(const Pass& pass, size_t sample) const {
    return by_row_.data() + pass.rows[sample] * dimension();
  }

  MinibatchRule rule_;
  std::vector<double> by_row_;
};

}  // namespace heddle
