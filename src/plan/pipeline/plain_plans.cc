#include "plan/pipeline/plain_plans.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "cost/network_cost.h"
#include "plan/least_memory.h"
#include "plan/order/orders.h"
#include "plan/order/zero_bubble.h"
#include "plan/pipeline/stage_partition.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Fit = CountTuning::Fit;

// Seconds of the whole model for `rows` samples, by device type.
std::vector<double> ModelSeconds(const Planning& planning, int64_t rows) {
  const OpCost cost = planning.cost();
  std::vector<double> seconds;
  for (const DeviceTypeSpec& type : planning.cluster->types()) {
    double sum = 0;
    for (const Op& op : planning.graph.ops()) {
      if (op.phase != Phase::kUpdate) sum += cost.RowsSeconds(op, rows, type).value;
    }
    seconds.push_back(sum);
  }
  return seconds;
}

}  // namespace

// ---- replicas -----------------------------------------------------------------------------------

std::vector<double> EqualShares(const Planning& planning) {
  return std::vector<double>(static_cast<size_t>(planning.cluster->device_count()), 1);
}

std::vector<double> SharesBySpeed(const Planning& planning) {
  const int64_t rows =
      std::max<int64_t>(1, planning.request.batch / planning.cluster->device_count());
  const std::vector<double> seconds = ModelSeconds(planning, rows);
  const double fastest = *std::min_element(seconds.begin(), seconds.end());
  std::vector<double> shares;
  for (const Device& device : planning.cluster->devices()) {
    shares.push_back(fastest / seconds[static_cast<size_t>(device.type)]);
  }
  return shares;
}

Plan ReplicasPlan(const Planning& planning, const std::string& strategy,
                  const std::vector<double>& shares, int64_t microbatches) {
  std::vector<int> everyone(shares.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  Plan plan = planning.Blank(strategy, "accumulate");
  plan.microbatches = microbatches;
  plan.all_reduce = CheapestAllReduce(planning, everyone, plan.bucket);
  StagePlan stage;
  stage.chunks = {{0, planning.chain.size() - 1}};
  for (const Device& device : planning.cluster->devices()) stage.devices.push_back(device.name);
  stage.shares = shares;
  stage.order = OneForwardOneBackward(1, static_cast<int>(microbatches))[0];
  plan.pipelines = {{{std::move(stage)}}};
  return plan;
}

namespace {

// Of all devices with samples, the most of what a device takes for its part of a microbatch.
double SlowestReplica(const Planning& planning, const std::vector<double>& shares,
                      int64_t microbatches,
                      const std::function<double(int type, int64_t rows)>& take) {
  const int64_t rows = planning.request.batch / microbatches;
  const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
  double slowest = 0;
  std::map<std::pair<int, int64_t>, double> seconds;  // by type and rows
  for (size_t d = 0; d < shares.size(); ++d) {
    const auto mine = static_cast<int64_t>(static_cast<double>(rows) * shares[d] / all);
    if (mine == 0) continue;
    const int type = planning.cluster->devices()[d].type;
    const auto [found, is_new] = seconds.try_emplace({type, mine}, 0);
    if (is_new) found->second = take(type, mine);
    slowest = std::max(slowest, found->second);
  }
  return slowest;
}

}  // namespace

double ReplicasBound(const Planning& planning, const std::vector<double>& shares,
                     int64_t microbatches) {
  return static_cast<double>(microbatches) *
         SlowestReplica(planning, shares, microbatches, [&](int type, int64_t rows) {
           return LayerSeconds(planning, rows).Of(type, 0, planning.chain.size() - 1);
         });
}

double ReplicaSumSeconds(const Planning& planning) {
  if (planning.request.sync != GradientSync::kAllReduce) return 0;
  std::vector<DeviceId> group;
  for (int d = 0; d < planning.cluster->device_count(); ++d) group.push_back(DeviceId{d});
  if (group.size() < 2) return 0;
  Bytes bytes;
  for (const Parameter& parameter : planning.graph.parameters()) {
    bytes += planning.graph.tensor(parameter.gradient).bytes();
  }
  const std::vector<Bytes> sizes = {planning.request.compress ? Bytes{bytes.value / 2} : bytes};
  const NetworkCost network(*planning.cluster);
  CollectiveRequest request{CollectiveKind::kAllReduce, group, sizes, CollectiveAlgorithm::kRing,
                            0};
  request.algorithm = network.Cheapest(request);
  return network.Collective(request).seconds.value;
}

double ReplicasBoundWithSums(const Planning& planning, const std::vector<double>& shares,
                             int64_t microbatches, double sums) {
  const OpCost cost = planning.cost();
  const auto before = static_cast<double>(microbatches - 1);
  const int last = planning.chain.size() - 1;
  const auto take = [&](int type, int64_t rows) {
    double forward = 0;
    const DeviceTypeSpec& spec = planning.cluster->types()[static_cast<size_t>(type)];
    for (const ChainLayer& layer : planning.chain.layers) {
      for (const OpId id : layer.forward) {
        forward += cost.RowsSeconds(planning.graph.op(id), rows, spec).value;
      }
    }
    if (before == 0) return forward;
    return before * LayerSeconds(planning, rows).Of(type, 0, last) + forward;
  };
  // Somebody has a sample of every microbatch.
  double sample = kInfinity;
  for (size_t type = 0; type < planning.cluster->types().size(); ++type) {
    sample = std::min(sample, take(static_cast<int>(type), 1));
  }
  const double slowest = SlowestReplica(planning, shares, microbatches, take);
  return std::max(ReplicasBound(planning, shares, microbatches), std::max(sample, slowest) + sums);
}

// ---- stages in the order of the file ------------------------------------------------------------

FileStages FileStagesFor(const Planning& planning, int64_t microbatches, int devices, int rounds) {
  std::vector<int> types;
  for (int k = 0; k < devices * rounds; ++k) {
    types.push_back(planning.cluster->devices()[static_cast<size_t>(k % devices)].type);
  }
  const LayerSeconds seconds(planning, std::max<int64_t>(1, planning.request.batch / microbatches));
  FileStages stages{BalancedRuns(seconds, planning.chain.size(), types), 0};
  std::vector<double> work(static_cast<size_t>(devices), 0);
  std::vector<double> before(static_cast<size_t>(devices), 0);
  double way = 0;
  for (size_t k = 0; k < stages.runs.size(); ++k) {
    const size_t device = k % static_cast<size_t>(devices);
    if (k < static_cast<size_t>(devices)) before[device] = way;
    const double chunk = seconds.Of(types[k], stages.runs[k].first, stages.runs[k].last);
    work[device] += chunk;
    way += chunk;
  }
  for (size_t d = 0; d < work.size(); ++d) {
    stages.bound = std::max(stages.bound, before[d] + static_cast<double>(microbatches) * work[d]);
  }
  return stages;
}

Plan FileStagesPlan(const Planning& planning, const std::string& strategy, const FileStages& stages,
                    const std::vector<WorkOrder>& orders, int64_t microbatches) {
  Plan plan = planning.Blank(strategy, strategy);
  plan.microbatches = microbatches;
  plan.pipelines.emplace_back();
  for (size_t d = 0; d < orders.size(); ++d) {
    StagePlan stage;
    for (size_t k = d; k < stages.runs.size(); k += orders.size()) {
      stage.chunks.push_back(stages.runs[k]);
    }
    stage.devices = {planning.cluster->devices()[d].name};
    stage.shares = {1};
    stage.order = orders[d];
    plan.pipelines[0].stages.push_back(std::move(stage));
  }
  return plan;
}

FileOrder::FileOrder(const LayerTable& table)
    : table_(table), stages_(std::min(table.layers(), table.planning().cluster->device_count())) {
  std::vector<int> file(static_cast<size_t>(table.planning().cluster->device_count()));
  std::iota(file.begin(), file.end(), 0);
  line_ = std::make_shared<DeviceLine>(table, std::vector<std::vector<int>>{std::move(file)});
}

Candidate FileOrder::CandidateFor(int64_t microbatches, bool recompute) const {
  const auto costs = std::make_shared<StageCosts>(table_, line_, microbatches);
  std::vector<int> types = line_->types();
  types.resize(static_cast<size_t>(stages_));
  Partition partition;
  for (const LayerRun& run :
       BalancedRuns(table_.SecondsFor(costs->rows()), table_.layers(), types)) {
    const int at = static_cast<int>(partition.stages.size());
    partition.stages.push_back({run.first, run.last + 1, {at, 1}, recompute});
  }
  return StraightCandidate(costs, partition);
}

// ---- trying them --------------------------------------------------------------------------------

Result<CountTuning::Trial> TryWithRecompute(Best& best, Plan plan) {
  HEDDLE_ASSIGN(Best::Outcome outcome, best.Try(plan));
  Fit fit = Fit::kPlain;
  if (outcome == Best::Outcome::kDoesNotFit) {
    for (PipelinePlan& pipeline : plan.pipelines) {
      for (StagePlan& stage : pipeline.stages) stage.recompute = true;
    }
    HEDDLE_ASSIGN(outcome, best.Try(std::move(plan)));
    fit = outcome == Best::Outcome::kDoesNotFit ? Fit::kNone : Fit::kRecomputed;
  }
  return CountTuning::Trial{fit, outcome == Best::Outcome::kFastest ? best.seconds() : kInfinity};
}

// Without room for a single microbatch in flight by the estimates it has one all the same, for the
// checker to judge.
Result<CountTuning::Trial> TryZbH1(const FileOrder& file, const std::string& strategy,
                                   int64_t microbatches, Best& best) {
  for (const bool recompute : {false, true}) {
    const Candidate candidate = file.CandidateFor(microbatches, recompute);
    if (candidate.bound >= best.seconds()) break;
    PipeShape shape = ShapeOf(candidate, /*split=*/true);
    if (!shape.HasRoom()) {
      if (!recompute) continue;
      const std::vector<double> kept = shape.KeptByStage();
      for (size_t s = 0; s < kept.size(); ++s) {
        shape.limits[s] = std::max(shape.limits[s], kept[s]);
      }
    }
    Plan plan =
        PlanOf(candidate, "zb-h1", ZeroBubbleOrders(shape, "zb-h1", OrderMeasure::kMakespan));
    plan.strategy = strategy;
    HEDDLE_ASSIGN(const Best::Outcome outcome, best.Try(std::move(plan)));
    if (outcome == Best::Outcome::kDoesNotFit) continue;
    return CountTuning::Trial{recompute ? Fit::kRecomputed : Fit::kPlain,
                              outcome == Best::Outcome::kFastest ? best.seconds() : kInfinity};
  }
  return CountTuning::Trial{};
}

// ---- as candidates ------------------------------------------------------------------------------

namespace {

// All numbers of microbatches that tuning may come to: the powers of two, and what lies near them.
std::set<int64_t> ReachableCounts(const Planning& planning, int64_t unit) {
  const std::vector<int64_t> powers = MicrobatchCounts(planning, unit);
  std::set<int64_t> counts(powers.begin(), powers.end());
  for (int round = 0; round < kRefinements; ++round) {
    for (const int64_t count : std::set<int64_t>(counts)) {
      for (const int64_t near : CountsNear(planning, count, round, unit)) counts.insert(near);
    }
  }
  return counts;
}

}  // namespace

Status TryReplicas(const Planning& planning, const std::string& strategy,
                   const std::vector<double>& shares, Best& best) {
  if (planning.request.batch < planning.cluster->device_count()) return Ok();
  if (!EachHoldsModel(planning)) return Ok();
  const double sums = ReplicaSumSeconds(planning);
  std::vector<std::pair<double, int64_t>> counts;  // by bound
  for (const int64_t count : ReachableCounts(planning, 1)) {
    counts.emplace_back(ReplicasBoundWithSums(planning, shares, count, sums), count);
  }
  std::sort(counts.begin(), counts.end());
  for (const auto& [bound, count] : counts) {
    if (planning.deadline.passed() || bound >= best.seconds()) break;
    HEDDLE_RETURN_IF_ERROR(TryWithRecompute(best, ReplicasPlan(planning, strategy, shares, count)));
  }
  return Ok();
}

namespace {

class PlainSearch {
 public:
  PlainSearch(const LayerTable& table, std::string strategy, Best& best)
      : planning_(table.planning()),
        table_(table),
        strategy_(std::move(strategy)),
        best_(best),
        file_(table) {}

  // The least bound first, as long as it is below the best. Replicas are soon simulated; of stages,
  // so many.
  Status Run() {
    AddReplicas();
    AddStages();
    AddInterleaved();
    std::stable_sort(options_.begin(), options_.end(),
                     [](const Option& a, const Option& b) { return a.bound < b.bound; });
    for (const Option& option : options_) {
      if (planning_.deadline.passed() || option.bound >= best_.seconds()) break;
      const bool enough = option.work > 0 && work_ + option.work > kStagesWork;
      if (enough && std::isfinite(best_.seconds())) continue;
      work_ += option.work;
      HEDDLE_RETURN_IF_ERROR(option.attempt());
    }
    return Ok();
  }

 private:
  struct Option {
    double bound;
    int64_t work;  // of stages: microbatches by devices, and the ops that are lowered
    std::function<Status()> attempt;
  };
  static constexpr int64_t kStagesWork = 10'000;

  void Add(double bound, int64_t work, std::function<Status()> attempt) {
    if (bound < best_.seconds()) options_.push_back({bound, work, std::move(attempt)});
  }
  int64_t WorkOf(int64_t microbatches) const {
    return microbatches * file_.stages() + static_cast<int64_t>(planning_.graph.ops().size()) / 4;
  }

  Status Offer(Plan plan) {
    HEDDLE_RETURN_IF_ERROR(TryWithRecompute(best_, std::move(plan)));
    return Ok();
  }

  // No gradient is complete before a device begins with the last microbatch's backward; then all
  // are summed, by one group and so one after the other.
  double ReplicasWithSums(const std::vector<double>& shares, int64_t m, double sums) {
    const int64_t rows = planning_.request.batch / m;
    const double all = std::accumulate(shares.begin(), shares.end(), 0.0);
    // Somebody has a sample of every microbatch.
    double sample = kInfinity;
    for (size_t type = 0; type < planning_.cluster->types().size(); ++type) {
      sample = std::min(sample,
                        table_.TimesFor(1).Of(static_cast<int>(type), 0, table_.layers()).whole());
    }
    double bound = sample * static_cast<double>(m - 1) + std::max(sample, sums);
    if (bound >= best_.seconds()) return bound;
    for (size_t d = 0; d < shares.size(); ++d) {
      const auto mine = static_cast<int64_t>(static_cast<double>(rows) * shares[d] / all);
      if (mine == 0) continue;
      const int type = planning_.cluster->devices()[d].type;
      const LayerTable::Work work = table_.TimesFor(mine).Of(type, 0, table_.layers());
      const double computes = static_cast<double>(m) * work.whole();
      // Of the last microbatch it may have more, for shares are rounded.
      const LayerTable::Work last = table_.TimesFor(mine + 2).Of(type, 0, table_.layers());
      bound = std::max({bound, computes, computes - last.whole() + sums});
    }
    return bound;
  }

  void AddReplicas() {
    if (planning_.request.batch < planning_.cluster->device_count()) return;
    if (!EachHoldsModel(planning_)) return;
    const double sums = ReplicaSumSeconds(planning_);
    const std::vector<double> equal = EqualShares(planning_), by_speed = SharesBySpeed(planning_);
    for (const int64_t m : ReachableCounts(planning_, 1)) {
      for (const std::vector<double>& shares : {by_speed, equal}) {
        Add(ReplicasWithSums(shares, m, sums), /*work=*/0,
            [this, shares, m] { return Offer(ReplicasPlan(planning_, strategy_, shares, m)); });
        if (by_speed == equal) break;
      }
    }
  }

  // The candidate's shape with messages that have the wires to themselves.
  static PipeShape AloneShape(const Candidate& candidate, bool split) {
    PipeShape shape = ShapeOf(candidate, split);
    shape.half_duplex = false;
    for (size_t k = 0; k + 1 < candidate.chunks.size(); ++k) {
      const auto channel = candidate.costs->ChannelBetween(candidate.chunks[k].devices,
                                                           candidate.chunks[k + 1].devices);
      const int end = candidate.chunks[k].end;
      shape.cuts[k] = {candidate.costs->ForwardSeconds(channel, end),
                       candidate.costs->BackwardSeconds(channel, end)};
    }
    return shape;
  }

  // A time that the order cannot beat.
  static double ClockOf(const PipeShape& shape, const std::vector<WorkOrder>& orders) {
    const Result<OrderTimes> times = TimeOrders(shape, orders);
    return times.ok() ? times.value().Of(OrderMeasure::kMakespan) : 0;
  }

  // Before a stage's work lies the way to it.
  static double LeastOf(const PipeShape& shape) {
    double there = 0, least = 0;
    for (size_t k = 0; k < shape.chunks.size(); ++k) {
      const PipeShape::Chunk& chunk = shape.chunks[k];
      least = std::max(least,
                       there + shape.microbatches * (chunk.forward + chunk.input + chunk.weight));
      there += chunk.forward + (k < shape.cuts.size() ? shape.cuts[k].forward : 0);
    }
    return least;
  }

  // Where not all of them will be simulated the powers of two have to do.
  std::set<int64_t> StageCounts(int64_t unit) const {
    std::set<int64_t> all = ReachableCounts(planning_, unit);
    int64_t work = 0;
    for (const int64_t m : all) work += WorkOf(m);
    if (work <= kStagesWork) return all;
    const std::vector<int64_t> powers = MicrobatchCounts(planning_, unit);
    return {powers.begin(), powers.end()};
  }

  void AddStages() {
    const int stages = file_.stages();
    for (const int64_t m : StageCounts(1)) {
      const Candidate candidate = file_.CandidateFor(m, /*recompute=*/false);
      if (candidate.bound >= best_.seconds()) continue;
      const PipeShape shape = AloneShape(candidate, /*split=*/false);
      const double least = Least(m) * LeastOf(shape);
      if (least >= best_.seconds()) continue;
      const auto count = static_cast<int>(m);
      for (const auto& [name, make] :
           {std::pair("gpipe", &GpipeOrders), std::pair("1f1b", &OneForwardOneBackward)}) {
        const std::vector<WorkOrder> orders = make(stages, count);
        Add(Least(m) * ClockOf(shape, orders), WorkOf(m), [this, orders, m, name] {
          Plan plan = FileStagesPlan(planning_, strategy_,
                                     FileStagesFor(planning_, m, file_.stages(), 1), orders, m);
          plan.order_name = name;
          return Offer(std::move(plan));
        });
      }
      Add(least, WorkOf(m), [this, m]() -> Status {
        HEDDLE_RETURN_IF_ERROR(TryZbH1(file_, strategy_, m, best_));
        return Ok();
      });
    }
  }

  // Candidates count all microbatches as long as the longest.
  double Least(int64_t m) const {
    const double rows =
        std::ceil(static_cast<double>(planning_.request.batch) / static_cast<double>(m));
    return static_cast<double>(planning_.request.batch / m) / rows;
  }

  void AddInterleaved() {
    constexpr int kChunks = 2;
    const int stages = std::min(table_.layers() / kChunks, planning_.cluster->device_count());
    if (stages < 1) return;
    for (const int64_t m : StageCounts(stages)) {
      const FileStages runs = FileStagesFor(planning_, m, stages, kChunks);
      Add(runs.bound, WorkOf(m), [this, runs, stages, m] {
        Plan plan = FileStagesPlan(planning_, strategy_, runs,
                                   InterleavedOrders(stages, kChunks, static_cast<int>(m)), m);
        plan.order_name = "interleaved";
        return Offer(std::move(plan));
      });
    }
  }

  const Planning& planning_;
  const LayerTable& table_;
  std::string strategy_;
  Best& best_;
  FileOrder file_;
  std::vector<Option> options_;
  int64_t work_ = 0;  // of stages, simulated
};

}  // namespace

Status TryPlainPlans(const LayerTable& table, const std::string& strategy, Best& best) {
  return PlainSearch(table, strategy, best).Run();
}

}  // namespace heddle
