// Four hosts that are network namespaces of this machine, with shaped links between them: the same
// bits as on one host.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::HasSubstr;

class Namespaces {
 public:
  Namespaces() : made_(Script("make")) {}
  ~Namespaces() { Script("remove"); }
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;

  int made() const { return made_; }
  std::string In(int host) const {
    return "ip netns exec " + tag_ + "n" + std::to_string(host) + " ";
  }

 private:
  int Script(const std::string& verb) const {
    return RunShell(std::string("bash ") + SourceDir() + "/tests/support/namespaces.sh " + verb +
                    " " + tag_)
        .exit_code;
  }

  std::string tag_ = "hd" + std::to_string(getpid() % 10000);
  int made_;
};

TEST(NamespacesTest, FourHostsGiveTheSameBits) {
  ASSERT_EQ(system("command -v ip > /dev/null && command -v tc > /dev/null"), 0)
      << "./dev test installs iproute2";
  const ScratchFolder folder;
  const Namespaces hosts;
  if (hosts.made() != 0) GTEST_SKIP() << "making network namespaces is not permitted here";
  const std::string plan = folder / "plan.json";
  ASSERT_EQ(RunHeddle("plan --strategy 1f1b --model 'tiny-gpt?layers=6' --batch 8 --cluster " +
                      ClusterFile("mixed4") + " -o " + plan)
                .exit_code,
            0);
  const Ran alone = RunHeddle("run " + plan + " --steps 3 --json --dir " + (folder / "alone"));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  std::string line =
      "export WORLD_SIZE=4 MASTER_ADDR=10.77.0.1 MASTER_PORT=29477 "
      "HEDDLE_SECRET=a-secret-of-four-hosts;";
  for (int rank = 3; rank >= 0; --rank) {
    line += " RANK=" + std::to_string(rank) + " " + hosts.In(rank) + HeddleBinary() + " run " +
            plan + " --steps 3 --json --dir " + (folder / "hosts") +
            (rank > 0 ? " > /dev/null &" : "");
  }
  const Ran together = RunShell(line + "; code=$?; wait; exit $code");
  ASSERT_EQ(together.exit_code, 0) << together.err;
  EXPECT_THAT(together.err,
              HasSubstr("4 processes meet at 10.77.0.1:29477, this host is 10.77.0.1 to them"));
  EXPECT_EQ(ParseJson(together.out, "run").value()["parameter_hash"],
            ParseJson(alone.out, "run").value()["parameter_hash"]);
}

// Nobody listens at the address: every process says so, and none waits for ever.
TEST(LaunchTest, AnUnreachableMasterIsAnError) {
  const ScratchFolder folder;
  const std::string plan = folder / "plan.json";
  ASSERT_EQ(RunHeddle("plan --strategy dp --model tiny-mlp --batch 8 --cluster " +
                      ClusterFile("laptop") + " -o " + plan)
                .exit_code,
            0);
  const Ran ran =
      RunShell(std::string("WORLD_SIZE=2 RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=9 "
                           "HEDDLE_SECRET=a-secret-of-nobody ") +
               HeddleBinary() + " run " + plan + " --meet-within 2 --dir " + (folder / "run"));
  EXPECT_EQ(ran.exit_code, 5);
  EXPECT_THAT(ran.err, HasSubstr("127.0.0.1:9"));
  EXPECT_THAT(ran.err, HasSubstr("cannot reach the others"));
}

}  // namespace
}  // namespace heddle
