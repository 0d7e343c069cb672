// Who may use the network, and when it has arrived.

#include "office/network_office.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>

#include "cluster/cluster.h"

namespace heddle {
namespace {

constexpr char kCluster[] = R"(schema = "heddle.cluster/1"
[device_type.d]
flops = "1 TFLOP/s"
memory = "1 GiB"
memory_bandwidth = "1 TB/s"
[[node]]
name = "a"
devices = [{ type = "d" }]
[[node]]
name = "b"
devices = [{ type = "d" }]
[[node]]
name = "c"
devices = [{ type = "d" }]
[[link]]
between = ["a", "b"]
bandwidth = "1 GB/s"
latency = "0 us"
[[link]]
between = ["b", "c"]
bandwidth = "1 GB/s"
latency = "0 us"
)";

constexpr double kDilation = 5;
constexpr int64_t kMessage = 5'000'000, kRounding = 10;  // nanoseconds of a megabyte, dilated

class NetworkOfficeTest : public testing::Test {
 protected:
  NetworkOfficeTest()
      : cluster_(ParseClusterToml(kCluster, "cluster.toml").value()),
        board_(Board::Create({TurnOrder::kArrival, {0, 1, 2}}).value()),
        desk_(FlowDesk::Create().value()) {
    for (const char* name : {"a", "b"}) {
      jobs_.push_back(board_.AddJob({.name = name, .devices = {0, 1, 2}}).value());
    }
    board_.Activate(jobs_);
  }

  NetworkOffice Office(const OfficeOptions& options) {
    return NetworkOffice(desk_, board_, cluster_, options);
  }

  // One end of a message of a megabyte. Ranks are devices here.
  void Post(int32_t job, int32_t rank, int64_t number, int32_t from, int32_t to) {
    FlowPost post;
    post.job = job;
    post.rank = rank;
    post.number = number;
    post.time = time_;
    post.ends = 2;
    post.device[0] = from;
    post.device[1] = to;
    post.blocks = 1;
    post.bytes[0] = rank == from ? 1'000'000 : 0;
    desk_.Post(post);
  }
  void PostBoth(int32_t job, int64_t number, int32_t from, int32_t to) {
    Post(job, from, number, from, to);
    Post(job, to, number, from, to);
  }
  void Perform(int32_t job, int32_t rank, int64_t number) {
    FlowPost post;
    post.job = job;
    post.rank = rank;
    post.number = number;
    post.performed = true;
    desk_.Post(post);
  }
  bool Granted(int32_t job, int32_t rank, int64_t k = 0) {
    return desk_.AwaitGrant(job, rank, k, 0).has_value();
  }

  Cluster cluster_;
  Board board_;
  FlowDesk desk_;
  std::vector<int32_t> jobs_;
  const int64_t time_ = BoardNow();  // of all posts: however slow this machine is
};

TEST_F(NetworkOfficeTest, AMessageIsGrantedToBothEndsOnceBothHavePosted) {
  NetworkOffice office = Office({true, 0});
  Post(0, 0, 0, 0, 1);
  office.Work(0);
  EXPECT_FALSE(Granted(0, 0));
  Post(0, 1, 0, 0, 1);
  office.Work(0);
  EXPECT_TRUE(Granted(0, 0));
  EXPECT_TRUE(Granted(0, 1));
}

TEST_F(NetworkOfficeTest, AnotherJobWaitsForTheNode) {
  NetworkOffice office = Office({true, 0});
  PostBoth(0, 0, 0, 1);
  PostBoth(1, 0, 1, 2);
  office.Work(0);
  EXPECT_TRUE(Granted(0, 0));
  EXPECT_FALSE(Granted(1, 1)) << "node b is taken";
  Perform(0, 0, 0);
  office.Work(0);
  EXPECT_FALSE(Granted(1, 1)) << "one end is still at it";
  Perform(0, 1, 0);
  office.Work(0);
  EXPECT_TRUE(Granted(1, 1));
  EXPECT_TRUE(Granted(1, 2));
}

TEST_F(NetworkOfficeTest, WithoutTicketsBothMove) {
  NetworkOffice office = Office({false, 0});
  PostBoth(0, 0, 0, 1);
  PostBoth(1, 0, 1, 2);
  office.Work(0);
  EXPECT_TRUE(Granted(0, 0));
  EXPECT_TRUE(Granted(1, 1));
}

TEST_F(NetworkOfficeTest, AJobMayHaveSeveralInFlight) {
  NetworkOffice office = Office({true, 0});
  PostBoth(0, 0, 0, 1);
  PostBoth(0, 1, 1, 0);
  office.Work(0);
  EXPECT_TRUE(Granted(0, 0, 1));
}

TEST_F(NetworkOfficeTest, TheDeadGiveTheirTicketsBack) {
  NetworkOffice office = Office({true, 0});
  PostBoth(0, 0, 0, 1);
  PostBoth(1, 0, 1, 2);
  office.Work(0);
  board_.MarkDead(0, "killed");
  office.Work(0);
  EXPECT_TRUE(Granted(1, 1));
}

TEST_F(NetworkOfficeTest, WhatTheDeadWaitForIsForgotten) {
  NetworkOffice office = Office({true, 0});
  PostBoth(0, 0, 0, 1);
  PostBoth(1, 0, 1, 2);  // waits for a's
  office.Work(0);
  board_.MarkDead(1, "killed");
  office.Work(0);
  Perform(0, 0, 0);
  Perform(0, 1, 0);
  office.Work(0);
  PostBoth(0, 1, 1, 2);
  office.Work(0);
  EXPECT_TRUE(Granted(0, 2));
}

TEST_F(NetworkOfficeTest, WhoKeepsTheNetworkBeyondItsLeaseIsStruck) {
  const int32_t hasty =
      board_.AddJob({.name = "hasty", .devices = {0, 1, 2}, .lease = 1e-9}).value();
  const int32_t one[] = {hasty};
  board_.Activate(one);
  NetworkOffice office = Office({true, 0});
  PostBoth(hasty, 0, 0, 1);
  office.Work(0);
  EXPECT_EQ(board_.state(hasty), JobState::kRunning);
  for (const int32_t rank : {0, 1, 2}) board_.Beat(hasty, rank);
  office.Work(0);
  EXPECT_EQ(board_.state(hasty), JobState::kDead);
}

TEST_F(NetworkOfficeTest, OnAnEmulatedNetworkJobsFollowEachOther) {
  NetworkOffice office = Office({true, kDilation});
  PostBoth(0, 0, 0, 1);
  PostBoth(1, 0, 1, 2);
  while (desk_.EndOf(1, 2, 0) == 0) office.Work(BoardNow() + 1'000'000);
  EXPECT_LE(std::abs(desk_.EndOf(1, 2, 0) - desk_.EndOf(0, 0, 0) - kMessage), kRounding);
}

TEST_F(NetworkOfficeTest, OnAnEmulatedNetworkWithoutTicketsTheyShareTheirWires) {
  NetworkOffice office = Office({false, kDilation});
  PostBoth(0, 0, 0, 1);
  PostBoth(1, 0, 0, 1);
  while (desk_.EndOf(1, 1, 0) == 0) office.Work(BoardNow() + 1'000'000);
  EXPECT_LE(std::abs(desk_.EndOf(1, 1, 0) - desk_.EndOf(0, 1, 0)), kRounding);
  EXPECT_GE(desk_.EndOf(1, 1, 0), time_ + 2 * kMessage);
}

FlowPost AllReduceOf(int32_t rank) {
  FlowPost post;
  post.rank = rank;
  post.kind = static_cast<int32_t>(CollectiveKind::kAllReduce);
  post.ends = 3;
  post.device = {0, 1, 2};
  post.blocks = 1;
  post.bytes[0] = 1000;
  return post;
}

TEST_F(NetworkOfficeTest, CollectivesOfAGroupGoOneAfterTheOther) {
  NetworkOffice office = Office({true, 0});
  for (int64_t number = 0; number < 2; ++number) {
    for (int32_t rank = 0; rank < 3; ++rank) {
      FlowPost post = AllReduceOf(rank);
      post.number = number;
      desk_.Post(post);
    }
  }
  office.Work(0);
  EXPECT_TRUE(Granted(0, 2, 0));
  EXPECT_FALSE(Granted(0, 2, 1));
  for (int32_t rank = 0; rank < 3; ++rank) Perform(0, rank, 0);
  office.Work(0);
  EXPECT_TRUE(Granted(0, 2, 1));
}

// --- Posts that no sound rank makes

TEST_F(NetworkOfficeTest, AJobThatPostsNonsenseIsStruckAndTheOthersGoOn) {
  struct {
    std::function<void(FlowPost&)> change;
    std::string what;
  } const kCases[] = {
      {[](FlowPost& post) { post.rank = -1; }, "rank"},
      {[](FlowPost& post) { post.rank = 3; }, "rank"},
      {[](FlowPost& post) { post.number = -1; }, "number"},
      {[](FlowPost& post) { post.time = INT64_MAX; }, "time"},
      {[](FlowPost& post) { post.time = INT64_MIN; }, "time"},
      {[](FlowPost& post) { post.performed = 2; }, "kind"},
      {[](FlowPost& post) { post.kind = 99; }, "kind"},
      {[](FlowPost& post) { post.kind = -2; }, "kind"},
      {[](FlowPost& post) { post.algorithm = 77; }, "algorithm"},
      {[](FlowPost& post) { post.channel = -5; }, "channel"},
      {[](FlowPost& post) { post.ends = 1 << 20; }, "ends"},
      {[](FlowPost& post) { post.ends = 0; }, "ends"},
      {[](FlowPost& post) { post.kind = -1; }, "ends"},  // a message of three
      {[](FlowPost& post) { post.device[1] = 3; }, "device"},
      {[](FlowPost& post) { post.device[2] = -1; }, "device"},
      {[](FlowPost& post) { post.device[2] = 0; }, "device twice"},
      {[](FlowPost& post) { post.blocks = kMostSharedDevices + 1; }, "blocks"},
      {[](FlowPost& post) { post.bytes[0] = -1; }, "bytes"},
      {[](FlowPost& post) { post.bytes[0] = INT64_MAX; }, "bytes"},
  };
  for (const auto& one : kCases) {
    const int32_t odd = board_.AddJob({.name = "odd", .devices = {0, 1, 2}}).value();
    board_.Activate(std::vector<int32_t>{odd});
    NetworkOffice office = Office({true, 0});
    FlowPost post = AllReduceOf(0);
    post.job = odd;
    one.change(post);
    office.Hear(post);
    EXPECT_EQ(board_.state(odd), JobState::kDead) << one.what;
    EXPECT_EQ(board_.why(odd), "asked the network for nonsense: " + one.what);
    EXPECT_EQ(board_.state(0), JobState::kRunning);
    PostBoth(0, 0, 0, 1);
    office.Work(0);
    EXPECT_TRUE(Granted(0, 0));
    desk_ = FlowDesk::Create().value();
  }
}

TEST_F(NetworkOfficeTest, PostsOfNobodysAreOverheard) {
  NetworkOffice office = Office({true, 0});
  for (const int32_t job : {-1, 17, kMostJobs, INT32_MAX}) {
    FlowPost post = AllReduceOf(0);
    post.job = job;
    office.Hear(post);
  }
  EXPECT_EQ(board_.CountRunning(), 2);
}

TEST_F(NetworkOfficeTest, EndsThatDoNotFitTogetherAreNonsense) {
  struct {
    std::function<void(FlowPost&)> change;
    std::string what;
  } const kCases[] = {
      {[](FlowPost& post) { post.kind = static_cast<int32_t>(CollectiveKind::kBroadcast); },
       "kinds that differ"},
      {[](FlowPost& post) {
         post.device = {2, 1, 0};
       },
       "ends that differ"},
      {[](FlowPost& post) { post.ends = 2; }, "ends that differ"},
      {[](FlowPost& post) { post.blocks = 2; }, "blocks"},
  };
  for (const auto& one : kCases) {
    const int32_t odd = board_.AddJob({.name = "odd", .devices = {0, 1, 2}}).value();
    board_.Activate(std::vector<int32_t>{odd});
    NetworkOffice office = Office({true, 0});
    for (int32_t rank = 0; rank < 3; ++rank) {
      FlowPost post = AllReduceOf(rank);
      post.job = odd;
      if (rank == 2) one.change(post);
      office.Hear(post);
    }
    EXPECT_EQ(board_.why(odd), "asked the network for nonsense: " + one.what);
  }
}

// An end that says it is done twice is not both ends, and nothing is done before it moves.
TEST_F(NetworkOfficeTest, OneEndIsNotTwo) {
  NetworkOffice office = Office({true, 0});
  PostBoth(0, 0, 0, 1);
  PostBoth(1, 0, 1, 2);
  office.Work(0);
  ASSERT_TRUE(Granted(0, 0));
  Perform(0, 0, 0);
  Perform(0, 0, 0);
  Perform(1, 1, 0);
  Perform(1, 2, 0);
  office.Work(0);
  EXPECT_FALSE(Granted(1, 2));
  Perform(0, 1, 0);
  office.Work(0);
  EXPECT_TRUE(Granted(1, 2));
}

TEST_F(NetworkOfficeTest, OnAnEmulatedNetworkNobodySaysWhenItIsDone) {
  NetworkOffice office = Office({true, kDilation});
  PostBoth(0, 0, 0, 1);
  Perform(0, 0, 0);
  Perform(0, 1, 0);
  while (desk_.EndOf(0, 1, 0) == 0) office.Work(BoardNow() + 1'000'000);
  EXPECT_GE(desk_.EndOf(0, 1, 0), time_ + kMessage - kRounding);
}

TEST_F(NetworkOfficeTest, NobodyHasMoreUnderWayThanThereIsRoomFor) {
  NetworkOffice office = Office({true, 0});
  for (size_t number = 0; number <= FlowDesk::kInFlight; ++number) {
    EXPECT_EQ(board_.state(0), JobState::kRunning);
    FlowPost post = AllReduceOf(0);
    post.number = static_cast<int64_t>(number);
    office.Hear(post);
  }
  EXPECT_EQ(board_.state(0), JobState::kDead);
}

TEST_F(NetworkOfficeTest, ItsProcessEndsWithIt) {
  std::optional<OfficeProcess> office(
      OfficeProcess::Start(desk_, board_, cluster_, {true, 0}).value());
  EXPECT_TRUE(office->Lives());
  PostBoth(0, 0, 0, 1);
  EXPECT_TRUE(desk_.AwaitGrant(0, 1, 0, 5'000'000'000).has_value());
  office.reset();
  PostBoth(0, 1, 0, 1);
  EXPECT_FALSE(desk_.AwaitGrant(0, 1, 1, 50'000'000).has_value());
}

}  // namespace
}  // namespace heddle
