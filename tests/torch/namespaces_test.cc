// Four hosts that are network namespaces of this machine, with shaped links between them: the same
// bits as on one host.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::HasSubstr;

// One bridge, a pair of interfaces for each host, 400 Mbit/s both ways. Exit 77: not permitted.
constexpr char kMakeHosts[] = R"sh(
tag=$1
ip netns add ${tag}n0 2> /dev/null || exit 77
ip netns del ${tag}n0
ip link add ${tag}br type bridge || exit 77
ip link set ${tag}br up
for k in 0 1 2 3; do
  ip netns add ${tag}n$k
  ip link add ${tag}v$k type veth peer name eth0 netns ${tag}n$k
  ip link set ${tag}v$k master ${tag}br
  ip link set ${tag}v$k up
  ip -n ${tag}n$k link set lo up
  ip -n ${tag}n$k addr add 10.77.0.$((k + 1))/24 dev eth0
  ip -n ${tag}n$k link set eth0 up
  tc qdisc add dev ${tag}v$k root tbf rate 400mbit burst 128kb latency 50ms || exit 77
  ip netns exec ${tag}n$k tc qdisc add dev eth0 root tbf rate 400mbit burst 128kb latency 50ms
done
)sh";

constexpr char kRemoveHosts[] = R"sh(
for k in 0 1 2 3; do ip netns del ${1}n$k; done
ip link del ${1}br
)sh";

class Namespaces {
 public:
  explicit Namespaces(const ScratchFolder& folder)
      : folder_(folder), tag_("hd" + std::to_string(getpid() % 10000)) {
    made_ = Script("make.sh", kMakeHosts).exit_code;
  }
  ~Namespaces() { Script("remove.sh", kRemoveHosts); }
  Namespaces(const Namespaces&) = delete;
  Namespaces& operator=(const Namespaces&) = delete;

  int made() const { return made_; }
  std::string In(int host) const {
    return "ip netns exec " + tag_ + "n" + std::to_string(host) + " ";
  }

 private:
  Ran Script(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(WriteFile(folder_ / name, text).ok());
    return RunShell("bash " + (folder_ / name) + " " + tag_ + " 2> /dev/null");
  }

  const ScratchFolder& folder_;
  std::string tag_;
  int made_;
};

TEST(NamespacesTest, FourHostsGiveTheSameBits) {
  ASSERT_EQ(system("command -v ip > /dev/null && command -v tc > /dev/null"), 0)
      << "./dev test installs iproute2";
  const ScratchFolder folder;
  const Namespaces hosts(folder);
  if (hosts.made() != 0) GTEST_SKIP() << "making network namespaces is not permitted here";
  const std::string plan = folder / "plan.json";
  ASSERT_EQ(RunHeddle("plan --strategy 1f1b --model 'tiny-gpt?layers=6' --batch 8 --cluster " +
                      ClusterFile("mixed4") + " -o " + plan)
                .exit_code,
            0);
  const Ran alone = RunHeddle("run " + plan + " --steps 3 --json --dir " + (folder / "alone"));
  ASSERT_EQ(alone.exit_code, 0) << alone.err;
  std::string line = "export WORLD_SIZE=4 MASTER_ADDR=10.77.0.1 MASTER_PORT=29477;";
  for (int rank = 3; rank >= 0; --rank) {
    line += " RANK=" + std::to_string(rank) + " " + hosts.In(rank) + HEDDLE_BINARY + " run " +
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
      RunShell(std::string("WORLD_SIZE=2 RANK=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=9 ") +
               HEDDLE_BINARY + " run " + plan + " --meet-within 2 --dir " + (folder / "run"));
  EXPECT_EQ(ran.exit_code, 5);
  EXPECT_THAT(ran.err, HasSubstr("127.0.0.1:9"));
  EXPECT_THAT(ran.err, HasSubstr("cannot reach the others"));
}

}  // namespace
}  // namespace heddle
