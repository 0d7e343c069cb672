#include "plan/spmd/schedule_walk.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "cost/comm_phases.h"
#include "program/lower/lower.h"
#include "program/plan/plan.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool Same(double a, double b, double scale) { return std::abs(a - b) <= 1e-9 * scale; }

Scope ScopeOf(int axis) {
  if (axis == kMeshAxes) return Scope::kAllDevices;
  return axis == 0 ? Scope::kBetweenNodes : Scope::kInsideNode;
}

}  // namespace

ScheduleWalk::ScheduleWalk(SpmdProblem& problem, const SpmdPlan& plan, int64_t microbatches,
                           LinkModel links)
    : problem_(problem),
      plan_(plan),
      schedule_(ScheduleOf(
          plan, problem.graph(),
          {Plan().bucket, LowerOptions().free_behind, static_cast<int32_t>(microbatches)})),
      microbatches_(microbatches),
      links_(links),
      places_(problem.mesh().size()),
      width_(problem.mesh().places(1)) {
  CostOps();
  FindRoles();
  AddGroups();
  NumberBuffers();
  pieces_.reserve(schedule_.pieces.size());
  for (const SpmdPiece& piece : schedule_.pieces) AddPiece(piece);
}

// --- What pieces take ----------------------------------------------------------------------------

// Everything that takes a device's time, once for each kind of it.
void ScheduleWalk::CostOps() {
  for (const SpmdStep& step : plan_.steps) {
    if (step.converts()) continue;
    const auto [op, fresh] = ops_.try_emplace({problem_.op(step.op.value).kind, step.rule});
    if (fresh) op->second = problem_.DeviceSeconds(problem_.graph().op(step.op), step.rule);
  }
  for (const SpmdPiece& piece : schedule_.pieces) {
    if (piece.code == OpCode::kCollective) OwnOf(piece);
    if (piece.code == OpCode::kCompute && piece.steps.empty()) MoveOf(piece);
  }
}

const ScheduleWalk::Times& ScheduleWalk::MoveOf(const SpmdPiece& piece) {
  const auto [found, fresh] =
      moves_.try_emplace({problem_.kind_of(value(piece.from[0]).tensor.value),
                          LayoutOf(piece.from[0]), LayoutOf(piece.to[0]), piece.masks});
  if (fresh) found->second = MoveSeconds(piece);
  return found->second;
}

ScheduleWalk::Times ScheduleWalk::MoveSeconds(const SpmdPiece& piece) const {
  const Times& from = TableOf(piece.from[0]).SharesOf(LayoutOf(piece.from[0]));
  const Times& to = TableOf(piece.to[0]).SharesOf(LayoutOf(piece.to[0]));
  Times seconds(places_, 0);
  for (size_t p = 0; p < places_; ++p) {
    const bool moves = from[p] > 0 && to[p] > 0 && !(piece.masks && p > 0);
    if (!moves) continue;
    const DeviceTypeSpec& type = problem_.cluster().type_of(problem_.mesh().device(p));
    const double bytes = TableOf(piece.to[0]).bytes() * (std::min(from[p], to[p]) + to[p]);
    seconds[p] = type.launch_overhead.value + bytes / type.memory_bandwidth.value;
  }
  return seconds;
}

// Only devices that move messages themselves have a part in it.
const ScheduleWalk::Times& ScheduleWalk::OwnOf(const SpmdPiece& piece) {
  static const Times kNone;
  const auto& types = problem_.cluster().spec().types;
  const bool any = std::any_of(types.begin(), types.end(), [](const DeviceTypeSpec& type) {
    return type.message_bandwidth.has_value();
  });
  if (!any) return kNone;
  const auto [found, fresh] = own_.try_emplace(KeyOf(piece));
  if (fresh) found->second = OwnSeconds(piece);
  return found->second;
}

std::vector<int> ScheduleWalk::KeyOf(const SpmdPiece& piece) const {
  std::vector<int> key = {piece.conversion.axis, static_cast<int>(piece.conversion.kind),
                          static_cast<int>(piece.algorithm)};
  for (size_t k = 0; k < piece.from.size(); ++k) {
    key.insert(key.end(), {problem_.kind_of(value(piece.from[k]).tensor.value),
                           LayoutOf(piece.from[k]), LayoutOf(piece.to[k])});
  }
  return key;
}

ScheduleWalk::Times ScheduleWalk::OwnSeconds(const SpmdPiece& piece) const {
  const CollectiveKind kind = piece.conversion.kind;
  Times seconds(places_, 0);
  for (const auto& group : problem_.exchange().groups(ScopeOf(piece.conversion.axis))) {
    double bytes = 0;
    for (size_t k = 0; k < piece.from.size(); ++k) {
      const bool scatters = kind == CollectiveKind::kReduceScatter;
      const int32_t divided = scatters ? piece.to[k] : piece.from[k];
      const Times& shares = TableOf(divided).SharesOf(LayoutOf(divided));
      double whole = kind == CollectiveKind::kAllReduce ? shares[group[0]] : 0;
      for (const size_t p : group) whole += kind == CollectiveKind::kAllReduce ? 0 : shares[p];
      bytes += whole * TableOf(divided).bytes();
    }
    const double moved = BytesMoved(kind, group.size(), bytes);
    for (const size_t p : group) {
      const DeviceTypeSpec& type = problem_.cluster().type_of(problem_.mesh().device(p));
      seconds[p] = type.MessageSeconds(moved).value;
    }
  }
  return seconds;
}

// --- Roles ---------------------------------------------------------------------------------------

// On two axes by rows or not at all; an exclusive wire serves one column after the other.
void ScheduleWalk::FindRoles() {
  rows_ =
      !problem_.mesh().flat() && width_ > 1 && links_ != LinkModel::kExclusive && RowsAreRoles();
  role_of_.resize(places_);
  for (size_t p = 0; p < places_; ++p) role_of_[p] = rows_ ? p / width_ : p;
  if (problem_.mesh().flat()) MergePlaces();
  roles_places_.resize(*std::max_element(role_of_.begin(), role_of_.end()) + 1);
  for (size_t p = 0; p < places_; ++p) roles_places_[role_of_[p]].push_back(p);
  for (const auto& [op, seconds] : ops_) ops_by_role_[op] = ByRole(seconds);
}

// Parts of a length that is no multiple of the devices differ by one.
bool ScheduleWalk::RowsAreRoles() const {
  constexpr double kAlike = 1e-3;
  const auto alike = [&](const Times& seconds) {
    for (size_t row = 0; row < places_; row += width_) {
      const auto [least, most] =
          std::minmax_element(seconds.begin() + static_cast<std::ptrdiff_t>(row),
                              seconds.begin() + static_cast<std::ptrdiff_t>(row + width_));
      if (*most - *least > kAlike * *most) return false;
    }
    return true;
  };
  const auto all_alike = [&](const auto& some) {
    return std::all_of(some.begin(), some.end(),
                       [&](const auto& item) { return alike(item.second); });
  };
  if (!all_alike(ops_) || !all_alike(moves_) || !all_alike(own_)) return false;
  std::set<std::pair<int, int>> seen;  // kinds of tensors that are exchanged, and layouts
  for (const SpmdPiece& piece : schedule_.pieces) {
    if (piece.code != OpCode::kCollective) continue;
    for (const auto* ids : {&piece.from, &piece.to}) {
      for (const int32_t id : *ids) {
        const int layout = LayoutOf(id);
        if (!seen.emplace(problem_.kind_of(value(id).tensor.value), layout).second) continue;
        if (!alike(TableOf(id).SharesOf(layout))) return false;
      }
    }
  }
  return true;
}

void ScheduleWalk::MergePlaces() {
  std::map<std::vector<double>, size_t> known;
  for (size_t p = 0; p < places_; ++p) {
    std::vector<double> all;
    const auto add = [&](const auto& some) {
      for (const auto& item : some) all.push_back(item.second[p]);
    };
    add(ops_);
    add(moves_);
    add(own_);
    role_of_[p] = known.try_emplace(std::move(all), known.size()).first->second;
  }
}

ScheduleWalk::Times ScheduleWalk::ByRole(const Times& by_place) const {
  Times seconds(roles_places_.size(), kInfinity);
  for (size_t p = 0; p < places_; ++p) {
    seconds[role_of_[p]] = std::min(seconds[role_of_[p]], by_place[p]);
  }
  return seconds;
}

void ScheduleWalk::AddGroups() {
  for (size_t scope = 0; scope < kScopes; ++scope) {
    const auto& groups = problem_.exchange().groups(static_cast<Scope>(scope));
    const size_t merged =
        rows_ && static_cast<Scope>(scope) == Scope::kBetweenNodes ? 1 : groups.size();
    for (size_t g = 0; g < merged; ++g) {
      Group& group = groups_[scope].emplace_back();
      for (const size_t place : groups[g]) {
        const size_t role = role_of_[place];
        if (std::find(group.roles.begin(), group.roles.end(), role) == group.roles.end()) {
          group.roles.push_back(role);
        }
      }
    }
  }
}

// --- Pieces --------------------------------------------------------------------------------------

// Only buffers that exchanges touch can be waited for.
void ScheduleWalk::NumberBuffers() {
  slots_of_.assign(schedule_.buffers.size(), -1);
  for (const SpmdPiece& piece : schedule_.pieces) {
    if (piece.code != OpCode::kCollective) continue;
    for (const auto* ids : {&piece.from, &piece.to}) {
      for (const int32_t id : *ids) {
        int32_t& slot = slots_of_[static_cast<size_t>(value(id).buffer)];
        if (slot < 0) slot = static_cast<int32_t>(slot_count_++);
      }
    }
  }
}

void ScheduleWalk::AddPiece(const SpmdPiece& piece) {
  Piece made;
  made.code = piece.code;
  made.first_slot = slots_.size();
  const auto touch = [&](int32_t id, bool alone) {
    const int32_t slot = slots_of_[static_cast<size_t>(value(id).buffer)];
    if (slot >= 0) slots_.push_back(2 * slot + (alone ? 1 : 0));
  };
  if (piece.code == OpCode::kFree) {
    for (const int32_t id : piece.freed) touch(id, true);
  } else if (piece.code == OpCode::kCompute) {
    const bool begins = !piece.steps.empty() && piece.phase == SegmentPhase::kForward &&
                        piece.microbatch == static_cast<int32_t>(begins_.size());
    if (begins) begins_.push_back(pieces_.size());
    for (const SpmdPort& port : piece.ports) touch(port.value, port.use != PortUse::kRead);
    made.seconds = &ComputeOf(piece);
  } else {
    const bool in_place = piece.conversion.kind == CollectiveKind::kAllReduce;
    for (const int32_t id : piece.from) touch(id, in_place);
    if (!in_place) touch(piece.to[0], true);
    Scope scope = ScopeOf(piece.conversion.axis);
    made.flows = &FlowsOf(piece, scope);
    // Where rows, or columns, have all devices there is one group for both.
    if (scope == Scope::kAllDevices && problem_.mesh().flat()) scope = Scope::kInsideNode;
    if (scope == Scope::kAllDevices && width_ == 1) scope = Scope::kBetweenNodes;
    made.scope = static_cast<size_t>(scope);
    exchanges_[made.scope].push_back(pieces_.size());
    const Times& own = OwnOf(piece);
    if (!own.empty()) {
      kept_.push_back(std::make_unique<Times>(ByRole(own)));
      made.seconds = kept_.back().get();
    }
  }
  made.slot_count = slots_.size() - made.first_slot;
  pieces_.push_back(made);
}

// Microbatches have pieces of the same steps.
const ScheduleWalk::Times& ScheduleWalk::ComputeOf(const SpmdPiece& piece) {
  if (piece.steps.empty()) {
    kept_.push_back(std::make_unique<Times>(ByRole(MoveOf(piece))));
    return *kept_.back();
  }
  const auto [found, fresh] = computes_.try_emplace(piece.steps, nullptr);
  if (!fresh) return *found->second;
  auto seconds = std::make_unique<Times>(roles_places_.size(), 0);
  for (const size_t k : piece.steps) {
    const SpmdStep& step = plan_.steps[k];
    const Times& op = ops_by_role_.at({problem_.op(step.op.value).kind, step.rule});
    for (size_t r = 0; r < op.size(); ++r) (*seconds)[r] += op[r];
  }
  kept_.push_back(std::move(seconds));
  found->second = kept_.back().get();
  return *found->second;
}

const std::vector<std::unique_ptr<ScheduleWalk::Flow>>& ScheduleWalk::FlowsOf(
    const SpmdPiece& piece, Scope scope) {
  const auto [found, fresh] = flows_.try_emplace(KeyOf(piece));
  if (!fresh) return found->second;
  const size_t groups = problem_.exchange().groups(scope).size();
  if (rows_ && scope == Scope::kBetweenNodes) {
    found->second.push_back(FlowOfGroups(piece, scope, 0, groups));
  } else {
    for (size_t g = 0; g < groups; ++g) {
      found->second.push_back(FlowOfGroups(piece, scope, g, g + 1));
    }
  }
  return found->second;
}

// Of all these groups, which move together, as long as the first takes. A bucket of sums has the
// latency of one. An all-reduce into a copy of its own reads what it writes: the layout of partial
// sums is that of the sum but for the axis, and so are their shares.
std::unique_ptr<ScheduleWalk::Flow> ScheduleWalk::FlowOfGroups(const SpmdPiece& piece, Scope scope,
                                                               size_t first, size_t last) {
  ExchangeCost& exchange = problem_.exchange();
  const auto shares = [&](int32_t id) {
    return exchange.Intern(TableOf(id).SharesOf(LayoutOf(id)));
  };
  CommCost cost;
  WireLoads own, all;
  for (size_t k = 0; k < piece.from.size(); ++k) {
    const auto& flows = exchange.FlowsOf(piece.conversion.kind, scope, shares(piece.from[k]),
                                         shares(piece.to[k]), piece.algorithm);
    const double bytes = TableOf(piece.from[k]).bytes();
    if (k == 0) cost.latency.value = cost.seconds.value = flows[first].latency;
    cost.seconds.value += bytes * flows[first].moving;
    own.Add(flows[first].loads, bytes);
    for (size_t g = first; g < last; ++g) all.Add(flows[g].loads, bytes);
  }
  cost.loads = own.Merged();
  auto flow = std::make_unique<Flow>();
  flow->spec = heddle::FlowOf(cost, flow->loads);
  if (last > first + 1) {
    const double most = flow->spec.work;
    flow->loads.clear();
    for (const WireLoad& load : all.Merged()) {
      if (load.bytes > 0)
        flow->loads.push_back({load.wire.value, most > 0 ? load.bytes / most : 1});
    }
  }
  return flow;
}

// --- The walk ------------------------------------------------------------------------------------

std::optional<double> ScheduleWalk::Period() {
  constexpr int kFirst = 3, kMost = 12;
  for (int repetitions = kFirst; repetitions <= kMost; repetitions *= 2) {
    Run(repetitions);
    const double took = finish_[finish_.size() - 1] - finish_[finish_.size() - 2];
    const double before = finish_[finish_.size() - 2] - finish_[finish_.size() - 3];
    if (Same(took, before, took)) return took;
  }
  return std::nullopt;
}

std::optional<double> ScheduleWalk::BetweenMicrobatches() const {
  const size_t count = begins_.size();
  if (static_cast<int64_t>(count) != microbatches_ || count < 4) return std::nullopt;
  const size_t a = begins_[count - 3], b = begins_[count - 2], c = begins_[count - 1];
  if (b - a != c - b) return std::nullopt;
  std::optional<double> step;
  for (size_t k = 0; k < b - a; ++k) {
    const Times &before = at_[a + k], &after = at_[b + k];
    if (pieces_[a + k].code != pieces_[b + k].code || before.size() != after.size()) {
      return std::nullopt;
    }
    for (size_t r = 0; r < before.size(); ++r) {
      if (!step) step = after[r] - before[r];
      if (!Same(after[r] - before[r], *step, *step)) return std::nullopt;
    }
  }
  return step;
}

void ScheduleWalk::Run(int repetitions) {
  repetitions_ = repetitions;
  now_ = 0;
  network_ = MakeNetwork(links_, WireBandwidths(problem_.cluster()), 0);
  roles_.assign(roles_places_.size(), {});
  for (Role& role : roles_) role.pending.assign(2 * slot_count_, 0);
  moving_.clear();
  free_flows_.clear();
  finish_.assign(static_cast<size_t>(repetitions), 0);
  at_.assign(pieces_.size(), {});
  for (auto& groups : groups_) {
    for (Group& group : groups) {
      group.posted.clear();
      group.first = 0;
      group.next.assign(roles_.size(), 0);
      group.running = false;
    }
  }
  for (size_t r = 0; r < roles_.size(); ++r) Go(r);
  std::vector<int32_t> done;
  for (;;) {
    const double compute = alarms_.empty() ? kInfinity : alarms_.top().time;
    const double network = network_->NextTime();
    if (compute == kInfinity && network == kInfinity) break;
    if (network <= compute) {
      now_ = network;
      done.clear();
      network_->Advance(now_, done);
      for (const int32_t flow : done) EndFlow(flow);
    } else {
      now_ = compute;
      const size_t role = alarms_.top().role;
      alarms_.pop();
      EndCompute(role);
    }
  }
}

// Nobody still writes the buffers of the piece, nor reads those it needs to itself.
bool ScheduleWalk::Ready(const Role& role, const Piece& piece) const {
  for (size_t k = piece.first_slot; k < piece.first_slot + piece.slot_count; ++k) {
    const auto entry = static_cast<size_t>(slots_[k]);
    if (role.pending[entry | 1] > 0) return false;
    if ((entry & 1) != 0 && role.pending[entry - 1] > 0) return false;
  }
  return true;
}

// Until the role computes or waits.
void ScheduleWalk::Go(size_t number) {
  Role& role = roles_[number];
  role.blocked = false;
  while (role.repetition < repetitions_) {
    if (role.index == pieces_.size()) {
      double& finish = finish_[static_cast<size_t>(role.repetition++)];
      finish = std::max(finish, now_);
      role.index = 0;
      continue;
    }
    const Piece& piece = pieces_[role.index];
    if (!Ready(role, piece)) {
      role.blocked = true;
      return;
    }
    if (piece.seconds != nullptr && (*piece.seconds)[number] > 0) {
      const bool kept = piece.code == OpCode::kCompute && role.repetition + 1 == repetitions_;
      if (kept) {
        at_[role.index].resize(roles_.size(), 0);
        at_[role.index][number] = now_;
      }
      alarms_.push({now_ + (*piece.seconds)[number], order_++, number});
      return;
    }
    if (piece.code == OpCode::kCollective) Post(number, piece);
    ++role.index;
  }
}

void ScheduleWalk::EndCompute(size_t number) {
  Role& role = roles_[number];
  const Piece& piece = pieces_[role.index];
  if (piece.code == OpCode::kCollective) Post(number, piece);
  ++role.index;
  Go(number);
}

size_t ScheduleWalk::GroupOf(size_t scope, size_t role) const {
  if (groups_[scope].size() == 1) return 0;
  const size_t place = roles_places_[role][0];
  return static_cast<Scope>(scope) == Scope::kInsideNode ? place / width_ : place % width_;
}

void ScheduleWalk::Post(size_t number, const Piece& piece) {
  for (size_t k = piece.first_slot; k < piece.first_slot + piece.slot_count; ++k) {
    ++roles_[number].pending[static_cast<size_t>(slots_[k])];
  }
  const size_t at = GroupOf(piece.scope, number);
  Group& group = groups_[piece.scope][at];
  const size_t place = group.next[number]++ - group.first;
  if (place >= group.posted.size()) group.posted.resize(place + 1, 0);
  ++group.posted[place];
  Start(piece.scope, at);
}

// Exchanges of one group go one after the other.
void ScheduleWalk::Start(size_t scope, size_t at) {
  Group& group = groups_[scope][at];
  if (group.running || group.posted.empty() ||
      static_cast<size_t>(group.posted[0]) < group.roles.size()) {
    return;
  }
  group.running = true;
  const std::vector<size_t>& all = exchanges_[scope];
  Moving moving{scope, at, all[group.first % all.size()],
                group.first / all.size() + 1 == static_cast<size_t>(repetitions_)};
  auto id = static_cast<int32_t>(moving_.size());
  if (free_flows_.empty()) {
    moving_.push_back(moving);
  } else {
    id = free_flows_.back();
    free_flows_.pop_back();
    moving_[static_cast<size_t>(id)] = moving;
  }
  network_->Start(id, (*pieces_[moving.piece].flows)[at]->spec, now_);
}

void ScheduleWalk::EndFlow(int32_t id) {
  const Moving moving = moving_[static_cast<size_t>(id)];
  free_flows_.push_back(id);
  const Piece& piece = pieces_[moving.piece];
  Group& group = groups_[moving.scope][moving.group];
  for (const size_t role : group.roles) {
    for (size_t k = piece.first_slot; k < piece.first_slot + piece.slot_count; ++k) {
      --roles_[role].pending[static_cast<size_t>(slots_[k])];
    }
  }
  if (moving.last) {
    at_[moving.piece].resize(groups_[moving.scope].size(), 0);
    at_[moving.piece][moving.group] = now_;
  }
  group.posted.erase(group.posted.begin());
  ++group.first;
  group.running = false;
  Start(moving.scope, moving.group);
  for (const size_t role : group.roles) {
    if (roles_[role].blocked) Go(role);
  }
}

}  // namespace heddle
