#include "plan/pipeline/candidate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/pipeline/contention.h"
#include "plan/pipeline/stage_partition.h"

namespace heddle {
namespace {

LayerTable::Work WorkOfChunk(const Candidate& c, const PartitionStage& chunk) {
  LayerTable::Work work = c.costs->WholeRowsWork(chunk.first, chunk.end, chunk.devices);
  if (chunk.recompute) work.input += work.forward;
  return work;
}

// Of weights that several stages hold: their sum goes over all of them, after the last.
struct TiedSum {
  std::vector<size_t> chunks;  // one of each stage
  double seconds;
};

std::vector<TiedSum> TiedSums(const Candidate& c) {
  std::vector<TiedSum> sums;
  for (const LayerTable::Tied& tied : c.costs->table().tied()) {
    TiedSum sum{{}, 0};
    std::vector<DeviceRange> ranges;
    for (size_t k = 0; k < c.chunks.size(); ++k) {
      const PartitionStage& chunk = c.chunks[k];
      const bool holds = std::any_of(tied.layers.begin(), tied.layers.end(),
                                     [&](int l) { return l >= chunk.first && l < chunk.end; });
      if (!holds || std::find(ranges.begin(), ranges.end(), chunk.devices) != ranges.end())
        continue;
      sum.chunks.push_back(k);
      ranges.push_back(chunk.devices);
    }
    if (ranges.size() < 2) continue;
    const StageCosts::Line line = c.costs->AllReduceOver(ranges);
    sum.seconds = line.fixed + line.per_byte * tied.bytes;
    sums.push_back(std::move(sum));
  }
  return sums;
}

// The first layer of the bucket of gradients that ends before layer `end`: backward completes those
// of the last layer first, and a bucket is closed once it is long enough.
int BucketBegin(const LayerTable& table, int first, int end) {
  constexpr double kBucket = 25 << 20;
  int least = first, most = end - 1;
  while (least < most) {
    const int middle = (least + most + 1) / 2;
    if (table.ParameterBytes(middle, end) >= kBucket) {
      least = middle;
    } else {
      most = middle - 1;
    }
  }
  return least;
}

// Of a stage whose last backward ends at `end`: a bucket can go as soon as backward has passed its
// layers, one after the other.
StageSum SumAfter(const Candidate& c, size_t k, double end) {
  const PartitionStage& chunk = c.chunks[k];
  const LayerTable& table = c.costs->table();
  const StageCosts::Line line = c.costs->AllReduceOver(chunk.devices);
  const bool sums = line.per_byte > 0 && table.ParameterBytes(chunk.first, chunk.end) > 0;
  if (!sums) return {static_cast<int>(k), end, end};
  StageSum sum{static_cast<int>(k), end, 0};
  for (int bucket_end = chunk.end; bucket_end > chunk.first;) {
    const int begin = BucketBegin(table, chunk.first, bucket_end);
    double ready = end;
    if (begin > chunk.first) {
      const LayerTable::Work left = c.costs->WorkOf(chunk.first, begin, chunk.devices);
      ready -= left.input + left.weight;
    }
    sum.start = std::min(sum.start, ready);
    const double bytes = table.ParameterBytes(begin, bucket_end);
    if (bytes > 0) sum.end = std::max(sum.end, ready) + line.fixed + line.per_byte * bytes;
    bucket_end = begin;
  }
  sum.end = std::max(sum.end, end);
  return sum;
}

// When the last stage's work ends, if none has a gap once it has begun. `stages`: seconds of each
// for a microbatch.
double EndWithoutGaps(const Candidate& c, const std::vector<double>& stages, double period) {
  const auto microbatches = static_cast<double>(c.costs->microbatches());
  double there = 0, last = microbatches * period;
  std::vector<bool> seen(stages.size(), false);
  for (size_t k = 0; k < c.chunks.size(); ++k) {
    const auto stage = static_cast<size_t>(c.stage_of[k]);
    // Its first run has the least before it.
    if (!seen[stage]) last = std::max(last, there + microbatches * stages[stage]);
    seen[stage] = true;
    there += WorkOfChunk(c, c.chunks[k]).forward;
    if (k < c.cuts.size()) there += c.cuts[k].forward;
  }
  return last;
}

// Machines are stages and wires, each with its seconds for one microbatch.
void FillEstimates(Candidate& c) {
  const auto microbatches = static_cast<double>(c.costs->microbatches());
  std::vector<double> stages(static_cast<size_t>(c.stages), 0);
  double way = 0;
  for (size_t k = 0; k < c.chunks.size(); ++k) {
    const double seconds = WorkOfChunk(c, c.chunks[k]).whole();
    stages[static_cast<size_t>(c.stage_of[k])] += seconds;
    way += seconds;
  }
  const Contention contention(*c.costs, c.chunks, c.stage_of,
                              *std::max_element(stages.begin(), stages.end()));
  c.cuts = contention.cuts();
  for (const PipeShape::Cut& cut : c.cuts) way += cut.forward + cut.backward;
  c.bound = microbatches * contention.period();
  const double ends = (microbatches - 1) * contention.period() + way;
  c.estimate = AfterOrder(c, std::vector<double>(static_cast<size_t>(c.stages), ends));
  c.floor = c.estimate - ends + EndWithoutGaps(c, stages, contention.period());
}

// Those of a chunk that have samples; the others are left out of the plan.
std::vector<DeviceId> WorkersOf(const Candidate& c, const PartitionStage& chunk) {
  const std::vector<int64_t> rows = c.costs->RowsOf(chunk.first, chunk.end, chunk.devices);
  std::vector<DeviceId> workers;
  for (const std::vector<int>& file : c.costs->line().files()) {
    for (int d = chunk.devices.at; d < chunk.devices.end(); ++d) {
      if (rows[static_cast<size_t>(d - chunk.devices.at)] == 0) continue;
      workers.push_back(DeviceId{file[static_cast<size_t>(d)]});
    }
  }
  return workers;
}

// The cheapest that all replicated stages can do.
CollectiveAlgorithm AllReduceFor(const Candidate& c, Bytes bytes) {
  const NetworkCost network(*c.costs->table().planning().cluster);
  const std::vector<Bytes> sizes = {bytes};
  CollectiveAlgorithm best = CollectiveAlgorithm::kRing;
  double least = 1e300;
  for (const auto algorithm : {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree,
                               CollectiveAlgorithm::kHierarchical}) {
    double sum = 0;
    for (const PartitionStage& chunk : c.chunks) {
      const std::vector<DeviceId> group = WorkersOf(c, chunk);
      if (group.size() == 1) continue;
      const CollectiveRequest request{CollectiveKind::kAllReduce, group, sizes, algorithm, 0};
      sum += network.Supports(request) ? network.Collective(request).seconds.value : 1e300;
    }
    if (sum >= least) continue;
    least = sum;
    best = algorithm;
  }
  return best;
}

}  // namespace

Candidate StraightCandidate(std::shared_ptr<const StageCosts> costs, const Partition& partition) {
  Candidate c;
  c.costs = std::move(costs);
  c.chunks = partition.stages;
  c.stages = static_cast<int>(partition.stages.size());
  for (int s = 0; s < c.stages; ++s) c.stage_of.push_back(s);
  FillEstimates(c);
  return c;
}

Candidate TwoRunCandidate(std::shared_ptr<const StageCosts> costs, int devices, TwoRuns shape) {
  Candidate c;
  c.costs = std::move(costs);
  c.stages = devices;
  for (int k = 0; k < 2 * devices; ++k) {
    const bool returns = k >= devices && shape == TwoRuns::kVShaped;
    c.stage_of.push_back(returns ? 2 * devices - 1 - k : k % devices);
  }
  const Planning& planning = c.costs->table().planning();
  std::vector<int> types;
  for (const int stage : c.stage_of) {
    const int device = c.costs->order()[static_cast<size_t>(stage)];
    types.push_back(planning.cluster->devices()[static_cast<size_t>(device)].type);
  }
  const LayerSeconds& seconds = c.costs->table().SecondsFor(c.costs->rows());
  const std::vector<LayerRun> runs = BalancedRuns(seconds, planning.chain.size(), types);
  for (size_t k = 0; k < runs.size(); ++k) {
    c.chunks.push_back({runs[k].first, runs[k].last + 1, {c.stage_of[k], 1}, false});
  }
  FillEstimates(c);
  return c;
}

PipeShape ShapeOf(const Candidate& c, bool split) {
  PipeShape shape;
  shape.stages = c.stages;
  shape.microbatches = static_cast<int>(c.costs->microbatches());
  shape.split = split;
  const LayerTable& table = c.costs->table();
  const Cluster& cluster = *table.planning().cluster;
  shape.limits.assign(static_cast<size_t>(c.stages), 1e300);
  std::vector<double> fixed(static_cast<size_t>(c.stages), 0), extra = fixed;
  for (size_t k = 0; k < c.chunks.size(); ++k) {
    const PartitionStage& chunk = c.chunks[k];
    const auto stage = static_cast<size_t>(c.stage_of[k]);
    const LayerTable::Work work = WorkOfChunk(c, chunk);
    const LayerTable::Memory memory = table.MemoryOf(chunk.first, chunk.end);
    const std::vector<int64_t> parts = c.costs->RowsOf(chunk.first, chunk.end, chunk.devices);
    const auto rows = static_cast<double>(*std::max_element(parts.begin(), parts.end()));
    const double for_weight = split ? memory.for_weight * rows : 0;
    const double forward_kept = (chunk.recompute ? memory.input : memory.in_flight) * rows;
    // The weight part reads activations and the gradients that the input part made: together they
    // may be more than what the forward left.
    const double kept = std::max(forward_kept, for_weight);
    shape.chunks.push_back(
        {c.stage_of[k], work.forward, work.input, work.weight, kept, for_weight});
    fixed[stage] += memory.fixed;
    const double at_work =
        memory.extra * rows + memory.extra_fixed + (chunk.recompute ? memory.in_flight * rows : 0);
    extra[stage] = std::max(extra[stage], at_work);
    for (int d = chunk.devices.at; d < chunk.devices.end(); ++d) {
      const int device = c.costs->order()[static_cast<size_t>(d)];
      const auto capacity = static_cast<double>(cluster.type_of(DeviceId{device}).memory.value);
      shape.limits[stage] = std::min(shape.limits[stage], capacity);
    }
    if (k == 0) continue;
    PipeShape::Cut cut;
    if (c.stage_of[k] != c.stage_of[k - 1]) {
      cut = c.cuts[k - 1];
      shape.half_duplex |=
          c.costs->ChannelBetween(c.chunks[k - 1].devices, chunk.devices).half_duplex;
    }
    shape.cuts.push_back(cut);
  }
  for (size_t s = 0; s < fixed.size(); ++s) shape.limits[s] -= fixed[s] + extra[s];
  return shape;
}

double AfterOrder(const Candidate& c, const std::vector<double>& ends) {
  std::vector<StageSum> sums;
  for (size_t k = 0; k < c.chunks.size(); ++k) {
    sums.push_back(SumAfter(c, k, ends[static_cast<size_t>(c.stage_of[k])]));
  }
  double end = LastSum(*c.costs, c.chunks, std::move(sums));
  for (const TiedSum& sum : TiedSums(c)) {
    double start = 0;
    for (const size_t k : sum.chunks) {
      start = std::max(start, ends[static_cast<size_t>(c.stage_of[k])]);
    }
    end = std::max(end, start + sum.seconds);
  }
  return end;
}

namespace {

PipelinePlan PipelineOf(const Candidate& c, const std::vector<int>& file) {
  const Cluster& cluster = *c.costs->table().planning().cluster;
  PipelinePlan pipeline;
  pipeline.stages.resize(static_cast<size_t>(c.stages));
  for (size_t k = 0; k < c.chunks.size(); ++k) {
    const PartitionStage& chunk = c.chunks[k];
    StagePlan& stage = pipeline.stages[static_cast<size_t>(c.stage_of[k])];
    stage.chunks.push_back({chunk.first, chunk.end - 1});
    stage.recompute |= chunk.recompute;
    if (stage.chunks.size() > 1) continue;
    const std::vector<int64_t> rows = c.costs->RowsOf(chunk.first, chunk.end, chunk.devices);
    const bool even = c.costs->AllAlike(chunk.devices);
    const auto most = static_cast<double>(*std::max_element(rows.begin(), rows.end()));
    for (int d = chunk.devices.at; d < chunk.devices.end(); ++d) {
      const auto mine = static_cast<double>(rows[static_cast<size_t>(d - chunk.devices.at)]);
      if (mine == 0) continue;  // so slow that the others are sooner done without it
      const int device = file[static_cast<size_t>(d)];
      stage.devices.push_back(cluster.devices()[static_cast<size_t>(device)].name);
      stage.shares.push_back(even ? 1 : mine / most);
    }
  }
  return pipeline;
}

}  // namespace

Plan PlanOf(const Candidate& c, const std::string& order_name,
            const std::vector<WorkOrder>& orders) {
  Plan plan = c.costs->table().blank();
  plan.order_name = order_name;
  const int pipelines = c.costs->pipelines();
  plan.microbatches = c.costs->microbatches() * pipelines;
  for (int p = 0; p < pipelines; ++p) {
    PipelinePlan pipeline = PipelineOf(c, c.costs->line().files()[static_cast<size_t>(p)]);
    for (size_t s = 0; s < orders.size(); ++s) {
      pipeline.stages[s].order = orders[s];
      // Pipelines take turns.
      for (WorkItem& item : pipeline.stages[s].order)
        item.microbatch = item.microbatch * pipelines + p;
    }
    plan.pipelines.push_back(std::move(pipeline));
  }
  plan.all_reduce = AllReduceFor(c, plan.bucket);
  return plan;
}

std::string Describe(const Candidate& c) {
  std::string widths;
  std::vector<int> counts(static_cast<size_t>(c.stages), 0);
  for (size_t k = 0; k < c.chunks.size(); ++k) {
    counts[static_cast<size_t>(c.stage_of[k])] = c.chunks[k].devices.count;
  }
  for (const int count : counts) widths += fmt::format("{}{}", widths.empty() ? "" : "+", count);
  const std::string times =
      c.costs->pipelines() > 1 ? fmt::format("{} pipelines of ", c.costs->pipelines()) : "";
  return fmt::format("{}{} {} of {} devices, {} microbatches", times, c.stages,
                     c.stages == 1 ? "stage" : "stages", widths,
                     c.costs->microbatches() * c.costs->pipelines());
}

}  // namespace heddle
