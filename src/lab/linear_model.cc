#include "lab/linear_model.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/philox.h"
#include "lab/cholesky.h"

namespace heddle {
namespace {

// log(1 + exp(t)), without overflow.
double Softplus(double t) { return t > 0 ? t + std::log1p(std::exp(-t)) : std::log1p(std::exp(t)); }

double Sigmoid(double t) { return 1 / (1 + std::exp(-t)); }

}  // namespace

LinearModel::LinearModel(LinearKind kind, SampleMatrix samples, std::vector<double> labels,
                         double decay)
    : kind_(kind), samples_(std::move(samples)), labels_(std::move(labels)), decay_(decay) {
  HEDDLE_CHECK(static_cast<int64_t>(labels_.size()) == samples_.rows() && samples_.rows() > 0);
  smoothness_ = LargestCurvature();
  lowest_ = Minimum();
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
    const double slope = kind_ == LinearKind::kLogistic
                             ? -labels_[r] * Sigmoid(-labels_[r] * pass.signal[r])
                             : pass.signal[r] - labels_[r];
    pass.response[r] = share * slope;
  }
}

void LinearModel::Backward(const Block& block, Pass& pass, double* gradient) const {
  samples_.Transposed(block, pass.response.data(), gradient);
  const double* point = pass.point.data() + block.begin;
  for (int64_t k = 0; k < block.size(); ++k) gradient[k] += decay_ * point[k];
}

double LinearModel::LargestCurvature() const {
  // The largest eigenvalue of AᵀA / n, by power iteration, times the largest φ''.
  constexpr int kRounds = 200;
  constexpr double kMargin = 1.01;  // power iteration comes from below
  const Block whole{0, dimension()};
  const RandomStream stream(0, "lab.curvature");
  std::vector<double> x(static_cast<size_t>(dimension())), scores(labels_.size());
  for (size_t k = 0; k < x.size(); ++k) x[k] = stream.Normal(k);
  double eigenvalue = 0;
  for (int round = 0; round < kRounds; ++round) {
    double norm = 0;
    for (const double element : x) norm += element * element;
    norm = std::sqrt(norm);
    eigenvalue = norm;
    if (norm == 0) break;
    for (double& element : x) element /= norm;
    std::fill(scores.begin(), scores.end(), 0.0);
    samples_.Multiply(whole, x.data(), scores.data());
    samples_.Transposed(whole, scores.data(), x.data());
  }
  const double bend = kind_ == LinearKind::kLogistic ? 0.25 : 1;
  return kMargin * bend * eigenvalue / static_cast<double>(labels_.size()) + decay_;
}

double LinearModel::Minimum() const {
  constexpr int kMostSteps = 100;
  constexpr double kRidge = 1e-12;  // where samples leave a direction open
  const auto size = static_cast<size_t>(dimension());
  std::vector<double> x(size), gradient(size), weight(labels_.size()), next(size);
  Pass pass = MakePass();
  double loss = Loss(x.data());
  for (int step = 0; step < kMostSteps; ++step) {
    Gradient(x.data(), pass, gradient.data());
    for (size_t r = 0; r < weight.size(); ++r) {
      const double odds = Sigmoid(pass.signal[r]);
      const double bend = kind_ == LinearKind::kLogistic ? odds * (1 - odds) : 1;
      weight[r] = bend / static_cast<double>(weight.size());
    }
    std::vector<double> hessian = samples_.Gram(weight.data());
    for (size_t k = 0; k < size; ++k) hessian[k * size + k] += decay_ + kRidge;
    const std::vector<double> direction = SolvePositive(std::move(hessian), gradient);
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
