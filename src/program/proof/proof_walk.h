// ProofWalk: all devices' lists, walked together with values that say what they mean (proof.h).
//
// A device goes on until it needs a buffer that a message or a collective has still to write. What
// is sent is taken as it is when it is posted: by the rules of execution nothing changes it under
// the message. Internal to program/proof.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/buffer_names.h"
#include "program/proof/exchange.h"
#include "program/proof/proof.h"
#include "program/walk.h"

namespace heddle {

class ProofWalk {
 public:
  ProofWalk(const Program& program, const Graph* graph, const std::vector<Step>& steps,
            VersionRules& rules);

  Proof Run();

 private:
  struct Device {
    size_t step = 0, index = 0;
    bool queued = false;
    BufferNames names;
    std::vector<HeldBuffer> buffers;
    std::vector<size_t> spare;
    size_t awaited = SIZE_MAX;          // the buffer that it waits for
    std::map<int32_t, int64_t> newest;  // by weight: the last version it was updated to
  };
  struct MessageEnd {
    int32_t device;
    size_t buffer;    // of a receive
    HeldParts parts;  // of a send
  };
  struct CollectiveEnd {
    int32_t device;
    const Instruction* in;
    int64_t i;
    std::vector<size_t> inputs, outputs;  // buffers
    std::vector<HeldParts> before;        // of the inputs
  };

  void Wake(int32_t device);
  void Walk(int32_t device);
  bool Try(int32_t device, const Instruction& in, int64_t i);
  bool TryCompute(int32_t device, const Instruction& in, int64_t i);
  bool TrySend(int32_t device, const Instruction& in, int64_t i);
  bool TryReceive(int32_t device, const Instruction& in, int64_t i);
  bool TryCollective(int32_t device, const Instruction& in, int64_t i);
  bool TryFree(Device& device, const Instruction& in, const BufferRef* operands, int64_t i);
  bool TryAlias(Device& device, const BufferRef* operands, int64_t i);

  bool Tracked(int32_t tensor) const {
    const Role role = p_.tensor(tensor).role;
    return role != Role::kInput && role != Role::kLoss;
  }
  size_t FindOrMake(Device& device, const BufferRef& ref, int64_t i);
  static size_t MakeNamed(Device& device, size_t& name);
  static void Release(Device& device, size_t& name);
  // Whether a communication has still to write it; then the device waits for that.
  static bool IsPending(Device& device, size_t buffer) {
    if (device.buffers[buffer].pending == 0) return false;
    device.awaited = buffer;
    return true;
  }
  void Arrived(int32_t device, size_t buffer);
  void Deliver(const MessageEnd& to, const HeldParts& parts);
  void Exchange(const std::vector<CollectiveEnd>& ends);

  // --- Computes
  bool FindBuffers(Device& device, const Instruction& in, int64_t i);
  void Move(int32_t device, const Instruction& in, int64_t i);
  void Update(int32_t device, const Instruction& in, int64_t i);
  void Work(int32_t device, const Instruction& in, int64_t i);
  int32_t StateOf(int32_t device, const Instruction& in, size_t k, int64_t first, int64_t step);
  int32_t StateOfWeight(int32_t device, const Instruction& in, size_t k, const HeldParts& parts,
                        int64_t step);
  bool CheckVersion(int32_t device, const Instruction& in, int32_t tensor, int64_t step,
                    int64_t version);
  bool CheckSamples(int32_t device, const Segment& segment, int32_t tensor, const HeldPart& part,
                    int64_t first);
  int32_t KeyFor(BoxId box, const HeldParts& parts);
  void AddTo(int32_t tensor, HeldParts& parts, const ValueParts& made, int64_t first);
  void Replace(int32_t tensor, BoxId box, HeldParts made, HeldParts& parts);
  bool IsMove(const Segment& segment) const;

  void CheckEnd();
  void Found(ProofFault fault, int32_t device, std::string message);
  void Unknown(std::string why);
  bool done() const { return proof_.finding || !proof_.unknown.empty(); }

  const Program& p_;
  const bool opaque_;  // nothing is known of the segments' inside
  const std::vector<Step>& steps_;
  VersionRules& rules_;
  BoxTable boxes_;
  TermTable terms_;
  GradientTerms sums_;
  SegmentTransfer segments_;
  ExchangeTransfer exchange_;
  std::vector<Device> devices_;
  struct LaneHash {
    size_t operator()(const MessageLane& lane) const {
      const auto ends = static_cast<uint64_t>(lane.from) << 32 | static_cast<uint32_t>(lane.to);
      return (ends ^ static_cast<uint64_t>(lane.tag) << 16) * 0x9e3779b97f4a7c15ULL >> 16;
    }
  };
  // By lane, those that wait; none has both sends and receives.
  struct Lane {
    std::vector<MessageEnd> waiting;
    size_t met = 0;  // of those
    bool sends = false;
  };
  std::optional<MessageEnd> Meet(const MessageLane& lane, bool sends, MessageEnd end);
  std::unordered_map<MessageLane, Lane, LaneHash> lanes_;
  std::vector<GroupMeeting<CollectiveEnd>> groups_;
  std::deque<int32_t> ready_;
  std::vector<size_t> at_;     // by port of the compute at hand: its buffer
  std::vector<size_t> names_;  // and the number of its name
  SegmentTransfer::Key key_;
  Proof proof_;
};

}  // namespace heddle
