#include <fmt/format.h>

#include <deque>
#include <map>
#include <tuple>
#include <unordered_map>

#include "program/check/check_parts.h"
#include "program/text/program_text.h"

namespace heddle {
namespace {

struct UsedBuffer {
  BufferKey key;
  bool written;  // or only read
};

// A communication that some device has posted and that still uses these buffers of it.
struct Use {
  int32_t device;
  std::vector<UsedBuffer> buffers;
};

// Communications in flight that use a buffer.
struct InFlight {
  int readers = 0;
  int writers = 0;
};

struct Lane {
  std::deque<Use> sends;
  std::deque<Use> recvs;
};

struct DeviceState {
  size_t step = 0;
  size_t index = 0;
  bool queued = false;
  std::unordered_map<BufferKey, InFlight> pending;
  std::vector<UsedBuffer> held_up;  // `on compute`: complete these first
  std::vector<bool> communicates;   // by tensor: does any message use it here?
  BufferKey awaited;                // why it waits
  size_t checked = 0;               // how many buffers of the instruction are known to be free
};

class Progress {
 public:
  Progress(const Program& program, const std::vector<Step>& steps)
      : p_(program),
        steps_(steps),
        devices_(program.devices.size()),
        arrived_(program.groups.size()) {
    for (size_t d = 0; d < devices_.size(); ++d) {
      devices_[d].communicates.resize(program.tensors.size());
      for (const auto& list : program.devices[d].sections) {
        for (const Instruction& in : list) {
          if (in.code == OpCode::kCompute) continue;
          for (int32_t k = 0; k < in.operand_count + in.output_count; ++k) {
            const BufferRef& ref =
                program.devices[d].operands[static_cast<size_t>(in.first_operand + k)];
            devices_[d].communicates[static_cast<size_t>(ref.tensor)] = true;
          }
        }
      }
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
    for (const UsedBuffer& buffer : state.held_up) {
      if (!Free(state, buffer.key)) return false;
    }
    state.held_up.clear();
    const int64_t i = steps_[state.step].i;
    if (in.code == OpCode::kCompute) {
      // While the device waits it starts nothing new: what was free stays so.
      const std::vector<Port>& ports = p_.segment(in.target).ports;
      for (; state.checked < ports.size(); ++state.checked) {
        const Port& port = ports[state.checked];
        if (!state.communicates[static_cast<size_t>(port.tensor)]) continue;
        const bool alone = port.use != PortUse::kRead;
        if (!Free(state, KeyOf(BufferOf(port, in), i), alone)) return false;
      }
      return true;
    }
    Use use{device, {}};
    for (int32_t k = 0; k < in.operand_count + in.output_count; ++k) {
      const BufferRef& ref = d.operands[static_cast<size_t>(in.first_operand + k)];
      use.buffers.push_back({KeyOf(ref, i), WritesOperand(in, k)});
    }
    // A receive adds a part to a buffer that others may be using: it waits for nothing.
    if (in.code != OpCode::kRecv) {
      for (; state.checked < use.buffers.size(); ++state.checked) {
        const UsedBuffer& buffer = use.buffers[state.checked];
        if (!Free(state, buffer.key, buffer.written)) return false;
      }
    }
    Post(device, in, std::move(use));
    return true;
  }

  void Post(int32_t device, const Instruction& in, Use use) {
    if (in.code != OpCode::kSend && in.code != OpCode::kRecv && in.code != OpCode::kCollective) {
      return;
    }
    DeviceState& state = devices_[static_cast<size_t>(device)];
    for (const UsedBuffer& buffer : use.buffers) {
      InFlight& flight = state.pending[buffer.key];
      ++(buffer.written ? flight.writers : flight.readers);
    }
    if (in.on_compute) state.held_up = use.buffers;
    if (in.code == OpCode::kCollective) {
      std::vector<std::deque<Use>>& arrived = arrived_[static_cast<size_t>(in.target)];
      const auto& members = p_.group(in.target).devices;
      arrived.resize(members.size());
      for (size_t m = 0; m < members.size(); ++m) {
        if (members[m] == device) arrived[m].push_back(use);
      }
      const auto waiting = [](const std::deque<Use>& uses) { return uses.empty(); };
      if (std::any_of(arrived.begin(), arrived.end(), waiting)) return;
      for (std::deque<Use>& uses : arrived) {
        Complete(uses.front());
        uses.pop_front();
      }
      return;
    }
    const bool sends = in.code == OpCode::kSend;
    Lane& lane = lanes_[sends ? std::tuple(device, in.target, in.tag)
                              : std::tuple(in.target, device, in.tag)];
    (sends ? lane.sends : lane.recvs).push_back(std::move(use));
    if (lane.sends.empty() || lane.recvs.empty()) return;
    Complete(lane.sends.front());
    Complete(lane.recvs.front());
    lane.sends.pop_front();
    lane.recvs.pop_front();
  }

  void Complete(const Use& use) {
    DeviceState& state = devices_[static_cast<size_t>(use.device)];
    for (const UsedBuffer& buffer : use.buffers) {
      const auto found = state.pending.find(buffer.key);
      InFlight& flight = found->second;
      --(buffer.written ? flight.writers : flight.readers);
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
  std::map<std::tuple<int32_t, int32_t, int32_t>, Lane> lanes_;
  std::vector<std::vector<std::deque<Use>>> arrived_;  // by group, by member
  std::deque<int32_t> ready_;
};

}  // namespace

void CheckProgress(const Program& program, const std::vector<Step>& steps, Verdict& verdict) {
  Progress(program, steps).Run(verdict);
}

}  // namespace heddle
