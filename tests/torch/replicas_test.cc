// Replicas of a weight that are not the same end the run, before anything of it is saved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "choose/planners.h"
#include "run/device_threads.h"
#include "run/replica_check.h"
#include "run/store/checkpoint.h"
#include "run/torch/torch_executor.h"
#include "run/train/train.h"
#include "run/wrapped_executor.h"
#include "support/scratch_folder.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// Turns one bit of the first weight that it updates in a step.
class FlippingExecutor final : public WrappedExecutor {
 public:
  FlippingExecutor(Executor& inner, const Program& program, int64_t step)
      : WrappedExecutor(inner), program_(program), step_(step) {}

  void Compute(const Instruction& compute, int64_t i) override {
    WrappedExecutor::Compute(compute, i);
    const Segment& segment = program_.segment(compute.target);
    if (segment.phase != SegmentPhase::kUpdate || steps_++ != step_) return;
    for (const Port& port : segment.ports) {
      if (port.use == PortUse::kRead || program_.tensor(port.tensor).role != Role::kParameter) {
        continue;
      }
      InPlace(BufferOf(port, compute), i).data[0] ^= std::byte{1};
      return;
    }
  }

 private:
  const Program& program_;
  int64_t step_, steps_ = 0;
};

class ReplicasTest : public testing::Test {
 protected:
  ReplicasTest()
      : planning_(MakePlanning("tiny-mlp", 8, Optimizer::kSgd, 1)),
        plan_(MakePlan("dp", planning_).value()) {
    config_.plan = "plan.json";
    config_.directory = folder_ / "run";
    config_.steps = 8;
    config_.save_every = 4;
  }

  // Device 1 has another seed, or a bit that turns in a step.
  std::string ErrorOf(uint64_t seed, std::optional<int64_t> flips) {
    Training training = PrepareTraining(plan_, planning_.graph, config_, MakeTorchExecutor).value();
    EXPECT_GT(training.program.devices.size(), 2U);
    Training other = training;
    other.config.seed = seed;
    std::string said = "none";
    const Status status =
        RunOnThreads(training.program, [&](int32_t rank, Communicator& communicator) -> Status {
          RankHooks hooks;
          hooks.wrap = [&](Executor& executor) {
            return std::make_unique<FlippingExecutor>(executor, training.program,
                                                      rank == 1 && flips ? *flips : -1);
          };
          const Result<RunResult> result = TrainRank(rank == 1 ? other : training, rank,
                                                     communicator, {}, "here", nullptr, hooks);
          if (rank == 0 && !result.ok()) said = result.error().ToString();
          return rank == 0 || result.ok() ? Ok() : Status(result.error());
        });
    EXPECT_TRUE(status.ok());
    return said;
  }

  ScratchFolder folder_;
  Planning planning_;
  Plan plan_;
  RunConfig config_;
};

TEST_F(ReplicasTest, EqualOnesAreNoReasonToStop) { EXPECT_EQ(ErrorOf(1, {}), "none"); }

TEST_F(ReplicasTest, AnotherStartIsNoticedBeforeTheFirstStep) {
  const std::string said = ErrorOf(2, {});
  EXPECT_THAT(said, HasSubstr("start: "));
  EXPECT_THAT(said, HasSubstr("is not the same everywhere: device 1 ("));
  EXPECT_THAT(said, HasSubstr("has another than device 0 ("));
  EXPECT_THAT(said, HasSubstr("nothing was saved"));
}

TEST_F(ReplicasTest, ABitThatTurnedIsNoticedWhenItIsSaved) {
  const std::string said = ErrorOf(1, 5);
  EXPECT_THAT(said, HasSubstr("step 8: "));
  EXPECT_THAT(said, HasSubstr("device 1 ("));
  EXPECT_THAT(said, HasSubstr("step-00000004"));  // to go on from
  EXPECT_EQ(ListCheckpoints(folder_ / "run").size(), 1U);
}

TEST_F(ReplicasTest, OrSoonerWhereThatIsAsked) {
  config_.check_every = 1;
  EXPECT_THAT(ErrorOf(1, 1), HasSubstr("step 2: "));
}

// On processors of different kinds the last bits of the same arithmetic differ.
TEST_F(ReplicasTest, KindsOfProcessorsAreComparedByThemselves) {
  const Program program =
      PrepareTraining(plan_, planning_.graph, config_, MakeTorchExecutor).value().program;
  std::vector<DeviceHashes> devices;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    const auto held = HeldParameters(program, static_cast<int32_t>(d));
    devices.push_back({d % 2, std::vector<uint64_t>(held.size(), d % 2)});
  }
  EXPECT_FALSE(CompareReplicas(program, devices, /*any_kind=*/false));
  EXPECT_TRUE(CompareReplicas(program, devices, /*any_kind=*/true));
  devices.back().hashes[0] = 77;
  EXPECT_TRUE(CompareReplicas(program, devices, /*any_kind=*/false));
  devices.back().hashes.pop_back();
  EXPECT_THAT(*CompareReplicas(program, devices, false), HasSubstr("than the plan says"));
}

}  // namespace
}  // namespace heddle
