// Tensors at the allocator against the peak that the checker states, of SPMD programs.

#include <gtest/gtest.h>

#include "program/spmd_plans.h"
#include "run/data/synthetic.h"
#include "run/torch/tensor_memory.h"
#include "run/torch/torch_threads.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

const std::vector<std::vector<std::string>> kFlat = {{"a:0", "a:1", "b:0", "b:1"}};

void ExpectStatedMemory(const std::string& model, int64_t batch, bool sharded,
                        int64_t microbatches = 1, bool converts_each = false) {
  InstallTensorMemory();
  const Planning planning = MakePlanning(model, batch, Optimizer::kAdam, 1);
  const std::vector<double> shares = {0.3, 0.3, 0.2, 0.2};
  Plan plan = planning.Blank("spmd", "spmd");
  plan.spmd = sharded ? ZeroSharded(planning.graph, kFlat, shares)
                      : DataParallel(planning.graph, kFlat, shares);
  plan.microbatches = microbatches;
  plan.spmd->converts_each = converts_each;
  const Program program = LowerPlan(plan, planning.graph).value();
  const Verdict verdict = CheckProgram(program, {&planning.graph, {}});
  ASSERT_TRUE(verdict.ok()) << verdict.findings[0].message;
  const auto data = MakeSyntheticData(planning.graph, {});
  TrainOptions train;
  train.dtype = DType::kF32;
  const Executors executors = MakeExecutors(program, planning.graph, *data, train);
  for (const auto& executor : executors) executor->memory().ResetPeak();
  ASSERT_TRUE(RunThreads(program, 2, executors).ok());
  for (size_t d = 0; d < executors.size(); ++d) {
    const auto measured = static_cast<double>(executors[d]->memory().peak());
    const auto stated = static_cast<double>(verdict.memory[d].peak.value);
    EXPECT_LE(measured, 1.10 * stated) << model << " " << program.devices[d].name;
    EXPECT_GE(measured, 0.85 * stated) << model << " " << program.devices[d].name;
  }
}

TEST(SpmdMemoryTest, TheAllocatorSeesWhatTheCheckerStates) {
  ExpectStatedMemory("tiny-gpt?hidden=128", 16, /*sharded=*/false);
  ExpectStatedMemory("tiny-gpt?hidden=128", 16, /*sharded=*/true);
  ExpectStatedMemory("tiny-moe?hidden=128&seq=32", 16, /*sharded=*/true);
}

TEST(SpmdMemoryTest, OfMicrobatches) {
  for (const bool each : {false, true}) {
    ExpectStatedMemory("tiny-gpt?hidden=128", 16, /*sharded=*/true, 4, each);
  }
}

}  // namespace
}  // namespace heddle
