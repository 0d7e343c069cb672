#include "run/step_control.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace heddle {
namespace {

TEST(StepGateTest, TellsOfEachStepOnceAllHaveEndedIt) {
  std::vector<int64_t> done;
  StepGate gate(2, [&](int64_t step) { done.push_back(step); });
  for (int64_t step = 0; step < 2; ++step) {
    EXPECT_TRUE(gate.Begin(0, step));
    gate.End(0, step);
  }
  EXPECT_TRUE(done.empty());
  EXPECT_TRUE(gate.Begin(1, 0));
  gate.End(1, 0);
  EXPECT_EQ(done, std::vector<int64_t>{0});
  EXPECT_EQ(gate.steps_done(), 1);
}

// A device that is ahead decides which step is the last.
TEST(StepGateTest, AStepThatSomeoneBeganIsFinishedByAll) {
  StepGate gate(2, [](int64_t) {});
  EXPECT_TRUE(gate.Begin(0, 0));
  gate.End(0, 0);
  EXPECT_TRUE(gate.Begin(0, 1));
  gate.Stop();
  EXPECT_TRUE(gate.Begin(1, 0));
  gate.End(1, 0);
  EXPECT_TRUE(gate.Begin(1, 1));
  gate.End(0, 1);
  gate.End(1, 1);
  EXPECT_FALSE(gate.Begin(0, 2));
  EXPECT_FALSE(gate.Begin(1, 2));
  EXPECT_EQ(gate.steps_done(), 2);
}

TEST(StepGateTest, ThreadsStopAtTheSameStep) {
  for (int round = 0; round < 20; ++round) {
    constexpr int kDevices = 4;
    StepGate* self = nullptr;
    StepGate gate(kDevices, [&](int64_t step) {
      if (step == 10) self->Stop();
    });
    self = &gate;
    std::vector<int64_t> steps(kDevices, 0);
    std::vector<std::thread> threads;
    for (int d = 0; d < kDevices; ++d) {
      threads.emplace_back([&, d] {
        while (gate.Begin(d, steps[static_cast<size_t>(d)])) {
          gate.End(d, steps[static_cast<size_t>(d)]++);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(steps, std::vector<int64_t>(kDevices, steps[0]));
    EXPECT_GE(steps[0], 11);
    EXPECT_EQ(gate.steps_done(), steps[0]);
  }
}

}  // namespace
}  // namespace heddle
