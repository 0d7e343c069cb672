#include "run/share/placed_communicator.h"

#include <sys/prctl.h>

#include "base/check.h"

namespace heddle {

PlacedCommunicator::PlacedCommunicator(const Seat& seat, Communicator& inner)
    : seat_(seat), inner_(inner), thread_([this] { Loop(); }) {}

PlacedCommunicator::~PlacedCommunicator() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

TicketPtr PlacedCommunicator::Collective(CollectiveCall call) {
  HEDDLE_CHECK(turn_ >= 0);  // places are taken while the device is held
  if (!posted_) seat_.board.TakePlace(seat_.job, seat_.rank, turn_);
  posted_ = true;
  auto ticket = std::make_shared<LateTicket>();
  Add({std::move(call), ticket, turn_});
  return ticket;
}

void PlacedCommunicator::BeginTurn(int64_t turn) {
  turn_ = turn;
  posted_ = false;
}

void PlacedCommunicator::EndTurn() {
  if (posted_) Add({{}, nullptr, turn_});
  turn_ = -1;
  posted_ = false;
}

void PlacedCommunicator::Add(Item item) {
  const std::lock_guard lock(mutex_);
  items_.push_back(std::move(item));
  changed_.notify_all();
}

void PlacedCommunicator::Loop() {
  prctl(PR_SET_TIMERSLACK, 1);
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ends_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    lock.unlock();
    if (item.ticket == nullptr) {
      seat_.board.LeavePlace(seat_.job, seat_.rank, item.turn);
    } else {
      item.ticket->Finish(ErrorOf([&] { Perform(item); }));
    }
  }
}

void PlacedCommunicator::Perform(Item& item) {
  const Status first = seat_.board.AwaitPlace(seat_.job, seat_.rank, item.turn);
  if (!first.ok()) throw PeerLost(first.error().ToString());
  inner_.Collective(std::move(item.call))->Wait();
}

}  // namespace heddle
