// heddle share --run: jobs in turns on the same devices have the parameters that they have alone,
// and go on when another one dies, hangs, or comes later.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>

#include "base/file.h"
#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "support/background.h"
#include "support/scratch_folder.h"
#include "torch/share_fixture.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class ShareTest : public testing::Test {
 protected:
  std::string MakeJobs(int count, int steps, const std::string& share = "") {
    return MakeShareJobs(folder_, count, steps, share);
  }

  ScratchFolder folder_;
};

Json Parsed(const Ran& ran) {
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  Result<Json> json = ParseJson(ran.out, "share");
  EXPECT_TRUE(json.ok()) << ran.out;
  return json.ok() ? std::move(json).value() : Json();
}

Json HashesOf(const std::string& directory, const std::string& phase, const std::string& job) {
  return ShareNotes(directory, phase, job)["hashes"];
}

TEST_F(ShareTest, ParametersAreThoseOfAJobAloneAfterEveryStep) {
  for (const char* order : {"rotation", "deficit"}) {
    const std::string jobs = MakeJobs(3, 12, std::string("order = \"") + order + "\"");
    const std::string directory = folder_ / order;
    const Json json = Parsed(RunHeddle("share " + jobs + " --run --json --dir " + directory));
    EXPECT_TRUE(json["hashes_equal"]) << json.dump(2);
    EXPECT_EQ(json["jobs"].size(), 3U);
    for (const char* job : {"a", "b", "c"}) {
      EXPECT_EQ(HashesOf(directory, "shared", job).size(), 12U);
      EXPECT_EQ(HashesOf(directory, "shared", job), HashesOf(directory, "alone", job));
    }
    EXPECT_NE(HashesOf(directory, "shared", "a"), HashesOf(directory, "shared", "b"));
  }
}

TEST_F(ShareTest, EmulatedDevicesKeepModelledTime) {
  const std::string jobs = MakeJobs(2, 6);
  const Json json =
      Parsed(RunHeddle("share " + jobs + " --run --emulate --json --dir " + (folder_ / "run")));
  EXPECT_TRUE(json["hashes_equal"]);
  EXPECT_TRUE(json["emulated"]);
  // Nothing is faster than the model allows, however busy this machine is.
  EXPECT_GT(json["period_bound_seconds"].get<double>(), 0);
  EXPECT_GE(json["shared_seconds"].get<double>(),
            0.9 * 6 * json["period_bound_seconds"].get<double>());
  EXPECT_GT(json["serial_seconds"].get<double>(), 0);
  EXPECT_GT(json["deadlines"].get<int64_t>(), 0);
}

// Served jobs of few and short steps: starting up takes longer than all of them. By their whole
// time the gain was 3; nothing is faster than two devices' worth.
TEST_F(ShareTest, StartUpIsNoGain) {
  EXPECT_TRUE(WriteFile(folder_ / "cluster.toml", kShareCluster).ok());
  std::string text = "schema = \"heddle.jobs/1\"\ncluster = \"cluster.toml\"\n";
  for (const char* name : {"a", "b"}) {
    text += std::string("[[job]]\nname = \"") + name +
            "\"\nmodel = \"mlp?layers=3&hidden=64&inputs=32\"\nbatch = 256\nsteps = 12\n"
            "sync = \"ps\"\noverlap = false\n";
  }
  EXPECT_TRUE(WriteFile(folder_ / "served.toml", text).ok());
  const Json json = Parsed(RunHeddle("share " + (folder_ / "served.toml") +
                                     " --run --one-group --json --dir " + (folder_ / "run")));
  EXPECT_EQ(json["enough_turns"], false);
  EXPECT_EQ(json["valid"], false);
  EXPECT_EQ(json["gain_limit"], 2);
  EXPECT_LE(json["steady_turns"], 11);
  for (const char* key : {"measured_gain", "measured_gain_high"}) {
    EXPECT_TRUE(json[key].is_null() || json[key] <= 2) << json.dump(2);
  }
  for (const Json& job : json["jobs"]) {
    EXPECT_TRUE(job["slowdown"].is_null() || job["slowdown"] >= 1) << json.dump(2);
  }
  EXPECT_TRUE(json["hashes_equal"]);
}

TEST_F(ShareTest, WithoutTurnsTheParametersAreTheSameToo) {
  const std::string jobs = MakeJobs(2, 8);
  const Json json =
      Parsed(RunHeddle("share " + jobs + " --run --together --json --dir " + (folder_ / "run")));
  EXPECT_TRUE(json["hashes_equal"]);
}

TEST_F(ShareTest, AJobThatComesLaterJoinsAndLeaves) {
  const std::string two = MakeJobs(2, 1'000'000), three = MakeJobs(3, 10);  // until it is over
  const std::string directory = folder_ / "run";
  Background share("share " + two + " --run --one-group --no-serial --dir " + directory, folder_);
  ASSERT_TRUE(share.Await([&] { return std::filesystem::exists(directory + "/share.json"); }))
      << share.err();
  const Ran joined = RunHeddle("share " + three + " --attach c --dir " + directory);
  EXPECT_EQ(joined.exit_code, 0) << joined.err << share.err();
  EXPECT_THAT(joined.out, HasSubstr("c: done"));
  const Ran again = RunHeddle("share " + three + " --attach c --dir " + directory);
  EXPECT_EQ(again.exit_code, 4) << again.err;
  EXPECT_THAT(share.err(), HasSubstr("c: joins"));
  EXPECT_GE(share.Children().size(), 2U) << "the others go on";
  share.Signal(SIGKILL);
  share.Wait();
  const Ran alone = RunHeddle("share " + three + " --run --json --dir " + (folder_ / "other"));
  EXPECT_EQ(HashesOf(directory, "shared", "c"), HashesOf(folder_ / "other", "alone", "c"));
}

TEST_F(ShareTest, NobodyIsThereToJoin) {
  const Ran ran =
      RunHeddle("share " + MakeJobs(2, 4) + " --attach a --dir " + (folder_ / "nothing"));
  EXPECT_EQ(ran.exit_code, 4);
  EXPECT_THAT(ran.err, HasSubstr("no share runs there"));
}

// Of eight tiny jobs five are killed or stopped at random moments, each some other way: they are
// named, and the rest have the parameters that they have alone.
TEST_F(ShareTest, SurvivorsAreAsIfAlone) {
  constexpr size_t kJobs = 8;
  constexpr int kKilled = 5, kSteps = 60;
  const std::string jobs = MakeJobs(kJobs, kSteps, "# all in one group");
  const std::string reference = folder_ / "reference";
  Parsed(RunHeddle("share " + jobs + " --run --json --one-group --dir " + reference));
  const char* wanted = std::getenv("HEDDLE_SHARE_FAULT_ROUNDS");
  const int rounds = wanted != nullptr ? std::atoi(wanted) : 6;
  std::mt19937 random(11);
  int all_failed = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string directory = folder_ / ("round" + std::to_string(round));
    Background share("share " + jobs + " --run --one-group --no-serial --dir " + directory,
                     folder_);
    // The leaders of the jobs, in their order; each has its ranks as children.
    const std::vector<pid_t> leaders = share.AwaitChildren(kJobs);
    ASSERT_EQ(leaders.size(), kJobs) << share.err();
    std::vector<size_t> order = {0, 1, 2, 3, 4, 5, 6, 7};
    std::shuffle(order.begin(), order.end(), random);
    for (int k = 0; k < kKilled; ++k) {
      std::this_thread::sleep_for(milliseconds(random() % 150));
      const pid_t leader = leaders[order[static_cast<size_t>(k)]];
      const std::vector<pid_t> ranks = Background::ChildrenOf(leader);
      const bool rank = k > 0 && !ranks.empty();
      kill(rank ? ranks[random() % ranks.size()] : leader, k == 1 ? SIGSTOP : SIGKILL);
    }
    const int code = share.Wait();
    const Json result = ParseJson(ReadFile(directory + "/result.json").value(), "result").value();
    int failed = 0;
    for (const Json& job : result["jobs"]) {
      const std::string name = job["name"];
      if (!job["ended_well"]) {
        ++failed;
        EXPECT_THAT(share.err(), HasSubstr(name + ": failed"));
        continue;
      }
      EXPECT_EQ(HashesOf(directory, "shared", name), HashesOf(reference, "alone", name))
          << "job " << name << " in round " << round;
    }
    EXPECT_EQ(code, failed > 0 ? 5 : 0) << share.err();
    EXPECT_LE(failed, kKilled) << share.err();
    all_failed += failed;
  }
  EXPECT_GT(all_failed, 0) << "nobody was killed before its end: the test tests nothing";
}

}  // namespace
}  // namespace heddle
