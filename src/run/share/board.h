// Board: what the jobs that share devices agree on, in memory that all their processes see.
//
//   HEDDLE_ASSIGN(Board board, Board::Create({.node_of = {0, 0, 1, 1}}));       // before any fork
//   HEDDLE_ASSIGN(int32_t job, board.AddJob({.name = "a", .devices = {0, 1}, .turns = 101, …}));
//   // in each process of the job:
//   board.Enter(job, rank);
//   HEDDLE_ASSIGN(const Grant grant, board.Acquire(job, rank));     // compute…
//   board.TakePlace(job, rank, grant.turn);                         // …post…
//   board.Release(job, rank, grant);
//   HEDDLE_RETURN_IF_ERROR(board.AwaitPlace(job, rank, grant.turn));  // …all-reduce…
//   board.LeavePlace(job, rank, grant.turn);
//
// A device has one token; its holder computes. A node has a queue for its network; places are taken
// while the token is held, so that all nodes queue the jobs in the order of turns. Nobody waits for
// the network while holding a token. No wait ends only by the deed of one process: those who wait
// look after those they wait for, and a job with a dead process, or one that outstays a lease, is
// struck from the order. The turns that the others were given before stay as they were. A board
// that somebody else has written to is written off, with all its jobs (board_damage.h).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "run/share/board_memory.h"

namespace heddle {

struct BoardShape {
  TurnOrder order = TurnOrder::kRotation;
  std::vector<int32_t> node_of;  // by device
  Seconds switch_cost{};         // modelled; counts in the fair rates under `deficit`
};

struct JobEntry {
  std::string name;
  std::vector<int32_t> devices;        // by rank
  int64_t turns = 0;                   // on each of them
  JobTimes times{Seconds{1}, {}, {}};  // modelled, of a turn alone
  double weight = 1;
  // Seconds that a turn, and its communication, should take here; 0: learned from those it has.
  double expected_turn = 0;
  double expected_network = 0;
  double lease = 0;  // seconds that it may keep others waiting; 0: by what it should take (lease.h)
};

// One rank of a job whose processes come by themselves. All its ranks say the same of the job.
struct RankEntry {
  std::string job;
  int32_t rank = 0, ranks = 1;
  int32_t device = 0, node = 0;
  double lease = 60;      // seconds that it may keep others waiting; nobody beats for it
  double rest_after = 1;  // seconds without work or messages, after which others go first
};

// The right to compute on a device until released, or until the lease ends.
struct Grant {
  int64_t generation = -1;
  int64_t turn = -1;
};

// Nanoseconds of the clock that all processes share, the machine's.
int64_t BoardNow();

class Board {
 public:
  static Result<Board> Create(const BoardShape& shape, Clock& clock = RealClock());
  // For processes that are no relatives: the board of that name on this host. The first to come
  // makes it, the last to go removes it; one that was left by the dead is replaced.
  static Result<Board> Open(const std::string& name, const BoardShape& shape);

  // --- The launcher's ---------------------------------------------------------------------------

  Result<int32_t> AddJob(const JobEntry& entry);
  bool IsReady(int32_t job) const;  // all its ranks have come
  // They take part from one turn on, which no device has given away yet. Returns it.
  int64_t Activate(std::span<const int32_t> jobs);
  void MarkDead(int32_t job, const std::string& why);
  void MarkAllDead(const std::string& why);
  // Jobs that are asked end after a step that all their ranks agree on.
  void AskToStop(int32_t job);
  void AskAllToStop();
  // Looks for dead processes and for leases that have ended; strikes such jobs.
  void Sweep();

  // --- Of a job's processes ---------------------------------------------------------------------

  void Enter(int32_t job, int32_t rank);  // with this process's id; counts as ready
  // A sign of life. `starved`: nanoseconds since the last one in which it could not run.
  void Beat(int32_t job, int32_t rank, int64_t starved = 0);
  void Leave(int32_t job, int32_t rank);  // when the last rank has left, so has the job
  // Blocks until the job takes part. An error once it is dead, as in all that follow.
  // Also an error if that takes more than so many seconds.
  Status AwaitStart(int32_t job, double patience = 1e9);
  Result<Grant> Acquire(int32_t job, int32_t rank);
  // One look, no waiting: nothing if another is first.
  Result<std::optional<Grant>> TryAcquire(int32_t job, int32_t rank);
  // False if the token has been taken away.
  bool Release(int32_t job, int32_t rank, const Grant& grant);

  void TakePlace(int32_t job, int32_t rank, int64_t turn);  // once or more often
  Status AwaitPlace(int32_t job, int32_t rank, int64_t turn);
  // One look, no waiting: whether it is first in line.
  Result<bool> IsPlaceFirst(int32_t job, int32_t rank, int64_t turn);
  void LeavePlace(int32_t job, int32_t rank, int64_t turn);

  // Without tokens: uses the device beside the others. It takes so many nanoseconds of its own
  // share of the speed, from the moment at which it begins. `number` counts a job's uses.
  void BeginFairUse(int32_t job, int32_t rank, int64_t number, double nanoseconds);
  Status AwaitFairUse(int32_t job, int32_t rank, int64_t number);

  bool asked_to_stop(int32_t job) const { return this->job(job).asked_to_stop != 0; }
  // Of the job's first rank, once: nobody goes on after so many repetitions. The others look
  // before each; it must be so far ahead that none can have passed it.
  void StopAfter(int32_t job, int64_t repetitions);
  int64_t stops_after(int32_t job) const { return this->job(job).stops_after; }

  // For what is not in line here: the lease of an exchange that begins now, and whether it is over.
  Lease NetworkLease(int32_t job) const;
  bool HasOutstayed(int32_t job, const Lease& lease) const;

  // --- Of processes that come by themselves -----------------------------------------------------

  // Adds the job with its first rank, enters, and starts the job with its last rank. A job that
  // does nothing for a while rests: its turns pass until one of its ranks asks for the device.
  Result<int32_t> Join(const RankEntry& entry);
  void Pause(int32_t job, int32_t rank);  // keeps the device, but does not work now
  // Works again. False if it rested in the meantime: it must acquire anew.
  Result<bool> Resume(int32_t job, int32_t rank, const Grant& grant);
  // A place on each of the job's nodes at once: all of them queue jobs in one order, also where
  // turns do not follow one.
  void TakePlaceEverywhere(int32_t job, int32_t rank, int64_t turn);
  // Looks after the job's processes now; an error if it is dead.
  Status Check(int32_t job);

  // --- For those who look -----------------------------------------------------------------------

  TurnOrder order() const { return m().order; }
  JobState state(int32_t job) const;
  std::string why(int32_t job) const;
  std::string name(int32_t job) const;
  int64_t began(int32_t job) const;
  int64_t ended(int32_t job) const;
  int64_t first_turn(int32_t job) const;
  int32_t owner(int32_t device) const;  // job, or -1
  std::vector<pid_t> pids(int32_t job) const;
  int64_t beats(int32_t job, int32_t rank) const;
  bool has_left(int32_t job, int32_t rank) const;
  int64_t posted(int32_t job,
                 int32_t rank) const;  // the last turn it queued for the network, or -1
  int32_t ranks(int32_t job) const;
  int32_t CountRunning() const;
  Clock& clock() const { return *clock_; }  // this process's
  int64_t Now() const { return NanosecondsOf(clock_->Now()); }
  BoardMemory& memory() const { return *memory_; }  // as every process of the share can write it

 private:
  class Lock;
  explicit Board(std::shared_ptr<BoardMemory> memory, Clock& clock)
      : memory_(std::move(memory)), clock_(&clock) {}
  static Status CheckShape(const BoardShape& shape);
  static BoardMemory* Lay(void* memory, const BoardShape& shape);
  BoardMemory& m() const { return *memory_; }
  bool WaitForChange(std::atomic<uint32_t>& word, uint32_t seen, int64_t nanoseconds) const {
    return clock_->WaitForChange(word, seen, std::chrono::nanoseconds(nanoseconds));
  }
  JobRecord& job(int32_t j) const { return m().job[static_cast<size_t>(j)]; }
  Token& token(int32_t device) const { return m().token[static_cast<size_t>(device)]; }
  NetworkQueue& network_of(int32_t job, int32_t rank) const;
  int32_t device_of(int32_t job, int32_t rank) const;
  int32_t node_of(int32_t job, int32_t rank) const;

  // All under the lock.
  bool Alive(int32_t j) const { return job(j).state == JobState::kRunning; }
  bool HasDevice(int32_t j, int32_t device) const;
  Error Gone(int32_t j) const;
  void Repair();
  void Strike(int32_t j, const std::string& why);
  void Start(int32_t j);
  Status CheckEntry(const RankEntry& entry) const;
  std::optional<int32_t> FindJob(const std::string& name) const;
  Result<int32_t> MakeJob(const RankEntry& entry);
  std::optional<int32_t> FreeNumber();
  bool IsGone(int32_t j) const;
  void Clear(int32_t j);
  bool HasPlace(int32_t j) const;
  bool Works(int32_t j) const;  // one of its ranks computes
  bool IsAway(int32_t j, int64_t now) const;
  void Rest(int32_t j);
  void Examine(int32_t j);
  void SweepLocked();
  void LookAtLeases(int64_t now);
  void LookAtHolder(int32_t device, int64_t now);
  void LookForTheNext(int32_t device, int64_t now);
  void LookAtNetwork(int32_t node, int64_t now);
  void LookForWork(int32_t j, int64_t now);
  bool AllExchange(int32_t j, int64_t turn);
  Lease NewLease(int32_t j, const Habit& habit, bool cold, int64_t starved, int64_t now) const;
  void StartTurn(int32_t j, int32_t rank, Token& t);
  void EndTurn(int32_t j, int32_t rank, Token& t);
  void LearnExchange(int32_t j, const Place& place);
  void RefreshHead(NetworkQueue& queue);
  void TakePlaceIn(int32_t node, int32_t j, int64_t turn);
  bool IsFirst(NetworkQueue& queue, int32_t j, int64_t turn);
  Place* FindPlace(NetworkQueue& queue, int32_t j, int64_t turn);
  bool Grow(int32_t device);
  void KeepCycle();
  int32_t NextOn(int32_t device);
  std::optional<Grant> Grab(int32_t j, int32_t rank);
  bool IsNext(int32_t j, int32_t rank, Token& t);
  void WakeAll();
  template <class Done>
  Status WaitUntil(int32_t j, std::atomic<uint32_t>& word, const Done& done);

  std::shared_ptr<BoardMemory> memory_;
  Clock* clock_;
};

}  // namespace heddle
