#include "simulate/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "program/text/program_text.h"
#include "simulate/period.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Nobody still writes the buffers of the instruction, nor reads those it needs to itself.
bool Ready(const DeviceState& state, const CompiledOp& op, const int32_t* slots) {
  for (int32_t k = 0; k < op.slot_count; ++k) {
    const auto entry = static_cast<size_t>(slots[k]);
    if (state.pending[entry | 1] > 0) return false;
    if ((entry & 1) != 0 && state.pending[entry - 1] > 0) return false;
  }
  return true;
}

// No communication uses the buffers of the instruction.
bool Idle(const DeviceState& state, const CompiledOp& op, const int32_t* slots) {
  for (int32_t k = 0; k < op.slot_count; ++k) {
    const auto entry = static_cast<size_t>(slots[k]);
    if (state.pending[entry] + state.pending[entry ^ 1] > 0) return false;
  }
  return true;
}

}  // namespace

Engine::Engine(const Program& program, const std::vector<DeviceId>& ids, const Cluster& cluster,
               const SegmentSeconds& seconds, const SimulateOptions& options, int repetitions,
               EngineSeat seat)
    : p_(program),
      ids_(ids),
      compiler_(program, ids, cluster, seconds, options.links),
      seat_(seat),
      keep_events_(options.keep_events),
      steps_(UnrolledSteps(program, repetitions)),
      devices_(program.devices.size()),
      jobs_(compiler_.job_count()),
      finish_(static_cast<size_t>(repetitions), 0),
      moved_(static_cast<size_t>(repetitions), 0),
      wire_bytes_(cluster.wires().size(), 0),
      traffic_(program.devices.size()) {
  if (seat_.commons == nullptr) {
    network_ = MakeNetwork(options.links, WireBandwidths(cluster), compiler_.channel_resources());
  }
  for (const Group& group : program.groups) {
    groups_.push_back({GroupMeeting<CommEnd>(group.devices.size())});
  }
  result_.devices.resize(devices_.size());
  result_.repetitions = repetitions;
}

Result<Simulation> Engine::Run() {
  Start();
  std::vector<int32_t> done_flows;
  for (;;) {
    const double compute = alarms_.empty() ? kInfinity : alarms_.top().time;
    const double network = network_->NextTime();
    if (compute == kInfinity && network == kInfinity) break;
    if (network <= compute) {
      now_ = network;
      done_flows.clear();
      network_->Advance(now_, done_flows);
      for (const int32_t flow : done_flows) EndFlow(flow);
    } else {
      now_ = compute;
      const int32_t device = alarms_.top().device;
      alarms_.pop();
      EndCompute(device);
    }
  }
  if (!done()) return Stuck();
  return Finish();
}

void Engine::Start() {
  for (size_t d = 0; d < devices_.size(); ++d) Enter(static_cast<int32_t>(d));
  for (size_t d = 0; d < devices_.size(); ++d) Walk(static_cast<int32_t>(d));
}

void Engine::EndCompute(int32_t device) {
  DeviceState& state = devices_[static_cast<size_t>(device)];
  state.computing = false;
  const CompiledOp& op = state.list->ops[state.index];
  if (op.code == OpCode::kCollective) {
    Post(device, state, op, state.list->slots.data() + op.first_slot);
  }
  GoOn(device, state);
  Walk(device);
}

void Engine::Computed(int32_t device, double now) {
  now_ = now;
  const DeviceState& state = devices_[static_cast<size_t>(device)];
  if (keep_events_) {
    const CompiledOp& op = state.list->ops[state.index];
    events_.push_back({2 * device, op.event, op.label, op.microbatch,
                       static_cast<int32_t>(steps_[state.step].i), Seconds{state.since},
                       Seconds{now_}});
  }
  EndCompute(device);
}

void Engine::Resume(int32_t device, double now) {
  now_ = now;
  WalkIfBlocked(device);
}

void Engine::Complete(int32_t flow, double now) {
  now_ = now;
  EndFlow(flow);
}

bool Engine::done() const {
  return std::all_of(devices_.begin(), devices_.end(),
                     [&](const DeviceState& state) { return state.step >= steps_.size(); });
}

Error Engine::Stuck() const {
  const auto waiting =
      std::find_if(devices_.begin(), devices_.end(),
                   [&](const DeviceState& state) { return state.step < steps_.size(); });
  HEDDLE_CHECK(waiting != devices_.end());
  const auto d = static_cast<size_t>(waiting - devices_.begin());
  const auto& list = p_.devices[d].list(steps_[waiting->step].section);
  return BadInput("program",
                  fmt::format("deadlock: device {} ({}) waits forever at instruction {}: {}", d,
                              p_.devices[d].name, waiting->index,
                              PrintInstruction(p_, p_.devices[d], list[waiting->index])),
                  "heddle check names every such place");
}

// Fetches the list of the device's current step, skipping empty ones.
void Engine::Enter(int32_t device) {
  DeviceState& state = devices_[static_cast<size_t>(device)];
  for (; state.step < steps_.size(); ++state.step) {
    state.list = compiler_.List(device, steps_[state.step], state.storage);
    state.pending.resize(2 * compiler_.slot_count(device), 0);
    state.index = 0;
    if (seat_.commons != nullptr) state.turn_end = TurnEnd(state);
    if (!state.list->ops.empty()) return;
    LeaveStep(state.step);
  }
  if (seat_.commons != nullptr) seat_.commons->Leave(seat_.job, IdOf(device), /*done=*/true);
}

// A turn ends with the body's last post, or with the body.
size_t Engine::TurnEnd(const DeviceState& state) const {
  const std::vector<CompiledOp>& ops = state.list->ops;
  if (steps_[state.step].section != Section::kBody) return ops.size() + 1;
  if (!seat_.whole_turns) return ops.size();
  const auto last = std::find_if(ops.rbegin(), ops.rend(),
                                 [](const CompiledOp& op) { return Communicates(op.code); });
  return last == ops.rend() ? ops.size() : static_cast<size_t>(ops.rend() - last);
}

bool Engine::MayCompute(int32_t device, DeviceState& state) {
  if (state.holds) return true;
  if (seat_.whole_turns && state.in_flight > 0) return false;
  state.holds = seat_.commons->Ask(seat_.job, IdOf(device));
  return state.holds;
}

void Engine::EndTurn(int32_t device, DeviceState& state) {
  if (!state.holds) return;
  state.holds = false;
  seat_.commons->Leave(seat_.job, IdOf(device), /*done=*/false);
}

// To the next instruction.
void Engine::GoOn(int32_t device, DeviceState& state) {
  ++state.index;
  if (seat_.commons != nullptr && state.index == state.turn_end) EndTurn(device, state);
}

// It waits for communication, and never with the right to compute.
void Engine::Block(int32_t device, DeviceState& state) {
  state.blocked = true;
  if (seat_.commons != nullptr) EndTurn(device, state);
}

void Engine::LeaveStep(size_t step) {
  if (steps_[step].section != Section::kBody) return;
  double& finish = finish_[static_cast<size_t>(steps_[step].i)];
  finish = std::max(finish, now_);
}

// Goes on until the device computes or waits.
void Engine::Walk(int32_t device) {
  DeviceState& state = devices_[static_cast<size_t>(device)];
  state.blocked = false;
  while (state.step < steps_.size()) {
    if (state.held_up != nullptr) {
      if (!Idle(state, *state.held_up, state.held_slots)) return Block(device, state);
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
    if (WaitsForBuffers(op.code) && !Ready(state, op, slots)) return Block(device, state);
    const bool computes = op.code == OpCode::kCompute || op.seconds > 0;
    if (computes && seat_.commons != nullptr && !MayCompute(device, state)) {
      state.blocked = true;
      return;
    }
    ++result_.instructions;
    // A device that moves its messages itself: a collective's bytes before they go, for it copies
    // and adds in between; a message's while they go.
    const bool whole = op.code == OpCode::kCompute || op.code == OpCode::kCollective;
    if (!whole || op.seconds == 0) Post(device, state, op, slots);
    if (computes) return StartCompute(device, state, op);
    GoOn(device, state);
  }
}

// Or the device's own part in a communication.
void Engine::StartCompute(int32_t device, DeviceState& state, const CompiledOp& op) {
  state.computing = true;
  const Step& step = steps_[state.step];
  if (step.section == Section::kBody && step.i == 0) {
    DeviceUse& use = result_.devices[static_cast<size_t>(device)];
    use.busy += Seconds{op.seconds};
    if (op.event == EventKind::kUpdate) use.updating += Seconds{op.seconds};
  }
  if (seat_.commons != nullptr) {
    state.since = seat_.commons->Compute(seat_.job, IdOf(device), op.seconds);
    return;
  }
  const double end = now_ + op.seconds;
  alarms_.push({end, order_++, device});
  if (keep_events_) {
    events_.push_back({2 * device, op.event, op.label, op.microbatch, static_cast<int32_t>(step.i),
                       Seconds{now_}, Seconds{end}});
  }
}

void Engine::Post(int32_t device, DeviceState& state, const CompiledOp& op, const int32_t* slots) {
  if (!Communicates(op.code)) return;
  for (int32_t k = 0; k < op.slot_count; ++k) ++state.pending[static_cast<size_t>(slots[k])];
  ++state.in_flight;
  CommEnd end{device, static_cast<int32_t>(state.step), &op, slots, now_};
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
CommEnd Engine::Keep(const CommEnd& end) {
  kept_.push_back({*end.op, std::vector<int32_t>(end.slots, end.slots + end.op->slot_count)});
  return {end.device, end.step, &kept_.back().op, kept_.back().slots.data(), end.posted};
}

void Engine::PostMessage(const CommEnd& end, bool sends) {
  const auto lane_id = static_cast<size_t>(end.op->lane);
  if (lane_id >= lanes_.size()) lanes_.resize(std::max(lane_id + 1, compiler_.lane_count()));
  const std::optional<CommEnd> other = lanes_[lane_id].Post(sends, end);
  if (other) StartMessage(sends ? end : *other, sends ? *other : end);
}

void Engine::StartMessage(const CommEnd& sender, const CommEnd& receiver) {
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
  StartFlow(std::move(flow), now_);
}

void Engine::PostCollective(const CommEnd& end) {
  const auto id = static_cast<size_t>(end.op->lane);
  groups_[id].meeting.Post(MemberOf(p_.groups[id], end.device), end);
  StartCollective(end.op->lane);
}

// Collectives of one group run one after the other.
void Engine::StartCollective(int32_t id) {
  GroupState& group = groups_[static_cast<size_t>(id)];
  if (group.running || !group.meeting.complete()) return;
  group.running = true;
  FlowState flow;
  flow.ends = group.meeting.front();
  flow.group = id;
  flow.cost = flow.ends[0].op->flow;
  flow.start = now_;
  const double posted = flow.ends.back().posted;  // by the last of them
  StartFlow(std::move(flow), posted);
}

void Engine::StartFlow(FlowState state, double posted) {
  int32_t id = static_cast<int32_t>(flows_.size());
  if (free_flows_.empty()) {
    flows_.push_back(std::move(state));
  } else {
    id = free_flows_.back();
    free_flows_.pop_back();
    flows_[static_cast<size_t>(id)] = std::move(state);
  }
  const CompiledFlow& what = compiler_.flow(flows_[static_cast<size_t>(id)].cost);
  if (seat_.commons != nullptr) {
    seat_.commons->Move(seat_.job, id, what, posted);
  } else {
    network_->Start(id, what.spec, now_);
  }
}

void Engine::EndFlow(int32_t id) {
  const FlowState flow = std::move(flows_[static_cast<size_t>(id)]);
  free_flows_.push_back(id);
  Account(flow);
  for (const auto& [sender, receiver] : flow.messages) {
    Release(sender);
    Release(receiver);
  }
  for (const CommEnd& end : flow.ends) Release(end);
  if (flow.group >= 0) {
    GroupState& group = groups_[static_cast<size_t>(flow.group)];
    group.meeting.Pop();
    group.running = false;
    StartCollective(flow.group);
  }
  for (const auto& [sender, receiver] : flow.messages) {
    WalkIfBlocked(sender.device);
    WalkIfBlocked(receiver.device);
  }
  for (const CommEnd& end : flow.ends) WalkIfBlocked(end.device);
}

void Engine::Release(const CommEnd& end) {
  DeviceState& state = devices_[static_cast<size_t>(end.device)];
  for (int32_t k = 0; k < end.op->slot_count; ++k) {
    --state.pending[static_cast<size_t>(end.slots[k])];
  }
  --state.in_flight;
}

void Engine::WalkIfBlocked(int32_t device) {
  const DeviceState& state = devices_[static_cast<size_t>(device)];
  if (state.blocked && !state.computing) Walk(device);
}

void Engine::Account(const FlowState& flow) {
  const CommEnd& first = flow.ends.empty() ? flow.messages[0].first : flow.ends[0];
  if (InBody(first)) {
    if (StepOf(first).i == 0) first_body_ = std::max(first_body_, now_);
    moved_[static_cast<size_t>(StepOf(first).i)] = now_;
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
  for (const CommEnd& end : flow.ends) AddEvent(end, flow.start);
}

void Engine::AddEvent(const CommEnd& end, double start) {
  events_.push_back({2 * end.device + 1, end.op->event, end.op->label, end.op->microbatch,
                     static_cast<int32_t>(StepOf(end).i), Seconds{start}, Seconds{now_}});
}

Simulation Engine::Finish() {
  const auto repetitions = static_cast<double>(result_.repetitions);
  result_.makespan = Seconds{std::max(finish_[0], first_body_)};
  const Period period = PeriodOf(finish_, result_.makespan);
  result_.iteration = period.seconds;
  result_.steady = period.steady;
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

void Engine::MakeTimeline() {
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

}  // namespace heddle
