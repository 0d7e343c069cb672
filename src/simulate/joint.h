// Joint simulation: several Programs on the same devices, under one clock.
//
//   const std::vector<JointJob> jobs = {{"a", &a, &a_seconds, true}, {"b", &b, &b_seconds, true}};
//   HEDDLE_ASSIGN(JointSimulation sim, SimulateJoint(jobs, cluster, {}));
//   sim.cycle       // one turn of each, once it is steady
//
// Crossover: a job computes while another communicates.
//
//   device   │ A ████      ████      │      a token: one job computes at a time
//            │ B     ████      ████  │
//   network  │ A     ════      ════  │      a ticket per node: one job's flows at a time,
//            │ B         ════      ══│      served in the order they were posted
//
// Jobs never wait for communication while they hold the token, so there is no deadlock as long as
// all devices grant in the same order, or serve who asks first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/cluster.h"
#include "program/program.h"
#include "program/segment_cost.h"
#include "timeline/job_timeline.h"

namespace heddle {

enum class DeviceSharing : uint8_t {
  kTurns,      // a token, granted in the same fixed order on every device
  kFirstCome,  // a token, for who asked first
  kFair,       // none: those that compute at the same time share the device evenly
};

enum class NetworkSharing : uint8_t {
  kTickets,  // a ticket per node: flows of different jobs one after the other, first come first
  kFair,     // flows share wires, whatever job they belong to
};

struct JointJob {
  std::string name;
  const Program* program = nullptr;
  const SegmentSeconds* seconds = nullptr;
  // One turn per body, from the end of one body's communication to the post of the next one's.
  // Otherwise a turn goes as far as it can without waiting, and kTurns could deadlock.
  bool whole_turns = true;
};

struct JointOptions {
  DeviceSharing devices = DeviceSharing::kTurns;
  NetworkSharing network = NetworkSharing::kTickets;
  std::vector<int32_t> sequence;  // kTurns: who computes, over and over
                                  // (turns/turn_cycle.h); empty: each job once
  Seconds switch_cost;            // when a device goes over to another job
  bool keep_events = false;       // not with kFair devices
};

struct JointSimulation {
  std::vector<Seconds> iteration;  // by job: time from one body to the next, in the mean
  Seconds cycle;                   // kTurns: one pass of the sequence
  bool steady = true;              // false: still changing, or only a mean
  JobTimeline timeline;            // empty unless keep_events
};

// REQUIRES: each Program passes CheckProgram; kTurns only with whole_turns for all. A deadlock is
// an error that names the job.
Result<JointSimulation> SimulateJoint(std::span<const JointJob> jobs, const Cluster& cluster,
                                      const JointOptions& options);

}  // namespace heddle
