// ScheduleWalk: an SPMD plan's pieces (spmd_schedule.h) given a clock, without a Program.
//
// It follows the simulator (simulate/engine.h): every device goes through the pieces in order,
// waits for the exchanges that fill what it reads, posts its own; an exchange moves once all its
// group have posted it and the group is done with the one before, and shares the wires with others
// in flight. What it finds is the simulated time up to rounding, for a fraction of the work: pieces
// are the same on all devices, so nothing is written out for each.
//
// Devices that always do the same at the same time are one *role*. On one row those whose ops take
// equally long. On two axes a row, where its devices have parts of the same length: the exchanges
// of its columns then start together and get equal parts of every wire, and are one flow with the
// loads of all.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

#include "plan/spmd/problem.h"
#include "program/lower/spmd_schedule.h"
#include "program/plan/spmd_plan.h"
#include "simulate/network.h"

namespace heddle {

class ScheduleWalk {
 public:
  // The problem's graph is that of one microbatch. Both must outlive this.
  ScheduleWalk(SpmdProblem& problem, const SpmdPlan& plan, int64_t microbatches, LinkModel links);

  // The period once it is steady; nothing: it is not.
  std::optional<double> Period();

  // What each further microbatch takes, after Period: by how much everything in the one before the
  // last comes later than in the one before that. Nothing where that is not the same for all of it.
  std::optional<double> BetweenMicrobatches() const;

 private:
  using Times = std::vector<double>;  // by place, or by role
  // An exchange of one group of roles.
  struct Flow {
    FlowSpec spec;
    std::vector<FlowLoad> loads;
  };
  struct Piece {
    OpCode code = OpCode::kCompute;
    const Times* seconds = nullptr;  // by role: of a compute, or of the device's part in moving
    const std::vector<std::unique_ptr<Flow>>* flows = nullptr;  // of an exchange, by group
    size_t scope = 0;
    size_t first_slot = 0, slot_count = 0;  // 2 * slot, plus 1 when it needs the buffer to itself
  };
  struct Role {
    size_t index = 0;
    int repetition = 0;
    bool blocked = false;
    std::vector<int32_t> pending;  // exchanges in flight: by slot, those that read and write it
  };
  struct Group {
    std::vector<size_t> roles;
    std::vector<int32_t> posted;  // by exchange: how many have; of those that are not complete
    size_t first = 0;             // number of posted[0]
    std::vector<size_t> next;     // by member: of the exchange it posts next
    bool running = false;
  };
  struct Alarm {
    double time;
    uint64_t order;
    size_t role;
    bool operator>(const Alarm& other) const {
      return time > other.time || (time == other.time && order > other.order);
    }
  };
  static constexpr size_t kScopes = 3;

  // What pieces take.
  const SpmdValue& value(int32_t id) const { return schedule_.values[static_cast<size_t>(id)]; }
  ConversionTable& TableOf(int32_t id) const {
    return problem_.facts(value(id).tensor.value).conversions();
  }
  int LayoutOf(int32_t id) const { return TableOf(id).space().IndexOf(value(id).layout); }
  void CostOps();
  Times MoveSeconds(const SpmdPiece& piece) const;
  Times OwnSeconds(const SpmdPiece& piece) const;
  const Times& MoveOf(const SpmdPiece& piece);
  const Times& OwnOf(const SpmdPiece& piece);
  std::vector<int> KeyOf(const SpmdPiece& piece) const;  // of an exchange: what it depends on
  void FindRoles();
  bool RowsAreRoles() const;
  void MergePlaces();
  Times ByRole(const Times& by_place) const;
  void AddGroups();
  void NumberBuffers();
  void AddPiece(const SpmdPiece& piece);
  const Times& ComputeOf(const SpmdPiece& piece);
  const std::vector<std::unique_ptr<Flow>>& FlowsOf(const SpmdPiece& piece, Scope scope);
  std::unique_ptr<Flow> FlowOfGroups(const SpmdPiece& piece, Scope scope, size_t first,
                                     size_t last);

  // The walk.
  void Run(int repetitions);
  bool Ready(const Role& role, const Piece& piece) const;
  void Go(size_t role);
  void EndCompute(size_t role);
  void Post(size_t role, const Piece& piece);
  void Start(size_t scope, size_t group);
  void EndFlow(int32_t id);
  size_t GroupOf(size_t scope, size_t role) const;

  SpmdProblem& problem_;
  const SpmdPlan& plan_;
  SpmdSchedule schedule_;
  int64_t microbatches_;
  LinkModel links_;
  size_t places_, width_;
  std::vector<size_t> role_of_;                    // by place
  std::vector<std::vector<size_t>> roles_places_;  // by role
  bool rows_ = false;                              // each row is a role
  std::map<std::pair<int, OpRule>, Times> ops_;
  std::map<std::tuple<int, int, int, bool>, Times> moves_;
  std::map<std::vector<int>, Times> own_;  // by exchange
  std::map<std::pair<int, OpRule>, Times> ops_by_role_;
  std::vector<std::unique_ptr<Times>> kept_;
  std::map<std::vector<size_t>, const Times*> computes_;  // by steps
  std::map<std::vector<int>, std::vector<std::unique_ptr<Flow>>> flows_;
  std::vector<int32_t> slots_of_;  // by buffer; -1: no exchange touches it
  size_t slot_count_ = 0;
  std::vector<Piece> pieces_;
  std::vector<int32_t> slots_;
  std::array<std::vector<size_t>, kScopes> exchanges_;  // by scope: pieces, in order
  std::array<std::vector<Group>, kScopes> groups_;
  std::vector<size_t> begins_;  // pieces with which microbatches begin

  // Of a run.
  int repetitions_ = 0;
  double now_ = 0;
  uint64_t order_ = 0;
  std::unique_ptr<Network> network_;
  std::vector<Role> roles_;
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
  struct Moving {
    size_t scope = 0, group = 0;
    size_t piece = 0;
    bool last = false;  // of the last repetition
  };
  std::vector<Moving> moving_;
  std::vector<int32_t> free_flows_;
  std::vector<double> finish_;  // by repetition
  std::vector<Times> at_;       // of the last repetition, by piece: starts or ends
};

}  // namespace heddle
