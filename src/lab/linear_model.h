// LinearModel: f(x) = mean over samples of φ(a · x, y) + ½ λ ‖x‖², for two kinds of φ:
//
//   least squares   φ(t, y) = ½ (t - y)²
//   logistic        φ(t, y) = log(1 + exp(-y t)), y = ±1
//
// A stage holds some columns: its forward adds them, times its weights, to the samples' scores; the
// last stage turns scores into φ'; a backward multiplies by its columns. A Reread corrects the
// scores by the difference.
//
//   const LinearModel model(LinearKind::kLogistic, std::move(matrix), labels, 1e-4);
//   model.lowest()                                f*, by Newton's method
#pragma once

#include <cstdint>
#include <vector>

#include "lab/objective.h"
#include "lab/sample_matrix.h"

namespace heddle {

enum class LinearKind : uint8_t { kLeastSquares, kLogistic };

class LinearModel : public Objective {
 public:
  // REQUIRES: one label for each row; ±1 if logistic; decay >= 0.
  LinearModel(LinearKind kind, SampleMatrix samples, std::vector<double> labels, double decay);

  int64_t dimension() const override { return samples_.columns(); }
  double smoothness() const override { return smoothness_; }
  double lowest() const override { return lowest_; }
  double Loss(const double* x) const override;

  Pass MakePass() const override;
  void Begin(Pass& pass) const override;
  void Forward(const Block& block, const double* values, Pass& pass) const override;
  void Turn(Pass& pass) const override;
  void Backward(const Block& block, Pass& pass, double* gradient) const override;
  void Reread(const Block& block, const double* values, Pass& pass) const override;
  bool neighbours_only() const override { return false; }

  int64_t samples() const { return samples_.rows(); }

 private:
  double LargestCurvature() const;
  double Minimum() const;
  // Adds the block's share of the scores.
  void AddScores(const Block& block, const double* values, Pass& pass) const;

  LinearKind kind_;
  SampleMatrix samples_;
  std::vector<double> labels_;
  double decay_;
  double smoothness_ = 0;
  double lowest_ = 0;
};

}  // namespace heddle
