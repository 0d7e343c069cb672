#include "run/share/shared_device.h"

#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "run/share/rank_beat.h"

namespace heddle {
namespace {

void SleepUntil(int64_t nanoseconds) {
  constexpr int64_t kSecond = 1'000'000'000;
  const timespec time{nanoseconds / kSecond, nanoseconds % kSecond};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) == EINTR) {
  }
}

// Errors of the board end the worker's loop as the loss of a peer does.
void OrThrow(const Status& status) {
  if (!status.ok()) throw PeerLost(status.error().ToString());
}

}  // namespace

struct SharedDevice::Common {
  explicit Common(Seat s) : seat(std::move(s)) {}
  Seat seat;
  RankNotes notes;                               // the worker's thread
  std::atomic<int64_t> deadlines{0}, missed{0};  // the network's thread too

  bool queues() const { return seat.manner == ShareManner::kTurns && seat.ordered; }
  bool paced() const { return seat.pace.dilation > 0; }
  double Nanoseconds(double modelled) const { return modelled * seat.pace.dilation * 1e9; }
  // Returns `modelled` seconds after `start`, or late if real work took longer; when it was due.
  int64_t KeepDeadline(int64_t start, double modelled) {
    const int64_t deadline = start + static_cast<int64_t>(Nanoseconds(modelled));
    const int64_t now = BoardNow();
    ++deadlines;
    if (now > deadline) {
      ++missed;
      return now;
    }
    SleepUntil(deadline);
    return deadline;
  }
};

// Collectives in line for the network.
class SharedDevice::Network final : public Communicator {
 public:
  Network(Common& common, Communicator& inner)
      : common_(common), inner_(inner), thread_([this] { Loop(); }) {}

  ~Network() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  TicketPtr Send(int32_t peer, int32_t tag, Payload payload) override {
    return inner_.Send(peer, tag, std::move(payload));
  }
  TicketPtr Receive(int32_t peer, int32_t tag, Payload payload) override {
    return inner_.Receive(peer, tag, std::move(payload));
  }
  TicketPtr Collective(CollectiveCall call) override {
    if (!common_.queues() && !common_.paced()) return inner_.Collective(std::move(call));
    auto ticket = std::make_shared<Done>();
    if (common_.queues()) {
      HEDDLE_CHECK(turn_ >= 0);  // places are taken while the device is held
      if (!posted_) common_.seat.board.TakePlace(common_.seat.job, common_.seat.rank, turn_);
      posted_ = true;
    }
    Add({std::move(call), ticket, turn_, false});
    return ticket;
  }

  // The worker's thread has the device for this turn, and gives it back.
  void BeginTurn(int64_t turn) {
    turn_ = turn;
    posted_ = false;
  }
  void EndTurn() {
    if (posted_) Add({{}, nullptr, turn_, true});
    turn_ = -1;
    posted_ = false;
  }

 private:
  class Done final : public Ticket {
   public:
    void Wait() override {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return done_; });
      if (!error_.empty()) throw PeerLost(error_);
    }
    void Finish(std::string error) {
      const std::lock_guard lock(mutex_);
      done_ = true;
      error_ = std::move(error);
      changed_.notify_all();
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool done_ = false;
    std::string error_;
  };

  struct Item {
    CollectiveCall call;
    std::shared_ptr<Done> ticket;
    int64_t turn;
    bool ends_turn;  // nothing to do but to leave the line
  };

  void Add(Item item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    changed_.notify_all();
  }

  void Loop() {
    prctl(PR_SET_TIMERSLACK, 1);
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !items_.empty(); });
      if (items_.empty()) return;
      Item item = std::move(items_.front());
      items_.pop_front();
      lock.unlock();
      if (item.ends_turn) {
        common_.seat.board.LeavePlace(common_.seat.job, common_.seat.rank, item.turn);
        continue;
      }
      std::string error;
      try {
        Perform(item);
      } catch (const std::exception& caught) {
        error = caught.what();
        if (error.empty()) error = "a collective failed";
      }
      item.call = {};
      item.ticket->Finish(std::move(error));
    }
  }

  void Perform(Item& item) {
    Board& board = common_.seat.board;
    const int32_t job = common_.seat.job, rank = common_.seat.rank;
    if (common_.queues()) OrThrow(board.AwaitPlace(job, rank, item.turn));
    const bool paces = common_.paced() && common_.seat.pace.paces_network;
    const double seconds = paces ? common_.seat.pace.collective_seconds(item.call) : 0;
    const int64_t number = performed_++;
    if (paces) board.Arrive(job, number);
    inner_.Collective(std::move(item.call))->Wait();
    if (!paces) return;
    if (common_.seat.manner == ShareManner::kTogether) {
      OrThrow(board.UseNetworkFairly(job, number, common_.Nanoseconds(seconds)));
    } else {
      common_.KeepDeadline(board.LastArrival(job, number), seconds);
    }
  }

  Common& common_;
  Communicator& inner_;
  int64_t turn_ = -1;    // the worker's thread
  bool posted_ = false;  // in this turn; likewise
  int64_t performed_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the rest
};

class SharedDevice::Turns final : public DeviceTurns {
 public:
  Turns(Common& common, Network& network) : common_(common), network_(network) {
    prctl(PR_SET_TIMERSLACK, 1);
  }

  void Acquire() override {
    if (held_) return;
    const Seat& seat = common_.seat;
    Board& board = common_.seat.board;
    if (!beat_) {
      board.Enter(seat.job, seat.rank);
      beat_.emplace(board, seat.job, seat.rank);
      OrThrow(board.AwaitStart(seat.job));
    }
    if (seat.manner == ShareManner::kTurns) {
      const Result<Grant> grant = board.Acquire(seat.job, seat.rank);
      if (!grant.ok()) throw PeerLost(grant.error().ToString());
      grant_ = grant.value();
      network_.BeginTurn(grant_.turn);
    }
    held_ = true;
    since_ = BoardNow();
    ++common_.notes.turns;
  }

  void Release() override {
    if (held_) GiveBack();
    // While the network is at work: what the hash costs, nobody waits for.
    if (hash_is_due_ && hash_) common_.notes.hashes.push_back(hash_());
    hash_is_due_ = false;
    if (last_step_done_ && !left_) {
      common_.seat.board.Leave(common_.seat.job, common_.seat.rank);
      left_ = true;
    }
  }

  bool whole_steps() const override { return common_.queues(); }

  void StepDone(int64_t i) override {
    common_.notes.step_ends.push_back(BoardNow());
    hash_is_due_ = true;
    last_step_done_ = i + 1 == common_.seat.steps;
  }

  void SetHash(std::function<uint64_t()> hash) override { hash_ = std::move(hash); }

 private:
  void GiveBack() {
    held_ = false;
    common_.notes.held += BoardNow() - since_;
    if (common_.seat.manner != ShareManner::kTurns) return;
    network_.EndTurn();
    if (!common_.seat.board.Release(common_.seat.job, common_.seat.rank, grant_)) {
      throw PeerLost("the device was taken away: " + common_.seat.board.why(common_.seat.job));
    }
  }

  Common& common_;
  Network& network_;
  std::optional<RankBeat> beat_;
  Grant grant_;
  bool held_ = false, hash_is_due_ = false, last_step_done_ = false, left_ = false;
  int64_t since_ = 0;
  std::function<uint64_t()> hash_;
};

// Real arithmetic, then a sleep until the modelled time has passed.
class SharedDevice::PacedExecutor final : public Executor {
 public:
  PacedExecutor(Common& common, Executor& inner) : common_(common), inner_(inner) {}

  void Compute(const Instruction& compute, int64_t i) override {
    const int64_t start = BoardNow();
    inner_.Compute(compute, i);
    const auto& seconds = common_.seat.pace.segment_seconds;
    if (seconds.empty()) return;
    const double modelled = seconds[static_cast<size_t>(compute.target)];
    const double real = static_cast<double>(BoardNow() - start) * 1e-9;
    if (i > 0) {  // the first step is cold
      common_.notes.work += real;
      if (modelled > 0) {
        common_.notes.longest_ratio = std::max(common_.notes.longest_ratio, real / modelled);
      }
    }
    if (!common_.paced()) return;
    if (common_.seat.manner == ShareManner::kTogether) {
      const double left = common_.Nanoseconds(modelled) - real * 1e9;
      if (left > 0) {
        OrThrow(
            common_.seat.board.UseDeviceFairly(common_.seat.job, common_.seat.rank, uses_++, left));
      }
      return;
    }
    // What begins right after the last deadline begins at it: oversleeping does not add up.
    constexpr int64_t kRightAfter = 1'000'000;
    due_ = common_.KeepDeadline(start - due_ < kRightAfter ? due_ : start, modelled);
  }
  Payload Outgoing(const BufferRef& ref, int64_t i) override { return inner_.Outgoing(ref, i); }
  Payload Incoming(const BufferRef& ref, int64_t i) override { return inner_.Incoming(ref, i); }
  Payload InPlace(const BufferRef& ref, int64_t i) override { return inner_.InPlace(ref, i); }
  ExchangeBlocks Exchange(const Instruction& collective, int64_t i) override {
    return inner_.Exchange(collective, i);
  }
  void Free(const BufferRef& ref, int64_t i) override { inner_.Free(ref, i); }
  void Alias(const BufferRef& name, const BufferRef& buffer, int64_t i) override {
    inner_.Alias(name, buffer, i);
  }
  DType dtype() const override { return inner_.dtype(); }

 private:
  Common& common_;
  Executor& inner_;
  int64_t uses_ = 0;
  int64_t due_ = 0;  // the end of the last compute
};

SharedDevice::SharedDevice(const Seat& seat, Communicator& inner)
    : common_(std::make_unique<Common>(seat)),
      network_(std::make_unique<Network>(*common_, inner)),
      turns_(std::make_unique<Turns>(*common_, *network_)) {}

SharedDevice::~SharedDevice() = default;

DeviceTurns& SharedDevice::turns() { return *turns_; }
Communicator& SharedDevice::communicator() { return *network_; }
std::unique_ptr<Executor> SharedDevice::Wrap(Executor& executor) {
  return std::make_unique<PacedExecutor>(*common_, executor);
}
RankNotes SharedDevice::notes() const {
  RankNotes notes = common_->notes;
  notes.deadlines = common_->deadlines;
  notes.missed = common_->missed;
  return notes;
}

}  // namespace heddle
