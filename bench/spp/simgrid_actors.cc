#include "spp/simgrid_actors.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <simgrid/s4u.hpp>

#include "simulate/compiled.h"
#include "spp/simgrid_platform.h"

namespace heddle {
namespace {

namespace s4u = simgrid::s4u;

// An actor that sleeps until somebody has news for it. Actors run one at a time.
class Bell {
 public:
  void Wait() {
    waiting_ = true;
    semaphore_->acquire();
  }
  void Ring() {
    if (!waiting_) return;
    waiting_ = false;
    semaphore_->release();
  }

 private:
  s4u::SemaphorePtr semaphore_ = s4u::Semaphore::create(0);
  bool waiting_ = false;
};

// One end of a communication: the buffers it keeps busy.
struct End {
  int32_t device;
  int32_t flow;
  std::vector<int32_t> slots;
};

struct Walker {
  Bell bell;
  std::vector<int32_t> pending;  // communications in flight: by slot, those that read and write it
};

struct Lane {
  std::deque<End> posted;
  bool sends = false;  // which end is ahead
};

// Messages from one device to another.
struct Stream {
  struct Message {
    End sender, receiver;
    double ready;
  };
  Bell bell;
  std::deque<Message> messages;
};

struct Collectives {
  Bell bell;
  std::deque<std::vector<End>> instances;  // not yet over
  std::vector<int64_t> next;               // by member: how many it has posted
  int64_t first = 0;                       // number of instances.front()
};

std::vector<std::vector<DeviceId>> GroupsOf(const Program& program,
                                            const std::vector<DeviceId>& ids) {
  std::vector<std::vector<DeviceId>> groups;
  for (const Group& group : program.groups) {
    std::vector<DeviceId>& members = groups.emplace_back();
    for (const int32_t member : group.devices) members.push_back(ids[static_cast<size_t>(member)]);
  }
  return groups;
}

class Run {
 public:
  Run(const Program& program, const std::vector<DeviceId>& ids, const Cluster& cluster,
      const SegmentSeconds& seconds, int repetitions)
      : p_(program),
        ids_(ids),
        platform_(cluster, GroupsOf(program, ids)),
        compiler_(program, ids, cluster, seconds, LinkModel::kShared),
        steps_(UnrolledSteps(program, repetitions)),
        walkers_(program.devices.size()),
        groups_(program.groups.size()),
        finish_(static_cast<size_t>(repetitions), 0) {
    for (size_t d = 0; d < walkers_.size(); ++d) {
      s4u::Actor::create(fmt::format("device {}", d), platform_.host(ids[d]),
                         [this, d] { Walk(static_cast<int32_t>(d)); });
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      groups_[g].next.resize(program.groups[g].devices.size(), 0);
      s4u::Actor::create(fmt::format("group {}", g), platform_.host(ids[0]), [this, g] {
        ServeGroup(static_cast<int32_t>(g));
      })->daemonize();
    }
  }

  const std::vector<double>& finish() const { return finish_; }

 private:
  void Walk(int32_t device) {
    Walker& walker = walkers_[static_cast<size_t>(device)];
    CompiledList storage;
    for (const Step& step : steps_) {
      const CompiledList* list = compiler_.List(device, step, storage);
      walker.pending.resize(2 * compiler_.slot_count(device), 0);
      for (const CompiledOp& op : list->ops) {
        const auto first = list->slots.begin() + op.first_slot;
        Execute(device, walker, op, {first, first + op.slot_count});
      }
      if (step.section != Section::kBody) continue;
      double& finish = finish_[static_cast<size_t>(step.i)];
      finish = std::max(finish, s4u::Engine::get_clock());
    }
  }

  void Execute(int32_t device, Walker& walker, const CompiledOp& op,
               const std::vector<int32_t>& slots) {
    if (op.code != OpCode::kRecv) {
      while (!Ready(walker, slots)) walker.bell.Wait();
    }
    const bool message = op.code == OpCode::kSend || op.code == OpCode::kRecv;
    if (message) Post(device, walker, op, slots);
    if (op.seconds > 0) s4u::this_actor::sleep_for(op.seconds);
    if (op.code == OpCode::kCollective) Post(device, walker, op, slots);
    if (!op.holds_up) return;
    while (!Idle(walker, slots)) walker.bell.Wait();
  }

  // Nobody still writes the buffers, nor reads those that the instruction needs to itself.
  static bool Ready(const Walker& walker, const std::vector<int32_t>& slots) {
    return std::all_of(slots.begin(), slots.end(), [&](int32_t slot) {
      const auto entry = static_cast<size_t>(slot);
      return walker.pending[entry | 1] == 0 && ((entry & 1) == 0 || walker.pending[entry - 1] == 0);
    });
  }

  static bool Idle(const Walker& walker, const std::vector<int32_t>& slots) {
    return std::all_of(slots.begin(), slots.end(), [&](int32_t slot) {
      const auto entry = static_cast<size_t>(slot);
      return walker.pending[entry] + walker.pending[entry ^ 1] == 0;
    });
  }

  void Post(int32_t device, Walker& walker, const CompiledOp& op,
            const std::vector<int32_t>& slots) {
    for (const int32_t slot : slots) ++walker.pending[static_cast<size_t>(slot)];
    End end{device, op.flow, slots};
    if (op.code == OpCode::kCollective) {
      PostCollective(op.lane, std::move(end));
    } else {
      PostMessage(op.lane, std::move(end), op.code == OpCode::kSend);
    }
  }

  void Release(const End& end) {
    Walker& walker = walkers_[static_cast<size_t>(end.device)];
    for (const int32_t slot : end.slots) --walker.pending[static_cast<size_t>(slot)];
    walker.bell.Ring();
  }

  void PostMessage(int32_t lane_id, End end, bool sends) {
    Lane& lane = lanes_[lane_id];
    if (lane.posted.empty() || lane.sends == sends) {
      lane.sends = sends;
      lane.posted.push_back(std::move(end));
      return;
    }
    End other = std::move(lane.posted.front());
    lane.posted.pop_front();
    if (!sends) std::swap(end, other);
    const auto [found, is_new] = streams_.try_emplace({end.device, other.device});
    Stream& stream = found->second;
    stream.messages.push_back({std::move(end), std::move(other), s4u::Engine::get_clock()});
    stream.bell.Ring();
    if (!is_new) return;
    s4u::Actor::create("stream", platform_.host(ids_[0]), [this, &stream] {
      Serve(stream);
    })->daemonize();
  }

  // Moves the messages of a stream in turn; the latency of the next runs meanwhile.
  void Serve(Stream& stream) {
    for (;;) {
      while (stream.messages.empty()) stream.bell.Wait();
      const Stream::Message message = std::move(stream.messages.front());
      stream.messages.pop_front();
      const CompiledFlow& flow = compiler_.flow(message.sender.flow);
      s4u::this_actor::sleep_until(message.ready + flow.spec.latency);
      if (flow.spec.work > 0) {
        const auto id = [&](const End& end) { return ids_[static_cast<size_t>(end.device)]; };
        platform_.Message(id(message.sender), id(message.receiver), flow.spec.work)->wait();
      }
      Release(message.sender);
      Release(message.receiver);
    }
  }

  void PostCollective(int32_t group_id, End end) {
    Collectives& group = groups_[static_cast<size_t>(group_id)];
    const auto& members = p_.group(group_id).devices;
    const auto member = static_cast<size_t>(std::find(members.begin(), members.end(), end.device) -
                                            members.begin());
    const auto place = static_cast<size_t>(group.next[member]++ - group.first);
    if (place >= group.instances.size()) group.instances.resize(place + 1);
    group.instances[place].push_back(std::move(end));
    group.bell.Ring();
  }

  // Collectives of one group run one after the other, each once all members have posted it.
  void ServeGroup(int32_t group_id) {
    Collectives& group = groups_[static_cast<size_t>(group_id)];
    const size_t members = p_.group(group_id).devices.size();
    for (;;) {
      while (group.instances.empty() || group.instances.front().size() < members) {
        group.bell.Wait();
      }
      const CompiledFlow& flow = compiler_.flow(group.instances.front()[0].flow);
      s4u::this_actor::sleep_for(flow.spec.latency);
      std::vector<s4u::CommPtr> parts;
      const double moving = flow.spec.seconds - flow.spec.latency;
      for (const WireLoad& load : flow.bytes) {
        if (load.bytes >= 1 && moving > 0) {
          parts.push_back(platform_.OnWire(static_cast<size_t>(group_id), load.wire, load.bytes,
                                           load.bytes / moving));
        }
      }
      for (const s4u::CommPtr& part : parts) part->wait();
      const std::vector<End> ends = std::move(group.instances.front());
      group.instances.pop_front();
      ++group.first;
      for (const End& end : ends) Release(end);
    }
  }

  const Program& p_;
  const std::vector<DeviceId>& ids_;
  SimGridPlatform platform_;
  Compiler compiler_;
  std::vector<Step> steps_;
  std::vector<Walker> walkers_;
  std::map<int32_t, Lane> lanes_;
  std::map<std::pair<int32_t, int32_t>, Stream> streams_;  // by sender and receiver
  std::vector<Collectives> groups_;
  std::vector<double> finish_;  // by repetition: when the last device ended it
};

}  // namespace

std::vector<double> RunInSimGrid(const Program& program, const std::vector<DeviceId>& ids,
                                 const Cluster& cluster, const SegmentSeconds& seconds,
                                 int repetitions) {
  char name[] = "simgrid_run";
  char quiet[] = "--log=root.thres:error";
  char* argv[] = {name, quiet, nullptr};
  int argc = 2;
  s4u::Engine engine(&argc, argv);
  for (const char* setting :
       {"network/model:CM02", "network/TCP-gamma:1e30", "network/weight-S:0",
        "network/crosstraffic:0", "network/latency-factor:1", "network/bandwidth-factor:1",
        "surf/precision:1e-9", "contexts/stack-size:256"}) {
    s4u::Engine::set_config(std::string(setting));
  }
  const Run run(program, ids, cluster, seconds, repetitions);
  engine.run();
  return run.finish();
}

}  // namespace heddle
