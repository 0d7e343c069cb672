// An SPMD plan's file on the command line: checked, simulated, verified and run.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "program/spmd_plans.h"
#include "support/scratch_folder.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

using testing::HasSubstr;

class SpmdCommandTest : public testing::Test {
 protected:
  SpmdCommandTest() {
    const Planning planning = MakePlanning("tiny-mlp?layers=2", 6, Optimizer::kAdam, 1, /*clip=*/1);
    Plan plan = planning.Blank("spmd", "spmd");
    plan.microbatches = 1;
    plan.spmd = ZeroSharded(planning.graph, {{"a:0", "a:1", "b:0"}}, {0.5, 0.3, 0.2});
    json_ = PlanToJson(plan, GraphOf(plan).value());
    Write(json_);
  }

  void Write(const Json& json) const { std::ofstream(path_) << json.dump(1) << "\n"; }

  std::string HashOfRun(const std::string& options) const {
    const Ran ran = RunHeddle("run " + path_ + " --steps 3 --dtype fp64 --json " + options);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return ran.exit_code == 0 ? ParseJson(ran.out, "run").value()["parameter_hash"] : "";
  }

  ScratchFolder folder_;
  std::string path_ = folder_ / "plan.json";
  Json json_;
};

TEST_F(SpmdCommandTest, CheckedSimulatedAndVerified) {
  for (const char* command : {"check ", "simulate ", "verify ", "explain "}) {
    const Ran ran = RunHeddle(command + path_);
    EXPECT_EQ(ran.exit_code, 0) << command << ran.err;
  }
}

TEST_F(SpmdCommandTest, ProcessesAndThreadsGiveTheSameBits) {
  const std::string processes = HashOfRun("--dir " + (folder_ / "processes"));
  EXPECT_EQ(processes.size(), 16U);
  EXPECT_EQ(HashOfRun("--threads --dir " + (folder_ / "threads")), processes);
}

TEST_F(SpmdCommandTest, AnEditedPlanIsRefused) {
  Json edited = json_;
  edited["spmd"]["steps"].erase(0);
  Write(edited);
  const Ran ran = RunHeddle("verify " + path_);
  EXPECT_EQ(ran.exit_code, 4);
  EXPECT_THAT(ran.err, HasSubstr("spmd: steps[0]: needs"));
}

}  // namespace
}  // namespace heddle
