// NetworkOffice: the process behind a share's flow desk. It brings the ends of communications
// together and gives out the nodes' tickets, first come first served; where the network is an
// emulated one it is that network too, the simulator's, in slowed-down time.
//
//   HEDDLE_ASSIGN(OfficeProcess office, OfficeProcess::Start(desk, board, cluster, options));
//   …                                       // ends with it
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/child_process.h"
#include "base/result.h"
#include "cluster/cluster.h"
#include "cost/network_cost.h"
#include "program/walk.h"
#include "run/share/board.h"
#include "run/share/flow_desk.h"
#include "simulate/network.h"
#include "simulate/tickets.h"

namespace heddle {

struct OfficeOptions {
  bool tickets = true;  // jobs one after the other at a node; else all at once
  double dilation = 0;  // of emulated time; 0: it takes what it takes
};

class NetworkOffice {
 public:
  NetworkOffice(const FlowDesk& desk, const Board& board, const Cluster& cluster,
                const OfficeOptions& options);
  // Does what has been posted and what is due, and waits for more until a time of the board's
  // clock.
  void Work(int64_t until);
  // One of the posts that Work reads, whatever its bytes are.
  void Hear(const FlowPost& post);

 private:
  using Key = std::tuple<int32_t, int32_t, int32_t, int32_t>;  // job, then what tells lanes apart
  struct End {
    int32_t rank;
    int64_t number;
    bool performed = false;
  };
  // Of two devices and a channel, or of a group.
  struct Lane {
    explicit Lane(const FlowPost& first);
    // Of the rank among those that it is for; nothing if it is one too many.
    std::optional<size_t> PlaceOf(int32_t rank);

    std::vector<int32_t> ranks;  // in the order in which they came
    size_t ends;                 // as many as there will be
    LaneMeeting<FlowPost> messages;
    GroupMeeting<FlowPost> collectives;
    int32_t running = -1;  // flow: collectives of a group go one after the other
  };
  struct Flow {
    TicketRequest request;
    Key lane;
    std::vector<End> ends;
    std::vector<FlowLoad> loads;
    FlowSpec spec;
    bool moves = false;
    Lease lease;  // of a real one
  };

  static Key KeyOf(const FlowPost& post);
  bool Believes(const FlowPost& post);
  void Strike(int32_t job, const char* what);
  double Modelled(int64_t time) const;
  int64_t Clock(double modelled) const;
  void CatchUp(int64_t time);
  void Posted(const FlowPost& post);
  void Performed(const FlowPost& post);
  void StartNext(const Key& key, Lane& lane);
  std::optional<int32_t> Admit(const Key& key, std::vector<FlowPost> posts);
  void Specify(const std::vector<FlowPost>& posts, Flow& flow);
  void Serve();
  void Start(int32_t id);
  void Finish(int32_t id);
  void LookAfterJobs();
  void Forget(int32_t job);

  FlowDesk desk_;
  Board board_;
  const Cluster& cluster_;
  OfficeOptions options_;
  NetworkCost cost_;
  std::unique_ptr<Network> network_;
  Tickets tickets_;
  int64_t epoch_;
  double now_ = 0;  // emulated
  int64_t requests_ = 0;
  int32_t next_flow_ = 0;
  std::map<Key, Lane> lanes_;
  std::array<int32_t, kMostJobs> ranks_{};                 // of a job; 0: not known yet
  std::map<std::pair<int32_t, int32_t>, size_t> waiting_;  // posts of a job's rank
  std::map<int32_t, Flow> flows_;                          // waiting for tickets, or moving
  std::map<std::tuple<int32_t, int32_t, int32_t>, int32_t> streams_;
};

class OfficeProcess {
 public:
  // REQUIRES: this process has one thread.
  static Result<OfficeProcess> Start(const FlowDesk& desk, const Board& board,
                                     const Cluster& cluster, const OfficeOptions& options);

  bool Lives() { return !process_.Look(); }
  pid_t pid() const { return process_.pid(); }

 private:
  explicit OfficeProcess(ChildProcess process) : process_(std::move(process)) {}
  ChildProcess process_;
};

}  // namespace heddle
