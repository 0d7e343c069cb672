// heddle run under launchers of others: the same bits as by itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::HasSubstr;

std::string PlanIn(const ScratchFolder& folder, const std::string& name, int batch) {
  const std::string path = folder / name;
  const Ran ran = RunHeddle(
      "plan --strategy 1f1b --model 'tiny-mlp?layers=6' --microbatches 4 "
      "--cluster " +
      ClusterFile("mixed4") + " --batch " + std::to_string(batch) + " -o " + path);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  return path;
}

std::string HashIn(const std::string& out) {
  return ParseJson(out, "run").value()["parameter_hash"];
}

int FreePort() { return 20000 + getpid() % 20000; }

TEST(LaunchTest, Mpirun) {
  ASSERT_EQ(system("command -v mpirun > /dev/null"), 0) << "./dev test installs openmpi-bin";
  const ScratchFolder folder;
  const std::string plan = PlanIn(folder, "plan.json", 8);
  const Ran alone = RunHeddle("run " + plan + " --steps 3 --json --dir " + (folder / "alone"));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const Ran together = RunShell(std::string("mpirun --allow-run-as-root --oversubscribe -n 4 ") +
                                HEDDLE_BINARY + " run " + plan + " --steps 3 --json --dir " +
                                (folder / "mpi") + " --port " + std::to_string(FreePort()));
  ASSERT_EQ(together.exit_code, 0) << together.err;
  EXPECT_EQ(HashIn(together.out), HashIn(alone.out));
  EXPECT_THAT(together.err, HasSubstr("mpirun: 4 processes meet at 127.0.0.1:"));
}

// As torchrun would, or a person.
std::string Ranks(const std::vector<std::string>& plans, int ranks, const std::string& flags) {
  std::string line = "export WORLD_SIZE=" + std::to_string(ranks) +
                     " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(FreePort() + 1) + ";";
  for (size_t rank = plans.size(); rank-- > 0;) {
    line += " RANK=" + std::to_string(rank) + " " + HEDDLE_BINARY + " run " + plans[rank] + " " +
            flags + (rank > 0 ? " > /dev/null &" : "");
  }
  return line + "; code=$?; wait; exit $code";
}

TEST(LaunchTest, TorchrunsVariables) {
  const ScratchFolder folder;
  const std::string plan = PlanIn(folder, "plan.json", 8);
  const Ran ran =
      RunShell(Ranks({plan, plan, plan, plan}, 4, "--steps 3 --json --dir " + (folder / "run")));
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ParseJson(ran.out, "run").value()["steps"], 3);
}

TEST(LaunchTest, AnotherPlanOrNumberIsRefused) {
  const ScratchFolder folder;
  const std::string plan = PlanIn(folder, "plan.json", 8);
  const std::string other = PlanIn(folder, "other.json", 16);
  const std::string line = Ranks({plan, other}, 2, "--steps 3 --dir " + (folder / "run"));
  EXPECT_EQ(RunShell(line).exit_code, 4);
  EXPECT_THAT(RunShell(line).err, HasSubstr("started 2 processes, the plan has 4 devices"));
  const Ran ran =
      RunShell("timeout 20 sh -c '" +
               Ranks({plan, other, plan, plan}, 4, "--steps 3 --dir " + (folder / "run2")) + "'");
  EXPECT_THAT(ran.err, HasSubstr("give all devices the same heddle, plan and options"));
}

}  // namespace
}  // namespace heddle
