// heddle share --run with jobs that wait in mid-step: pipelines, SPMD plans, parameter servers,
// asynchronous pipelines and LocalSGD have the parameters that they have alone, too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "support/background.h"
#include "support/scratch_folder.h"
#include "torch/share_fixture.h"

namespace heddle {
namespace {

using testing::HasSubstr;

class ShareStrategies : public testing::Test {
 protected:
  // One job for each, called a, b, c …; lines of the jobs file.
  std::string Jobs(const std::vector<std::string>& lines, int steps = 16) {
    EXPECT_TRUE(WriteFile(folder_ / "cluster.toml", kShareCluster).ok());
    std::string text = "schema = \"heddle.jobs/1\"\ncluster = \"cluster.toml\"\n";
    for (size_t k = 0; k < lines.size(); ++k) {
      text += std::string("[[job]]\nname = \"") + static_cast<char>('a' + k) +
              "\"\nmodel = \"mlp?layers=4&hidden=48&inputs=" + std::to_string(32 + 8 * k) +
              "\"\nbatch = 64\nsteps = " + std::to_string(steps) + "\n" + lines[k] + "\n";
    }
    EXPECT_TRUE(WriteFile(folder_ / "jobs.toml", text).ok());
    return folder_ / "jobs.toml";
  }

  Json Run(const std::vector<std::string>& lines, const std::string& options) {
    const Ran ran = RunHeddle("share " + Jobs(lines) + " --run --one-group --json --dir " +
                              (folder_ / "run") + " " + options);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    Result<Json> json = ParseJson(ran.out, "share");
    EXPECT_TRUE(json.ok()) << ran.out;
    return json.ok() ? std::move(json).value() : Json{{"hashes_equal", false}};
  }

  ScratchFolder folder_;
};

TEST_F(ShareStrategies, PipelinesAndSpmdPlansShare) {
  const Json json = Run({"strategy = \"1f1b\"\nmicrobatches = 4", "strategy = \"spmd\"",
                         "strategy = \"pipeline\"\nmicrobatches = 2"},
                        "");
  EXPECT_TRUE(json["hashes_equal"]) << json.dump(2);
  EXPECT_EQ(json["jobs"].size(), 3U);
}

TEST_F(ShareStrategies, ParameterServersShareWithAllReduce) {
  const Json json = Run({"sync = \"ps\"", "compress = \"fp16\"", "sync = \"ps\""}, "");
  EXPECT_TRUE(json["hashes_equal"]) << json.dump(2);
}

TEST_F(ShareStrategies, AsynchronousAndLocalJobsShare) {
  const Json json = Run({"strategy = \"async\"", "strategy = \"local\"", "strategy = \"dp\""}, "");
  EXPECT_TRUE(json["hashes_equal"]) << json.dump(2);
}

// LocalSGD averages its weights: a hash while they are on their way would be of neither.
TEST_F(ShareStrategies, LocalJobsTakeTurnsInOneOrder) {
  const Json json = Run({"strategy = \"local\"", "strategy = \"local\""}, "");
  EXPECT_TRUE(json["hashes_equal"]) << json.dump(2);
}

TEST_F(ShareStrategies, AnEmulatedNetworkGivesOutTickets) {
  const Json json =
      Run({"strategy = \"gpipe\"\nmicrobatches = 2", "strategy = \"dp\""}, "--emulate --dilate 8");
  EXPECT_TRUE(json["hashes_equal"]) << json.dump(2);
  EXPECT_TRUE(json["emulated"]);
  // Forward, backward and update of one device, and its messages: at least that many.
  EXPECT_GT(json["deadlines"].get<int64_t>(), 16 * 4);
}

TEST_F(ShareStrategies, TogetherOnAnEmulatedNetwork) {
  const Json json = Run({"sync = \"ps\"", "strategy = \"dp\""}, "--emulate --dilate 8 --together");
  EXPECT_TRUE(json["hashes_equal"]) << json.dump(2);
}

// A pipeline that fails with the device, or in the middle of a message, leaves its tickets and its
// device to the others.
TEST_F(ShareStrategies, TheOthersGoOnWithoutAPipeline) {
  const std::string jobs =
      Jobs({"strategy = \"1f1b\"\nmicrobatches = 4", "sync = \"ps\"", "strategy = \"dp\""});
  for (const char* how : {"do=kill", "do=hang"}) {
    const std::string directory = folder_ / how;
    Background share(
        "share " + jobs + " --run --one-group --dir " + directory, folder_,
        std::string("HEDDLE_SHARE_FAULT='job=a rank=1 step=6 at=holding ") + how + "'");
    EXPECT_EQ(share.Wait(), 5) << share.err();
    EXPECT_THAT(share.err(), HasSubstr("a: failed: "));
    for (const char* job : {"b", "c"}) {
      for (const int rank : {0, 1}) {
        EXPECT_EQ(ShareNotes(directory, "shared", job, rank)["hashes"],
                  ShareNotes(directory, "alone", job, rank)["hashes"]);
      }
    }
  }
}

// Where nobody goes in one order, a job of any kind may come later.
TEST_F(ShareStrategies, AnSpmdJobJoinsAPipelineLater) {
  const std::vector<std::string> three = {"strategy = \"1f1b\"\nmicrobatches = 4",
                                          "strategy = \"dp\"", "strategy = \"spmd\""};
  const Json alone = Run(three, "");
  EXPECT_TRUE(alone["hashes_equal"]);
  const std::string directory = folder_ / "joined";
  const std::string jobs = Jobs({three[0], three[1]}, 1'000'000);  // until the test is over
  Background share("share " + jobs + " --run --one-group --no-serial --dir " + directory, folder_);
  ASSERT_TRUE(share.Await([&] { return std::filesystem::exists(directory + "/share.json"); }))
      << share.err();
  const Ran joined = RunHeddle("share " + Jobs(three) + " --attach c --dir " + directory);
  EXPECT_EQ(joined.exit_code, 0) << joined.err << share.err();
  EXPECT_GE(share.Children().size(), 2U) << "the others go on";
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ShareNotes(directory, "shared", "c", rank)["hashes"],
              ShareNotes(folder_ / "run", "alone", "c", rank)["hashes"]);
  }
}

}  // namespace
}  // namespace heddle
