#include "simulate/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <queue>

#include "program/text/program_text.h"
#include "program/unroll.h"
#include "simulate/compiled.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One end of a communication: the buffers it keeps busy.
struct End {
  int32_t device = -1;
  int32_t step = 0;  // that posted it
  const CompiledOp* op = nullptr;
  const int32_t* slots = nullptr;
};

// Messages of one pair and tag, posted by one end and not yet by the other.
struct LaneState {
  std::deque<End> posted;
  bool sends = false;  // which end is ahead
};

struct GroupState {
  struct Instance {
    std::vector<End> ends;
  };
  std::deque<Instance> instances;  // not yet complete; the first may be running
  std::vector<int64_t> next;       // by member: how many it has posted
  int64_t first = 0;               // number of instances.front()
  bool running = false;
};

// Messages of a channel job that are ready, by the step that sends them: a device may be ahead of
// another by a repetition.
struct JobState {
  std::map<int32_t, std::vector<std::pair<End, End>>> messages;
};

struct FlowState {
  std::vector<std::pair<End, End>> messages;  // sender and receiver
  std::vector<End> ends;                      // of a collective
  int32_t group = -1;
  int32_t cost = -1;
  double start = 0;
};

struct DeviceState {
  size_t step = 0;
  size_t index = 0;
  const CompiledList* list = nullptr;
  CompiledList storage;
  bool computing = false;
  bool blocked = false;
  const CompiledOp* held_up = nullptr;  // communication `on compute` that is under way
  const int32_t* held_slots = nullptr;
  std::vector<int32_t> pending;  // communications in flight: by slot, those that read and write it
};

struct Alarm {
  double time;
  uint64_t order;
  int32_t device;
  bool operator>(const Alarm& other) const {
    return time > other.time || (time == other.time && order > other.order);
  }
};

class Engine {
 public:
  Engine(const Program& program, const std::vector<DeviceId>& ids, const Cluster& cluster,
         const SegmentSeconds& seconds, const SimulateOptions& options, int repetitions)
      : p_(program),
        compiler_(program, ids, cluster, seconds, options.links),
        network_(MakeNetwork(options.links, compiler_.Bandwidths(), compiler_.channel_resources())),
        keep_events_(options.keep_events),
        steps_(UnrolledSteps(program, repetitions)),
        devices_(program.devices.size()),
        groups_(program.groups.size()),
        jobs_(compiler_.job_count()),
        finish_(static_cast<size_t>(repetitions), 0),
        wire_bytes_(cluster.wires().size(), 0),
        traffic_(program.devices.size()) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      groups_[g].next.resize(program.groups[g].devices.size(), 0);
    }
    result_.devices.resize(devices_.size());
    result_.repetitions = repetitions;
  }

  Result<Simulation> Run() {
    for (size_t d = 0; d < devices_.size(); ++d) Enter(static_cast<int32_t>(d));
    for (size_t d = 0; d < devices_.size(); ++d) Walk(static_cast<int32_t>(d));
    std::vector<int32_t> done;
    for (;;) {
      const double compute = alarms_.empty() ? kInfinity : alarms_.top().time;
      const double network = network_->NextTime();
      if (compute == kInfinity && network == kInfinity) break;
      if (network <= compute) {
        now_ = network;
        done.clear();
        network_->Advance(now_, done);
        for (const int32_t flow : done) Complete(flow);
      } else {
        now_ = compute;
        const int32_t device = alarms_.top().device;
        alarms_.pop();
        DeviceState& state = devices_[static_cast<size_t>(device)];
        state.computing = false;
        const CompiledOp& op = state.list->ops[state.index];
        if (op.code == OpCode::kCollective) {
          Post(device, state, op, state.list->slots.data() + op.first_slot);
        }
        ++state.index;
        Walk(device);
      }
    }
    for (size_t d = 0; d < devices_.size(); ++d) {
      if (devices_[d].step < steps_.size()) return Stuck(d);
    }
    return Finish();
  }

 private:
  Error Stuck(size_t d) const {
    const DeviceState& state = devices_[d];
    const auto& list = p_.devices[d].list(steps_[state.step].section);
    return BadInput("program",
                    fmt::format("deadlock: device {} ({}) waits forever at instruction {}: {}", d,
                                p_.devices[d].name, state.index,
                                PrintInstruction(p_, p_.devices[d], list[state.index])),
                    "heddle check names every such place");
  }

  // Fetches the list of the device's current step, skipping empty ones.
  void Enter(int32_t device) {
    DeviceState& state = devices_[static_cast<size_t>(device)];
    for (; state.step < steps_.size(); ++state.step) {
      state.list = compiler_.List(device, steps_[state.step], state.storage);
      state.pending.resize(2 * compiler_.slot_count(device), 0);
      state.index = 0;
      if (!state.list->ops.empty()) return;
      LeaveStep(state.step);
    }
  }

  void LeaveStep(size_t step) {
    if (steps_[step].section != Section::kBody) return;
    double& finish = finish_[static_cast<size_t>(steps_[step].i)];
    finish = std::max(finish, now_);
  }

  // Nobody still writes the buffers of the instruction, nor reads those it needs to itself.
  static bool Ready(const DeviceState& state, const CompiledOp& op, const int32_t* slots) {
    for (int32_t k = 0; k < op.slot_count; ++k) {
      const auto entry = static_cast<size_t>(slots[k]);
      if (state.pending[entry | 1] > 0) return false;
      if ((entry & 1) != 0 && state.pending[entry - 1] > 0) return false;
    }
    return true;
  }

  // No communication uses the buffers of the instruction.
  static bool Idle(const DeviceState& state, const CompiledOp& op, const int32_t* slots) {
    for (int32_t k = 0; k < op.slot_count; ++k) {
      const auto entry = static_cast<size_t>(slots[k]);
      if (state.pending[entry] + state.pending[entry ^ 1] > 0) return false;
    }
    return true;
  }

  // Goes on until the device computes or waits.
  void Walk(int32_t device) {
    DeviceState& state = devices_[static_cast<size_t>(device)];
    state.blocked = false;
    while (state.step < steps_.size()) {
      if (state.held_up != nullptr) {
        if (!Idle(state, *state.held_up, state.held_slots)) {
          state.blocked = true;
          return;
        }
        state.held_up = nullptr;
      }
      if (state.index == state.list->ops.size()) {
        LeaveStep(state.step);
        ++state.step;
        Enter(device);
        continue;
      }
      const CompiledOp& op = state.list->ops[state.index];
      const int32_t* slots = state.list->slots.data() + op.first_slot;
      if (op.code != OpCode::kRecv && !Ready(state, op, slots)) {
        state.blocked = true;
        return;
      }
      ++result_.instructions;
      // A device that moves its messages itself: a collective's bytes before they go, for it copies
      // and adds in between; a message's while they go.
      const bool whole = op.code == OpCode::kCompute || op.code == OpCode::kCollective;
      if (!whole || op.seconds == 0) Post(device, state, op, slots);
      if (op.code == OpCode::kCompute || op.seconds > 0) {
        StartCompute(device, state, op);
        return;
      }
      ++state.index;
    }
  }

  // Or the device's own part in a communication.
  void StartCompute(int32_t device, DeviceState& state, const CompiledOp& op) {
    state.computing = true;
    const double end = now_ + op.seconds;
    alarms_.push({end, order_++, device});
    const Step& step = steps_[state.step];
    if (step.section == Section::kBody && step.i == 0) {
      DeviceUse& use = result_.devices[static_cast<size_t>(device)];
      use.busy += Seconds{op.seconds};
      if (op.event == EventKind::kUpdate) use.updating += Seconds{op.seconds};
    }
    if (keep_events_) {
      events_.push_back({2 * device, op.event, op.label, op.microbatch,
                         static_cast<int32_t>(step.i), Seconds{now_}, Seconds{end}});
    }
  }

  void Post(int32_t device, DeviceState& state, const CompiledOp& op, const int32_t* slots) {
    if (op.code != OpCode::kSend && op.code != OpCode::kRecv && op.code != OpCode::kCollective) {
      return;
    }
    for (int32_t k = 0; k < op.slot_count; ++k) ++state.pending[static_cast<size_t>(slots[k])];
    End end{device, static_cast<int32_t>(state.step), &op, slots};
    if (relative_copies_) end = Keep(end);
    if (op.holds_up) {
      state.held_up = end.op;
      state.held_slots = end.slots;
    }
    if (op.code == OpCode::kCollective) {
      PostCollective(end);
    } else {
      PostMessage(end, op.code == OpCode::kSend);
    }
  }

  // Lists that depend on the repetition are overwritten at the next one: keep what is in flight.
  End Keep(const End& end) {
    kept_.push_back({*end.op, std::vector<int32_t>(end.slots, end.slots + end.op->slot_count)});
    return {end.device, end.step, &kept_.back().op, kept_.back().slots.data()};
  }

  void PostMessage(const End& end, bool sends) {
    const auto lane_id = static_cast<size_t>(end.op->lane);
    if (lane_id >= lanes_.size()) lanes_.resize(std::max(lane_id + 1, compiler_.lane_count()));
    LaneState& lane = lanes_[lane_id];
    if (lane.posted.empty() || lane.sends == sends) {
      lane.sends = sends;
      lane.posted.push_back(end);
      return;
    }
    const End other = lane.posted.front();
    lane.posted.pop_front();
    StartMessage(sends ? end : other, sends ? other : end);
  }

  void StartMessage(const End& sender, const End& receiver) {
    const CompiledOp& op = *sender.op;
    FlowState flow;
    flow.cost = op.job >= 0 ? compiler_.job(op.job).flow : op.flow;
    flow.start = now_;
    if (op.job < 0 || compiler_.job(op.job).messages == 1) {
      flow.messages.emplace_back(sender, receiver);
    } else {
      auto& by_step = jobs_[static_cast<size_t>(op.job)].messages;
      auto& messages = by_step[sender.step];
      messages.emplace_back(sender, receiver);
      if (static_cast<int32_t>(messages.size()) < compiler_.job(op.job).messages) return;
      flow.messages = std::move(messages);
      by_step.erase(sender.step);
    }
    StartFlow(std::move(flow));
  }

  void PostCollective(const End& end) {
    GroupState& group = groups_[static_cast<size_t>(end.op->lane)];
    const auto& members = p_.groups[static_cast<size_t>(end.op->lane)].devices;
    const auto member = static_cast<size_t>(std::find(members.begin(), members.end(), end.device) -
                                            members.begin());
    const auto place = static_cast<size_t>(group.next[member]++ - group.first);
    if (place >= group.instances.size()) group.instances.resize(place + 1);
    group.instances[place].ends.push_back(end);
    StartCollective(end.op->lane);
  }

  // Collectives of one group run one after the other.
  void StartCollective(int32_t id) {
    GroupState& group = groups_[static_cast<size_t>(id)];
    const auto& members = p_.groups[static_cast<size_t>(id)].devices;
    if (group.running || group.instances.empty() ||
        group.instances.front().ends.size() < members.size()) {
      return;
    }
    group.running = true;
    FlowState flow;
    flow.ends = group.instances.front().ends;
    flow.group = id;
    flow.cost = flow.ends[0].op->flow;
    flow.start = now_;
    StartFlow(std::move(flow));
  }

  void StartFlow(FlowState state) {
    int32_t id = static_cast<int32_t>(flows_.size());
    if (free_flows_.empty()) {
      flows_.push_back(std::move(state));
    } else {
      id = free_flows_.back();
      free_flows_.pop_back();
      flows_[static_cast<size_t>(id)] = std::move(state);
    }
    network_->Start(id, compiler_.flow(flows_[static_cast<size_t>(id)].cost).spec, now_);
  }

  void Complete(int32_t id) {
    const FlowState flow = std::move(flows_[static_cast<size_t>(id)]);
    free_flows_.push_back(id);
    Account(flow);
    for (const auto& [sender, receiver] : flow.messages) {
      Release(sender);
      Release(receiver);
    }
    for (const End& end : flow.ends) Release(end);
    if (flow.group >= 0) {
      GroupState& group = groups_[static_cast<size_t>(flow.group)];
      group.instances.pop_front();
      ++group.first;
      group.running = false;
      StartCollective(flow.group);
    }
    for (const auto& [sender, receiver] : flow.messages) {
      WalkIfBlocked(sender.device);
      WalkIfBlocked(receiver.device);
    }
    for (const End& end : flow.ends) WalkIfBlocked(end.device);
  }

  void Release(const End& end) {
    DeviceState& state = devices_[static_cast<size_t>(end.device)];
    for (int32_t k = 0; k < end.op->slot_count; ++k) {
      --state.pending[static_cast<size_t>(end.slots[k])];
    }
  }

  void WalkIfBlocked(int32_t device) {
    const DeviceState& state = devices_[static_cast<size_t>(device)];
    if (state.blocked && !state.computing) Walk(device);
  }

  const Step& StepOf(const End& end) const { return steps_[static_cast<size_t>(end.step)]; }
  bool InBody(const End& end) const { return StepOf(end).section == Section::kBody; }

  void Account(const FlowState& flow) {
    const End& first = flow.ends.empty() ? flow.messages[0].first : flow.ends[0];
    if (InBody(first)) {
      if (StepOf(first).i == 0) first_body_ = std::max(first_body_, now_);
      for (const WireLoad& load : compiler_.flow(flow.cost).bytes) {
        wire_bytes_[static_cast<size_t>(load.wire.value)] += load.bytes;
      }
      for (const CompiledFlow::Traffic& part : compiler_.flow(flow.cost).traffic) {
        traffic_[static_cast<size_t>(part.device)].sent += part.sent;
        traffic_[static_cast<size_t>(part.device)].received += part.received;
      }
    }
    for (const auto& [sender, receiver] : flow.messages) {
      const auto payload = static_cast<double>(compiler_.flow(sender.op->flow).payload.value);
      if (InBody(sender)) traffic_[static_cast<size_t>(sender.device)].sent += payload;
      if (InBody(receiver)) traffic_[static_cast<size_t>(receiver.device)].received += payload;
      if (keep_events_) AddEvent(sender, flow.start);
    }
    if (!keep_events_) return;
    for (const End& end : flow.ends) AddEvent(end, flow.start);
  }

  void AddEvent(const End& end, double start) {
    events_.push_back({2 * end.device + 1, end.op->event, end.op->label, end.op->microbatch,
                       static_cast<int32_t>(StepOf(end).i), Seconds{start}, Seconds{now_}});
  }

  // Repetitions may differ from each other in a steady pattern, say 2 ms, 4 ms, 2 ms, 4 ms; the
  // period is then its mean. A pattern must have shown itself twice.
  void FindPeriod() {
    const size_t last = finish_.size() - 1;
    const auto took = [&](size_t k) { return finish_[k] - finish_[k - 1]; };
    const auto mean = [&](size_t count) {
      return Seconds{(finish_[last] - finish_[last - count]) / static_cast<double>(count)};
    };
    result_.iteration = last == 0 ? result_.makespan : mean((last + 1) / 2);
    result_.steady = last < 2;  // too few to tell
    for (size_t length = 1; 2 * length <= last && !result_.steady; ++length) {
      result_.steady = true;
      for (size_t k = last; k > last - length && result_.steady; --k) {
        result_.steady = std::abs(took(k) - took(k - length)) <= 1e-9 * took(k);
      }
      if (result_.steady) result_.iteration = mean(length);
    }
  }

  Result<Simulation> Finish() {
    const auto repetitions = static_cast<double>(result_.repetitions);
    result_.makespan = Seconds{std::max(finish_[0], first_body_)};
    FindPeriod();
    for (size_t d = 0; d < devices_.size(); ++d) {
      DeviceUse& use = result_.devices[d];
      use.device = p_.devices[d].name;
      use.idle = std::max(Seconds{0}, result_.iteration - use.busy);
      use.sent.value = std::llround(traffic_[d].sent / repetitions);
      use.received.value = std::llround(traffic_[d].received / repetitions);
    }
    for (size_t w = 0; w < wire_bytes_.size(); ++w) {
      if (wire_bytes_[w] == 0) continue;
      result_.wires.push_back({WireId{static_cast<int32_t>(w)}, wire_bytes_[w] / repetitions});
    }
    if (keep_events_) MakeTimeline();
    return std::move(result_);
  }

  void MakeTimeline() {
    Timeline& timeline = result_.timeline;
    timeline.source = "simulated";
    timeline.labels = compiler_.Labels();
    for (const DeviceProgram& device : p_.devices) {
      timeline.lanes.push_back({device.name + " compute", device.name, LaneKind::kCompute});
      timeline.lanes.push_back({device.name + " network", device.name, LaneKind::kNetwork});
    }
    std::stable_sort(
        events_.begin(), events_.end(),
        [](const TimelineEvent& a, const TimelineEvent& b) { return a.start < b.start; });
    timeline.events = std::move(events_);
  }

  struct KeptOp {
    CompiledOp op;
    std::vector<int32_t> slots;
  };

  const Program& p_;
  Compiler compiler_;
  std::unique_ptr<Network> network_;
  bool keep_events_;
  bool relative_copies_ = IsRelative(p_);
  std::vector<Step> steps_;
  std::vector<DeviceState> devices_;
  std::vector<LaneState> lanes_;
  std::vector<GroupState> groups_;
  std::vector<JobState> jobs_;
  std::vector<FlowState> flows_;
  std::vector<int32_t> free_flows_;
  std::deque<KeptOp> kept_;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
  std::vector<double> finish_;  // by repetition: when the last device ended it
  double first_body_ = 0;       // when the last communication of the first body ended
  std::vector<double> wire_bytes_;
  std::vector<DeviceTraffic> traffic_;  // by device of the Program
  std::vector<TimelineEvent> events_;
  uint64_t order_ = 0;
  double now_ = 0;
  Simulation result_;
};

}  // namespace

Result<Simulation> Simulate(const Program& program, const Cluster& cluster,
                            const SegmentSeconds& seconds, const SimulateOptions& options) {
  HEDDLE_ASSIGN(const std::vector<DeviceId> ids, FindDevices(program, cluster));
  HEDDLE_RETURN_IF_ERROR(CheckCollectives(program, ids, cluster));
  constexpr int kFirst = 3;
  constexpr int kMost = 48;
  for (int repetitions = options.repetitions > 0 ? options.repetitions : kFirst;;
       repetitions *= 2) {
    HEDDLE_ASSIGN(Simulation simulation,
                  Engine(program, ids, cluster, seconds, options, repetitions).Run());
    const bool last = options.repetitions > 0 || repetitions >= kMost;
    if (simulation.steady || last) return simulation;
  }
}

}  // namespace heddle
