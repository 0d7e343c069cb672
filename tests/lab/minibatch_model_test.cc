// Linear models whose microbatches are rows.

#include "lab/minibatch_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "ground.h"
#include "lab/made_data.h"

namespace heddle {
namespace {

ObjectiveOptions Rows(int64_t rows, int64_t batch) {
  ObjectiveOptions options;
  options.dimension = 10;
  options.rows = rows;
  options.batch = batch;
  return options;
}

// The mean over an epoch's microbatches is the gradient of all rows, in either order.
TEST(MinibatchModelTest, AnEpochIsTheWholeGradient) {
  for (const char* name : {"logistic", "least-squares"}) {
    for (const RowOrder order : {RowOrder::kCyclic, RowOrder::kShuffled}) {
      ObjectiveOptions options = Rows(12, 3);
      options.order = order;
      const auto batches = MakeProblem(name, options).value();
      const auto all = MakeProblem(name, Rows(12, 0)).value();
      EXPECT_TRUE(batches->sampled());
      EXPECT_FALSE(all->sampled());
      const std::vector<double> x = all->Start(5);
      EXPECT_EQ(batches->Loss(x.data()), all->Loss(x.data()));
      EXPECT_EQ(batches->lowest(), all->lowest());
      std::vector<double> sum(x.size()), gradient(x.size()), whole(x.size());
      Pass pass = batches->MakePass(), other = all->MakePass();
      std::set<int64_t> seen;
      for (int64_t m = 4; m < 8; ++m) {  // the second epoch
        pass.draw = {5, m};
        batches->Gradient(x.data(), pass, gradient.data());
        seen.insert(pass.rows.begin(), pass.rows.end());
        for (size_t k = 0; k < x.size(); ++k) sum[k] += gradient[k] / 4;
      }
      EXPECT_EQ(seen.size(), 12U);
      all->Gradient(x.data(), other, whole.data());
      for (size_t k = 0; k < x.size(); ++k) EXPECT_NEAR(sum[k], whole[k], 1e-12) << name;
    }
  }
}

TEST(MinibatchModelTest, CyclicIsInOrderAndShuffledIsNot) {
  const auto cyclic = MakeProblem("logistic", Rows(40, 2)).value();
  Pass pass = cyclic->MakePass();
  pass.draw = {7, 21};  // positions 42 and 43, rows 2 and 3 of the second epoch
  cyclic->Begin(pass);
  EXPECT_EQ(pass.rows, (std::vector<int64_t>{2, 3}));
  ObjectiveOptions options = Rows(40, 2);
  options.order = RowOrder::kShuffled;
  const auto shuffled = MakeProblem("logistic", options).value();
  std::vector<std::vector<int64_t>> epochs(2);
  for (int64_t m = 0; m < 40; ++m) {
    pass.draw = {7, m};
    shuffled->Begin(pass);
    auto& epoch = epochs[static_cast<size_t>(m / 20)];
    epoch.insert(epoch.end(), pass.rows.begin(), pass.rows.end());
  }
  EXPECT_NE(epochs[0], epochs[1]);
}

// A batch of all rows is the model without batches.
TEST(MinibatchModelTest, AllRowsAtOnce) {
  const auto batches = MakeProblem("logistic", Rows(9, 9)).value();
  const auto all = MakeProblem("logistic", Rows(9, 0)).value();
  const std::vector<double> x = all->Start(3);
  std::vector<double> a(x.size()), b(x.size());
  Pass pass = batches->MakePass(), other = all->MakePass();
  batches->Gradient(x.data(), pass, a.data());
  all->Gradient(x.data(), other, b.data());
  for (size_t k = 0; k < x.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-14);
}

// PipeDream and its replay agree on microbatches of rows, and re-reading is reading.
TEST(MinibatchModelTest, ReplayAndRereading) {
  ObjectiveOptions options = Rows(15, 2);
  const Ground ground(MakeProblem("logistic", options).value(), {.stages = 4}, 0.1);
  EXPECT_EQ(RunNamed("pd", ground).losses, RunNamed("rpd-replay", ground).losses);
  const Objective& objective = *ground.objective;
  const std::vector<double> x = objective.Start(1), y = objective.Start(2);
  const Block whole{0, 10}, part{3, 7};
  Pass read = objective.MakePass(), again = objective.MakePass();
  read.draw = again.draw = {1, 4};
  std::vector<double> mixed = x, a(10), b(10);
  std::copy(y.begin() + 3, y.begin() + 7, mixed.begin() + 3);
  objective.Gradient(mixed.data(), read, a.data());
  objective.Begin(again);
  objective.Forward(whole, x.data(), again);
  objective.Turn(again);
  objective.Reread(part, y.data() + 3, again);
  objective.Backward(whole, again, b.data());
  for (size_t k = 0; k < 10; ++k) EXPECT_NEAR(a[k], b[k], 1e-13);
}

// Fewer rows than parameters: Newton's steps are solved by row and end at a zero gradient.
TEST(MinibatchModelTest, TheLowestWithFewRows) {
  ObjectiveOptions options;
  options.dimension = 40;
  options.rows = 12;
  options.start = LinearStart::kZero;
  const auto model = MakeProblem("logistic", options).value();
  EXPECT_EQ(model->Start(9), std::vector<double>(40));
  // Plain descent comes down to it and not below.
  std::vector<double> x(40), gradient(40);
  Pass pass = model->MakePass();
  for (int step = 0; step < 400000; ++step) {
    model->Gradient(x.data(), pass, gradient.data());
    for (size_t k = 0; k < 40; ++k) x[k] -= 1 / model->smoothness() * gradient[k];
  }
  EXPECT_GE(model->Loss(x.data()), model->lowest());
  EXPECT_NEAR(model->Loss(x.data()), model->lowest(), 1e-6);
  EXPECT_LT(model->lowest(), 0.01);  // separable
}

// XᵀX / n is the chain's matrix, and the lowest loss is 0 at the weights that made the labels.
TEST(MinibatchModelTest, ChainRowsHaveTheChainsHessian) {
  const MadeRows made = ChainRows(30, 20, 0.01, 4);
  const std::vector<double> ones(30, 1.0 / 30);
  const std::vector<double> gram = made.samples.Gram(ones.data());
  for (int64_t i = 0; i < 20; ++i) {
    for (int64_t j = 0; j < 20; ++j) {
      const double expected = i == j ? 2.01 : (std::abs(i - j) == 1 ? -1 : 0);
      EXPECT_NEAR(gram[static_cast<size_t>(i * 20 + j)], expected, 1e-12);
    }
  }
  ObjectiveOptions options;
  options.dimension = 20;
  options.rows = 30;
  const auto chain = MakeProblem("chain-rows", options).value();
  std::vector<double> x(20), gradient(20);
  Pass pass = chain->MakePass();
  for (int step = 0; step < 30000; ++step) {
    chain->Gradient(x.data(), pass, gradient.data());
    for (size_t k = 0; k < 20; ++k) x[k] -= 0.4 * gradient[k];
  }
  EXPECT_EQ(chain->lowest(), 0);
  EXPECT_NEAR(chain->Loss(x.data()), 0, 1e-12);
}

TEST(MinibatchModelTest, SeedsHaveDataOfTheirOwn) {
  const DataBySeed data = DataBySeed::Make("logistic", Rows(12, 1), 3, 2, 1).value();
  const std::vector<double> x(10, 0.5);
  EXPECT_NE(data.Of(3).Loss(x.data()), data.Of(4).Loss(x.data()));
  ObjectiveOptions options = Rows(12, 1);
  options.data_seed = 4;
  EXPECT_EQ(data.Of(4).Loss(x.data()), MakeProblem("logistic", options).value()->Loss(x.data()));
}

}  // namespace
}  // namespace heddle
