// PlacedCommunicator: a rank whose collectives queue for its node's network in the order of turns.
//
//   communicator.BeginTurn(grant.turn);
//   TicketPtr sum = communicator.Collective(call);     // takes the turn's place
//   communicator.EndTurn();
//   sum->Wait();
//
// A thread of its own performs them one after the other, each once its turn's place is first in
// line. Messages between two do not queue.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "run/communicator.h"
#include "run/late_ticket.h"
#include "run/share/seat.h"

namespace heddle {

class PlacedCommunicator final : public Communicator {
 public:
  PlacedCommunicator(const Seat& seat, Communicator& inner);
  ~PlacedCommunicator() override;

  TicketPtr Send(int32_t peer, int32_t tag, Payload payload) override {
    return inner_.Send(peer, tag, std::move(payload));
  }
  TicketPtr Receive(int32_t peer, int32_t tag, Payload payload) override {
    return inner_.Receive(peer, tag, std::move(payload));
  }
  TicketPtr Collective(CollectiveCall call) override;

  // The worker's thread has the device for this turn, and gives it back.
  void BeginTurn(int64_t turn);
  void EndTurn();

 private:
  struct Item {
    CollectiveCall call;
    std::shared_ptr<LateTicket> ticket;  // null: nothing to do but to leave the line
    int64_t turn;
  };

  void Add(Item item);
  void Loop();
  void Perform(Item& item);

  Seat seat_;
  Communicator& inner_;
  int64_t turn_ = -1;    // the worker's thread
  bool posted_ = false;  // in this turn; likewise
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace heddle
