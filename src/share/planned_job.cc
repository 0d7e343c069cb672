#include "share/planned_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "choose/planners.h"
#include "program/lower/lower.h"
#include "program/text/program_text.h"
#include "program/unroll.h"
#include "run/share/turn_count.h"

namespace heddle {
namespace {

// Larger than any gradient: they all go together, and so when the last is there.
constexpr Bytes kOneBucket{int64_t{1} << 50};

Error OfJob(const JobSpec& spec, Error error) {
  error.where = error.where.empty() ? fmt::format("job {}", spec.name)
                                    : fmt::format("job {}: {}", spec.name, error.where);
  return error;
}

// Seconds in which anything of the repetition is on its way.
Seconds CommunicationOf(const Timeline& timeline, int repetition) {
  std::vector<std::pair<Seconds, Seconds>> spans;
  for (const TimelineEvent& event : timeline.events) {
    const LaneKind kind = timeline.lanes[static_cast<size_t>(event.lane)].kind;
    if (kind == LaneKind::kNetwork && event.repetition == repetition) {
      spans.emplace_back(event.start, event.end);
    }
  }
  std::sort(spans.begin(), spans.end());
  Seconds total, end;
  for (const auto& [start, finish] : spans) {
    total += std::max(Seconds{}, finish - std::max(start, end));
    end = std::max(end, finish);
  }
  return total;
}

JobTimes TimesOf(const Simulation& simulation) {
  JobTimes times;
  for (const DeviceUse& use : simulation.devices) times.compute = std::max(times.compute, use.busy);
  const int middle = simulation.repetitions / 2;
  times.communicate = CommunicationOf(simulation.timeline, middle);
  times.exposed = std::max(Seconds{}, simulation.iteration - times.compute);
  return times;
}

// What the device's collectives of one body add up: of a data-parallel job its gradients, all of
// which are there when its turn ends.
Bytes GradientsOf(const Program& program, const DeviceProgram& device) {
  Bytes bytes;
  for (const Instruction& in : device.list(Section::kBody)) {
    if (in.code != OpCode::kCollective) continue;
    for (int32_t k = 0; k < in.operand_count; ++k) {
      const BufferRef& ref = device.operands[static_cast<size_t>(in.first_operand + k)];
      bytes += program.BytesOf(ref.tensor, ref.slice);
    }
  }
  return bytes;
}

std::vector<JobMemory> MemoryOf(const Evaluation& evaluation, const Cluster& cluster,
                                bool whole_turns) {
  std::vector<JobMemory> memory(static_cast<size_t>(cluster.device_count()));
  const Program& program = evaluation.program;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    const auto id = cluster.FindDevice(program.devices[d].name);
    HEDDLE_CHECK(id.has_value());
    const DeviceMemory& needs = evaluation.verdict.memory[d];
    Bytes kept = needs.peak;
    if (whole_turns) {
      kept = std::min(needs.peak, needs.held + GradientsOf(program, program.devices[d]));
    }
    memory[static_cast<size_t>(id->value)] = {kept, needs.peak - kept};
  }
  return memory;
}

std::vector<Seconds> BusyOf(const Simulation& simulation, const Cluster& cluster) {
  std::vector<Seconds> busy(static_cast<size_t>(cluster.device_count()));
  for (const DeviceUse& use : simulation.devices) {
    const auto id = cluster.FindDevice(use.device);
    HEDDLE_CHECK(id.has_value());
    busy[static_cast<size_t>(id->value)] = use.busy;
  }
  return busy;
}

struct MadePlan {
  std::shared_ptr<const Planning> planning;
  Plan plan;
};

Result<MadePlan> LoadMadePlan(const JobSpec& spec, const Cluster& cluster, const Profile* profile) {
  HEDDLE_ASSIGN(LoadedPlan loaded, LoadForUse(spec.plan, profile));
  if (loaded.plan.cluster_hash != cluster.ContentHash()) {
    return BadInput(spec.plan + ": cluster", "is not the cluster of the jobs file",
                    "make the plan again for that cluster, or name its own in the jobs file");
  }
  // The same cluster, but one that outlives the plan's.
  Planning& made = *loaded.planning;
  made.cluster = &cluster;
  return MadePlan{std::make_shared<const Planning>(std::move(made)), std::move(loaded.plan)};
}

Result<MadePlan> MakeOwnPlan(const JobSpec& spec, const Cluster& cluster, const Profile* profile) {
  HEDDLE_ASSIGN(Planning made, Planning::Make(spec.request, cluster, profile));
  auto planning = std::make_shared<const Planning>(std::move(made));
  HEDDLE_ASSIGN(Plan plan, MakePlan(spec.request.strategy, *planning));
  return MadePlan{std::move(planning), std::move(plan)};
}

// A key about sums of gradients, and the two plans it tells apart.
struct GradientKey {
  std::string_view name;
  void (*one)(Plan& plan);
  void (*other)(Plan& plan);
};
constexpr GradientKey kGradientKeys[] = {
    {"overlap", [](Plan& plan) { plan.bucket = Bytes{1}; },
     [](Plan& plan) { plan.bucket = kOneBucket; }},
    {"sync", [](Plan& plan) { plan.request.sync = GradientSync::kAllReduce; },
     [](Plan& plan) { plan.request.sync = GradientSync::kServers; }},
    {"compress", [](Plan& plan) { plan.request.compress = false; },
     [](Plan& plan) { plan.request.compress = true; }},
};

// Whether this plan reads the key: its Program is another one.
bool Reads(const Plan& plan, const Graph& graph, const GradientKey& key) {
  Plan plans[] = {plan, plan};
  key.one(plans[0]);
  key.other(plans[1]);
  const Result<Program> one = LowerPlan(plans[0], graph), other = LowerPlan(plans[1], graph);
  return !one.ok() || !other.ok() || PrintProgram(one.value()) != PrintProgram(other.value());
}

// What the file states of sums of gradients goes with plans that have some.
Status CheckGradientKeys(const JobSpec& spec, const MadePlan& made) {
  for (const GradientKey& key : kGradientKeys) {
    const bool stated = std::find(spec.gradient_keys.begin(), spec.gradient_keys.end(), key.name) !=
                        spec.gradient_keys.end();
    if (!stated || Reads(made.plan, made.planning->graph, key)) continue;
    return BadInput(std::string(key.name),
                    fmt::format("has no effect: in this plan of {} nobody sums gradients{}",
                                made.plan.strategy, key.name == "overlap" ? " in parts" : ""),
                    "it goes with plans that replicate stages, such as dp; or leave it out");
  }
  return Ok();
}

// As it can run: whole rounds, and enough to fill and drain.
Status CheckSteps(const JobSpec& spec, const Program& program) {
  const int64_t round = StepsPerBody(program), least = (StepsOutsideBody(program) + 1) * round;
  if (spec.steps % round != 0) {
    return BadInput("steps", fmt::format("{} are not whole rounds", spec.steps),
                    fmt::format("replicas are averaged every {} steps; give a multiple", round));
  }
  if (spec.steps < least) {
    return BadInput("steps", fmt::format("{} are too few", spec.steps),
                    fmt::format("this asynchronous pipeline needs at least {}", least));
  }
  return Ok();
}

Result<PlannedJob> Measure(JobSpec spec, MadePlan made, const Cluster& cluster) {
  PlannedJob job;
  job.spec = std::move(spec);
  HEDDLE_ASSIGN(Evaluation evaluation,
                EvaluateFitting(*made.planning, made.plan, /*keep_events=*/true));
  HEDDLE_RETURN_IF_ERROR(CheckSteps(job.spec, evaluation.program));
  job.whole_turns = TakesWholeSteps(evaluation.program);
  const OpCost cost = made.planning->cost();
  HEDDLE_ASSIGN(job.seconds, CostSegments(evaluation.program, cluster, &cost));
  job.times = TimesOf(evaluation.simulation);
  job.busy = BusyOf(evaluation.simulation, cluster);
  job.memory = MemoryOf(evaluation, cluster, job.whole_turns);
  job.program = std::move(evaluation.program);
  job.plan = std::move(made.plan);
  job.planning = std::move(made.planning);
  return job;
}

}  // namespace

Result<PlannedJob> PlanJob(const JobSpec& spec, const Cluster& cluster, const Profile* profile) {
  Result<MadePlan> made = spec.plan.empty() ? MakeOwnPlan(spec, cluster, profile)
                                            : LoadMadePlan(spec, cluster, profile);
  if (!made.ok()) return OfJob(spec, made.error());
  MadePlan plan = std::move(made).value();
  if (const Status read = CheckGradientKeys(spec, plan); !read.ok())
    return OfJob(spec, read.error());
  if (!spec.overlap) plan.plan.bucket = kOneBucket;
  Result<PlannedJob> job = Measure(spec, std::move(plan), cluster);
  if (!job.ok()) return OfJob(spec, job.error());
  return job;
}

Result<PlannedJob> WithOverlap(const PlannedJob& job, bool overlap) {
  if (job.spec.overlap == overlap) return job;
  JobSpec spec = job.spec;
  spec.overlap = overlap;
  Plan plan = job.plan;
  plan.bucket = overlap ? Plan{}.bucket : kOneBucket;
  Result<PlannedJob> other =
      Measure(std::move(spec), {job.planning, std::move(plan)}, *job.planning->cluster);
  if (!other.ok()) return OfJob(job.spec, other.error());
  return other;
}

}  // namespace heddle
