#include "plan/pipeline/side_by_side.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "plan/gradient_sums.h"
#include "plan/microbatch_counts.h"
#include "plan/order/best_order.h"
#include "plan/pipeline/candidate.h"
#include "plan/pipeline/device_order.h"
#include "program/plan/row_shares.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

using Group = std::vector<int>;       // devices, in an order
using Grouping = std::vector<Group>;  // of all devices

// Each device to the group that `key` names, in the given order.
template <class Key>
Grouping GroupedBy(const std::vector<int>& order, const Key& key) {
  std::map<int, Group> groups;
  for (size_t k = 0; k < order.size(); ++k) groups[key(k)].push_back(order[k]);
  Grouping grouping;
  for (auto& [unused, group] : groups) grouping.push_back(std::move(group));
  return grouping;
}

// By node, by type, in runs of equal length, and every so-many-th; without repetition.
std::vector<Grouping> Groupings(const Cluster& cluster, const std::vector<int>& order) {
  constexpr int kMost = 8;  // groups
  const auto device = [&](size_t k) -> const Device& { return cluster.device(DeviceId{order[k]}); };
  std::vector<Grouping> all = {GroupedBy(order, [&](size_t k) { return device(k).node; }),
                               GroupedBy(order, [&](size_t k) { return device(k).type; })};
  const auto devices = static_cast<int>(order.size());
  std::vector<int> sorted(order.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::stable_sort(sorted.begin(), sorted.end(), [&](int a, int b) {
    return cluster.device(DeviceId{a}).type < cluster.device(DeviceId{b}).type;
  });
  for (int count = 2; count <= std::min(kMost, devices); ++count) {
    all.push_back(
        GroupedBy(order, [&](size_t k) { return static_cast<int>(k) * count / devices; }));
    all.push_back(GroupedBy(sorted, [&](size_t k) { return static_cast<int>(k) % count; }));
  }
  std::set<std::set<std::set<int>>> seen;
  std::erase_if(all, [&](const Grouping& grouping) {
    const bool few = grouping.size() < 2 || grouping.size() > kMost;
    std::set<std::set<int>> plain;
    for (const Group& group : grouping) plain.insert({group.begin(), group.end()});
    return few || !seen.insert(std::move(plain)).second;
  });
  return all;
}

class SideBySide {
 public:
  SideBySide(const LayerTable& table, std::string strategy, Best& best)
      : planning_(table.planning()),
        table_(table),
        strategy_(std::move(strategy)),
        best_(best),
        sums_(planning_) {}

  Status Run() {
    const int devices = planning_.cluster->device_count();
    if (devices < 3 || devices > kMostDevices) return Ok();
    const std::vector<Grouping> groupings = Groupings(*planning_.cluster, Order());
    for (const Grouping& grouping : groupings) {
      if (LeastSeconds(grouping) >= best_.seconds()) continue;
      for (const int64_t count : Counts(std::ssize(grouping))) Propose(grouping, count);
    }
    HEDDLE_RETURN_IF_ERROR(Simulate());
    for (int round = 0; round < kRefinements && reached_; ++round) {
      const Grouping grouping = reached_->grouping;
      for (const int64_t count : CountsNear(planning_, reached_->microbatches, round)) {
        if (count >= std::ssize(grouping)) Propose(grouping, count);
      }
      HEDDLE_RETURN_IF_ERROR(Simulate());
    }
    return Ok();
  }

 private:
  // A pipeline for each group.
  struct Proposal {
    Grouping grouping;
    int64_t microbatches = 0;
    std::vector<Candidate> pipelines;
    std::vector<std::vector<int32_t>> dealt;  // microbatches of each
    double estimate = 0;
    double bound = 0;
  };

  std::vector<int> Order() const {
    std::vector<double> speed;
    for (const Device& device : planning_.cluster->devices()) {
      speed.push_back(table_.SpeedOf(device.type));
    }
    return DeviceOrders(*planning_.cluster, speed)[0];
  }

  // More than a few for each device only make messages smaller, unless memory wants them.
  std::vector<int64_t> Counts(int64_t groups) const {
    constexpr int64_t kEach = 16;
    std::vector<int64_t> counts = MicrobatchCounts(planning_);
    const int64_t most = std::max(kEach * planning_.cluster->device_count(), best_.microbatches());
    std::erase_if(counts, [&](int64_t count) {
      return count < groups || (count > most && !planning_.request.microbatches);
    });
    return counts;
  }

  double SpeedOf(const Group& group) const {
    double speed = 0;
    for (const int device : group) {
      speed += table_.SpeedOf(planning_.cluster->device(DeviceId{device}).type);
    }
    return speed;
  }

  // Of sums between the groups, if one device of each had all gradients.
  double SumSeconds(const Grouping& grouping) {
    if (planning_.request.sync != GradientSync::kAllReduce) return 0;
    std::vector<DeviceId> ends;
    for (const Group& group : grouping) ends.push_back(DeviceId{group[0]});
    std::sort(ends.begin(), ends.end());
    const CommCost& cost = sums_.OfBucket(ends, sums_.Choose({{ends, 1}}));
    double bytes = table_.ParameterBytes(0, table_.layers());
    if (planning_.request.compress) bytes /= 2;
    return (cost.seconds - cost.latency).value * bytes / static_cast<double>(Plan{}.bucket.value);
  }

  // No gap anywhere, and sums that wait for nobody but overlap with nothing of the last backward.
  double LeastSeconds(const Grouping& grouping) {
    double speed = 0;
    for (const Group& group : grouping) speed += SpeedOf(group);
    return std::max(static_cast<double>(planning_.request.batch) / speed, SumSeconds(grouping));
  }

  PartitionOptions OptionsFor(const Group& group) const {
    PartitionOptions options;
    options.most_cuts = 24;
    options.limit = best_.seconds();
    constexpr size_t kAny = 8;
    if (group.size() <= kAny) return options;
    for (int count = 1; count <= static_cast<int>(group.size()); count *= 2) {
      options.counts.push_back(count);
    }
    options.counts.push_back(static_cast<int>(group.size()));
    return options;
  }

  // A partition of a group, and whether its stages take the devices backwards.
  struct Cut {
    Partition partition;
    bool reversed = false;
  };

  std::shared_ptr<const StageCosts> CostsOf(const Group& group, bool reversed, int64_t mine,
                                            int64_t all) {
    Group order = group;
    if (reversed) std::reverse(order.begin(), order.end());
    return std::make_shared<StageCosts>(table_, LineOf(order), mine, 1.0, all);
  }

  std::optional<Cut> BestCut(const Group& group, int64_t mine, int64_t all) {
    std::optional<Cut> best;
    double least = kInfinity;
    for (const bool reversed : {false, true}) {
      const auto costs = CostsOf(group, reversed, mine, all);
      for (const auto& partitions : FindPartitions(*costs, OptionsFor(group))) {
        for (const Partition& partition : partitions) {
          const double estimate = StraightCandidate(costs, partition).estimate;
          if (estimate >= least) continue;
          least = estimate;
          best = Cut{partition, reversed};
        }
      }
      if (group.size() == 1) break;
    }
    return best;
  }

  // The best partition of the group for so many of all microbatches; nothing where none fits. It
  // is the same for groups that are alike.
  const std::optional<Candidate>& PipelineFor(const Group& group, int64_t mine, int64_t all) {
    const auto [known, is_new] = known_.try_emplace({group, mine, all});
    if (!is_new) return known->second;
    const auto [cut, cut_is_new] = cuts_.try_emplace({KindOf(group), mine, all});
    if (cut_is_new) cut->second = BestCut(group, mine, all);
    if (cut->second) {
      const auto& [partition, reversed] = *cut->second;
      known->second = StraightCandidate(CostsOf(group, reversed, mine, all), partition);
    }
    return known->second;
  }

  // Groups of a kind have the same types of devices, in the same order, and the same routes between
  // them, over wires that are shared in the same way.
  int KindOf(const Group& group) {
    std::vector<double> look;
    std::map<WireId, double> wires;  // by number in the order of their first use
    for (const int a : group) {
      look.push_back(planning_.cluster->device(DeviceId{a}).type);
      for (const int b : group) {
        if (a == b) continue;
        const Route& route = planning_.cluster->RouteBetween(DeviceId{a}, DeviceId{b});
        look.insert(look.end(), {route.latency.value, route.bandwidth.value});
        for (const WireId wire : route.wires) {
          const auto number = static_cast<double>(wires.size());
          look.push_back(wires.try_emplace(wire, number).first->second);
          const auto w = static_cast<size_t>(wire.value);
          look.push_back(planning_.cluster->wires()[w].bandwidth.value);
        }
      }
    }
    return kinds_.try_emplace(std::move(look), static_cast<int>(kinds_.size())).first->second;
  }

  std::shared_ptr<const DeviceLine> LineOf(const Group& order) {
    auto& line = lines_[order];
    if (!line) line = std::make_shared<DeviceLine>(table_, std::vector<Group>{order});
    return line;
  }

  // To whoever is done with it first; `seconds` of one microbatch by group, `fill` besides.
  static std::vector<std::vector<int32_t>> Deal(int64_t count, const std::vector<double>& seconds,
                                                const std::vector<double>& fill) {
    std::vector<std::vector<int32_t>> dealt(seconds.size());
    for (int32_t m = 0; m < count; ++m) {
      size_t first = 0;
      double soonest = kInfinity;
      for (size_t g = 0; g < seconds.size(); ++g) {
        const double end = static_cast<double>(dealt[g].size() + 1) * seconds[g] + fill[g];
        if (end < soonest * (1 - 1e-12)) {
          soonest = end;
          first = g;
        }
      }
      dealt[first].push_back(m);
    }
    return dealt;
  }

  // By speed first, then by what their partitions take.
  void Propose(const Grouping& grouping, int64_t count) {
    if (planning_.deadline.passed()) return;
    std::vector<double> seconds, fill(grouping.size(), 0);
    for (const Group& group : grouping) seconds.push_back(1 / SpeedOf(group));
    Proposal proposal{grouping, count, {}, {}, 0, 0};
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<int32_t>> dealt = Deal(count, seconds, fill);
      if (dealt == proposal.dealt) break;
      proposal.dealt = std::move(dealt);
      proposal.pipelines.clear();
      for (size_t g = 0; g < grouping.size(); ++g) {
        const auto mine = std::ssize(proposal.dealt[g]);
        if (mine == 0) return;
        const std::optional<Candidate>& pipeline = PipelineFor(grouping[g], mine, count);
        if (!pipeline) return;
        proposal.pipelines.push_back(*pipeline);
        seconds[g] = pipeline->bound / static_cast<double>(mine);
        fill[g] = pipeline->estimate - pipeline->bound;
      }
    }
    for (const Candidate& pipeline : proposal.pipelines) {
      proposal.bound = std::max(proposal.bound, pipeline.bound);
      proposal.estimate = std::max(proposal.estimate, pipeline.estimate);
    }
    const bool alike = !seen_.emplace(proposal.dealt, grouping).second;
    if (alike || proposal.bound >= best_.seconds()) return;
    proposal.bound = std::max(proposal.bound, BusiestWire(proposal));
    if (proposal.bound >= best_.seconds()) return;
    proposal.estimate += SumSeconds(grouping);
    proposals_.push_back(std::move(proposal));
  }

  // Who sums what, and how.
  struct Gradients {
    GradientBytes groups;
    CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  };
  Gradients GradientsOf(const Proposal& proposal) {
    std::vector<std::vector<DeviceId>> holders(static_cast<size_t>(table_.layers()));
    for (const Candidate& pipeline : proposal.pipelines) {
      for (const PartitionStage& chunk : pipeline.chunks) {
        const std::vector<DeviceId> devices = pipeline.costs->line().DevicesOf({chunk.devices});
        for (int l = chunk.first; l < chunk.end; ++l) {
          std::vector<DeviceId>& all = holders[static_cast<size_t>(l)];
          all.insert(all.end(), devices.begin(), devices.end());
        }
      }
    }
    Gradients gradients{GradientGroups(planning_, holders), {}};
    gradients.algorithm = sums_.Choose(gradients.groups);
    return gradients;
  }

  // Seconds in which the wire that has most to carry does so: messages of all microbatches and
  // sums of gradients, of all pipelines.
  double BusiestWire(const Proposal& proposal) {
    if (planning_.request.links == LinkModel::kChannels) return 0;
    const Gradients gradients = GradientsOf(proposal);
    const std::vector<Wire>& wires = planning_.cluster->wires();
    std::vector<double> seconds(wires.size(), 0);
    const std::vector<int64_t> rows =
        MicrobatchRows(planning_.request.batch, proposal.microbatches);
    for (size_t g = 0; g < proposal.pipelines.size(); ++g) {
      const Candidate& pipeline = proposal.pipelines[g];
      const StageCosts& costs = *pipeline.costs;
      double samples = 0;
      for (const int32_t m : proposal.dealt[g]) {
        samples += static_cast<double>(rows[static_cast<size_t>(m)]);
      }
      const std::vector<PartitionStage>& chunks = pipeline.chunks;
      for (size_t k = 1; k < chunks.size(); ++k) {
        const PartitionStage &from = chunks[k - 1], &to = chunks[k];
        const ChannelWires channel = costs.line().WiresBetween(
            from.devices, costs.RowsOf(from.first, from.end, from.devices), to.devices,
            costs.RowsOf(to.first, to.end, to.devices));
        const auto put = [&](const std::vector<WireSeconds>& loads, double bytes) {
          for (const WireSeconds& load : loads) {
            seconds[static_cast<size_t>(load.wire.value)] += load.per_byte * bytes * samples;
          }
        };
        put(channel.forward, table_.ForwardBytes(to.first));
        put(channel.backward, table_.BackwardBytes(to.first));
      }
    }
    const bool summed = planning_.request.sync == GradientSync::kAllReduce;
    for (const auto& [group, bytes] : summed ? gradients.groups : GradientBytes{}) {
      const double buckets = bytes / static_cast<double>(Plan{}.bucket.value);
      for (const WireLoad& load : sums_.OfBucket(group, gradients.algorithm).loads) {
        const auto w = static_cast<size_t>(load.wire.value);
        seconds[w] += buckets * load.bytes / wires[w].bandwidth.value;
      }
    }
    return *std::max_element(seconds.begin(), seconds.end());
  }

  Result<std::vector<Plan>> PlansOf(const Proposal& proposal) {
    OrderOptions options;
    options.search_items = 0;
    options.thorough = false;
    options.bound = false;
    std::vector<Plan> plans;
    for (const bool split : {true, false}) {
      Plan plan = table_.blank();
      plan.strategy = strategy_;
      plan.microbatches = proposal.microbatches;
      std::set<std::string> names;
      std::vector<std::vector<DeviceId>> holders(static_cast<size_t>(table_.layers()));
      for (size_t g = 0; g < proposal.pipelines.size(); ++g) {
        const Candidate& candidate = proposal.pipelines[g];
        Result<OrderChoice> choice =
            BestOrder(ShapeOf(candidate, split && candidate.stages > 1), options);
        if (!choice.ok()) break;
        const OrderChoice::Best& order = choice.value().best;
        if (candidate.stages > 1) names.insert(order.name);
        PipelinePlan pipeline = PlanOf(candidate, order.name, order.orders).pipelines[0];
        for (StagePlan& stage : pipeline.stages) {
          for (WorkItem& item : stage.order) {
            item.microbatch = proposal.dealt[g][static_cast<size_t>(item.microbatch)];
          }
          for (int l = stage.chunks[0].first; l <= stage.chunks[0].last; ++l) {
            for (const std::string& device : stage.devices) {
              holders[static_cast<size_t>(l)].push_back(*planning_.cluster->FindDevice(device));
            }
          }
        }
        plan.pipelines.push_back(std::move(pipeline));
      }
      if (plan.pipelines.size() < proposal.pipelines.size()) continue;
      plan.order_name = names.size() == 1 ? *names.begin() : names.empty() ? "accumulate" : "mixed";
      plan.all_reduce = sums_.Choose(GradientGroups(planning_, holders));
      plans.push_back(std::move(plan));
      if (names.empty()) break;  // nothing to split
    }
    return plans;
  }

  // The best estimates, as long as they are near the best.
  Status Simulate() {
    std::vector<Proposal> proposals = std::exchange(proposals_, {});
    std::stable_sort(proposals.begin(), proposals.end(),
                     [](const Proposal& a, const Proposal& b) { return a.estimate < b.estimate; });
    size_t tried = 0;
    for (const Proposal& proposal : proposals) {
      if (planning_.deadline.passed() || tried++ == kSimulated) break;
      if (proposal.estimate >= kNear * best_.seconds()) break;
      if (proposal.bound >= best_.seconds()) continue;
      HEDDLE_ASSIGN(std::vector<Plan> plans, PlansOf(proposal));
      if (plans.empty()) continue;
      const double before = best_.seconds();
      HEDDLE_RETURN_IF_ERROR(best_.TryAll(std::move(plans)));
      if (best_.seconds() < before) reached_ = proposal;
    }
    return Ok();
  }

  static constexpr int kMostDevices = 64;
  static constexpr size_t kSimulated = 6;
  static constexpr double kNear = 1.1;

  const Planning& planning_;
  const LayerTable& table_;
  std::string strategy_;
  Best& best_;
  GradientSums sums_;
  std::map<Group, std::shared_ptr<const DeviceLine>> lines_;
  std::map<std::vector<double>, int> kinds_;
  std::map<std::tuple<int, int64_t, int64_t>, std::optional<Cut>> cuts_;  // by kind
  std::map<std::tuple<Group, int64_t, int64_t>, std::optional<Candidate>> known_;
  std::set<std::pair<std::vector<std::vector<int32_t>>, Grouping>> seen_;
  std::vector<Proposal> proposals_;
  std::optional<Proposal> reached_;  // the fastest's, if it is one of these
};

}  // namespace

Status TrySideBySide(const LayerTable& table, const std::string& strategy, Best& best) {
  return SideBySide(table, strategy, best).Run();
}

}  // namespace heddle
