#include "lab/minibatch_model.h"

#include <algorithm>

#include "base/check.h"
#include "lab/dot.h"
#include "run/data/permutation.h"

namespace heddle {

MinibatchModel::MinibatchModel(LinearKind kind, SampleMatrix samples, std::vector<double> labels,
                               double decay, LinearStart start, const MinibatchRule& rule,
                               std::optional<LinearConstants> constants)
    : LinearModel(kind, std::move(samples), std::move(labels), decay, start, constants),
      rule_(rule),
      by_row_(matrix().ByRow()) {
  HEDDLE_CHECK(rule.batch >= 1 && rule.batch <= this->samples());
}

Pass MinibatchModel::MakePass() const {
  Pass pass;
  const auto batch = static_cast<size_t>(rule_.batch);
  pass.point.assign(static_cast<size_t>(dimension()), 0.0);
  pass.signal.assign(batch, 0.0);
  pass.response.assign(batch, 0.0);
  pass.rows.assign(batch, 0);
  return pass;
}

void MinibatchModel::Begin(Pass& pass) const {
  for (size_t k = 0; k < pass.rows.size(); ++k) {
    const int64_t position = pass.draw.microbatch * rule_.batch + static_cast<int64_t>(k);
    pass.rows[k] = rule_.order == RowOrder::kCyclic ? position % samples()
                                                    : SampleAt(position, samples(), pass.draw.seed);
    pass.signal[k] = 0;
  }
}

void MinibatchModel::Forward(const Block& block, const double* values, Pass& pass) const {
  std::copy(values, values + block.size(), pass.point.data() + block.begin);
  for (size_t k = 0; k < pass.rows.size(); ++k) {
    pass.signal[k] += Dot(RowOf(pass, k) + block.begin, values, block.size());
  }
}

void MinibatchModel::Turn(Pass& pass) const {
  const double share = 1 / static_cast<double>(pass.rows.size());
  for (size_t k = 0; k < pass.rows.size(); ++k) {
    pass.response[k] = share * Slope(pass.signal[k], labels()[static_cast<size_t>(pass.rows[k])]);
  }
}

void MinibatchModel::Backward(const Block& block, Pass& pass, double* gradient) const {
  const double* point = pass.point.data() + block.begin;
  for (int64_t k = 0; k < block.size(); ++k) gradient[k] = decay() * point[k];
  for (size_t sample = 0; sample < pass.rows.size(); ++sample) {
    const double* row = RowOf(pass, sample) + block.begin;
    const double response = pass.response[sample];
    for (int64_t k = 0; k < block.size(); ++k) gradient[k] += response * row[k];
  }
}

void MinibatchModel::Reread(const Block& block, const double* values, Pass& pass) const {
  double* point = pass.point.data() + block.begin;
  for (size_t sample = 0; sample < pass.rows.size(); ++sample) {
    const double* row = RowOf(pass, sample) + block.begin;
    pass.signal[sample] += Dot(row, values, block.size()) - Dot(row, point, block.size());
  }
  std::copy(values, values + block.size(), point);
  Turn(pass);
}

}  // namespace heddle
