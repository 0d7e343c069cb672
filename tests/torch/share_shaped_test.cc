// heddle share --run --shaped: emulated devices, real messages over shaped links between network
// namespaces. Nothing is left of them, however the share ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "cli/run_heddle.h"
#include "support/background.h"
#include "torch/share_fixture.h"

namespace heddle {
namespace {

using testing::HasSubstr;

constexpr char kNotPermitted[] = "not permitted here";

TEST(ShareShapedTest, MeetsThePredictionAndKeepsTheBits) {
  const ScratchFolder folder;
  const std::string jobs = MakeShareJobs(folder, 2, 8);
  const Ran ran =
      RunHeddle("share " + jobs + " --run --shaped --one-group --json --dir " + (folder / "run"));
  if (ran.exit_code == 4 && ran.err.find(kNotPermitted) != std::string::npos) {
    EXPECT_THAT(ran.err, HasSubstr("as root"));
    GTEST_SKIP() << ran.err;
  }
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json json = ParseJson(ran.out, "share").value();
  EXPECT_TRUE(json["hashes_equal"]) << json.dump(2);
  EXPECT_TRUE(json["shaped_links"]);
  for (const Json& job : json["jobs"]) {
    // Links carry no more than their rate, however busy this machine is. A tenth is for what they
    // let pass at once.
    EXPECT_GT(job["predicted_step_seconds"], 0);
    EXPECT_GE(job["shared_step_seconds"].get<double>(),
              0.9 * job["predicted_step_seconds"].get<double>())
        << json.dump(2);
  }
}

// The share is interrupted, and its processes die with it: no namespace had a name, so none is
// left.
TEST(ShareShapedTest, NothingIsLeftAfterKilling) {
  const ScratchFolder folder;
  const std::string jobs = MakeShareJobs(folder, 2, 1'000'000);
  for (const int signal : {SIGINT, SIGKILL}) {
    const std::string directory = folder / ("run" + std::to_string(signal));
    Background share("share " + jobs + " --run --shaped --one-group --no-serial --dir " + directory,
                     folder);
    const bool began =
        share.Await([&] { return std::filesystem::exists(directory + "/share.json"); });
    if (!began && share.err().find(kNotPermitted) != std::string::npos) GTEST_SKIP() << share.err();
    ASSERT_TRUE(began) << share.err();
    std::vector<pid_t> all;
    for (const pid_t leader : share.AwaitChildren(2)) {
      all.push_back(leader);
      for (const pid_t rank : Background::ChildrenOf(leader)) all.push_back(rank);
    }
    share.Signal(signal);
    share.Wait();
    // Of those that are dead, and not yet buried, the network is gone too.
    const auto has_network = [](pid_t process) {
      char link[64];
      const std::string path = "/proc/" + std::to_string(process) + "/ns/net";
      return readlink(path.c_str(), link, sizeof link) > 0;
    };
    while (std::any_of(all.begin(), all.end(), has_network)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const Ran links = RunShell("ip -o link");
    EXPECT_EQ(links.out.find("plug0"), std::string::npos) << links.out;
    EXPECT_EQ(links.out.find(": hub"), std::string::npos) << links.out;
  }
}

}  // namespace
}  // namespace heddle
