#include <fmt/format.h>

#include <deque>
#include <map>
#include <unordered_map>

#include "program/check/check_parts.h"
#include "program/text/program_text.h"
#include "program/walk.h"

namespace heddle {
namespace {

// A communication that some device has posted, and what it uses of that device until it is met.
struct Use {
  int32_t device;
  std::vector<BufferUse> buffers;
  int64_t i;  // the repetition that posted it
};

// Communications in flight that use a buffer.
struct InFlight {
  int readers = 0;
  int writers = 0;
};

struct DeviceState {
  size_t step = 0;
  size_t index = 0;
  bool queued = false;
  std::unordered_map<BufferKey, InFlight> pending;
  std::vector<BufferKey> held_up;  // `on compute`: complete these first
  std::vector<bool> communicates;  // by tensor: does any message use it here?
  BufferKey awaited;               // why it waits
  int32_t checked = 0;             // how many buffers of the instruction are known to be free
};

class Progress {
 public:
  Progress(const Program& program, const std::vector<Step>& steps)
      : p_(program), steps_(steps), devices_(program.devices.size()) {
    for (const Group& group : program.groups) groups_.emplace_back(group.devices.size());
    for (size_t d = 0; d < devices_.size(); ++d) {
      devices_[d].communicates = CommunicatedTensors(program, program.devices[d]);
    }
  }

  void Run(Verdict& verdict) {
    for (size_t d = 0; d < devices_.size(); ++d) Wake(static_cast<int32_t>(d));
    while (!ready_.empty()) {
      const int32_t device = ready_.front();
      ready_.pop_front();
      devices_[static_cast<size_t>(device)].queued = false;
      Walk(device);
    }
    ReportStuck(verdict);
  }

 private:
  void Wake(int32_t device) {
    DeviceState& state = devices_[static_cast<size_t>(device)];
    if (state.queued) return;
    state.queued = true;
    ready_.push_back(device);
  }

  void Walk(int32_t device) {
    DeviceState& state = devices_[static_cast<size_t>(device)];
    const DeviceProgram& d = p_.devices[static_cast<size_t>(device)];
    for (; state.step < steps_.size(); ++state.step, state.index = 0) {
      const auto& list = d.list(steps_[state.step].section);
      for (; state.index < list.size(); ++state.index) {
        if (!TryInstruction(device, state, d, list[state.index])) return;
        state.checked = 0;
      }
    }
  }

  // Whether the buffer is complete, and nobody reads it either when `alone` is asked for.
  bool Free(DeviceState& state, const BufferKey& key, bool alone = true) {
    const auto found = state.pending.find(key);
    if (found == state.pending.end() || (!alone && found->second.writers == 0)) return true;
    state.awaited = key;
    return false;
  }

  bool TryInstruction(int32_t device, DeviceState& state, const DeviceProgram& d,
                      const Instruction& in) {
    for (const BufferKey& key : state.held_up) {
      if (!Free(state, key)) return false;
    }
    state.held_up.clear();
    const int64_t i = steps_[state.step].i;
    const int32_t count = UseCount(p_, in);
    // While the device waits it starts nothing new: what was free stays so.
    for (; WaitsForBuffers(in.code) && state.checked < count; ++state.checked) {
      const BufferUse use = UseOf(p_, d, in, state.checked);
      if (!state.communicates[static_cast<size_t>(use.ref.tensor)]) continue;
      if (!Free(state, KeyOf(use.ref, i), use.alone)) return false;
    }
    if (!Communicates(in.code)) return true;
    Use use{device, {}, i};
    for (int32_t k = 0; k < count; ++k) use.buffers.push_back(UseOf(p_, d, in, k));
    Post(device, in, std::move(use));
    return true;
  }

  void Post(int32_t device, const Instruction& in, Use use) {
    DeviceState& state = devices_[static_cast<size_t>(device)];
    for (const BufferUse& buffer : use.buffers) {
      const BufferKey key = KeyOf(buffer.ref, use.i);
      InFlight& flight = state.pending[key];
      ++(buffer.alone ? flight.writers : flight.readers);
      if (in.on_compute) state.held_up.push_back(key);
    }
    if (in.code == OpCode::kCollective) {
      const size_t member = MemberOf(p_.group(in.target), device);
      if (member == p_.group(in.target).devices.size()) return;  // CheckMessages reports it
      GroupMeeting<Use>& group = groups_[static_cast<size_t>(in.target)];
      group.Post(member, std::move(use));
      if (!group.complete()) return;
      for (const Use& end : group.front()) Complete(end);
      group.Pop();
      return;
    }
    LaneMeeting<Use>& lane = lanes_[LaneOf(device, in)];
    if (const std::optional<Use> other = lane.Post(in.code == OpCode::kSend, use)) {
      Complete(use);
      Complete(*other);
    }
  }

  void Complete(const Use& use) {
    DeviceState& state = devices_[static_cast<size_t>(use.device)];
    for (const BufferUse& buffer : use.buffers) {
      const auto found = state.pending.find(KeyOf(buffer.ref, use.i));
      InFlight& flight = found->second;
      --(buffer.alone ? flight.writers : flight.readers);
      if (flight.readers + flight.writers == 0) state.pending.erase(found);
    }
    Wake(use.device);
  }

  void ReportStuck(Verdict& verdict) {
    std::string message;
    int32_t first = -1;
    int shown = 0;
    for (size_t d = 0; d < devices_.size(); ++d) {
      const DeviceState& state = devices_[d];
      if (state.step >= steps_.size()) continue;
      if (first < 0) first = static_cast<int32_t>(d);
      if (++shown > 4) break;
      message += fmt::format("{}{} waits for {}", message.empty() ? "" : "; ",
                             PlaceOf(p_, static_cast<int32_t>(d), steps_[state.step], state.index),
                             PrintBuffer(p_, RefOf(state.awaited)));
    }
    if (first >= 0) verdict.Add({FindingKind::kDeadlock, first, "no device can go on: " + message});
  }

  const Program& p_;
  const std::vector<Step>& steps_;
  std::vector<DeviceState> devices_;
  std::map<MessageLane, LaneMeeting<Use>> lanes_;
  std::vector<GroupMeeting<Use>> groups_;
  std::deque<int32_t> ready_;
};

}  // namespace

void CheckProgress(const Program& program, const std::vector<Step>& steps, Verdict& verdict) {
  Progress(program, steps).Run(verdict);
}

}  // namespace heddle
