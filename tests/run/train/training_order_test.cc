#include "run/train/training_order.h"

#include <gtest/gtest.h>

#include <csignal>

namespace heddle {
namespace {

class TrainingOrderTest : public testing::Test {
 protected:
  TrainingOrderTest() {
    config_.steps = 100;
    config_.save_every = 30;
    config_.eval_every = 20;
  }
  TrainingOrder Next() const { return NextOrder(state_, config_, {config_, per_body_, outside_}); }

  RunConfig config_;
  TrainingState state_;
  int64_t per_body_ = 1, outside_ = 0;
};

TEST_F(TrainingOrderTest, AStepFirstThenHalfASecond) {
  EXPECT_EQ(Next().steps, 1);
  state_.done = 1;
  state_.step_seconds = 0.05;
  EXPECT_EQ(Next().steps, 10);
  EXPECT_FALSE(Next().evaluate);
}

TEST_F(TrainingOrderTest, NoPartGoesBeyondAStop) {
  state_.done = 15;
  state_.step_seconds = 0.001;
  EXPECT_EQ(Next().steps, 5);
  EXPECT_TRUE(Next().evaluate);
  EXPECT_FALSE(Next().save);
  state_.done = 20;
  EXPECT_EQ(Next().steps, 10);
  EXPECT_FALSE(Next().evaluate);
  EXPECT_TRUE(Next().save);
}

TEST_F(TrainingOrderTest, RoundsAreWhole) {
  per_body_ = 4;
  config_.save_every = config_.eval_every = 0;
  state_.step_seconds = 0.05;
  EXPECT_EQ(Next().steps, 8);
  state_.step_seconds = 10;
  EXPECT_EQ(Next().steps, 4);
}

TEST_F(TrainingOrderTest, OnePartUpToTheNextStop) {
  state_.one_part = true;
  state_.step_seconds = 10;
  EXPECT_EQ(Next().steps, 20);
}

TEST_F(TrainingOrderTest, SomeStepsToCalibrateAndNoneThatCannotBeDrained) {
  state_.calibrates = true;
  EXPECT_EQ(Next().steps, 3);
  outside_ = 6;
  EXPECT_EQ(Next().steps, 12);
  state_.done = 5;  // of 15 that are left, the last three could not fill the pipeline
  EXPECT_EQ(Next().steps, 15);
}

TEST_F(TrainingOrderTest, TheEndLooksAndSavesOnce) {
  state_.done = 100;
  state_.trained = true;
  EXPECT_TRUE(Next().end && Next().evaluate && Next().save);
  state_.looked = state_.saved = 100;
  EXPECT_TRUE(Next().end);
  EXPECT_FALSE(Next().evaluate || Next().save);
}

TEST_F(TrainingOrderTest, WhoIsAskedToStopSavesAndLooksAtNothing) {
  state_.done = 7;
  state_.trained = true;
  state_.asked_to_stop = SIGTERM;
  EXPECT_EQ(Next().stopped_by, SIGTERM);
  EXPECT_TRUE(Next().end && Next().save);
  EXPECT_FALSE(Next().evaluate);
  state_.done = 100;  // it was done anyway
  EXPECT_EQ(Next().stopped_by, 0);
}

TEST_F(TrainingOrderTest, AnElasticRunSavesItsStart) {
  config_.elastic = true;
  EXPECT_TRUE(Next().save);
  EXPECT_EQ(Next().steps, 0);
  state_.saved = 0;
  EXPECT_EQ(Next().steps, 1);
}

TEST_F(TrainingOrderTest, WhatIsNotFiniteIsTold) {
  state_.bad = NotFinite{3, 5};
  EXPECT_TRUE(Next().bad);
  EXPECT_EQ(Next().what, (NotFinite{3, 5}));
}

}  // namespace
}  // namespace heddle
