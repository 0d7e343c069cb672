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
#include <optional>
#include <vector>

#include "lab/objective.h"
#include "lab/sample_matrix.h"

namespace heddle {

enum class LinearKind : uint8_t { kLeastSquares, kLogistic };
enum class LinearStart : uint8_t { kNormal, kZero };

// Where whoever made the data knows better than a search.
struct LinearConstants {
  double smoothness = 0;
  double lowest = 0;
};

class LinearModel : public Objective {
 public:
  // REQUIRES: one label for each row; ±1 if logistic; decay >= 0.
  LinearModel(LinearKind kind, SampleMatrix samples, std::vector<double> labels, double decay,
              LinearStart start = LinearStart::kNormal,
              std::optional<LinearConstants> constants = std::nullopt);

  int64_t dimension() const override { return samples_.columns(); }
  double smoothness() const override { return smoothness_; }
  double lowest() const override { return lowest_; }
  double Loss(const double* x) const override;
  std::vector<double> Start(uint64_t seed) const override;

  Pass MakePass() const override;
  void Begin(Pass& pass) const override;
  void Forward(const Block& block, const double* values, Pass& pass) const override;
  void Turn(Pass& pass) const override;
  void Backward(const Block& block, Pass& pass, double* gradient) const override;
  void Reread(const Block& block, const double* values, Pass& pass) const override;

  int64_t samples() const { return samples_.rows(); }
  // ‖∇f(x)‖² over all samples.
  double WholeGradientSquare(const double* x) const;

 protected:
  // φ' at a score.
  double Slope(double score, double label) const;
  const SampleMatrix& matrix() const { return samples_; }
  const std::vector<double>& labels() const { return labels_; }
  double decay() const { return decay_; }

 private:
  double LargestCurvature() const;
  double Minimum() const;
  // (AᵀWA + λI)⁻¹ gradient, W the samples' weights; solved where it is smaller, with a number for
  // each column or for each row.
  std::vector<double> NewtonStep(const std::vector<double>& weight,
                                 const std::vector<double>& gradient) const;
  std::vector<double> StepByRow(const std::vector<double>& weight,
                                const std::vector<double>& gradient, double ridge) const;
  // Adds the block's share of the scores.
  void AddScores(const Block& block, const double* values, Pass& pass) const;

  LinearKind kind_;
  SampleMatrix samples_;
  std::vector<double> labels_;
  double decay_;
  LinearStart start_;
  double smoothness_ = 0;
  double lowest_ = 0;
};

}  // namespace heddle
