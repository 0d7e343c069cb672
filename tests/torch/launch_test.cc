// heddle run under launchers of others: the same bits as by itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "support/places.h"
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

// The first of twenty that no other test of this run uses, below those the system hands out.
int FreePort() { return 10000 + getpid() % 1000 * 20; }

TEST(LaunchTest, Mpirun) {
  ASSERT_EQ(system("command -v mpirun > /dev/null"), 0) << "./dev test installs openmpi-bin";
  const ScratchFolder folder;
  const std::string plan = PlanIn(folder, "plan.json", 8);
  const Ran alone = RunHeddle("run " + plan + " --steps 3 --json --dir " + (folder / "alone"));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const Ran together = RunShell(std::string("mpirun --allow-run-as-root --oversubscribe -n 4 ") +
                                HeddleBinary() + " run " + plan + " --steps 3 --json --dir " +
                                (folder / "mpi") + " --port " + std::to_string(FreePort()));
  ASSERT_EQ(together.exit_code, 0) << together.err;
  EXPECT_EQ(HashIn(together.out), HashIn(alone.out));
  EXPECT_THAT(together.err, HasSubstr("mpirun: 4 processes meet at /tmp/heddle-"));
}

// Devices are paced, each in its process; messages are real ones, and the bits what they were.
TEST(LaunchTest, EmulatedDevicesOverRealLinks) {
  const ScratchFolder folder;
  const std::string plan = PlanIn(folder, "plan.json", 8);
  const Ran alone = RunHeddle("run " + plan + " --steps 5 --json --dir " + (folder / "alone"));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  std::string line =
      "export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(FreePort() + 14) +
      ";";
  for (int rank = 3; rank >= 0; --rank) {
    line += " RANK=" + std::to_string(rank) + " " + HeddleBinary() + " run " + plan +
            " --emulate --steps 5 --json --dir " + (folder / "paced") +
            (rank > 0 ? " > /dev/null &" : "");
  }
  const Ran paced = RunShell(line + "; code=$?; wait; exit $code");
  ASSERT_EQ(paced.exit_code, 0) << paced.err;
  const Json json = ParseJson(paced.out, "run").value();
  EXPECT_EQ(HashIn(paced.out), HashIn(alone.out));
  EXPECT_TRUE(json["emulated"]);
  EXPECT_EQ(json["dilation"], 1);
  EXPECT_THAT(paced.err, HasSubstr("devices are paced, messages are not"));
  // Two steps are paced, in which each of four stages computes four microbatches forward and
  // backward, and updates: more than one device's.
  EXPECT_EQ(json["deadlines"], 2 * 4 * (2 * 4 + 1));
}

// Four nodes of a Slurm cluster that is all on this machine.
class Slurm {
 public:
  explicit Slurm(int port) {
    started_ = RunShell(Script("start") + " " + std::to_string(port)).exit_code;
  }
  ~Slurm() { RunShell(Script("stop")); }
  int started() const { return started_; }
  Ran Run(const std::string& command) const {
    return RunShell("SLURM_CONF=" + (folder_ / "slurm.conf") + " srun -N4 -n4 " + command);
  }

 private:
  std::string Script(const std::string& verb) const {
    return std::string("bash ") + SourceDir() + "/tests/support/slurm_cluster.sh " + verb + " " +
           (folder_ / "");
  }
  ScratchFolder folder_;
  int started_;
};

TEST(LaunchTest, Srun) {
  ASSERT_EQ(system("command -v srun > /dev/null"), 0) << "./dev test installs slurm-client";
  const Slurm slurm(FreePort() + 10);
  constexpr int kNotPermitted = 77;
  if (slurm.started() == kNotPermitted) GTEST_SKIP() << "Slurm's daemons need to be root";
  ASSERT_EQ(slurm.started(), 0);
  const ScratchFolder folder;
  const std::string plan = PlanIn(folder, "plan.json", 8);
  const Ran alone = RunHeddle("run " + plan + " --steps 3 --json --dir " + (folder / "alone"));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  const std::string line = HeddleBinary() + " run " + plan + " --steps 3 --json --dir " +
                           (folder / "srun") + " --port " + std::to_string(FreePort() + 2);
  // Four nodes: nothing says that they are one host.
  const Ran refused = slurm.Run(line);
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.err, HasSubstr("MASTER_ADDR: is not set"));
  const Ran together = slurm.Run("--export=ALL,MASTER_ADDR=127.0.0.1 " + line);
  ASSERT_EQ(together.exit_code, 0) << together.err;
  EXPECT_EQ(HashIn(together.out), HashIn(alone.out));
  EXPECT_THAT(together.err, HasSubstr("srun: 4 processes meet at /tmp/heddle-"));
}

// As torchrun would, or a person.
std::string Ranks(const std::vector<std::string>& plans, int ranks, const std::string& flags) {
  std::string line = "export WORLD_SIZE=" + std::to_string(ranks) +
                     " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(FreePort() + 1) + ";";
  for (size_t rank = plans.size(); rank-- > 0;) {
    line += " RANK=" + std::to_string(rank) + " " + HeddleBinary() + " run " + plans[rank] + " " +
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

// Nobody started these together: they find out by themselves that one is gone or stopped.
TEST(LaunchTest, AStoppedRankIsNamedToAll) {
  const ScratchFolder folder;
  const std::string plan = PlanIn(folder, "plan.json", 8);
  for (const int victim : {2, 0}) {
    const std::string run = folder / ("run" + std::to_string(victim));
    std::string line =
        "export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(FreePort() + 3) +
        "; ";
    std::string wait;
    for (int rank = 0; rank < 4; ++rank) {
      const std::string number = std::to_string(rank);
      line += "RANK=" + number + " " + HeddleBinary() + " run " + plan + " --steps 1000000 --dir " +
              run + " > /dev/null & p" + number + "=$!; ";
      if (rank != victim) wait += "wait $p" + number + "; echo code $?; ";
    }
    const std::string signalled = " $p" + std::to_string(victim) + "; ";
    const std::string runs = "grep -q '^State:.[^Z]' /proc/$p" + std::to_string(victim) + "/status";
    const Ran ran =
        RunShell(line + "while ! test -s " + run + "/log.jsonl && " + runs +
                 "; do sleep 0.1; done; kill -STOP" + signalled + wait + "kill -9" + signalled);
    EXPECT_EQ(ran.out, "code 5\ncode 5\ncode 5\n") << ran.err;
    EXPECT_THAT(ran.err, HasSubstr("device " + std::to_string(victim) + " ("));
    EXPECT_THAT(ran.err, HasSubstr("does not answer"));
  }
}

TEST(LaunchTest, AnotherPlanOrNumberIsRefused) {
  const ScratchFolder folder;
  const std::string plan = PlanIn(folder, "plan.json", 8);
  const std::string other = PlanIn(folder, "other.json", 16);
  const std::string line = Ranks({plan, other}, 2, "--steps 3 --dir " + (folder / "run"));
  EXPECT_EQ(RunShell(line).exit_code, 4);
  EXPECT_THAT(RunShell(line).err, HasSubstr("started 2 processes, the plan has 4 devices"));
  const Ran ran = RunShell(
      Ranks({plan, other, plan, plan}, 4, "--steps 3 --meet-within 20 --dir " + (folder / "run2")));
  EXPECT_THAT(ran.err, HasSubstr("give all devices the same heddle, plan and options"));
}

}  // namespace
}  // namespace heddle
