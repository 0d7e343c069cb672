// Ranks of a launcher that watch each other: several in this process, over a store without sockets,
// in time that passes when all of them wait.

#include "run/peer_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "run/departure.h"
#include "run/fake_store.h"
#include "run/heartbeat.h"
#include "support/fake_clock.h"

namespace heddle {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

class PeerWatchTest : public testing::Test {
 protected:
  struct Rank {
    std::shared_ptr<FakeStore::Connection> connection;
    WorkerProgress progress;
    std::unique_ptr<PeerWatch> watch;
    std::optional<std::string> message;  // with which it was ended
    int code = 0;
    Clock::Time ended;
  };

  void Start(int32_t ranks) {
    start_ = clock_.Now();
    ranks_ = std::vector<Rank>(static_cast<size_t>(ranks));
    for (int32_t k = 0; k < ranks; ++k) StartRank(k);
  }
  void StartRank(int32_t k) {
    Rank& rank = ranks_[static_cast<size_t>(k)];
    rank.connection = store_.Connect();
    PeerWatchOptions options;
    options.store = rank.connection;
    options.rank = k;
    options.ranks = static_cast<int32_t>(ranks_.size());
    options.progress = &rank.progress;
    options.name = [](int32_t one) { return "device " + std::to_string(one); };
    options.place = [](int64_t, int32_t) { return std::string("in step 7"); };
    options.work = [this](int64_t, int32_t one) { return work_(one); };
    options.hint = [] { return std::string(); };
    options.clock = &clock_;
    options.cpu_milliseconds = [] { return 0; };
    options.end = [this, &rank](const std::string& message, int code) {
      const std::lock_guard lock(mutex_);
      if (rank.message) return;
      rank.message = message;
      rank.code = code;
      rank.ended = clock_.Now();
    };
    rank.watch = std::make_unique<PeerWatch>(std::move(options));
  }
  // Its process is killed: it says nothing any more, and its connection closes.
  void Kill(size_t rank) {
    ranks_[rank].connection->Break();
    Goes(rank);
  }
  void Goes(size_t rank) {
    clock_.WithoutMe([&] { ranks_[rank].watch.reset(); });
  }
  bool HasEnded(size_t rank) {
    const std::lock_guard lock(mutex_);
    return ranks_[rank].message.has_value();
  }
  ~PeerWatchTest() override {
    clock_.WithoutMe([&] {
      std::vector<std::thread> goers;
      for (Rank& rank : ranks_) goers.emplace_back([&rank] { rank.watch.reset(); });
      for (std::thread& goer : goers) goer.join();
    });
  }

  FakeClock clock_;
  FakeStore store_{clock_};
  std::mutex mutex_;
  std::function<WorkAt(int32_t)> work_ = [](int32_t) { return WorkAt{}; };
  Clock::Time start_;
  std::vector<Rank> ranks_;
};

TEST_F(PeerWatchTest, TenMinutesOfWorkAreNobodysFault) {
  Start(3);
  clock_.SleepFor(minutes(10));
  for (size_t k = 0; k < 3; ++k) EXPECT_FALSE(HasEnded(k));
}

// The first stays until the others are done, the others need not.
TEST_F(PeerWatchTest, TheFirstWaitsUntilTheOthersAreDone) {
  Start(2);
  std::thread first([&] { ranks_[0].watch.reset(); });
  clock_.SleepFor(seconds(3));
  Goes(1);
  const Clock::Time done = clock_.Now();
  clock_.WithoutMe([&] { first.join(); });
  EXPECT_LT(clock_.Now() - done, milliseconds(100));
  for (size_t k = 0; k < 2; ++k) EXPECT_FALSE(HasEnded(k));
}

TEST_F(PeerWatchTest, AKilledRankIsNamedWithItsPlaceAndAllEnd) {
  Start(3);
  clock_.SleepFor(seconds(10));
  const Clock::Time killed = clock_.Now();
  Kill(2);
  clock_.SleepFor(seconds(2));
  ASSERT_TRUE(HasEnded(0) && HasEnded(1));
  EXPECT_THAT(*ranks_[0].message,
              HasSubstr("device 2: is gone: it ended or was killed, in step 7"));
  EXPECT_EQ(*ranks_[1].message, "") << "one says it";
  EXPECT_EQ(ranks_[0].code, 5);
  EXPECT_EQ(ranks_[1].code, 5);
  EXPECT_LT(ranks_[0].ended - killed, seconds(1));
}

// Its beats stop, though its connection stands: within the silence and a look.
TEST_F(PeerWatchTest, ASilentRankIsNamed) {
  ranks_ = std::vector<Rank>(3);
  start_ = clock_.Now();
  StartRank(0);
  StartRank(1);
  const auto silent = store_.Connect();
  for (int beat = 1; beat <= 40; ++beat) {
    ASSERT_TRUE(silent->Set("beat2", PrintHeartbeat({beat, WorkerProgress().packed(), 0})).ok());
    clock_.SleepFor(milliseconds(250));
  }
  const Clock::Time last = clock_.Now();
  EXPECT_FALSE(HasEnded(0));
  clock_.SleepFor(seconds(6));
  ASSERT_TRUE(HasEnded(0) && HasEnded(1));
  EXPECT_THAT(*ranks_[0].message,
              HasSubstr("device 2: does not answer: it died, is stopped or hangs, in step 7"));
  EXPECT_NEAR(SecondsIn(ranks_[0].ended - last), 4.0, 0.8);
}

TEST_F(PeerWatchTest, AStuckRankIsNamedThoughItBeats) {
  work_ = [](int32_t rank) { return rank == 1 ? WorkAt{3, /*predicted=*/6} : WorkAt{}; };
  Start(2);
  clock_.SleepFor(seconds(55));
  EXPECT_FALSE(HasEnded(0));
  clock_.SleepFor(seconds(10));
  ASSERT_TRUE(HasEnded(0));
  EXPECT_THAT(*ranks_[0].message, HasSubstr("device 1: does not get on: it is stuck"));
}

// The store is the first's: where it does not answer, the second says so.
TEST_F(PeerWatchTest, AStoreThatFreezesIsTheFirstsEnd) {
  Start(3);
  clock_.SleepFor(seconds(1));
  store_.Freeze();
  clock_.SleepFor(seconds(6));
  ASSERT_TRUE(HasEnded(1) && HasEnded(2));
  EXPECT_THAT(*ranks_[1].message, HasSubstr("device 0: does not answer"));
  EXPECT_EQ(*ranks_[2].message, "");
  EXPECT_LT(ranks_[1].ended - start_, seconds(1 + 4 + 1));
  store_.Freeze(false);
}

TEST_F(PeerWatchTest, WhoLeavesSaysWhyAndTheFirstTellsIt) {
  Start(3);
  clock_.SleepFor(seconds(1));
  ranks_[1].watch->Leave({ErrorKind::kRunFailed, "step 3", "fc0.w is not finite", ""});
  clock_.SleepFor(seconds(2));
  ASSERT_TRUE(HasEnded(0) && HasEnded(2));
  EXPECT_THAT(*ranks_[0].message, HasSubstr("device 1: left: step 3: fc0.w is not finite"));
  EXPECT_FALSE(HasEnded(1)) << "it ends by itself";
}

// Of several that leave it is the first that is named.
TEST_F(PeerWatchTest, TheFirstToLeaveIsNamed) {
  Start(3);
  clock_.SleepFor(seconds(1));
  const Error error{ErrorKind::kRunFailed, "", "lost the others", ""};
  ranks_[2].watch->Leave({ErrorKind::kRunFailed, "", "out of memory", ""});
  ranks_[1].watch->Leave(error);
  clock_.SleepFor(seconds(1));
  ASSERT_TRUE(HasEnded(0));
  EXPECT_THAT(*ranks_[0].message, HasSubstr("device 2: left: out of memory"));
}

// The first was cut off by another that left before: the verdict names that one, not itself.
TEST_F(PeerWatchTest, AFirstThatWasCutOffWaitsForTheVerdict) {
  Start(2);
  clock_.SleepFor(seconds(1));
  ranks_[1].connection->Break();
  const Clock::Time cut = clock_.Now();
  ranks_[0].watch->Leave({ErrorKind::kRunFailed, "", "connection closed", ""});
  EXPECT_GE(clock_.Now() - cut, seconds(4));
  ASSERT_TRUE(HasEnded(0));
  EXPECT_THAT(*ranks_[0].message, HasSubstr("device 1: is gone"));
}

// A suspended machine.
TEST_F(PeerWatchTest, APauseOfAllCountsAgainstNobody) {
  Start(3);
  for (int pause = 0; pause < 3; ++pause) {
    clock_.SleepFor(seconds(5));
    clock_.Skip(hours(8));
  }
  clock_.SleepFor(seconds(20));
  for (size_t k = 0; k < 3; ++k) EXPECT_FALSE(HasEnded(k)) << *ranks_[k].message;
}

}  // namespace
}  // namespace heddle
