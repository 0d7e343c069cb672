// A loss or a gradient that is no number ends the run: the step and the first tensor are named, and
// nothing of it is saved.

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/json_field.h"
#include "choose/planners.h"
#include "cli/run_heddle.h"
#include "run/store/checkpoint.h"
#include "run/store/run_directory.h"
#include "run/torch/finite_tensor.h"
#include "run/torch/torch_executor.h"
#include "run/train/train.h"
#include "support/places.h"
#include "support/scratch_folder.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(AllFiniteTest, FewAndManyElements) {
  for (const int64_t count : {int64_t{3}, int64_t{10000}}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      const at::Tensor tensor = at::ones({count}, at::TensorOptions().dtype(type));
      EXPECT_TRUE(AllFinite(tensor));
      tensor[count - 1] = NAN;
      EXPECT_FALSE(AllFinite(tensor));
      tensor[count - 1] = -INFINITY;
      EXPECT_FALSE(AllFinite(tensor));
    }
  }
  EXPECT_TRUE(AllFinite(at::full({10000}, 3e38)));  // though their sum is not
  EXPECT_TRUE(AllFinite(at::zeros({5}, at::TensorOptions().dtype(at::kLong))));
}

class NotFiniteTest : public testing::Test {
 protected:
  // A rate with which the second forward overflows.
  RunConfig Config(const std::string& directory) const {
    RunConfig config;
    config.plan = "plan.json";
    config.directory = folder_ / directory;
    config.steps = 24;
    config.save_every = 1;
    config.learning_rate = 1e30;
    config.validation = 0;
    return config;
  }
  static Planning MakeOne() {
    PlanRequest options;
    options.model = "tiny-mlp?layers=6";
    options.batch = 8;
    options.optimizer = Optimizer::kSgd;
    options.every = 4;
    return Planning::Make(options, Mixed4(), nullptr).value();
  }
  static Result<RunResult> Train(const std::string& strategy, const RunConfig& config,
                                 const RunListener& listener = {}) {
    const Planning planning = MakeOne();
    HEDDLE_ASSIGN(const Plan plan, MakePlan(strategy, planning));
    HEDDLE_ASSIGN(const Training training,
                  PrepareTraining(plan, planning.graph, config, MakeTorchExecutor));
    return TrainOnThreads(training, listener);
  }

  ScratchFolder folder_;
};

// Every way to divide the work says the same.
TEST_F(NotFiniteTest, TheFirstTensorIsThatOfOneDevice) {
  const Result<RunResult> alone = Train("dp", Config("dp"));
  ASSERT_FALSE(alone.ok());
  EXPECT_EQ(alone.error().kind, ErrorKind::kRunFailed);
  EXPECT_THAT(alone.error().ToString(), HasSubstr("is not finite"));
  EXPECT_THAT(alone.error().ToString(), HasSubstr("heddle run --resume " + (folder_ / "dp")));
  for (const char* strategy : {"1f1b", "gpipe", "zero", "tensor-parallel", "pipeline"}) {
    const Result<RunResult> result = Train(strategy, Config(strategy));
    ASSERT_FALSE(result.ok()) << strategy;
    EXPECT_EQ(result.error().where, alone.error().where) << strategy;
    EXPECT_EQ(result.error().what, alone.error().what) << strategy;
  }
}

TEST_F(NotFiniteTest, EverySavedCheckpointIsGood) {
  for (const char* strategy : {"1f1b", "dp", "spmd"}) {
    const RunConfig config = Config(strategy);
    const Result<RunResult> result = Train(strategy, config);
    ASSERT_FALSE(result.ok());
    const std::vector<std::string> saved = ListCheckpoints(config.directory);
    EXPECT_FALSE(saved.empty());
    for (const std::string& path : saved) {
      const Checkpoint checkpoint = LoadCheckpoint(path).value();
      // The step that went bad updated nothing: what is saved as its outcome would not be that.
      EXPECT_LT(checkpoint.info.step, std::stoll(result.error().where.substr(strlen("step "))));
      for (const StoredTensor& tensor : checkpoint.tensors.tensors()) {
        ASSERT_EQ(tensor.dtype, DType::kF32);
        for (size_t k = 0; k + sizeof(float) <= tensor.bytes.size(); k += sizeof(float)) {
          float value = 0;
          std::memcpy(&value, tensor.bytes.data() + k, sizeof value);
          ASSERT_TRUE(std::isfinite(value)) << path << ": " << tensor.name;
        }
      }
    }
  }
}

// Pipelines that are never flushed, and replicas on their own for a while, end too.
TEST_F(NotFiniteTest, AsynchronousAndLocal) {
  for (const char* strategy : {"async", "local"}) {
    RunConfig config = Config(strategy);
    config.save_every = 0;
    const Result<RunResult> result = Train(strategy, config);
    ASSERT_FALSE(result.ok()) << strategy;
    EXPECT_THAT(result.error().ToString(), AllOf(HasSubstr("step "), HasSubstr("is not finite")));
    EXPECT_TRUE(ListCheckpoints(config.directory).empty());
  }
}

TEST_F(NotFiniteTest, KeepGoingGoesOnAndStillSavesNothingBad) {
  RunConfig config = Config("run");
  config.keep_going = true;
  std::string notes;
  RunListener listener;
  listener.note = [&](const std::string& line) { notes += line + "\n"; };
  const Result<RunResult> result = Train("1f1b", config, listener);
  ASSERT_TRUE(result.ok()) << result.error().ToString();
  EXPECT_EQ(result.value().losses.size(), 24U);
  EXPECT_FALSE(std::isfinite(result.value().losses.back()));
  EXPECT_THAT(notes, HasSubstr("the loss is not finite; going on"));
  EXPECT_THAT(notes, HasSubstr("not saved: "));
  for (const std::string& path : ListCheckpoints(config.directory)) {
    EXPECT_LT(LoadCheckpoint(path).value().info.step, 24);
  }
}

// The log ends with the step that went bad.
TEST_F(NotFiniteTest, NothingIsLoggedAfterIt) {
  const RunConfig config = Config("run");
  const Result<RunResult> result = Train("1f1b", config);
  const RunDirectory directory = RunDirectory::Open(config.directory).value();
  const std::vector<Json> log = directory.ReadLog().value();
  EXPECT_EQ("step " + std::to_string(log.back().at("step").get<int64_t>()), result.error().where);
}

// As people see it: threads, processes and ranks of a launcher.
TEST_F(NotFiniteTest, FromTheCommandLine) {
  const std::string plan = folder_ / "plan.json";
  ASSERT_EQ(RunHeddle("plan --strategy 1f1b --model 'tiny-mlp?layers=6' --optimizer sgd --batch 8 "
                      "--microbatches 4 --cluster " +
                      ClusterFile("mixed4") + " -o " + plan)
                .exit_code,
            0);
  const std::string flags = " run " + plan + " --steps 20 --rate 1e30 --dir " + (folder_ / "");
  const std::string port = std::to_string(11000 + getpid() % 1000 * 20);
  std::string ranks = "export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + ";";
  for (int rank = 3; rank >= 0; --rank) {
    ranks += " RANK=" + std::to_string(rank) + " " + HeddleBinary() + flags + "ranks --json" +
             (rank > 0 ? " > /dev/null & p" + std::to_string(rank) + "=$!;" : "");
  }
  ranks += "; code=$?; for p in $p1 $p2 $p3; do wait $p; [ $? = 5 ] || exit 99; done; exit $code";
  std::string first;
  for (const std::string& line : {HeddleBinary() + flags + "threads --threads --json",
                                  HeddleBinary() + flags + "processes --json", ranks}) {
    const Ran ran = RunShell(line);
    EXPECT_EQ(ran.exit_code, 5) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("nothing was saved: start again with a smaller --rate"));
    EXPECT_EQ(ran.err.find("heddle: "), ran.err.rfind("heddle: ")) << ran.err;  // said once
    const Result<Json> json = ParseJson(ran.out, "run");
    ASSERT_TRUE(json.ok()) << ran.out;
    EXPECT_EQ(json.value()["exit_code"], 5);
    const std::string said =
        json.value()["where"].get<std::string>() + json.value()["error"].get<std::string>();
    if (first.empty()) first = said;
    EXPECT_EQ(said, first);
  }
}

}  // namespace
}  // namespace heddle
