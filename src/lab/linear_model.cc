#include "lab/linear_model.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/philox.h"
#include "lab/cholesky.h"
#include "lab/dot.h"

namespace heddle {
namespace {

// log(1 + exp(t)), without overflow.
double Softplus(double t) { return t > 0 ? t + std::log1p(std::exp(-t)) : std::log1p(std::exp(t)); }

double Sigmoid(double t) { return 1 / (1 + std::exp(-t)); }

}  // namespace

LinearModel::LinearModel(LinearKind kind, SampleMatrix samples, std::vector<double> labels,
                         double decay, LinearStart start, std::optional<LinearConstants> constants)
    : kind_(kind),
      samples_(std::move(samples)),
      labels_(std::move(labels)),
      decay_(decay),
      start_(start) {
  HEDDLE_CHECK(static_cast<int64_t>(labels_.size()) == samples_.rows() && samples_.rows() > 0);
  smoothness_ = constants ? constants->smoothness : LargestCurvature();
  lowest_ = constants ? constants->lowest : Minimum();
}

std::vector<double> LinearModel::Start(uint64_t seed) const {
  if (start_ == LinearStart::kNormal) return Objective::Start(seed);
  return std::vector<double>(static_cast<size_t>(dimension()));
}

double LinearModel::WholeGradientSquare(const double* x) const {
  const Block whole{0, dimension()};
  std::vector<double> gradient(static_cast<size_t>(dimension()));
  Pass pass = LinearModel::MakePass();
  LinearModel::Begin(pass);
  LinearModel::Forward(whole, x, pass);
  LinearModel::Turn(pass);
  LinearModel::Backward(whole, pass, gradient.data());
  return Dot(gradient.data(), gradient.data(), dimension());
}

double LinearModel::Slope(double score, double label) const {
  return kind_ == LinearKind::kLogistic ? -label * Sigmoid(-label * score) : score - label;
}

double LinearModel::Loss(const double* x) const {
  std::vector<double> scores(labels_.size());
  samples_.Multiply({0, dimension()}, x, scores.data());
  double sum = 0, squares = 0;
  for (size_t r = 0; r < scores.size(); ++r) {
    const double miss = scores[r] - labels_[r];
    sum += kind_ == LinearKind::kLogistic ? Softplus(-labels_[r] * scores[r]) : 0.5 * miss * miss;
  }
  for (int64_t k = 0; k < dimension(); ++k) squares += x[k] * x[k];
  return sum / static_cast<double>(scores.size()) + 0.5 * decay_ * squares;
}

Pass LinearModel::MakePass() const {
  Pass pass;
  pass.point.assign(static_cast<size_t>(dimension()), 0.0);
  pass.signal.assign(labels_.size(), 0.0);
  pass.response.assign(labels_.size(), 0.0);
  pass.scratch.assign(labels_.size(), 0.0);
  return pass;
}

void LinearModel::Begin(Pass& pass) const {
  std::fill(pass.signal.begin(), pass.signal.end(), 0.0);
}

void LinearModel::AddScores(const Block& block, const double* values, Pass& pass) const {
  // Summed apart first: the bits do not depend on who else has added.
  std::fill(pass.scratch.begin(), pass.scratch.end(), 0.0);
  samples_.Multiply(block, values, pass.scratch.data());
  for (size_t r = 0; r < pass.signal.size(); ++r) pass.signal[r] += pass.scratch[r];
}

void LinearModel::Forward(const Block& block, const double* values, Pass& pass) const {
  std::copy(values, values + block.size(), pass.point.data() + block.begin);
  AddScores(block, values, pass);
}

void LinearModel::Reread(const Block& block, const double* values, Pass& pass) const {
  std::vector<double> change(static_cast<size_t>(block.size()));
  double* point = pass.point.data() + block.begin;
  for (size_t k = 0; k < change.size(); ++k) change[k] = values[k] - point[k];
  AddScores(block, change.data(), pass);
  std::copy(values, values + block.size(), point);
  Turn(pass);
}

void LinearModel::Turn(Pass& pass) const {
  const double share = 1 / static_cast<double>(labels_.size());
  for (size_t r = 0; r < labels_.size(); ++r) {
    pass.response[r] = share * Slope(pass.signal[r], labels_[r]);
  }
}

void LinearModel::Backward(const Block& block, Pass& pass, double* gradient) const {
  samples_.Transposed(block, pass.response.data(), gradient);
  const double* point = pass.point.data() + block.begin;
  for (int64_t k = 0; k < block.size(); ++k) gradient[k] += decay_ * point[k];
}

// The largest eigenvalue of AᵀA / n, by power iteration, times the largest φ''.
double LinearModel::LargestCurvature() const {
  constexpr int kRounds = 200;
  constexpr double kMargin = 1.01;  // power iteration comes from below
  // From here on AᵀA is made once. Below, step sizes keep the bits that every processor makes.
  constexpr int64_t kMany = 1'000'000;
  const Block whole{0, dimension()};
  const RandomStream stream(0, "lab.curvature");
  std::vector<double> x(static_cast<size_t>(dimension())), scores(labels_.size()), square;
  if (samples_.rows() > dimension() && samples_.rows() * dimension() >= kMany) {
    square = samples_.Gram(std::vector<double>(labels_.size(), 1.0).data());
  }
  for (size_t k = 0; k < x.size(); ++k) x[k] = stream.Normal(k);
  double eigenvalue = 0;
  for (int round = 0; round < kRounds; ++round) {
    double norm = 0;
    for (const double element : x) norm += element * element;
    norm = std::sqrt(norm);
    eigenvalue = norm;
    if (norm == 0) break;
    for (double& element : x) element /= norm;
    if (!square.empty()) {
      const std::vector<double> before = x;
      for (size_t k = 0; k < x.size(); ++k) {
        x[k] = Dot(square.data() + k * x.size(), before.data(), dimension());
      }
      continue;
    }
    std::fill(scores.begin(), scores.end(), 0.0);
    samples_.Multiply(whole, x.data(), scores.data());
    samples_.Transposed(whole, scores.data(), x.data());
  }
  const double bend = kind_ == LinearKind::kLogistic ? 0.25 : 1;
  return kMargin * bend * eigenvalue / static_cast<double>(labels_.size()) + decay_;
}

// With B = W^½ A: (BᵀB + λI)⁻¹ g = (g - Bᵀ(BBᵀ + λI)⁻¹ B g) / λ.
std::vector<double> LinearModel::StepByRow(const std::vector<double>& weight,
                                           const std::vector<double>& gradient,
                                           double ridge) const {
  const auto rows = static_cast<size_t>(samples_.rows());
  const auto columns = static_cast<size_t>(samples_.columns());
  std::vector<double> b = samples_.ByRow(), matrix(rows * rows), product(rows);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t k = 0; k < columns; ++k) b[r * columns + k] *= std::sqrt(weight[r]);
  }
  const auto row = [&](size_t r) { return b.data() + r * columns; };
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      matrix[i * rows + j] = matrix[j * rows + i] = Dot(row(i), row(j), dimension());
    }
    matrix[i * rows + i] += ridge;
    product[i] = Dot(row(i), gradient.data(), dimension());
  }
  const std::vector<double> solved = SolvePositive(std::move(matrix), std::move(product));
  std::vector<double> step = gradient;
  for (size_t r = 0; r < rows; ++r) {
    for (size_t k = 0; k < columns; ++k) step[k] -= solved[r] * row(r)[k];
  }
  for (double& element : step) element /= ridge;
  return step;
}

std::vector<double> LinearModel::NewtonStep(const std::vector<double>& weight,
                                            const std::vector<double>& gradient) const {
  constexpr double kRidge = 1e-12;  // where samples leave a direction open
  if (decay_ > 0 && samples_.rows() < samples_.columns()) {
    return StepByRow(weight, gradient, decay_);
  }
  std::vector<double> hessian = samples_.Gram(weight.data());
  for (size_t k = 0; k < gradient.size(); ++k) hessian[k * gradient.size() + k] += decay_ + kRidge;
  return SolvePositive(std::move(hessian), gradient);
}

double LinearModel::Minimum() const {
  constexpr int kMostSteps = 100;
  const auto size = static_cast<size_t>(dimension());
  std::vector<double> x(size), gradient(size), weight(labels_.size()), next(size);
  Pass pass = LinearModel::MakePass();
  double loss = Loss(x.data());
  for (int step = 0; step < kMostSteps; ++step) {
    // Not the virtual ones: of all samples, whatever a descendant's microbatches are.
    LinearModel::Begin(pass);
    LinearModel::Forward({0, dimension()}, x.data(), pass);
    LinearModel::Turn(pass);
    LinearModel::Backward({0, dimension()}, pass, gradient.data());
    for (size_t r = 0; r < weight.size(); ++r) {
      const double odds = Sigmoid(pass.signal[r]);
      const double bend = kind_ == LinearKind::kLogistic ? odds * (1 - odds) : 1;
      weight[r] = bend / static_cast<double>(weight.size());
    }
    const std::vector<double> direction = NewtonStep(weight, gradient);
    double length = 1, lower = loss;
    for (int halving = 0; halving < 40; ++halving, length /= 2) {
      for (size_t k = 0; k < size; ++k) next[k] = x[k] - length * direction[k];
      lower = Loss(next.data());
      if (lower < loss) break;
    }
    if (!(lower < loss)) return loss;
    x.swap(next);
    loss = lower;
  }
  return loss;
}

}  // namespace heddle
