#include "lab/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plan/planning.h"
#include "program/lower/lower.h"
#include "simulate/simulator.h"

namespace heddle {
namespace {

// Of links: what a message costs beyond its latency must not be seen in a tick.
constexpr char kFast[] = "1000000 GB/s";

Result<Cluster> ChainOfDevices(const PipelineClock& clock) {
  std::string text =
      "schema = \"heddle.cluster/1\"\n[device_type.d]\nflops = \"1 TFLOP/s\"\n"
      "memory = \"1000 GiB\"\nmemory_bandwidth = \"1000 GB/s\"\n";
  for (int s = 0; s < clock.stages; ++s) {
    text += fmt::format("[[node]]\nname = \"n{}\"\ndevices = [{{ type = \"d\" }}]\n", s);
  }
  for (int s = 0; s + 1 < clock.stages; ++s) {
    text += fmt::format(
        "[[link]]\nbetween = [\"n{}\", \"n{}\"]\nbandwidth = \"{}\"\nlatency = \"{} s\"\n", s,
        s + 1, kFast, clock.latency);
  }
  return ParseClusterToml(text, "chain");
}

// Layers divided evenly, weights stashed.
Plan PlanFor(const Planning& planning, int stages) {
  Plan plan = planning.Blank("async", "stash");
  plan.microbatches = 1;
  plan.async = AsyncPlan{WeightVersions::kStash};
  PipelinePlan& pipeline = plan.pipelines.emplace_back();
  const int layers = planning.chain.size();
  for (int s = 0; s < stages; ++s) {
    StagePlan& stage = pipeline.stages.emplace_back();
    stage.chunks = {{layers * s / stages, layers * (s + 1) / stages - 1}};
    stage.devices = {fmt::format("n{}:0", s)};
    stage.shares = {1};
    stage.order = ForwardsAndBackwardsInTurn(1);
  }
  return plan;
}

// Whole ticks for forward and backward, nothing for the rest.
void SetTimes(const ReplayOptions& options, const Plan& plan, Program& program) {
  for (Segment& segment : program.segments) {
    segment.time = Seconds{0};
    const bool forward = segment.phase == SegmentPhase::kForward;
    if (!forward && segment.phase != SegmentPhase::kBackward) continue;
    const auto& stages = plan.pipelines[0].stages;
    const auto stage = std::find_if(stages.begin(), stages.end(), [&](const StagePlan& one) {
      return one.chunks[0].last >= segment.first_layer;
    });
    int64_t ticks = forward ? options.clock.forward : options.clock.backward;
    if (!options.slowness.empty()) {
      ticks *=
          options.slowness[static_cast<size_t>(stage - stages.begin()) % options.slowness.size()];
    }
    segment.time = Seconds{static_cast<double>(ticks)};
  }
}

Schedule ScheduleOf(const PipelineClock& clock, const Timeline& timeline) {
  Schedule schedule;
  schedule.clock = clock;
  for (const TimelineEvent& event : timeline.events) {
    const bool forward = event.kind == EventKind::kForward;
    if (!forward && event.kind != EventKind::kBackward) continue;
    // A forward reads at its first tick, a backward changes the weights at its last.
    const double tick = forward ? event.start.value : event.end.value - 1;
    schedule.events.push_back({static_cast<int32_t>(std::lround(tick)), event.microbatch,
                               static_cast<int16_t>(event.lane / 2), forward});
    schedule.updates += forward ? 0 : 1;
  }
  std::stable_sort(schedule.events.begin(), schedule.events.end(),
                   [](const Event& a, const Event& b) {
                     return std::pair(a.tick, a.stage) < std::pair(b.tick, b.stage);
                   });
  return schedule;
}

}  // namespace

Result<Schedule> ReplayProgram(const ReplayOptions& options) {
  const int stages = options.clock.stages;
  HEDDLE_ASSIGN(const Cluster cluster, ChainOfDevices(options.clock));
  PlanRequest planned;
  planned.model = fmt::format("mlp?layers={}&hidden=4&inputs=4&outputs=4", std::max(2, stages));
  planned.batch = 1;
  HEDDLE_ASSIGN(const Planning planning, Planning::Make(planned, cluster, nullptr));
  const Plan plan = PlanFor(planning, stages);
  HEDDLE_RETURN_IF_ERROR(ValidatePlan(plan, planning.chain.size(), "replay"));
  HEDDLE_ASSIGN(Program program, LowerPlan(plan, planning.graph));
  SetTimes(options, plan, program);
  HEDDLE_ASSIGN(const SegmentSeconds seconds, CostSegments(program, cluster, nullptr));
  SimulateOptions simulated;
  simulated.repetitions = 4 * stages;
  HEDDLE_ASSIGN(const Simulation simulation, Simulate(program, cluster, seconds, simulated));
  return ScheduleOf(options.clock, simulation.timeline);
}

Result<DelayCounts> ReplayedDelays(const ReplayOptions& options) {
  HEDDLE_ASSIGN(const Schedule schedule, ReplayProgram(options));
  const int64_t stages = options.clock.stages;
  return CountDelays(schedule, 2 * stages, 4 * stages - 1);
}

}  // namespace heddle
