// Compiled lists: a Program's instructions with everything looked up that can be, so that the
// simulator's inner loop only follows indices. Internal to simulate/.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "cluster/cluster.h"
#include "cost/network_cost.h"
#include "program/program.h"
#include "program/segment_cost.h"
#include "program/unroll.h"
#include "program/walk.h"
#include "simulate/network.h"
#include "timeline/timeline.h"

namespace heddle {

// One instruction of one device. Slots are buffers that communication uses; others never wait. An
// entry of CompiledList::slots is 2 * slot, plus 1 when the instruction needs the buffer to itself.
struct CompiledOp {
  OpCode code;
  bool holds_up = false;  // communication `on compute`
  EventKind event = EventKind::kOther;
  double seconds = 0;  // compute; of communication, the device's own part in it
  int32_t label = 0;
  int32_t microbatch = -1;
  int32_t first_slot = 0;  // into CompiledList::slots; it waits for all of them
  int32_t slot_count = 0;
  int32_t lane = -1;  // send, recv: messages of one pair and tag; collective: group
  int32_t flow = -1;  // send, collective: what it costs
  int32_t job = -1;   // send: the channel job it belongs to, under the channels model
};

struct CompiledList {
  std::vector<CompiledOp> ops;
  std::vector<int32_t> slots;
};

// What a message or collective costs, shared by all that are alike.
struct CompiledFlow {
  FlowSpec spec;
  std::vector<FlowLoad> loads;
  std::vector<WireLoad> bytes;  // on each wire, for the account
  Bytes payload;                // of a message
  struct Traffic {
    int32_t device;
    double sent, received;  // bytes
  };
  std::vector<Traffic> traffic;  // of a collective, by member
  std::vector<DeviceId> ends;    // devices that take part
};

// Messages of one tensor, microbatch and tag over one channel in one direction: they go together.
struct ChannelJob {
  int32_t messages;  // how many
  int32_t flow;      // into flows()
};

// Every collective's algorithm exists for its kind and group.
Status CheckCollectives(const Program& program, const std::vector<DeviceId>& devices,
                        const Cluster& cluster);

class Compiler {
 public:
  Compiler(const Program& program, const std::vector<DeviceId>& devices, const Cluster& cluster,
           const SegmentSeconds& seconds, LinkModel model);

  // The list of a device in a section at repetition i. A list that does not depend on i is made
  // once and kept here; others are written into `storage`.
  const CompiledList* List(int32_t device, const Step& step, CompiledList& storage);

  const CompiledFlow& flow(int32_t id) const { return *flows_[static_cast<size_t>(id)]; }
  const ChannelJob& job(int32_t id) const { return jobs_[static_cast<size_t>(id)]; }
  size_t job_count() const { return jobs_.size(); }
  size_t lane_count() const { return lanes_.size(); }
  size_t slot_count(int32_t device) const { return slots_[static_cast<size_t>(device)].size(); }
  size_t channel_resources() const { return channel_resources_; }
  std::vector<std::string> Labels() const;  // segments, then tensors

 private:
  void FindWaits();
  void FindJobs();
  void Compile(int32_t device, const Step& step, CompiledList& list);
  CompiledOp CompileOp(int32_t device, const Step& step, const Instruction& in, CompiledList& list);
  int32_t SlotOf(int32_t device, const BufferKey& key);
  int32_t PairOf(int32_t from, int32_t to);
  int32_t LaneNumber(const MessageLane& lane);
  void AddSlot(int32_t device, const BufferUse& use, int64_t i, CompiledList& list);
  int32_t MessageFlow(int32_t from, int32_t to, Bytes bytes);
  int32_t CollectiveFlow(int32_t device, const Instruction& in);
  double OwnSeconds(int32_t device, double bytes) const;
  int64_t CollectiveBytes(int32_t device, const Instruction& in) const;
  int32_t AddFlow(const CommCost& cost);

  // One channel direction, tensor, microbatch, tag and section: the messages of a job. A tensor may
  // cross a channel several times, when a skip connection passes interleaved stages.
  using JobKey = std::tuple<int32_t, int32_t, Index, int32_t, Section>;
  std::optional<JobKey> JobKeyOf(int32_t device, Section section, const Instruction& in) const;

  const Program& p_;
  const std::vector<DeviceId>& devices_;
  const Cluster& cluster_;
  const SegmentSeconds& seconds_;
  LinkModel model_;
  NetworkCost network_;
  bool relative_;
  std::vector<std::vector<bool>> communicated_;  // by device and tensor
  // By device and segment: the uses of a compute that may have to be waited for.
  std::vector<std::unordered_map<int32_t, std::vector<int32_t>>> waits_;
  std::vector<std::unordered_map<BufferKey, int32_t>> slots_;  // by device
  std::unordered_map<uint64_t, int32_t> pairs_, lanes_;
  std::map<std::tuple<int32_t, int32_t, int64_t>, int32_t> message_flows_;
  std::map<std::tuple<int32_t, int32_t, int32_t, int32_t, int32_t, int64_t>, int32_t>
      collective_flows_;
  std::vector<std::unique_ptr<CompiledFlow>> flows_;
  std::map<std::pair<int32_t, int32_t>, int32_t> channel_of_;  // (from, to) -> resource
  size_t channel_resources_ = 0;
  std::vector<ChannelJob> jobs_;
  std::map<JobKey, int32_t> job_ids_;
  std::map<std::pair<int32_t, Section>, CompiledList> made_;
};

}  // namespace heddle
