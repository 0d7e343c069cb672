// Engine: walks the lists of one Program. Internal to simulate/.
//
// Alone it has its own clock, network and alarms (Run). Where several Programs use the same
// devices, each has an engine, and whoever joins them (joint.cc) gives them a clock and decides who
// computes and who sends: Commons. An engine alone pays a test for null for it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <queue>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"
#include "program/program.h"
#include "program/segment_cost.h"
#include "program/unroll.h"
#include "program/walk.h"
#include "simulate/compiled.h"
#include "simulate/simulator.h"

namespace heddle {

// What the engines of several jobs have in common. Devices are the cluster's.
class Commons {
 public:
  virtual ~Commons() = default;

  // Whether the job may compute there now; if not, Engine::Resume follows.
  virtual bool Ask(int32_t job, DeviceId device) = 0;
  // The job is at the end of a turn there, waits for communication, or has nothing left to do.
  virtual void Leave(int32_t job, DeviceId device, bool done) = 0;
  // Computes, from the time returned on; Engine::Computed follows. REQUIRES: Ask said yes, and
  // Leave was not called since.
  virtual double Compute(int32_t job, DeviceId device, double seconds) = 0;
  // Moves what all ends have posted since then; Engine::Moves follows if that is later, then
  // Engine::Complete.
  virtual void Move(int32_t job, int32_t flow, const CompiledFlow& what, double since) = 0;
};

// An engine's place among others.
struct EngineSeat {
  Commons* commons = nullptr;
  int32_t job = 0;
  // A turn goes from one end of communication to the next: nothing is computed before all that the
  // device posted is complete, and the turn ends with the last it posts in a body. Otherwise it
  // goes on as far as it can.
  bool whole_turns = false;
};

// One end of a communication: the buffers it keeps busy.
struct CommEnd {
  int32_t device = -1;
  int32_t step = 0;  // that posted it
  const CompiledOp* op = nullptr;
  const int32_t* slots = nullptr;
  double posted = 0;  // when
};

struct GroupState {
  GroupMeeting<CommEnd> meeting;  // the first may be running
  bool running = false;
};

// Messages of a channel job that are ready, by the step that sends them: a device may be ahead of
// another by a repetition.
struct ChannelJobState {
  std::map<int32_t, std::vector<std::pair<CommEnd, CommEnd>>> messages;
};

struct FlowState {
  std::vector<std::pair<CommEnd, CommEnd>> messages;  // sender and receiver
  std::vector<CommEnd> ends;                          // of a collective
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
  int32_t in_flight = 0;         // all of them
  // Among others:
  bool holds = false;   // it may compute
  size_t turn_end = 0;  // where in the list its turn ends; past its end: not in this list
  double since = 0;     // it computes
};

class Engine {
 public:
  Engine(const Program& program, const std::vector<DeviceId>& ids, const Cluster& cluster,
         const SegmentSeconds& seconds, const SimulateOptions& options, int repetitions,
         EngineSeat seat = {});

  Result<Simulation> Run();  // alone

  // Among others: the clock is theirs.
  void Start();
  void Computed(int32_t device, double now);
  void Resume(int32_t device, double now);
  void Moves(int32_t flow, double now) { flows_[static_cast<size_t>(flow)].start = now; }
  void Complete(int32_t flow, double now);
  bool done() const;
  Error Stuck() const;  // REQUIRES: not done
  const std::vector<double>& finish() const { return finish_; }
  // By repetition: when the last communication ended that it posted; 0: it posted none.
  const std::vector<double>& moved() const { return moved_; }
  std::vector<TimelineEvent>& events() { return events_; }
  std::vector<std::string> Labels() const { return compiler_.Labels(); }
  Simulation& account() { return result_; }

 private:
  struct Alarm {
    double time;
    uint64_t order;
    int32_t device;
    bool operator>(const Alarm& other) const {
      return time > other.time || (time == other.time && order > other.order);
    }
  };
  struct KeptOp {
    CompiledOp op;
    std::vector<int32_t> slots;
  };

  DeviceId IdOf(int32_t device) const { return ids_[static_cast<size_t>(device)]; }
  void Enter(int32_t device);
  void LeaveStep(size_t step);
  size_t TurnEnd(const DeviceState& state) const;
  bool MayCompute(int32_t device, DeviceState& state);
  void EndTurn(int32_t device, DeviceState& state);
  void GoOn(int32_t device, DeviceState& state);
  void Walk(int32_t device);
  void Block(int32_t device, DeviceState& state);
  void EndCompute(int32_t device);
  void StartCompute(int32_t device, DeviceState& state, const CompiledOp& op);
  void Post(int32_t device, DeviceState& state, const CompiledOp& op, const int32_t* slots);
  CommEnd Keep(const CommEnd& end);
  void PostMessage(const CommEnd& end, bool sends);
  void StartMessage(const CommEnd& sender, const CommEnd& receiver);
  void PostCollective(const CommEnd& end);
  void StartCollective(int32_t id);
  void StartFlow(FlowState state, double posted);
  void EndFlow(int32_t id);
  void Release(const CommEnd& end);
  void WalkIfBlocked(int32_t device);
  const Step& StepOf(const CommEnd& end) const { return steps_[static_cast<size_t>(end.step)]; }
  bool InBody(const CommEnd& end) const { return StepOf(end).section == Section::kBody; }
  void Account(const FlowState& flow);
  void AddEvent(const CommEnd& end, double start);
  Simulation Finish();
  void MakeTimeline();

  const Program& p_;
  const std::vector<DeviceId>& ids_;
  Compiler compiler_;
  EngineSeat seat_;
  std::unique_ptr<Network> network_;  // alone
  bool keep_events_;
  bool relative_copies_ = IsRelative(p_);
  std::vector<Step> steps_;
  std::vector<DeviceState> devices_;
  std::vector<LaneMeeting<CommEnd>> lanes_;
  std::vector<GroupState> groups_;
  std::vector<ChannelJobState> jobs_;
  std::vector<FlowState> flows_;
  std::vector<int32_t> free_flows_;
  std::deque<KeptOp> kept_;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
  std::vector<double> finish_;  // by repetition: when the last device ended it
  std::vector<double> moved_;   // by repetition
  double first_body_ = 0;       // when the last communication of the first body ended
  std::vector<double> wire_bytes_;
  std::vector<DeviceTraffic> traffic_;  // by device of the Program
  std::vector<TimelineEvent> events_;
  uint64_t order_ = 0;
  double now_ = 0;
  Simulation result_;
};

}  // namespace heddle
