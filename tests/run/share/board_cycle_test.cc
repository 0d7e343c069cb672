// The turns that a board hands out under `deficit` are those of the cycle that the planner
// simulates (turns/turn_cycle.h): from the beginning, and after a job has come, is done or is dead.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "run/share/board.h"

namespace heddle {
namespace {

using Jobs = std::vector<TurnJob>;

Jobs AnyJobs() {
  Jobs jobs(*rc::gen::inRange<size_t>(2, 6));
  for (TurnJob& job : jobs) {
    job.times.compute = Seconds{*rc::gen::inRange(1, 1000) / 700.0};
    job.times.communicate = Seconds{*rc::gen::inRange(0, 1000) / 300.0};
    job.times.exposed = job.times.communicate * (*rc::gen::inRange(0, 3) / 2.0);
    job.weight = *rc::gen::inRange(1, 5);
  }
  return jobs;
}

// A board with one device, and all that happens on it.
class OneDevice {
 public:
  explicit OneDevice(Seconds switch_cost)
      : switch_cost_(switch_cost),
        board_(Board::Create({TurnOrder::kDeficit, {0}, switch_cost}).value()) {}

  int32_t Add(const TurnJob& job, int64_t turns) {
    const int32_t number = board_
                               .AddJob({.name = "job",
                                        .devices = {0},
                                        .turns = turns,
                                        .times = job.times,
                                        .weight = job.weight})
                               .value();
    board_.Enter(number, 0);
    return number;
  }
  void Start() {
    std::vector<int32_t> all;
    for (int32_t j = 0; j < 32 && board_.ranks(j) > 0; ++j) all.push_back(j);
    board_.Activate(all);
    jobs_ = all;
  }

  // The next turn is given, and ends; the sequence has grown no further.
  int32_t Turn() {
    for (const int32_t j : jobs_) {
      const auto grant = board_.TryAcquire(j, 0);
      if (!grant.ok() || !grant.value()) continue;
      EXPECT_TRUE(board_.Release(j, 0, *grant.value()));
      return j;
    }
    return -1;
  }

  // The next `cycles` cycles are those of `jobs`, which have these numbers on the board.
  bool GoesRound(const Jobs& jobs, const std::vector<int32_t>& numbers, int cycles) {
    const std::vector<int32_t> cycle = TurnCycle(TurnOrder::kDeficit, jobs, switch_cost_);
    for (size_t turn = 0; turn < static_cast<size_t>(cycles) * cycle.size(); ++turn) {
      const int32_t place = cycle[turn % cycle.size()];
      if (Turn() != numbers[static_cast<size_t>(place)]) return false;
    }
    return true;
  }

  Board& board() { return board_; }
  Seconds switch_cost() const { return switch_cost_; }

 private:
  Seconds switch_cost_;
  Board board_;
  std::vector<int32_t> jobs_;
};

constexpr int64_t kMany = 1 << 30;

Seconds AnySwitch() { return Seconds{*rc::gen::inRange(0, 5) / 20.0}; }

std::vector<int32_t> NumbersBut(size_t count, size_t left_out) {
  std::vector<int32_t> numbers;
  for (size_t j = 0; j < count; ++j) {
    if (j != left_out) numbers.push_back(static_cast<int32_t>(j));
  }
  return numbers;
}

Jobs But(Jobs jobs, size_t left_out) {
  jobs.erase(jobs.begin() + static_cast<std::ptrdiff_t>(left_out));
  return jobs;
}

RC_GTEST_PROP(BoardCycle, IsThePlannersAndOfTheOthersWhenOneIsDone, ()) {
  const Jobs jobs = AnyJobs();
  const auto done = *rc::gen::inRange<size_t>(0, jobs.size());
  const auto turns = *rc::gen::inRange<int64_t>(1, 40);
  OneDevice device(AnySwitch());
  for (size_t j = 0; j < jobs.size(); ++j) device.Add(jobs[j], j == done ? turns : kMany);
  device.Start();
  const std::vector<int32_t> cycle = TurnCycle(TurnOrder::kDeficit, jobs, device.switch_cost());
  int64_t had = 0;
  for (size_t turn = 0; had < turns; ++turn) {
    const int32_t job = cycle[turn % cycle.size()];
    RC_ASSERT(device.Turn() == job);
    had += job == static_cast<int32_t>(done);
  }
  RC_ASSERT(device.GoesRound(But(jobs, done), NumbersBut(jobs.size(), done), 3));
}

RC_GTEST_PROP(BoardCycle, IsThatOfTheOthersWhenOneIsDead, ()) {
  const Jobs jobs = AnyJobs();
  const auto dead = *rc::gen::inRange<size_t>(0, jobs.size());
  OneDevice device(AnySwitch());
  for (const TurnJob& job : jobs) device.Add(job, kMany);
  device.Start();
  for (int turn = *rc::gen::inRange(0, 50); turn > 0; --turn) device.Turn();
  device.board().MarkDead(static_cast<int32_t>(dead), "was killed");
  RC_ASSERT(device.GoesRound(But(jobs, dead), NumbersBut(jobs.size(), dead), 3));
}

RC_GTEST_PROP(BoardCycle, IsThatOfAllFromTheTurnAtWhichOneJoins, ()) {
  const Jobs jobs = AnyJobs();
  const size_t last = jobs.size() - 1;
  OneDevice device(AnySwitch());
  for (size_t j = 0; j < last; ++j) device.Add(jobs[j], kMany);
  device.Start();
  const int turns = *rc::gen::inRange(0, 50);
  for (int turn = 0; turn < turns; ++turn) device.Turn();
  const int32_t number = device.Add(jobs[last], kMany);
  device.Start();
  RC_ASSERT(device.board().first_turn(number) == turns);
  RC_ASSERT(device.GoesRound(jobs, NumbersBut(jobs.size(), jobs.size()), 3));
}

TEST(BoardCycle, AJobThatIsNotReadyYetChangesNothing) {
  const Jobs jobs = {{{Seconds{1}, {}, {}}, 1}, {{Seconds{2}, {}, {}}, 1}};
  OneDevice device(Seconds{});
  for (const TurnJob& job : jobs) device.Add(job, kMany);
  device.Start();
  ASSERT_TRUE(device.GoesRound(jobs, {0, 1}, 1));
  ASSERT_EQ(device.Turn(), 0);
  device.Add({{Seconds{5}, {}, {}}, 7}, kMany);
  EXPECT_EQ(device.Turn(), 0);
  EXPECT_EQ(device.Turn(), 1);
  EXPECT_TRUE(device.GoesRound(jobs, {0, 1}, 2));
}

}  // namespace
}  // namespace heddle
