// Emulation: devices and links of a cluster that is not here. Every compute does its arithmetic and
// then sleeps until the modelled time has passed; messages arrive when the modelled network would
// have brought them. All of it slowed down by one factor, the dilation, so that real work fits in.
//
//   Emulation emulation(segment_seconds, std::move(network));
//   const auto executor = emulation.Pace(device, real_executor);
//   const auto communicator = emulation.Pace(device, real_communicator);
//   emulation.SetDilation(40);          // until then nothing is paced
//
// Devices are threads of this process. Or, without a network model, this process is one of them and
// its messages are real ones: only computes are paced. Compute that takes longer than its modelled
// time misses its deadline; such are counted.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "cost/network_cost.h"
#include "program/program.h"
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

class Emulation {
 public:
  // Seconds by device and segment; bytes of buffers count `scale` times (the plan's type may be
  // smaller than the one computed in).
  // `message_seconds`: of a device's own time for each byte that it sends or receives.
  // `network` may be null: messages are not paced.
  Emulation(std::vector<std::vector<double>> segment_seconds, std::vector<double> message_seconds,
            std::vector<size_t> group_sizes, std::unique_ptr<NetworkModel> network,
            double byte_scale);
  ~Emulation();

  // REQUIRES: nothing is in flight.
  void SetDilation(double dilation);
  double dilation() const { return dilation_; }
  bool devices_only() const { return network_ == nullptr; }
  double ModelledSeconds(int32_t device, int32_t segment) const {
    return seconds_[static_cast<size_t>(device)][static_cast<size_t>(segment)];
  }

  std::unique_ptr<Executor> Pace(int32_t device, Executor& executor);
  std::unique_ptr<Communicator> Pace(int32_t device, Communicator& communicator);

  int64_t deadlines() const { return deadlines_; }
  int64_t missed() const { return missed_; }

 private:
  friend class PacedExecutor;
  friend class PacedCommunicator;
  using Clock = std::chrono::steady_clock;
  struct Flow;  // a ticket
  using FlowPtr = std::shared_ptr<Flow>;
  struct Lane {
    std::deque<FlowPtr> sends, receives;
  };

  // One that all members have come to.
  struct WaitingCollective {
    CollectiveKind kind;
    CollectiveAlgorithm algorithm;
    std::vector<Bytes> sizes;
    std::vector<FlowPtr> members;
  };
  struct Arriving {
    FlowPtr flow;
    std::vector<Bytes> blocks;  // that it puts in
  };
  struct GroupQueue {
    std::map<int32_t, std::deque<Arriving>> arriving;  // by device, in rank order
    std::deque<WaitingCollective> waiting;
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

  const std::vector<std::vector<double>> seconds_;
  const std::vector<double> message_seconds_;
  const std::vector<size_t> group_sizes_;
  const std::unique_ptr<NetworkModel> network_;
  const double byte_scale_;
  std::atomic<double> dilation_{0};
  std::atomic<int64_t> deadlines_{0}, missed_{0};

  std::mutex mutex_;
  std::condition_variable started_, done_;
  Clock::time_point epoch_;
  double base_ = 0;  // modelled time at the epoch
  bool ends_ = false;
  int32_t next_id_ = 0;
  std::map<int32_t, std::vector<FlowPtr>> in_flight_;  // by id: everyone who waits for it
  std::map<std::tuple<int32_t, int32_t, int32_t>, Lane> lanes_;
  std::map<int32_t, GroupQueue> groups_;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace heddle
