// heddle share --run: jobs in turns on the same devices have the parameters that they have alone,
// and go on when another one dies, hangs, or comes later.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/file.h"
#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Two nodes of one device; jobs wait for their gradients about as long as they compute.
constexpr char kCluster[] = R"(schema = "heddle.cluster/1"
[device_type.cpu]
flops = "1 GFLOP/s"
memory = "4 GiB"
memory_bandwidth = "1 GB/s"
[[node]]
name = "a"
devices = [{ type = "cpu" }]
[[node]]
name = "b"
devices = [{ type = "cpu" }]
[[link]]
between = ["a", "b"]
bandwidth = "10 MB/s"
latency = "50 us"
)";

class ShareTest : public testing::Test {
 protected:
  // Jobs called a, b, c …
  std::string MakeJobs(int count, int steps, const std::string& share = "") {
    EXPECT_TRUE(WriteFile(folder_ / "cluster.toml", kCluster).ok());
    std::string text =
        "schema = \"heddle.jobs/1\"\ncluster = \"cluster.toml\"\n[share]\nminimum_gain = 0\n" +
        share + "\n";
    for (int k = 0; k < count; ++k) {
      text += std::string("[[job]]\nname = \"") + static_cast<char>('a' + k) +
              "\"\nmodel = \"mlp?layers=3&hidden=64&inputs=" + std::to_string(32 + 8 * k) +
              "\"\nbatch = 256\nsteps = " + std::to_string(steps) + "\n";
    }
    const std::string path = folder_ / ("jobs" + std::to_string(count) + ".toml");
    EXPECT_TRUE(WriteFile(path, text).ok());
    return path;
  }

  ScratchFolder folder_;
};

// A share in the background: its leader's children lead the jobs, and have the ranks as theirs.
class Background {
 public:
  Background(const std::string& command, const ScratchFolder& folder)
      : out_(folder / "out"), err_(folder / "err") {
    pid_ = fork();
    if (pid_ != 0) return;
    setpgid(0, 0);
    if (freopen(out_.c_str(), "w", stdout) == nullptr) _exit(99);
    if (freopen(err_.c_str(), "w", stderr) == nullptr) _exit(99);
    execl("/bin/sh", "sh", "-c", (std::string("exec ") + HEDDLE_BINARY + " " + command).c_str(),
          nullptr);
    _exit(99);
  }
  ~Background() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  static std::vector<pid_t> ChildrenOf(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/task/" + std::to_string(pid) +
                       "/children");
    std::vector<pid_t> children;
    for (pid_t child = 0; file >> child;) children.push_back(child);
    return children;
  }
  // In the order of the jobs.
  std::vector<pid_t> Leaders(size_t count) const {
    while (ChildrenOf(pid_).size() < count && kill(pid_, 0) == 0) {
      std::this_thread::sleep_for(milliseconds(2));
    }
    return ChildrenOf(pid_);
  }
  int Wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  std::string err() const { return ReadFile(err_).value(); }
  std::string out() const { return ReadFile(out_).value(); }

 private:
  std::string out_, err_;
  pid_t pid_;
};

Json Parsed(const Ran& ran) {
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  Result<Json> json = ParseJson(ran.out, "share");
  EXPECT_TRUE(json.ok()) << ran.out;
  return json.ok() ? std::move(json).value() : Json();
}

Json HashesOf(const std::string& directory, const std::string& phase, const std::string& job) {
  const std::string path = directory + "/" + phase + "/" + job + "/rank0.json";
  const Result<std::string> text = ReadFile(path);
  EXPECT_TRUE(text.ok()) << path;
  return text.ok() ? ParseJson(text.value(), path).value()["hashes"] : Json();
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

TEST_F(ShareTest, WithoutTurnsTheParametersAreTheSameToo) {
  const std::string jobs = MakeJobs(2, 8);
  const Json json =
      Parsed(RunHeddle("share " + jobs + " --run --together --json --dir " + (folder_ / "run")));
  EXPECT_TRUE(json["hashes_equal"]);
}

TEST_F(ShareTest, AJobThatComesLaterJoinsAndLeaves) {
  const std::string two = MakeJobs(2, 150), three = MakeJobs(3, 10);
  const std::string directory = folder_ / "run";
  Background share("share " + two + " --run --emulate --dilate 2 --dir " + directory, folder_);
  while (!std::filesystem::exists(directory + "/share.json")) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  const Ran joined = RunHeddle("share " + three + " --attach c --dir " + directory);
  EXPECT_EQ(joined.exit_code, 0) << joined.err << share.err();
  EXPECT_THAT(joined.out, HasSubstr("c: done"));
  const Ran again = RunHeddle("share " + three + " --attach c --dir " + directory);
  EXPECT_EQ(again.exit_code, 4) << again.err;
  const Ran alone = RunHeddle("share " + three + " --run --json --dir " + (folder_ / "other"));
  EXPECT_EQ(HashesOf(directory, "shared", "c"), HashesOf(folder_ / "other", "alone", "c"));
  EXPECT_EQ(share.Wait(), 0) << share.err();
  EXPECT_THAT(share.err(), HasSubstr("c: joins"));
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
  for (int round = 0; round < rounds; ++round) {
    const std::string directory = folder_ / ("round" + std::to_string(round));
    Background share("share " + jobs + " --run --one-group --no-serial --dir " + directory,
                     folder_);
    const std::vector<pid_t> leaders = share.Leaders(kJobs);
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
    EXPECT_EQ(share.Wait(), 5) << share.err();
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
    EXPECT_GE(failed, 1);
    EXPECT_LE(failed, kKilled) << share.err();
  }
}

}  // namespace
}  // namespace heddle
