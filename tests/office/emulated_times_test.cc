// What is emulated takes as long as what is simulated: random plans, walked by the worker's loop on
// a thread per device, in time that passes when all of them wait. No tolerance for a busy machine
// is needed, since its clock is not asked. (Timed runs keep the last step's events alone, which of
// asynchronous plans is none that a simulation of one step has.)

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "office/cluster_network.h"
#include "program/random_plan.h"
#include "run/timed_run.h"
#include "simulate/simulated.h"
#include "support/fake_clock.h"

namespace heddle {
namespace {

// What the run takes of the fake clock, which counts nanoseconds. What begins within a millisecond
// of the last compute's end is taken for what follows it, at once.
constexpr double kSeconds = 1e5;
constexpr double kExact = 1e-6;  // of all that time

using Event = std::tuple<int32_t, int32_t, int32_t, double, double>;

// Of the first repetition, by lane and start.
std::vector<Event> ComputesOf(const Timeline& timeline) {
  std::vector<Event> events;
  for (const TimelineEvent& event : timeline.events) {
    if (event.lane % 2 != 0 || event.repetition != 0) continue;
    events.emplace_back(event.lane, event.label, event.microbatch, event.start.value,
                        event.end.value);
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& one, const Event& other) {
    return std::tie(std::get<0>(one), std::get<3>(one)) <
           std::tie(std::get<0>(other), std::get<3>(other));
  });
  return events;
}

void ExpectEmulatedAsSimulated(uint32_t seed, PlanKind kind) {
  const RandomPlan random(seed, kind);
  const Program program = LowerPlan(random.plan(), random.graph()).value();
  const Cluster cluster = MeshOf(std::max(2, random.plan().devices_used()), "1 GB/s", "5 us");
  const OpCost cost(random.graph(), nullptr);
  const SegmentSeconds seconds = CostSegments(program, cluster, &cost).value();
  const Simulation simulated =
      Simulate(program, cluster, seconds, {.links = LinkModel::kShared, .repetitions = 1}).value();

  EmulationModel model;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    model.segment_seconds.emplace_back();
    for (size_t s = 0; s < program.segments.size(); ++s) {
      model.segment_seconds[d].push_back(
          seconds.Of(static_cast<int32_t>(d), static_cast<int32_t>(s)));
    }
  }
  model.message_seconds.assign(program.devices.size(), 0);
  for (const Group& group : program.groups) model.groups.push_back(group.devices);
  model.network = std::make_unique<ClusterNetwork>(
      cluster, program, FindDevices(program, cluster).value(), LinkModel::kShared);
  const double all = simulated.makespan.value;
  FakeClock clock;
  Emulation emulation(std::move(model), clock);
  const Result<TimedResult> emulated = RunTimed(program, emulation, {.dilation = kSeconds / all});
  RC_ASSERT(emulated.ok());
  RC_ASSERT(emulated.value().missed == 0);

  const std::vector<Event> expected = ComputesOf(simulated.timeline);
  const std::vector<Event> found = ComputesOf(emulated.value().timeline);
  RC_ASSERT(found.size() == expected.size());
  for (size_t k = 0; k < found.size(); ++k) {
    const auto& [lane, label, microbatch, start, end] = expected[k];
    const auto& [lane_found, label_found, microbatch_found, start_found, end_found] = found[k];
    RC_ASSERT(lane_found == lane);
    RC_ASSERT(label_found == label);
    RC_ASSERT(microbatch_found == microbatch);
    RC_ASSERT(std::abs(start_found - start) < kExact * all);
    RC_ASSERT(std::abs(end_found - end) < kExact * all);
  }
}

RC_GTEST_PROP(EmulatedTimesProperty, PlansWithAFlush, ()) {
  ExpectEmulatedAsSimulated(*rc::gen::arbitrary<uint32_t>(), PlanKind::kFlush);
}

RC_GTEST_PROP(EmulatedTimesProperty, PlansWithServers, ()) {
  ExpectEmulatedAsSimulated(*rc::gen::arbitrary<uint32_t>(), PlanKind::kServed);
}

RC_GTEST_PROP(EmulatedTimesProperty, LocalPlans, ()) {
  ExpectEmulatedAsSimulated(*rc::gen::arbitrary<uint32_t>(), PlanKind::kLocal);
}

}  // namespace
}  // namespace heddle
