// The loop that trains, on an executor without arithmetic: what is ordered, logged, saved,
// gathered, compared and refused, and that no two ranks race for it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>

#include "base/json_field.h"
#include "choose/planners.h"
#include "run/store/checkpoint.h"
#include "run/store/run_directory.h"
#include "run/train/fake_executor.h"
#include "run/train/train.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class RankTrainerTest : public testing::Test {
 protected:
  RankTrainerTest() {
    PlanRequest request;
    request.model = "tiny-mlp?layers=6";
    request.batch = 16;
    request.optimizer = Optimizer::kMomentum;
    request.microbatches = 4;
    planning_ = std::make_unique<Planning>(Planning::Make(request, cluster_, nullptr).value());
    config_.plan = "plan.json";
    config_.directory = folder_ / "run";
    config_.steps = 12;
    config_.save_every = 5;
    config_.validation = 0.5;
  }

  Result<RunResult> Train(const std::string& strategy, const RunListener& listener = {}) {
    HEDDLE_ASSIGN(const Plan plan, MakePlan(strategy, *planning_));
    const auto make = [this](const Program& program, int32_t device, const Graph& graph,
                             const DataSource&, const TrainOptions& options,
                             std::span<const StoredTensor> values) {
      return std::make_unique<FakeExecutor>(program, device, graph, options, values,
                                            device == faulty_ ? fault_ : FakeFault{});
    };
    HEDDLE_ASSIGN(const Training training, PrepareTraining(plan, planning_->graph, config_, make));
    return TrainOnThreads(training, listener);
  }
  RunResult Run(const std::string& strategy, const RunListener& listener = {}) {
    Result<RunResult> result = Train(strategy, listener);
    EXPECT_TRUE(result.ok()) << strategy << ": " << result.error().ToString();
    return result.ok() ? std::move(result).value() : RunResult{};
  }
  std::string ErrorOf(const std::string& strategy) {
    const Result<RunResult> result = Train(strategy);
    EXPECT_FALSE(result.ok());
    return result.ok() ? "" : result.error().ToString();
  }
  std::vector<int64_t> SavedSteps() const {
    std::vector<int64_t> steps;
    for (const std::string& path : ListCheckpoints(folder_ / "run")) {
      steps.push_back(LoadCheckpointInfo(path).value().step);
    }
    return steps;
  }

  ScratchFolder folder_;
  const Cluster cluster_ = LoadCluster(SourceDir() + "/examples/clusters/mixed4.toml").value();
  std::unique_ptr<Planning> planning_;
  RunConfig config_;
  int32_t faulty_ = -1;
  FakeFault fault_;
};

// Whole weights from whoever holds them, or parts of them: every element where it belongs, updated
// once a step.
void ExpectWhole(const std::string& path, const Graph& graph, double updates) {
  const Checkpoint checkpoint = LoadCheckpoint(path).value();
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role != Role::kParameter) continue;
    const StoredTensor* stored = checkpoint.tensors.Find(tensor.name);
    ASSERT_NE(stored, nullptr) << tensor.name;
    ASSERT_EQ(stored->shape, tensor.shape);
    std::vector<float> values(stored->bytes.size() / sizeof(float));
    std::memcpy(values.data(), stored->bytes.data(), stored->bytes.size());
    for (size_t k = 0; k < values.size(); ++k) {
      ASSERT_EQ(values[k], FakeExecutor::ElementOf(static_cast<int64_t>(k), updates))
          << tensor.name << " element " << k;
    }
  }
}

class EveryStrategyTrains : public RankTrainerTest,
                            public testing::WithParamInterface<const char*> {};

TEST_P(EveryStrategyTrains, LogsSavesAndGathers) {
  const RunResult result = Run(GetParam());
  ASSERT_EQ(result.losses.size(), 12U);
  for (size_t k = 0; k < 12; ++k) EXPECT_NEAR(result.losses[k], 1.0 / double(k + 1), 1e-12);
  EXPECT_EQ(result.held_out.back().step, 12);
  EXPECT_THAT(SavedSteps(), ElementsAre(5, 10, 12));
  for (const std::string& path : ListCheckpoints(folder_ / "run")) {
    ExpectWhole(path, planning_->graph, static_cast<double>(LoadCheckpointInfo(path).value().step));
  }
  const std::vector<Json> log = RunDirectory::Open(result.directory).value().ReadLog().value();
  EXPECT_EQ(log.size(), 13U);
}

INSTANTIATE_TEST_SUITE_P(Strategies, EveryStrategyTrains,
                         testing::Values("dp", "1f1b", "pipeline", "gpipe", "zb-h1", "zero",
                                         "tensor-parallel", "spmd"),
                         [](const auto& strategy) {
                           std::string name = strategy.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST_F(RankTrainerTest, GoesOnWhereItWas) {
  config_.steps = 7;
  Run("1f1b");
  config_.resume = folder_ / "run";
  config_.directory.clear();
  config_.steps = 12;
  const RunResult result = Run("dp");
  EXPECT_EQ(result.first_step, 7);
  EXPECT_EQ(result.losses.size(), 5U);
  EXPECT_THAT(SavedSteps(), ElementsAre(7, 10, 12));
  ExpectWhole(result.checkpoint, planning_->graph, 12);
}

TEST_F(RankTrainerTest, StopsAtAStepThatAllHaveReached) {
  std::atomic<int> asked{0};
  RunListener listener;
  config_.steps = 100'000;
  config_.save_every = 0;
  listener.step = [&](int64_t step, int64_t, double, double) {
    if (step >= 3) asked = SIGTERM;
  };
  listener.interrupted = [&] { return asked.load(); };
  const RunResult result = Run("pipeline", listener);
  EXPECT_TRUE(result.interrupted);
  EXPECT_EQ(result.stopped_by, SIGTERM);
  EXPECT_LT(std::ssize(result.losses), 100'000);
  EXPECT_TRUE(result.held_out.empty());  // it was in a hurry
  ExpectWhole(result.checkpoint, planning_->graph, static_cast<double>(result.losses.size()));
}

TEST_F(RankTrainerTest, TheTensorThatWasBadFirstIsNamed) {
  faulty_ = 1;
  fault_.bad_step = 7;
  const std::string said = ErrorOf("dp");
  EXPECT_THAT(said, HasSubstr("step 8"));
  EXPECT_THAT(said, HasSubstr(planning_->graph.tensor(TensorId{1}).name + " is not finite"));
  EXPECT_THAT(said, HasSubstr("step-00000005"));
  EXPECT_THAT(SavedSteps(), ElementsAre(5));
}

TEST_F(RankTrainerTest, AReplicaThatDiffersEndsTheRun) {
  faulty_ = 2;
  fault_.flip_step = 6;
  const std::string said = ErrorOf("dp");
  EXPECT_THAT(said, HasSubstr("step 10"));
  EXPECT_THAT(said, HasSubstr("is not the same everywhere: device 2 ("));
  EXPECT_THAT(SavedSteps(), ElementsAre(5));
}

TEST_F(RankTrainerTest, AnElasticRunHasAStartToGoBackTo) {
  config_.elastic = true;
  config_.save_every = 0;
  Run("1f1b");
  EXPECT_THAT(SavedSteps(), ElementsAre(0, 12));
}

}  // namespace
}  // namespace heddle
