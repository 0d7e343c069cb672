// Emulation: devices and links of a cluster that is not here. Every compute does its arithmetic and
// then sleeps until the modelled time has passed; messages arrive when the modelled network would
// have brought them. All of it slowed down by one factor, the dilation, so that real work fits in.
//
//   Emulation emulation({.segment_seconds = …, .network = std::move(network)});
//   const auto executor = emulation.Pace(device, real_executor);
//   const auto communicator = emulation.Pace(device, real_communicator);
//   emulation.SetDilation(40);          // until then nothing is paced
//
// Devices are threads of this process. Or, without a network model, this process is one of them and
// its messages are real ones: only computes are paced. Compute that takes longer than its modelled
// time misses its deadline; such are counted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "cost/network_cost.h"
#include "program/program.h"
#include "program/walk.h"
#include "run/communicator.h"
#include "run/executor.h"

namespace heddle {

// How communications share the network, in modelled seconds. Implemented by the simulator's.
class NetworkModel {
 public:
  virtual ~NetworkModel() = default;
  virtual void StartMessage(int32_t id, int32_t from, int32_t to, Bytes bytes, double now) = 0;
  // Sizes as in CollectiveRequest.
  virtual void StartCollective(int32_t id, CollectiveKind kind, CollectiveAlgorithm algorithm,
                               int32_t group, const std::vector<Bytes>& sizes, double now) = 0;
  virtual double NextTime() const = 0;  // when something happens next; may be infinite
  virtual void Advance(double now, std::vector<int32_t>& done) = 0;
};

struct EmulationModel {
  std::vector<std::vector<double>> segment_seconds;  // by device and segment
  std::vector<double> message_seconds;       // of a device's own time for each byte that it moves
  std::vector<std::vector<int32_t>> groups;  // devices, in rank order
  std::unique_ptr<NetworkModel> network;     // null: messages are not paced
  double byte_scale = 1;  // bytes of the plan's type for each one of that computed in
};

class Emulation {
 public:
  explicit Emulation(EmulationModel model, Clock& clock = RealClock());
  ~Emulation();

  // REQUIRES: nothing is in flight.
  void SetDilation(double dilation);
  double dilation() const { return dilation_; }
  Clock& clock() const { return clock_; }
  bool devices_only() const { return model_.network == nullptr; }
  double ModelledSeconds(int32_t device, int32_t segment) const {
    return model_.segment_seconds[static_cast<size_t>(device)][static_cast<size_t>(segment)];
  }

  std::unique_ptr<Executor> Pace(int32_t device, Executor& executor);
  std::unique_ptr<Communicator> Pace(int32_t device, Communicator& communicator);

  int64_t deadlines() const { return deadlines_; }
  int64_t missed() const { return missed_; }

 private:
  friend class PacedExecutor;
  friend class PacedCommunicator;
  struct Flow;  // a ticket
  using FlowPtr = std::shared_ptr<Flow>;

  struct Arrived {
    size_t member;
    FlowPtr flow;
    std::vector<Bytes> blocks;  // that it puts in
  };
  // One that all members have come to.
  struct WaitingCollective {
    CollectiveKind kind;
    CollectiveAlgorithm algorithm;
    std::vector<Bytes> sizes;
    std::vector<FlowPtr> members;
  };
  struct GroupQueue {
    GroupMeeting<Arrived> meeting;
    std::deque<WaitingCollective> waiting = {};
    int32_t running = -1;  // id
  };

  FlowPtr PostMessage(int32_t from, int32_t to, int32_t tag, size_t bytes, bool sends);
  FlowPtr PostCollective(int32_t device, const CollectiveCall& call);
  double Now() const;  // modelled seconds
  void StartNext(int32_t group, double now);
  void CatchUp(double now);
  void Loop();
  Bytes Scaled(double bytes) const;
  void SleepForMessage(int32_t device, double bytes) const;

  const EmulationModel model_;
  Clock& clock_;
  std::atomic<double> dilation_{0};
  std::atomic<int64_t> deadlines_{0}, missed_{0};

  std::mutex mutex_;
  std::condition_variable started_, done_;
  Clock::Time epoch_;
  double base_ = 0;  // modelled time at the epoch
  bool ends_ = false;
  int32_t next_id_ = 0;
  std::map<int32_t, std::vector<FlowPtr>> in_flight_;  // by id: everyone who waits for it
  std::map<MessageLane, LaneMeeting<FlowPtr>> lanes_;
  std::vector<GroupQueue> groups_;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace heddle
