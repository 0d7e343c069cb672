#include "run/share/shared_device.h"

#include <sys/prctl.h>

#include <algorithm>
#include <ctime>

#include "run/compute_pace.h"
#include "run/share/rank_beat.h"
#include "run/wrapped_executor.h"

namespace heddle {
namespace {

// Errors of the board end the worker's loop as the loss of a peer does.
void OrThrow(const Status& status) {
  if (!status.ok()) throw PeerLost(status.error().ToString());
}

// Of this thread, which does a rank's arithmetic: a processor's, however many others wanted it.
double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

// Of the worker's thread.
struct SharedDevice::Common {
  explicit Common(Seat s) : seat(std::move(s)) {}
  Seat seat;
  RankNotes notes;
  ComputePace pace{seat.board.clock()};

  bool paced() const { return seat.pace.dilation > 0; }
  double Seconds(double modelled) const { return modelled * seat.pace.dilation; }
};

class SharedDevice::Turns final : public DeviceTurns {
 public:
  Turns(Common& common, PlacedCommunicator* placed) : common_(common), placed_(placed) {
    prctl(PR_SET_TIMERSLACK, 1);
  }

  void Begin() override {
    if (beat_) return;
    Board& board = common_.seat.board;
    board.Enter(common_.seat.job, common_.seat.rank);
    beat_.emplace(board, common_.seat.job, common_.seat.rank);
    OrThrow(board.AwaitStart(common_.seat.job));
  }

  void Acquire() override {
    if (held_) return;
    const Seat& seat = common_.seat;
    if (seat.manner == ShareManner::kTurns) {
      const Result<Grant> grant = common_.seat.board.Acquire(seat.job, seat.rank);
      if (!grant.ok()) throw PeerLost(grant.error().ToString());
      grant_ = grant.value();
      if (placed_ != nullptr) placed_->BeginTurn(grant_.turn);
    }
    held_ = true;
    since_ = common_.seat.board.Now();
    ++common_.notes.turns;
  }

  void Release() override {
    if (!held_) return;
    held_ = false;
    held_before_ += common_.seat.board.Now() - since_;
    if (common_.seat.manner != ShareManner::kTurns) return;
    if (placed_ != nullptr) placed_->EndTurn();
    if (!common_.seat.board.Release(common_.seat.job, common_.seat.rank, grant_)) {
      throw PeerLost("the device was taken away: " + common_.seat.board.why(common_.seat.job));
    }
  }

  void End() override {
    const auto done = static_cast<int64_t>(common_.notes.step_ends.size());
    if (done == std::min(common_.seat.steps, StopsAfter())) {
      common_.seat.board.Leave(common_.seat.job, common_.seat.rank);
    }
  }

  int64_t StopsAfter() const override { return common_.seat.board.stops_after(common_.seat.job); }

  bool whole_steps() const override { return common_.seat.queues(); }
  void StepDone(int64_t i) override {
    const int64_t now = common_.seat.board.Now();
    if (common_.seat.rank == 0) DecideToStop(i);
    common_.notes.step_ends.push_back(now);
    common_.notes.held.push_back(held_before_ + (held_ ? now - since_ : 0));
  }
  void TakeHash() override {
    if (hash_) common_.notes.hashes.push_back(hash_());
  }
  void SetHash(std::function<uint64_t()> hash) override { hash_ = std::move(hash); }

 private:
  // How far ranks are apart: nobody ends a repetition that the first has not begun, but for
  // asynchronous stages, of which each may be one further.
  void DecideToStop(int64_t i) {
    const Seat& seat = common_.seat;
    if (!seat.board.asked_to_stop(seat.job) || StopsAfter() != INT64_MAX) return;
    const int64_t until = i + 2 + seat.board.ranks(seat.job);
    if (until < seat.steps) common_.seat.board.StopAfter(seat.job, until);
  }

  Common& common_;
  PlacedCommunicator* placed_;  // null: no order
  std::optional<RankBeat> beat_;
  Grant grant_;
  bool held_ = false;
  int64_t since_ = 0;
  int64_t held_before_ = 0;  // in turns that are over
  std::function<uint64_t()> hash_;
};

// Real arithmetic, then a sleep until the modelled time has passed.
class SharedDevice::PacedExecutor final : public WrappedExecutor {
 public:
  PacedExecutor(Common& common, Executor& inner) : WrappedExecutor(inner), common_(common) {}

  void Compute(const Instruction& compute, int64_t i) override {
    const std::vector<double>& seconds = common_.seat.pace.segment_seconds;
    if (seconds.empty()) return WrappedExecutor::Compute(compute, i);
    const double modelled = seconds[static_cast<size_t>(compute.target)];
    Board& board = common_.seat.board;
    const int32_t job = common_.seat.job, rank = common_.seat.rank;
    const bool fairly = common_.paced() && common_.seat.manner == ShareManner::kTogether;
    if (fairly) board.BeginFairUse(job, rank, uses_, 1e9 * common_.Seconds(modelled));
    const Clock::Time start = board.clock().Now(), begin = common_.pace.Begin();
    const double before = ThreadSeconds();
    WrappedExecutor::Compute(compute, i);
    if (i > 0) Note(modelled, ThreadSeconds() - before, SecondsIn(board.clock().Now() - start));
    if (!common_.paced()) return;
    if (fairly) return OrThrow(board.AwaitFairUse(job, rank, uses_++));
    ++common_.notes.deadlines;
    if (!common_.pace.End(begin, common_.Seconds(modelled))) ++common_.notes.missed;
  }

 private:
  // A compute that was not in the first step, which is cold.
  void Note(double modelled, double seconds, double took) {
    RankNotes& notes = common_.notes;
    notes.work += seconds;
    notes.work_took += took;
    if (modelled > 0) notes.longest_ratio = std::max(notes.longest_ratio, seconds / modelled);
  }

  Common& common_;
  int64_t uses_ = 0;
};

namespace {

template <class Wrapper>
Communicator& Outer(const std::unique_ptr<Wrapper>& wrapper, Communicator& inner) {
  return wrapper ? static_cast<Communicator&>(*wrapper) : inner;
}

}  // namespace

SharedDevice::SharedDevice(const Seat& seat, Communicator& inner)
    : common_(std::make_unique<Common>(seat)),
      desk_(seat.desk ? std::make_unique<DeskCommunicator>(seat, inner,
                                                           [this](int64_t end) { Arrived(end); })
                      : nullptr),
      placed_(seat.queues() ? std::make_unique<PlacedCommunicator>(seat, Outer(desk_, inner))
                            : nullptr),
      turns_(std::make_unique<Turns>(*common_, placed_.get())),
      communicator_(Outer(placed_, Outer(desk_, inner))) {}

SharedDevice::~SharedDevice() = default;

DeviceTurns& SharedDevice::turns() { return *turns_; }
Communicator& SharedDevice::communicator() { return communicator_; }
std::unique_ptr<Executor> SharedDevice::Wrap(Executor& executor) {
  return std::make_unique<PacedExecutor>(*common_, executor);
}
RankNotes SharedDevice::notes() const {
  RankNotes notes = common_->notes;
  if (desk_) notes.deadlines += desk_->deadlines();
  if (desk_) notes.missed += desk_->missed();
  return notes;
}

// What computes next begins then. Of collectives in line another thread hears.
void SharedDevice::Arrived(int64_t end) {
  if (!placed_) common_->pace.Arrived(TimeOf(end));
}

}  // namespace heddle
