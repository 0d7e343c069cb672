#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "run/share/board.h"
#include "support/child_process.h"

namespace heddle {
namespace {

const BoardShape kShape{TurnOrder::kRotation, std::vector<int32_t>(32, 0)};

// A name that no other test uses; removed at the end, whatever happened.
class BoardOpen : public testing::Test {
 protected:
  BoardOpen()
      : name_("test-" + std::to_string(getpid()) + "-" +
              testing::UnitTest::GetInstance()->current_test_info()->name()),
        path_("/heddle-share-" + name_) {}
  ~BoardOpen() override { shm_unlink(path_.c_str()); }

  Result<Board> Open() const { return Board::Open(name_, kShape); }
  bool Exists() const { return access(("/dev/shm" + path_).c_str(), F_OK) == 0; }
  // What others would find under the name.
  void Write(const std::string& bytes, off_t at) const {
    const int file = shm_open(path_.c_str(), O_RDWR | O_CREAT, 0600);
    ASSERT_GE(file, 0);
    EXPECT_EQ(pwrite(file, bytes.data(), bytes.size(), at), static_cast<ssize_t>(bytes.size()));
    close(file);
  }

  std::string name_, path_;
};

pid_t Fork(const std::function<bool()>& life) {
  const pid_t child = fork();
  if (child != 0) return child;
  _exit(life() ? 0 : 1);
}

bool EndsWell(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void Kill(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// A process that is on the board as job "a", until it is killed.
pid_t ForkHolder(const std::function<Result<Board>()>& open) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t child = Fork([&] {
    const Result<Board> board = open();
    if (!board.ok() || !Board(board.value()).Join({.job = "a"}).ok()) return false;
    if (write(ends[1], "x", 1) != 1) return false;
    pause();
    return true;
  });
  char there = 0;
  EXPECT_EQ(read(ends[0], &there, 1), 1);
  close(ends[0]);
  close(ends[1]);
  return child;
}

TEST_F(BoardOpen, TheSameNameIsTheSameBoard) {
  Board first = Open().value();
  const int32_t job = first.AddJob({.name = "a", .devices = {0}, .turns = 1}).value();
  EXPECT_EQ(Open().value().name(job), "a");
}

TEST_F(BoardOpen, OnlyItsUserMayLook) {
  const Board board = Open().value();
  struct stat found {};
  ASSERT_EQ(stat(("/dev/shm" + path_).c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
}

TEST_F(BoardOpen, TheLastToGoRemovesIt) {
  std::optional<Board> first(Open().value()), second(Open().value());
  first.reset();
  EXPECT_TRUE(Exists());
  second.reset();
  EXPECT_FALSE(Exists());
}

TEST_F(BoardOpen, AForkedChildDoesNotCountWhenItGoes) {
  std::optional<Board> board(Open().value());
  EXPECT_TRUE(EndsWell(Fork([&] {
    board.reset();
    return true;
  })));
  EXPECT_TRUE(Exists());
  // Presence is still known: nobody replaces the board.
  const int32_t job = board->AddJob({.name = "a", .devices = {0}, .turns = 1}).value();
  EXPECT_EQ(Open().value().name(job), "a");
}

// All ranks of one job: it starts only if all find the same board.
TEST_F(BoardOpen, ManyComeAtOnceAndMeet) {
  constexpr int kRounds = 20;
  constexpr int32_t kRanks = 12;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<pid_t> children;
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      children.push_back(Fork([&] {
        Result<Board> board = Open();
        if (!board.ok()) return false;
        Board mine = std::move(board).value();
        const auto job = mine.Join({.job = "a", .rank = rank, .ranks = kRanks, .device = rank});
        if (!job.ok() || !mine.AwaitStart(job.value(), 60).ok()) return false;
        mine.Leave(job.value(), rank);
        return true;
      }));
    }
    for (const pid_t child : children) EXPECT_TRUE(EndsWell(child));
    EXPECT_FALSE(Exists());
  }
}

TEST_F(BoardOpen, ManyComeAndGo) {
  constexpr int kProcesses = 8, kVisits = 100;
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    children.push_back(Fork([&] {
      for (int visit = 0; visit < kVisits; ++visit) {
        Result<Board> board = Open();
        if (!board.ok()) return false;
        Board mine = std::move(board).value();
        const std::string job = std::to_string(getpid());
        const auto number = mine.Join({.job = job});
        if (!number.ok() || mine.name(number.value()) != job) return false;
        mine.Leave(number.value(), 0);
      }
      return true;
    }));
  }
  for (const pid_t child : children) EXPECT_TRUE(EndsWell(child));
  EXPECT_FALSE(Exists());
}

// Somebody waits at the gate of a board that is removed meanwhile; another is made under its name.
TEST_F(BoardOpen, WhoComesTooLateTakesTheNewOne) {
  const std::optional<Board> old(Open().value());
  const int gate = shm_open(path_.c_str(), O_RDWR, 0600);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_len = 1;
  ASSERT_EQ(fcntl(gate, F_OFD_SETLK, &lock), 0);
  std::optional<Board> late;
  std::thread waits([&] { late = Open().value(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  shm_unlink(path_.c_str());
  Board made = Open().value();
  const int32_t job = made.Join({.job = "a"}).value();
  close(gate);
  waits.join();
  EXPECT_EQ(late->CountRunning(), 1);
  EXPECT_EQ(late->name(job), "a");
  EXPECT_TRUE(Exists());
}

TEST_F(BoardOpen, WhatTheDeadLeftIsReplaced) {
  Kill(ForkHolder([this] { return Open(); }));
  ASSERT_TRUE(Exists());
  Board board = Open().value();
  EXPECT_EQ(board.Join({.job = "b"}).value(), 0) << "a new board: the first job";
}

TEST_F(BoardOpen, WhatIsHalfMadeIsReplaced) {
  for (const std::string left : {"", "x", "heddle board, but not all of it"}) {
    Write(left, 0);
    Board board = Open().value();
    EXPECT_TRUE(board.Join({.job = "a"}).ok()) << left;
  }
}

TEST_F(BoardOpen, TheLivingAreNotReplaced) {
  const pid_t holder = ForkHolder([this] { return Open(); });
  {
    Board board = Open().value();
    EXPECT_EQ(board.name(0), "a");
    EXPECT_EQ(board.state(0), JobState::kRunning);
  }
  EXPECT_TRUE(Exists());
  Kill(holder);
}

TEST_F(BoardOpen, AnotherBuildIsRefusedWhileItsJobsLive) {
  constexpr off_t kLayoutInStamp = 16;
  {
    const Board other = Open().value();
    Write("\x63", kLayoutInStamp);
    const Result<Board> refused = Open();
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().what.find("another build of heddle: 0.1.0, layout 99"),
              std::string::npos)
        << refused.error().ToString();
    EXPECT_NE(refused.error().where.find(name_), std::string::npos);
    EXPECT_FALSE(refused.error().hint.empty());
  }
  const pid_t holder = ForkHolder([this] { return Open(); });
  Write("\x63", kLayoutInStamp);
  EXPECT_FALSE(Open().ok());
  Kill(holder);
  EXPECT_TRUE(Open().ok()) << "nobody is there any more";
}

TEST_F(BoardOpen, AnotherShapeIsRefused) {
  const Board board = Open().value();
  EXPECT_FALSE(Board::Open(name_, {TurnOrder::kArrival, kShape.node_of}).ok());
  EXPECT_FALSE(Board::Open(name_, {TurnOrder::kRotation, {0, 1}}).ok());
}

// Whoever touched what was cut off would end by a signal.
TEST_F(BoardOpen, ABoardThatWasCutIsRefused) {
  const pid_t holder = ForkHolder([this] { return Open(); });
  const int file = shm_open(path_.c_str(), O_RDWR, 0600);
  ASSERT_EQ(ftruncate(file, 4096), 0);
  close(file);
  const std::string said = InChild([this]() -> std::string {
    const Result<Board> board = Open();
    if (!board.ok()) return board.error().ToString();
    return Board(board.value()).Join({.job = "b"}).ok() ? "joined" : "refused late";
  });
  Kill(holder);
  EXPECT_NE(said.find("its memory was cut to 4096 bytes"), std::string::npos) << said;
}

TEST_F(BoardOpen, BadNamesAreRefused) {
  for (const std::string name : {"", "a/b", "a b", "ä"}) {
    const Result<Board> board = Board::Open(name, kShape);
    ASSERT_FALSE(board.ok()) << name;
    EXPECT_EQ(board.error().kind, ErrorKind::kBadInput);
  }
  EXPECT_FALSE(Board::Open(std::string(65, 'a'), kShape).ok());
}

TEST_F(BoardOpen, WhereSharedMemoryIsTooSmallItIsAnErrorAndNoSignal) {
  const std::string said = InChild([&]() -> std::string {
    if (!MountTinyDisk("/dev/shm", "64k")) return "not permitted";
    const Result<Board> board = Open();
    return board.ok() ? "opened" : board.error().ToString() + (Exists() ? ", and is there" : "");
  });
  if (said == "not permitted") GTEST_SKIP() << "mounting a tmpfs is not permitted here";
  EXPECT_NE(said.find("of shared memory: No space left on device"), std::string::npos) << said;
  EXPECT_EQ(said.find("and is there"), std::string::npos);
}

}  // namespace
}  // namespace heddle
