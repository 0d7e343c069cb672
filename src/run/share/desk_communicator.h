// DeskCommunicator: a rank whose messages and collectives go by the share's flow desk: each is
// started when it is granted, in the order of grants, and has arrived when the office says so.
//
//   DeskCommunicator communicator(seat, real);
//   communicator.Send(peer, tag, payload)->Wait();
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "run/communicator.h"
#include "run/late_ticket.h"
#include "run/share/seat.h"

namespace heddle {

class DeskCommunicator final : public Communicator {
 public:
  // `arrived` hears, in the thread that waits, when what it waited for had arrived on an emulated
  // network. REQUIRES: seat.desk.
  DeskCommunicator(const Seat& seat, Communicator& inner, std::function<void(int64_t)> arrived);
  ~DeskCommunicator() override;

  TicketPtr Send(int32_t peer, int32_t tag, Payload payload) override;
  TicketPtr Receive(int32_t peer, int32_t tag, Payload payload) override;
  TicketPtr Collective(CollectiveCall call) override;

  // On an emulated network: those that had to be moved in time, and those that were not.
  int64_t deadlines() const { return deadlines_; }
  int64_t missed() const { return missed_; }

 private:
  class FlowTicket;
  struct Item {
    std::function<TicketPtr()> start;  // the real communication
    std::shared_ptr<LateTicket> moved;
  };
  struct Started {
    int64_t number;
    TicketPtr real;
    std::shared_ptr<LateTicket> moved;
  };

  FlowPost Prepare() const;
  TicketPtr Post(FlowPost post, double bytes, std::function<TicketPtr()> start);
  void StartGranted();   // the life of a thread
  void FinishStarted();  // and of another
  bool Start(int64_t number);
  void Finish(const Started& item);
  void GiveUp(const std::string& why);
  void SpendOwnTime(double bytes) const;

  const Seat seat_;
  Communicator& inner_;
  const std::function<void(int64_t)> arrived_;
  int64_t posted_ = 0;  // the worker's thread
  std::atomic<int64_t> deadlines_{0}, missed_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Item> items_;  // by number: not granted yet
  std::deque<Started> started_;
  std::string gave_up_;  // why nothing will be granted any more
  bool ends_ = false;
  std::thread starter_, finisher_;  // last: they use the rest
};

}  // namespace heddle
