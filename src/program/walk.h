// Walk: the rules by which a device goes through its instructions, in one place. Checker, simulator
// and runtime have loops of their own, for they answer other questions; what an instruction uses,
// waits for and posts they all ask here, so that what is simulated is what runs.
//
//   instruction   waits until                                         posts
//   compute       what it reads is written, what it changes is idle   nothing
//   send          the buffer is written                               a message
//   recv          nothing: a part is added to a buffer in use         a message
//   collective    inputs are written, what it writes is idle          its part of one
//   wait          the buffer is idle                                  nothing
//   free, alias   the buffers are idle                                nothing
//
// A buffer is *written* when no communication writes it any more, and *idle* when none uses it at
// all. A post uses its buffers until those it meets have come and the bytes have moved. Posted `on
// compute`, the device does nothing else until then.
//
// Who meets whom: the k-th send of a lane (two devices and a tag) its k-th receive; the k-th
// collective of a group that each member posts.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "program/program.h"

namespace heddle {

struct BufferUse {
  BufferRef ref;
  bool alone = false;  // it is changed or ends: not while any communication uses it
};

// Buffers that an instruction uses: the ports of a compute's segment, or its operands and outputs.
int32_t UseCount(const Program& program, const Instruction& in);
BufferUse UseOf(const Program& program, const DeviceProgram& device, const Instruction& in,
                int32_t k);

// Whether the device waits for the buffers before it goes on: a receive alone does not.
inline bool WaitsForBuffers(OpCode code) { return code != OpCode::kRecv; }

// Whether it is posted, and keeps its buffers in use after the device has gone on.
inline bool Communicates(OpCode code) {
  return code == OpCode::kSend || code == OpCode::kRecv || code == OpCode::kCollective;
}

// By tensor: does any communication of this device use it? Others are never waited for.
std::vector<bool> CommunicatedTensors(const Program& program, const DeviceProgram& device);

struct MessageLane {
  int32_t from = -1, to = -1, tag = 0;
  auto operator<=>(const MessageLane&) const = default;
};
// REQUIRES: a send or a receive.
MessageLane LaneOf(int32_t device, const Instruction& in);

// Of one lane: who posted and has not been met. An End is what the caller wants to find again.
template <class End>
class LaneMeeting {
 public:
  // The other end, if it was there already; else this one waits for it.
  std::optional<End> Post(bool sends, End end) {
    if (waiting_.empty() || sends_ == sends) {
      sends_ = sends;
      waiting_.push_back(std::move(end));
      return std::nullopt;
    }
    std::optional<End> other = std::move(waiting_.front());
    waiting_.pop_front();
    return other;
  }
  const std::deque<End>& waiting() const { return waiting_; }
  bool sends() const { return sends_; }  // those that wait

 private:
  std::deque<End> waiting_;
  bool sends_ = false;
};

// Of one group: its collectives in their order, each with the ends that have come.
template <class End>
class GroupMeeting {
 public:
  explicit GroupMeeting(size_t members) : next_(members, 0) {}

  void Post(size_t member, End end) {
    const auto place = static_cast<size_t>(next_[member]++ - first_);
    if (place >= collectives_.size()) collectives_.resize(place + 1);
    collectives_[place].push_back(std::move(end));
  }
  // Whether all members of the first have come.
  bool complete() const {
    return !collectives_.empty() && collectives_.front().size() == next_.size();
  }
  // Its ends, in the order they came. REQUIRES: there is one.
  const std::vector<End>& front() const { return collectives_.front(); }
  void Pop() {
    collectives_.pop_front();
    ++first_;
  }
  bool empty() const { return collectives_.empty(); }

 private:
  std::deque<std::vector<End>> collectives_;
  std::vector<int64_t> next_;  // by member: how many it has posted
  int64_t first_ = 0;          // number of the first that is kept
};

// A device's place in a group; the group's size where it is no member.
size_t MemberOf(const Group& group, int32_t device);

}  // namespace heddle
