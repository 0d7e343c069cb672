#include "plan/spmd/exchange_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cost/comm_phases.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kReference = 1 << 30;  // bytes at which slopes are measured

constexpr std::array kAlgorithms = {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree,
                                    CollectiveAlgorithm::kHierarchical,
                                    CollectiveAlgorithm::kGrouped};

Bytes AtReference(double share) { return {std::llround(share * kReference)}; }

}  // namespace

ExchangeCost::ExchangeCost(const Cluster& cluster, const SpmdMesh& mesh)
    : network_(cluster), mesh_(mesh) {
  const size_t width = mesh.places(1);
  auto& [columns, rows, all] = groups_;
  columns.resize(width);
  rows.resize(mesh.places(0));
  all.resize(1);
  for (size_t number = 0; number < mesh.size(); ++number) {
    columns[number % width].push_back(number);
    rows[number / width].push_back(number);
    all[0].push_back(number);
  }
}

int ExchangeCost::Intern(std::vector<double> shares) {
  const auto [found, fresh] = ids_.emplace(std::move(shares), static_cast<int>(shares_.size()));
  if (fresh) shares_.push_back(&found->first);
  return found->second;
}

std::vector<Bytes> ExchangeCost::SizesOf(CollectiveKind kind, const Ranks& group, int from,
                                         int to) const {
  const std::vector<double>& before = shares(from);
  const std::vector<double>& after = shares(to);
  std::vector<Bytes> sizes;
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
      sizes.push_back(AtReference(before[group[0]]));
      break;
    case CollectiveKind::kAllGather:
      for (const size_t rank : group) sizes.push_back(AtReference(before[rank]));
      break;
    case CollectiveKind::kReduceScatter:
      for (const size_t rank : group) sizes.push_back(AtReference(after[rank]));
      break;
    case CollectiveKind::kAllToAll: {
      double whole = 0;
      for (const size_t rank : group) whole += before[rank];
      for (const size_t i : group) {
        for (const size_t j : group) {
          sizes.push_back(AtReference(whole > 0 ? before[i] * after[j] / whole : 0));
        }
      }
      break;
    }
  }
  return sizes;
}

// What devices that move messages themselves spend on them, in seconds per byte of the tensor.
double ExchangeCost::OwnSlope(CollectiveKind kind, const std::vector<Ranks>& groups, int from,
                              int to) const {
  double slope = 0;
  for (const Ranks& group : groups) {
    double whole = 0;
    for (const Bytes size : SizesOf(kind, group, from, to)) {
      whole += static_cast<double>(size.value) / kReference;
    }
    const double moved = BytesMoved(kind, group.size(), whole);
    for (const size_t rank : group) {
      const DeviceTypeSpec& type = network_.cluster().type_of(mesh_.device(rank));
      slope = std::max(slope, type.MessageSeconds(moved).value);
    }
  }
  return slope;
}

std::vector<ExchangeCost::Line> ExchangeCost::LinesOf(CollectiveKind kind, Scope scope, int from,
                                                      int to) const {
  const std::vector<Ranks>& groups = groups_[static_cast<size_t>(scope)];
  std::vector<Line> lines;
  if (groups[0].size() == 1) return {{CollectiveAlgorithm::kRing, 0, 0, {}}};
  const double own = OwnSlope(kind, groups, from, to);
  std::vector<DeviceId> members;
  for (const CollectiveAlgorithm algorithm : kAlgorithms) {
    CommCost together;
    Least least{kInfinity, kInfinity, {}};
    WireLoads loads;
    bool supported = true;
    for (const Ranks& group : groups) {
      members.clear();
      for (const size_t rank : group) members.push_back(mesh_.device(rank));
      const std::vector<Bytes> sizes = SizesOf(kind, group, from, to);
      const CollectiveRequest request{kind, members, sizes, algorithm};
      supported = supported && network_.Supports(request);
      if (!supported) break;
      const CommCost alone = network_.Collective(request);
      together.latency = std::max(together.latency, alone.latency);
      together.seconds = std::max(together.seconds, alone.seconds);
      const double work = (alone.seconds - alone.latency).value / kReference;
      least.latency = std::min(least.latency, alone.latency.value);
      least.slope = std::min(least.slope, work);
      loads.Add(alone.loads, 1);
    }
    if (!supported) continue;
    const Seconds busiest = loads.Longest(network_.cluster());
    const Seconds seconds = std::max(together.seconds, together.latency + busiest);
    for (const WireLoad& load : loads.Merged()) {
      const Wire& wire = network_.cluster().wires()[static_cast<size_t>(load.wire.value)];
      least.wires.emplace_back(load.wire, load.bytes / wire.bandwidth.value / kReference);
    }
    lines.push_back({algorithm, together.latency.value,
                     (seconds - together.latency).value / kReference + own, std::move(least)});
  }
  return lines;
}

const std::vector<ExchangeCost::Line>& ExchangeCost::KnownLines(CollectiveKind kind, Scope scope,
                                                                int from, int to) {
  const auto [found, fresh] = lines_.try_emplace({kind, scope, from, to});
  if (fresh) found->second = LinesOf(kind, scope, from, to);
  return found->second;
}

ExchangeCost::Choice ExchangeCost::Of(CollectiveKind kind, Scope scope, int from, int to,
                                      double bytes) {
  Choice best{kInfinity, CollectiveAlgorithm::kRing};
  for (const Line& line : KnownLines(kind, scope, from, to)) {
    const double seconds = line.latency + line.slope * bytes;
    if (seconds < best.seconds) best = {seconds, line.algorithm};
  }
  return best;
}

const ExchangeCost::Least& ExchangeCost::LeastOf(CollectiveKind kind, Scope scope, int from, int to,
                                                 CollectiveAlgorithm algorithm) {
  static const Least kNothing;
  for (const Line& line : KnownLines(kind, scope, from, to)) {
    if (line.algorithm == algorithm) return line.least;
  }
  return kNothing;
}

ExchangeCost::Together ExchangeCost::TogetherOf(CollectiveKind kind, Scope scope, int from, int to,
                                                CollectiveAlgorithm algorithm) {
  for (const Line& line : KnownLines(kind, scope, from, to)) {
    if (line.algorithm == algorithm) return {line.latency, line.slope};
  }
  return {};
}

const std::vector<ExchangeCost::GroupFlow>& ExchangeCost::FlowsOf(CollectiveKind kind, Scope scope,
                                                                  int from, int to,
                                                                  CollectiveAlgorithm algorithm) {
  const auto [found, fresh] = flows_.try_emplace({kind, scope, from, to, algorithm});
  if (!fresh) return found->second;
  std::vector<DeviceId> members;
  for (const Ranks& group : groups(scope)) {
    members.clear();
    for (const size_t rank : group) members.push_back(mesh_.device(rank));
    const std::vector<Bytes> sizes = SizesOf(kind, group, from, to);
    CommCost alone = network_.Collective({kind, members, sizes, algorithm});
    for (WireLoad& load : alone.loads) load.bytes /= kReference;
    found->second.push_back({alone.latency.value,
                             (alone.seconds - alone.latency).value / kReference,
                             std::move(alone.loads)});
  }
  return found->second;
}

}  // namespace heddle
