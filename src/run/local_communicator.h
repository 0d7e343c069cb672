// LocalExchange: devices as threads of one process. The last to arrive does the work: a message is
// copied when both ends have posted it, a collective is computed when all members have.
//
//   LocalExchange exchange(program);
//   exchange.ForDevice(0)->Send(1, 0, payload);          // on the thread of device 0
//
// A Program that needs no tags (program/check/untagged.h) is carried without: messages from one
// device to another meet in the order in which both ends post them, as in libraries that have no
// tags, and a send is not over before it is received. Who posts in another order fails at once.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "program/program.h"
#include "program/walk.h"
#include "run/communicator.h"

namespace heddle {

class LocalExchange {
 public:
  enum class Matching : uint8_t { kByTag, kInOrder };

  // `groups`: devices in rank order, by group number.
  explicit LocalExchange(std::vector<std::vector<int32_t>> groups,
                         Matching matching = Matching::kByTag)
      : groups_(std::move(groups)), matching_(matching) {
    for (const std::vector<int32_t>& group : groups_) meetings_.emplace_back(group.size());
  }
  explicit LocalExchange(const Program& program);
  static std::vector<std::vector<int32_t>> GroupsOf(const Program& program);

  // REQUIRES: used by one thread.
  std::unique_ptr<Communicator> ForDevice(int32_t device);

  // After a failure: everyone who waits, or would, gives up: Wait() throws PeerLost.
  void Abandon();
  bool abandoned() const;

 private:
  friend class LocalCommunicator;
  struct Flag;  // a ticket
  struct Message {
    int32_t tag = 0;
    Payload payload;
    std::shared_ptr<Flag> flag;
  };
  struct Call {
    size_t rank = 0;
    CollectiveCall call;
    std::shared_ptr<Flag> flag;
  };

  TicketPtr Post(int32_t from, int32_t to, int32_t tag, Payload payload, bool sends);
  TicketPtr PostCollective(int32_t device, CollectiveCall call);
  static void Perform(std::vector<Call>& calls);
  static void ExchangeBlocks(const std::vector<Call>& calls);

  std::vector<std::vector<int32_t>> groups_;
  Matching matching_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool abandoned_ = false;
  std::map<MessageLane, LaneMeeting<Message>> lanes_;
  std::vector<GroupMeeting<Call>> meetings_;
};

}  // namespace heddle
