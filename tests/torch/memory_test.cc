// Tensors at the allocator against the peak that the checker states: for every kind of model and
// plan no more than it, and not much less.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include "choose/planners.h"
#include "run/data/synthetic.h"
#include "run/torch/tensor_memory.h"
#include "run/torch/torch_threads.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

struct MemoryCase {
  std::string name, model, strategy;
  int64_t batch, microbatches;
};

void PrintTo(const MemoryCase& one, std::ostream* out) { *out << one.name; }

class MemoryTest : public testing::TestWithParam<MemoryCase> {};

TEST_P(MemoryTest, TheAllocatorSeesWhatTheCheckerStates) {
  InstallTensorMemory();
  const MemoryCase& c = GetParam();
  const Planning planning = MakePlanning(c.model, c.batch, Optimizer::kAdam, c.microbatches);
  const Plan plan = MakePlan(c.strategy, planning).value();
  const Program program = LowerPlan(plan, planning.graph).value();
  const Verdict verdict = CheckProgram(program, {&planning.graph, {}});
  ASSERT_TRUE(verdict.ok());
  const auto data = MakeSyntheticData(planning.graph, {});
  TrainOptions train;
  train.dtype = DType::kF32;
  const Executors executors = MakeExecutors(program, planning.graph, *data, train);
  ASSERT_TRUE(RunThreads(program, 2, executors).ok());
  for (size_t d = 0; d < executors.size(); ++d) {
    const auto measured = static_cast<double>(executors[d]->memory().peak());
    const auto stated = static_cast<double>(verdict.memory[d].peak.value);
    EXPECT_LE(measured, 1.10 * stated) << program.devices[d].name;
    EXPECT_GE(measured, 0.90 * stated) << program.devices[d].name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Zoo, MemoryTest,
    testing::Values(
        MemoryCase{"gpt_dp", "tiny-gpt?hidden=128", "dp", 16, 1},
        MemoryCase{"gpt_dp_4", "tiny-gpt?hidden=128", "dp", 32, 4},
        MemoryCase{"gpt_1f1b", "tiny-gpt?layers=6&hidden=128", "1f1b", 32, 8},
        MemoryCase{"gpt_gpipe", "tiny-gpt?layers=6&hidden=128", "gpipe", 32, 8},
        MemoryCase{"mlp_dp", "mlp?hidden=512", "dp", 64, 1},
        MemoryCase{"bert_dp", "bert-base?layers=2&hidden=256&heads=4&seq=64&vocab=2000", "dp", 8,
                   1},
        MemoryCase{"vgg_dp", "vgg19?width=16&image=64&hidden=256&classes=10", "dp", 16, 1},
        MemoryCase{"resnet_1f1b",
                   "resnet152?width=16&image=64&blocks1=1&blocks2=1&blocks3=1&blocks4=1", "1f1b",
                   16, 4},
        MemoryCase{"moe_1f1b", "tiny-moe?hidden=128&seq=64", "1f1b", 32, 4},
        MemoryCase{"transformer_gpipe",
                   "transformer?layers=2&hidden=128&wide=256&heads=4&vocab=1000&seq=64", "gpipe",
                   16, 4},
        MemoryCase{"inception_dp", "inception-v3?width=8&image=139&classes=10", "dp", 8, 1},
        MemoryCase{"vit_dp", "vit?layers=2&hidden=256&heads=4&image=64&patch=8&classes=10", "dp",
                   16, 1}),
    [](const auto& memory_case) { return memory_case.param.name; });

TEST(MemoryAccountTest, CountsWhereTensorsAreMadeNotWhereTheyGo) {
  InstallTensorMemory();
  MemoryAccount account;
  at::Tensor tensor;
  {
    const MemoryScope scope(&account);
    tensor = at::empty({1024}, at::kFloat);
    EXPECT_EQ(account.live(), 4096);
  }
  const at::Tensor elsewhere = at::empty({1024}, at::kFloat);
  EXPECT_EQ(account.live(), 4096);
  std::thread([&] { tensor.reset(); }).join();
  EXPECT_EQ(account.live(), 0);
  EXPECT_EQ(account.peak(), 4096);
  account.ResetPeak();
  EXPECT_EQ(account.peak(), 0);
}

// As one does that a message still holds when its device is gone.
TEST(MemoryAccountTest, ATensorMayOutliveItsAccount) {
  InstallTensorMemory();
  at::Tensor kept;
  {
    MemoryAccount account;
    const MemoryScope scope(&account);
    kept = at::zeros({1000});
    EXPECT_GE(account.live(), 4000);
  }
  kept.reset();  // the address sanitizer looks on
}

TEST(MemoryAccountTest, FreedMemoryIsUsedAgain) {
  InstallTensorMemory();
  at::Tensor first = at::empty({123456}, at::kFloat);
  const void* place = first.data_ptr();
  first.reset();
  EXPECT_EQ(at::empty({123456}, at::kFloat).data_ptr(), place);
}

}  // namespace
}  // namespace heddle
