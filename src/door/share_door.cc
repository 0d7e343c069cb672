#include "door/share_door.h"

#include <unistd.h>

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "run/share/board.h"

// A rank's seat. The turn and the place that is open belong to the thread that computes.
struct heddle_share_seat {
  explicit heddle_share_seat(heddle::Board b) : board(std::move(b)) {}

  heddle::Board board;
  pid_t process = getpid();
  int32_t job = -1, rank = -1;
  double start_patience = 0;
  bool started = false, left = false;
  std::optional<heddle::Grant> grant;
  int64_t open_place = -1;  // taken since the last end of a turn
  int64_t places = 0;       // ranks of a job take as many, so that its number means the same to all
};

namespace {

using heddle::Error;
using heddle::ErrorKind;
using heddle::Status;

std::string& LastError() {
  thread_local std::string text;
  return text;
}

// Nothing is thrown through the door.
template <class Deed>
int64_t Try(const Deed& deed) {
  try {
    const heddle::Result<int64_t> result = deed();
    if (result.ok()) return result.value();
    const Error& error = result.error();
    LastError() = error.where + ": " + error.what;
    if (!error.hint.empty()) LastError() += " (" + error.hint + ")";
  } catch (const std::exception& error) {
    LastError() = error.what();
  }
  return -1;
}

Status CheckSeated(const heddle_share_seat* seat) {
  if (seat == nullptr) {
    return Error{ErrorKind::kUsage, "share", "there is no seat", "heddle_share_open"};
  }
  if (seat->process != getpid()) {
    return Error{ErrorKind::kUsage, "share", "the seat is another process's",
                 "a forked process opens its own"};
  }
  if (seat->job < 0 || seat->left) {
    return Error{ErrorKind::kUsage, "share", "the seat is not taken", "heddle_share_join"};
  }
  return heddle::Ok();
}

// As Try, for those who have joined.
template <class Deed>
int64_t TrySeated(const heddle_share_seat* seat, const Deed& deed) {
  return Try([&]() -> heddle::Result<int64_t> {
    HEDDLE_RETURN_IF_ERROR(CheckSeated(seat));
    return deed();
  });
}

// Every device that a host may have, all on one node until those who come say otherwise.
heddle::BoardShape WholeHost() {
  return {heddle::TurnOrder::kRotation, std::vector<int32_t>(heddle::kMostSharedDevices, 0)};
}

heddle::Result<int64_t> BeginTurn(heddle_share_seat& seat) {
  if (!seat.started) {
    HEDDLE_RETURN_IF_ERROR(seat.board.AwaitStart(seat.job, seat.start_patience));
    seat.started = true;
  }
  if (seat.grant) {
    HEDDLE_ASSIGN(const bool still_held, seat.board.Resume(seat.job, seat.rank, *seat.grant));
    if (still_held) return 0;
    seat.grant.reset();
  }
  HEDDLE_ASSIGN(seat.grant, seat.board.Acquire(seat.job, seat.rank));
  return 0;
}

heddle::Result<int64_t> EndTurn(heddle_share_seat& seat) {
  seat.open_place = -1;
  if (!seat.grant) return 0;
  const heddle::Grant grant = *seat.grant;
  seat.grant.reset();
  if (seat.board.Release(seat.job, seat.rank, grant)) return 0;
  HEDDLE_RETURN_IF_ERROR(seat.board.Check(seat.job));
  return 0;  // it rested
}

heddle::Result<int64_t> LeaveSeat(heddle_share_seat& seat) {
  EndTurn(seat).ok();  // a job that was struck leaves too
  if (seat.board.state(seat.job) == heddle::JobState::kJoining) {
    seat.board.MarkDead(seat.job,
                        "rank " + std::to_string(seat.rank) + " left before all others had come");
  }
  seat.board.Leave(seat.job, seat.rank);
  seat.left = true;
  return 0;
}

}  // namespace

heddle_share_seat* heddle_share_open(const char* share) {
  heddle_share_seat* seat = nullptr;
  Try([&]() -> heddle::Result<int64_t> {
    HEDDLE_ASSIGN(heddle::Board board, heddle::Board::Open(share, WholeHost()));
    seat = new heddle_share_seat(std::move(board));
    return 0;
  });
  return seat;
}

int heddle_share_join(heddle_share_seat* seat, const char* job, int32_t rank, int32_t ranks,
                      int32_t device, int32_t node, const heddle_share_patience* patience) {
  constexpr heddle_share_patience kUsual = {60, 1, 300};
  const heddle_share_patience& p = patience == nullptr ? kUsual : *patience;
  return static_cast<int>(Try([&]() -> heddle::Result<int64_t> {
    if (seat == nullptr || seat->job >= 0) {
      return Error{ErrorKind::kUsage, "share", "there is no free seat", "heddle_share_open"};
    }
    HEDDLE_ASSIGN(seat->job,
                  seat->board.Join({job, rank, ranks, device, node, p.lease, p.rest_after}));
    seat->rank = rank;
    seat->start_patience = p.start;
    return 0;
  }));
}

int heddle_share_begin_turn(heddle_share_seat* seat) {
  return static_cast<int>(TrySeated(seat, [&] { return BeginTurn(*seat); }));
}

int heddle_share_pause(heddle_share_seat* seat) {
  return static_cast<int>(TrySeated(seat, [&]() -> heddle::Result<int64_t> {
    if (seat->grant) seat->board.Pause(seat->job, seat->rank);
    return 0;
  }));
}

int64_t heddle_share_turn(const heddle_share_seat* seat) {
  return seat != nullptr && seat->grant ? seat->grant->turn : -1;
}

int64_t heddle_share_post(heddle_share_seat* seat) {
  return TrySeated(seat, [&]() -> heddle::Result<int64_t> {
    if (seat->open_place < 0) {
      seat->open_place = seat->places++;
      seat->board.TakePlaceEverywhere(seat->job, seat->rank, seat->open_place);
    }
    return seat->open_place;
  });
}

int heddle_share_end_turn(heddle_share_seat* seat) {
  return static_cast<int>(TrySeated(seat, [&] { return EndTurn(*seat); }));
}

int heddle_share_await_network(heddle_share_seat* seat, int64_t place) {
  return static_cast<int>(TrySeated(seat, [&]() -> heddle::Result<int64_t> {
    HEDDLE_RETURN_IF_ERROR(seat->board.AwaitPlace(seat->job, seat->rank, place));
    return 0;
  }));
}

int heddle_share_leave_network(heddle_share_seat* seat, int64_t place) {
  return static_cast<int>(TrySeated(seat, [&]() -> heddle::Result<int64_t> {
    seat->board.LeavePlace(seat->job, seat->rank, place);
    return 0;
  }));
}

int heddle_share_check(heddle_share_seat* seat) {
  return static_cast<int>(TrySeated(seat, [&]() -> heddle::Result<int64_t> {
    HEDDLE_RETURN_IF_ERROR(seat->board.Check(seat->job));
    return 0;
  }));
}

int heddle_share_fail(heddle_share_seat* seat, const char* why) {
  return static_cast<int>(TrySeated(seat, [&]() -> heddle::Result<int64_t> {
    seat->board.MarkDead(seat->job, "rank " + std::to_string(seat->rank) + " failed: " + why);
    return 0;
  }));
}

int heddle_share_leave(heddle_share_seat* seat) {
  return static_cast<int>(TrySeated(seat, [&] { return LeaveSeat(*seat); }));
}

void heddle_share_close(heddle_share_seat* seat) {
  if (seat == nullptr) return;
  if (CheckSeated(seat).ok()) heddle_share_leave(seat);
  delete seat;
}

int32_t heddle_share_jobs(heddle_share_seat* seat) {
  return static_cast<int32_t>(
      TrySeated(seat, [&]() -> heddle::Result<int64_t> { return seat->board.CountRunning(); }));
}

int64_t heddle_share_clock() { return heddle::BoardNow(); }

const char* heddle_share_error() { return LastError().c_str(); }
