#include "lab/objective.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lab/cholesky.h"
#include "lab/linear_model.h"
#include "lab/problems.h"
#include "lab/quadratic.h"

namespace heddle {
namespace {

std::vector<std::unique_ptr<Objective>> SmallObjectives() {
  std::vector<std::unique_ptr<Objective>> objectives;
  objectives.push_back(std::make_unique<Quadratic>(13, 0.01));
  objectives.push_back(MakeProblem("least-squares", {.data = "", .dimension = 7}).value());
  objectives.push_back(MakeProblem("logistic", {.data = "", .dimension = 7}).value());
  objectives.push_back(
      LogisticOfLibsvm("1 1:0.5 3:2\n0 2:1 4:-1\n1 4:3\n0 1:-2 2:0.25\n", "four").value());
  return objectives;
}

std::vector<double> GradientOf(const Objective& objective, const std::vector<double>& x) {
  Pass pass = objective.MakePass();
  std::vector<double> gradient(x.size());
  objective.Gradient(x.data(), pass, gradient.data());
  return gradient;
}

TEST(ObjectiveTest, GradientsAreThoseOfTheLoss) {
  for (const auto& objective : SmallObjectives()) {
    std::vector<double> x = objective->Start(3);
    const std::vector<double> gradient = GradientOf(*objective, x);
    for (size_t k = 0; k < x.size(); ++k) {
      const double step = 1e-5, middle = x[k];
      x[k] = middle + step;
      const double above = objective->Loss(x.data());
      x[k] = middle - step;
      const double below = objective->Loss(x.data());
      x[k] = middle;
      EXPECT_NEAR(gradient[k], (above - below) / (2 * step), 1e-7) << k;
    }
  }
}

// Blocks of any sizes, also of one element, give the parts of the whole gradient.
TEST(ObjectiveTest, BlocksGiveTheWholeGradient) {
  for (const auto& objective : SmallObjectives()) {
    const std::vector<double> x = objective->Start(4);
    const std::vector<double> whole = GradientOf(*objective, x);
    for (int stages = 1; stages <= objective->dimension(); ++stages) {
      Pass pass = objective->MakePass();
      objective->Begin(pass);
      const auto blocks = SplitBlocks(objective->dimension(), stages);
      EXPECT_EQ(blocks.back().end, objective->dimension());
      for (const Block& block : blocks) objective->Forward(block, x.data() + block.begin, pass);
      objective->Turn(pass);
      for (const Block& block : blocks) {
        std::vector<double> part(static_cast<size_t>(block.size()));
        objective->Backward(block, pass, part.data());
        for (size_t k = 0; k < part.size(); ++k) {
          EXPECT_NEAR(part[k], whole[static_cast<size_t>(block.begin) + k], 1e-12);
        }
      }
    }
  }
}

TEST(ObjectiveTest, RereadIsAForwardOfOtherValues) {
  for (const auto& objective : SmallObjectives()) {
    const std::vector<double> x = objective->Start(5), y = objective->Start(6);
    const auto blocks = SplitBlocks(objective->dimension(), 3);
    Pass pass = objective->MakePass();
    objective->Begin(pass);
    for (const Block& block : blocks) objective->Forward(block, x.data() + block.begin, pass);
    objective->Reread(blocks[1], y.data() + blocks[1].begin, pass);
    objective->Turn(pass);
    std::vector<double> mixed = x;
    std::copy(y.begin() + blocks[1].begin, y.begin() + blocks[1].end,
              mixed.begin() + blocks[1].begin);
    const std::vector<double> whole = GradientOf(*objective, mixed);
    for (const Block& block : blocks) {
      std::vector<double> part(static_cast<size_t>(block.size()));
      objective->Backward(block, pass, part.data());
      for (size_t k = 0; k < part.size(); ++k) {
        EXPECT_NEAR(part[k], whole[static_cast<size_t>(block.begin) + k], 1e-12);
      }
    }
  }
}

// 1/L descends: f falls by at least ‖∇f‖²/(2L), which fails if L is too small; and the lowest loss
// is met, from above.
TEST(ObjectiveTest, SmoothnessAndMinimum) {
  for (const auto& objective : SmallObjectives()) {
    std::vector<double> x = objective->Start(7);
    const double step = 1 / objective->smoothness();
    for (int round = 0; round < 200000; ++round) {
      const std::vector<double> gradient = GradientOf(*objective, x);
      double squares = 0;
      const double before = objective->Loss(x.data());
      for (size_t k = 0; k < x.size(); ++k) {
        squares += gradient[k] * gradient[k];
        x[k] -= step * gradient[k];
      }
      if (squares < 1e-16) break;
      ASSERT_LE(objective->Loss(x.data()), before - squares * step / 2 + 1e-12);
    }
    EXPECT_NEAR(objective->Loss(x.data()), objective->lowest(), 1e-9);
    EXPECT_GE(objective->Loss(x.data()), objective->lowest() - 1e-12);
  }
}

TEST(ObjectiveTest, QuadraticIsTridiagonal) {
  const Quadratic quadratic(4, 0.01);
  const std::vector<double> x = {1, -2, 3, 0.5};
  EXPECT_NEAR(quadratic.Loss(x.data()), 0.5 * (2.01 * (1 + 4 + 9 + 0.25) - 2 * (-2 - 6 + 1.5)),
              1e-12);
  EXPECT_NEAR(GradientOf(quadratic, x)[1], 2.01 * -2 - (1 + 3), 1e-12);
  EXPECT_DOUBLE_EQ(quadratic.smoothness(), 4.01);
}

// From rest under an even load: the first gradient is -1 everywhere, and f falls by ½ 1ᵀA⁻¹1 in
// all.
TEST(ObjectiveTest, AnEvenLoadStartsWithItsGradient) {
  for (const int64_t dimension : {1, 2, 512}) {
    const Quadratic loaded(dimension, 0.01, QuadraticStart::kAtRest);
    const std::vector<double> start = loaded.Start(0);
    EXPECT_EQ(start, loaded.Start(1));
    double sum = 0;
    for (const double element : start) sum -= element;
    EXPECT_NEAR(loaded.Loss(start.data()), sum / 2, 1e-8);
    for (const double element : GradientOf(loaded, start)) EXPECT_NEAR(element, -1, 1e-11);
  }
}

TEST(ObjectiveTest, SparseAndDenseSamplesAgree) {
  const std::vector<double> values = {0.5, 0, -2, 0, 1, 0.25, 3, 0, 0};  // by column
  std::vector<SampleMatrix::Entry> entries;
  for (int k = 8; k >= 0; --k) {
    if (values[static_cast<size_t>(k)] != 0) {
      entries.push_back({k % 3, k / 3, values[static_cast<size_t>(k)]});
    }
  }
  const auto dense = SampleMatrix::Dense(3, 3, values);
  const auto sparse = SampleMatrix::Sparse(3, 3, entries);
  const std::vector<double> x = {2, -1}, weight = {1, 2, 3};
  std::vector<double> a(3), b(3), c(2), d(2);
  dense.Multiply({1, 3}, x.data(), a.data());
  sparse.Multiply({1, 3}, x.data(), b.data());
  EXPECT_EQ(a, b);
  EXPECT_EQ(a, (std::vector<double>{-3, 2, 0.5}));
  dense.Transposed({0, 2}, weight.data(), c.data());
  sparse.Transposed({0, 2}, weight.data(), d.data());
  EXPECT_EQ(c, d);
  EXPECT_EQ(c, (std::vector<double>{-5.5, 2.75}));
  EXPECT_EQ(dense.Gram(weight.data()), sparse.Gram(weight.data()));
  EXPECT_EQ(dense.Gram(weight.data())[1], 3 * -2 * 0.25);
}

TEST(ObjectiveTest, CholeskySolves) {
  const std::vector<double> solved = SolvePositive({4, 2, 0, 2, 5, 1, 0, 1, 3}, {8, 15, 11});
  EXPECT_NEAR(solved[0], 1, 1e-12);
  EXPECT_NEAR(solved[1], 2, 1e-12);
  EXPECT_NEAR(solved[2], 3, 1e-12);
}

TEST(ProblemsTest, LibsvmErrorsNameTheLine) {
  const auto refused = [](const std::string& text) {
    const auto result = LogisticOfLibsvm(text, "data");
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::kBadInput);
    return result.error().ToString();
  };
  EXPECT_NE(refused("1 1:1\n0 x:1\n").find("data: line 2"), std::string::npos);
  EXPECT_NE(refused("1 1:1\n0 1:2\n\n2 1:1\n").find("line 4: a third label, 2"), std::string::npos);
  EXPECT_NE(refused("1 1:1\n1 2:1\n").find("the same"), std::string::npos);
  EXPECT_NE(refused("1 1:1\n0 99999:1\n").find("line 2"), std::string::npos);
  EXPECT_NE(refused("1\n0\n").find("no features"), std::string::npos);
}

TEST(ProblemsTest, LabelsOfAnyKindBecomeSigns) {
  const auto a = LogisticOfLibsvm("1 1:1 2:3\n0 1:2\n", "a").value();
  const auto b = LogisticOfLibsvm("7 0:1 1:3\n-2 0:2\n", "b").value();
  const std::vector<double> x = {0.3, -0.7};
  EXPECT_EQ(a->Loss(x.data()), b->Loss(x.data()));
  // log(1 + exp(-y a·x)) by hand: scores -1.8 for y = +1 and 0.6 for y = -1.
  EXPECT_NEAR(a->Loss(x.data()),
              (std::log1p(std::exp(1.8)) + std::log1p(std::exp(0.6))) / 2 + 0.5e-4 * 0.58, 1e-12);
}

TEST(ProblemsTest, RefusesWhatItDoesNotKnow) {
  EXPECT_FALSE(MakeProblem("quadratc", {}).ok());
  EXPECT_NE(MakeProblem("quadratc", {}).error().hint.find("\"quadratic\""), std::string::npos);
  EXPECT_FALSE(MakeProblem("quadratic", {.data = "x", .dimension = 0}).ok());
  EXPECT_FALSE(MakeProblem("quadratic", {.data = "", .dimension = -1}).ok());
  EXPECT_FALSE(MakeProblem("logistic", {.data = "/nonexistent", .dimension = 0}).ok());
}

}  // namespace
}  // namespace heddle
