// Runs that somebody tries to harm, or that are started wrongly: from outside by strangers at the
// store, from inside by ranks that differ, leave, or are stopped.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/json_field.h"
#include "cli/run_heddle.h"
#include "run/meet/meeting_place.h"
#include "run/meet/store_client.h"
#include "run/rank_attendance.h"
#include "run/store/checkpoint.h"
#include "run/store/run_directory.h"
#include "support/background.h"
#include "support/places.h"
#include "support/scratch_folder.h"

namespace heddle {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr int kRanks = 4;

// TCP sockets on which any of these processes listens, as in "0100007F:7561".
std::set<std::string> ListeningSockets(const std::vector<pid_t>& pids) {
  std::set<std::string> inodes, found;
  for (const pid_t pid : pids) {
    std::error_code gone;
    const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
    for (const auto& file : std::filesystem::directory_iterator(folder, gone)) {
      const std::string target = std::filesystem::read_symlink(file.path(), gone).string();
      if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
    }
  }
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string number, local, remote, state, queue, timer, retransmitted, user, timeout, inode;
      words >> number >> local >> remote >> state >> queue >> timer >> retransmitted >> user >>
          timeout >> inode;
      if (state == "0A" && inodes.contains(inode)) found.insert(local);
    }
  }
  return found;
}

class HarmTest : public testing::Test {
 protected:
  HarmTest() : plan_(folder_ / "plan.json"), run_(folder_ / "run") {
    const Ran ran = RunHeddle(
        "plan --strategy 1f1b --model 'tiny-mlp?layers=6' --microbatches 4 --batch 8 --cluster " +
        ClusterFile("mixed4") + " -o " + plan_);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
  }

  static int Port() { return 12000 + getpid() % 1000 * 20 + 7; }

  // One of four ranks, as a launcher would start it.
  std::unique_ptr<Background> Rank(int rank, const std::string& plan, const std::string& flags,
                                   const std::string& environment = "") {
    logs_.push_back(std::make_unique<ScratchFolder>());
    return std::make_unique<Background>(
        "run " + plan + " --dir " + run_ + " " + flags, *logs_.back(),
        "WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(Port()) +
            " RANK=" + std::to_string(rank) + " " + environment);
  }
  // All of them, each with flags of its own.
  void Launch(const std::vector<std::string>& flags, const std::string& environment = "") {
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks_.push_back(Rank(rank, plan_, flags[static_cast<size_t>(rank)], environment));
    }
  }
  // One of them gets a plan that it waits for, the others what they need. Returns when the one is
  // known to the store, and so may be missed.
  std::string LaunchWithOneThatWaits(int waits) {
    const std::string pipe = folder_ / "pipe";
    EXPECT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    for (int rank = 0; rank < kRanks; ++rank) {
      ranks_.push_back(Rank(rank, rank == waits ? pipe : plan_, "--steps 3 --meet-within 900"));
    }
    const auto store = StoreClient::Connect(PlaceOnThisHost(static_cast<uint16_t>(Port())).value(),
                                            Secret::Of(""), std::chrono::hours(1));
    EXPECT_TRUE(store.ok());
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(store.value()->Wait({HereKey(rank)}, std::chrono::hours(1)).value());
    }
    return pipe;
  }
  void Launch(const std::string& flags, const std::string& environment = "") {
    Launch(std::vector<std::string>(kRanks, flags), environment);
  }
  void AwaitSteps() const {
    ASSERT_TRUE(ranks_[0]->Await([&] { return std::filesystem::exists(run_ + "/log.jsonl"); }))
        << ranks_[0]->err();
  }
  void SignalAll(int signal) const {
    for (const auto& rank : ranks_) rank->Signal(signal);
  }
  std::vector<int> Codes() {
    std::vector<int> codes;
    for (const auto& rank : ranks_) codes.push_back(rank->Wait());
    return codes;
  }
  std::string Said() const {
    std::string said;
    for (const auto& rank : ranks_) said += rank->err();
    return said;
  }
  void ExpectSavedWhereItStopped() const {
    const auto latest = LatestCheckpoint(run_);
    ASSERT_TRUE(latest.ok()) << Said();
    const Checkpoint checkpoint = LoadCheckpoint(latest.value()).value();
    const std::vector<Json> log = RunDirectory::Open(run_).value().ReadLog().value();
    EXPECT_EQ(log.back().at("step"), checkpoint.info.step);
  }

  ScratchFolder folder_;
  std::string plan_, run_;
  std::vector<std::unique_ptr<ScratchFolder>> logs_;
  std::vector<std::unique_ptr<Background>> ranks_;
};

// --- From outside

TEST_F(HarmTest, ARunOnOneHostListensNowhere) {
  {
    const Background alone("run " + plan_ + " --steps 1000000 --dir " + run_, folder_);
    ASSERT_TRUE(alone.Await([&] { return std::filesystem::exists(run_ + "/log.jsonl"); }))
        << alone.err();
    std::vector<pid_t> pids = alone.Children();
    pids.push_back(alone.pid());
    EXPECT_EQ(pids.size(), 5U);
    EXPECT_EQ(ListeningSockets(pids), std::set<std::string>());
  }
  run_ += "2";
  Launch("--steps 1000000");
  AwaitSteps();
  for (const auto& rank : ranks_) EXPECT_EQ(ListeningSockets({rank->pid()}).size(), 0U);
  EXPECT_THAT(ranks_[0]->err(), HasSubstr("processes meet at /tmp/heddle-"));
}

// With a secret there is a port, at one address. Strangers come by the thousand, hold a byte, say
// what c10d's clients would say: the run goes on, and says in a line that they were refused.
TEST_F(HarmTest, StrangersAtThePortHarmNothing) {
  Launch("--steps 1000000", "HEDDLE_SECRET=0123456789abcdef");
  AwaitSteps();
  const std::set<std::string> listening = ListeningSockets({ranks_[0]->pid()});
  ASSERT_EQ(listening.size(), 1U);
  EXPECT_TRUE(listening.begin()->starts_with("0100007F:")) << *listening.begin();
  const MeetingPlace place{"", "127.0.0.1", static_cast<uint16_t>(Port())};
  std::vector<Descriptor> held;
  for (int k = 0; k < 1100; ++k) {
    auto socket = Reach(place, std::chrono::hours(1));
    ASSERT_TRUE(socket.ok()) << socket.error().ToString();
    const std::string bytes = k % 2 == 0 ? std::string(1, '\0') : "h";
    (void)!write(socket.value().get(), bytes.data(), bytes.size());
    held.push_back(std::move(socket).value());
    if (held.size() > 300) held.erase(held.begin());
  }
  ASSERT_TRUE(ranks_[0]->Await([&] {
    return ranks_[0]->err().find("was refused") != std::string::npos;
  })) << Said();
  SignalAll(SIGTERM);
  EXPECT_THAT(Codes(), Each(128 + SIGTERM)) << Said();
  ExpectSavedWhereItStopped();
}

TEST_F(HarmTest, AcrossHostsASecretIsNeeded) {
  const std::string rank = "WORLD_SIZE=4 RANK=1 MASTER_PORT=29400 MASTER_ADDR=10.1.2.3 ";
  const std::string line = HeddleBinary() + " run " + plan_ + " --meet-within 1";
  const Ran none = RunShell(rank + line);
  EXPECT_EQ(none.exit_code, 4);
  EXPECT_THAT(none.err, AllOf(HasSubstr("HEDDLE_SECRET: is not set"), HasSubstr("--secret-file")));
  EXPECT_THAT(RunShell(rank + "HEDDLE_SECRET=short " + line).err, HasSubstr("can be guessed"));
  EXPECT_THAT(RunShell(rank + line + " --secret-file /nowhere").err, HasSubstr("/nowhere"));
}

TEST_F(HarmTest, AnotherSecretIsRefused) {
  Launch({"--steps 3 --meet-within 3", "--steps 3 --meet-within 3", "--steps 3 --meet-within 3",
          "--steps 3 --meet-within 3 --secret-file " + (folder_ / "secret")},
         "HEDDLE_SECRET=0123456789abcdef");
  // Rank 3 has none it may use yet, and so ends; the others name it.
  EXPECT_THAT(Codes(), testing::ElementsAre(5, 5, 5, 4)) << Said();
  EXPECT_THAT(ranks_[0]->err(), HasSubstr("device 3 (b:1): did not come within 3 s"));
}

// --- From inside

TEST_F(HarmTest, RanksThatDifferAreNamed) {
  struct {
    std::string others, odd, named;
  } const kCases[] = {
      {"--steps 3", "--steps 3 --rate 0.5", "--rate is 0.5, but 0.001 at device 0"},
      {"--steps 3 --seed 3", "--steps 3", "--seed is 1, but 3 at device 0"},
      {"--steps 3", "--steps 4", "--steps is 4, but 3 at device 0"},
  };
  for (const auto& one : kCases) {
    std::vector<std::string> flags(kRanks, one.others);
    flags[2] = one.odd;
    Launch(flags);
    EXPECT_THAT(Codes(), Each(4)) << Said();
    EXPECT_THAT(ranks_[0]->err(), AllOf(HasSubstr("device 2 ("), HasSubstr(one.named)));
    EXPECT_THAT(ranks_[2]->err(), HasSubstr(one.named));
    EXPECT_FALSE(std::filesystem::exists(run_));
    ranks_.clear();
  }
}

TEST_F(HarmTest, DifferentCheckpointsAreNamed) {
  ASSERT_EQ(RunHeddle("run " + plan_ + " --steps 4 --save-every 2 --dir " + run_).exit_code, 0);
  const std::string common = "--steps 6 --resume " + run_ + "/checkpoints/step-0000000";
  run_ += "2";
  Launch({common + "4", common + "2", common + "4", common + "4"});
  EXPECT_THAT(Codes(), Each(4)) << Said();
  EXPECT_THAT(ranks_[0]->err(),
              AllOf(HasSubstr("device 1 ("), HasSubstr("the checkpoint is step 2 with tensors"),
                    HasSubstr("but step 4 with tensors")));
}

// As a scheduler does, once more, and as a terminal that is closed.
TEST_F(HarmTest, AStopOfAllRanksIsOneStop) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    Launch("--steps 1000000");
    AwaitSteps();
    SignalAll(signal);
    SignalAll(signal);
    EXPECT_THAT(Codes(), Each(128 + signal)) << Said();
    ExpectSavedWhereItStopped();
    ranks_.clear();
    std::filesystem::remove_all(run_);
  }
}

// Only one was told, and not the first.
TEST_F(HarmTest, AllEndAsTheOneThatWasTold) {
  Launch("--steps 1000000");
  AwaitSteps();
  ranks_[2]->Signal(SIGHUP);
  EXPECT_THAT(Codes(), Each(128 + SIGHUP)) << Said();
  ExpectSavedWhereItStopped();
}

TEST_F(HarmTest, AScheduledStopReachesProcessesThatHeddleStarted) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    Background run("run " + plan_ + " --steps 1000000 --dir " + run_, folder_);
    ASSERT_TRUE(run.Await([&] { return std::filesystem::exists(run_ + "/log.jsonl"); }))
        << run.err();
    const std::vector<pid_t> devices = run.Children();
    for (const pid_t device : devices) kill(device, signal);
    if (signal == SIGTERM) run.Signal(signal);
    EXPECT_EQ(run.Wait(), 128 + signal) << run.err();
    ExpectSavedWhereItStopped();
    std::filesystem::remove_all(run_);
  }
}

// A suspended laptop: all stop for longer than any may be silent, and go on.
TEST_F(HarmTest, APauseOfAllIsNoReasonToStop) {
  Launch("--steps 1000000 --silent-after 2");
  AwaitSteps();
  SignalAll(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  SignalAll(SIGCONT);
  std::this_thread::sleep_for(std::chrono::seconds(2));  // to be blamed, if any is
  SignalAll(SIGTERM);
  EXPECT_THAT(Codes(), Each(128 + SIGTERM)) << Said();
  ExpectSavedWhereItStopped();
}

TEST_F(HarmTest, TheFirstToLeaveIsNamed) {
  Launch("--steps 1000000 --silent-after 3600");  // nobody waits for silence
  AwaitSteps();
  ranks_[2]->Signal(SIGKILL);
  EXPECT_THAT(Codes(), testing::ElementsAre(5, 5, -1, 5));
  EXPECT_THAT(ranks_[0]->err(),
              AllOf(HasSubstr("device 2 ("), HasSubstr("is gone"), HasSubstr("nothing was saved")));
}

TEST_F(HarmTest, OneThatFailsAfterTheyMetIsNamedByTheFirst) {
  std::vector<std::string> flags(kRanks, "--steps 1000000");
  Launch(flags);
  AwaitSteps();
  SignalAll(SIGTERM);
  Codes();
  ranks_.clear();
  // Its checkpoint is damaged where the others' is whole.
  const std::string other = folder_ / "other";
  std::filesystem::copy(run_, other, std::filesystem::copy_options::recursive);
  const std::string tensors = LatestCheckpoint(other).value() + "/tensors.safetensors";
  std::filesystem::resize_file(tensors, std::filesystem::file_size(tensors) - 8);
  flags[0] = flags[1] = flags[2] = "--resume " + run_;
  flags[3] = "--resume " + other;
  run_ += "2";
  Launch(flags);
  EXPECT_THAT(Codes(), testing::ElementsAre(5, 5, 5, 4)) << Said();
  EXPECT_THAT(ranks_[0]->err(), AllOf(HasSubstr("device 3 ("), HasSubstr("it is truncated")));
}

// --- Before they have met

TEST_F(HarmTest, OneThatFailsBeforeTheMeetingIsNamedWithItsReason) {
  const std::string pipe = LaunchWithOneThatWaits(2);
  std::ofstream(pipe) << "{}";
  EXPECT_THAT(Codes(), testing::ElementsAre(5, 5, 4, 5)) << Said();
  const std::string reason = "schema: missing";
  EXPECT_THAT(ranks_[2]->err(), HasSubstr(reason));
  for (const int rank : {0, 1, 3}) {
    EXPECT_THAT(ranks_[static_cast<size_t>(rank)]->err(),
                AllOf(HasSubstr("device 2 (b:0): left before the meeting: "), HasSubstr(pipe),
                      HasSubstr(reason)));
  }
}

TEST_F(HarmTest, OneThatIsKilledBeforeTheMeetingIsNamed) {
  LaunchWithOneThatWaits(2);
  ranks_[2]->Signal(SIGKILL);
  EXPECT_THAT(Codes(), testing::ElementsAre(5, 5, -1, 5)) << Said();
  for (const int rank : {0, 1, 3}) {
    EXPECT_THAT(ranks_[static_cast<size_t>(rank)]->err(),
                HasSubstr("device 2 (b:0): is gone: it ended or was killed before the meeting"));
  }
}

// The store goes with it.
TEST_F(HarmTest, SoIsTheFirst) {
  const std::string pipe = LaunchWithOneThatWaits(0);
  std::ofstream(pipe) << "{}";
  EXPECT_THAT(Codes(), testing::ElementsAre(4, 5, 5, 5)) << Said();
  for (const int rank : {1, 2, 3}) {
    EXPECT_THAT(ranks_[static_cast<size_t>(rank)]->err(), HasSubstr("device 0 (a:0): "));
  }
}

// Nobody has a plan: each says so by itself, and nobody waits for anybody.
TEST_F(HarmTest, WhatAllLackEachSays) {
  plan_ = folder_ / "nowhere.json";
  Launch("--steps 3 --meet-within 900");
  EXPECT_THAT(Codes(), Each(4)) << Said();
  for (const auto& rank : ranks_) EXPECT_THAT(rank->err(), HasSubstr("nowhere.json"));
}

}  // namespace
}  // namespace heddle
