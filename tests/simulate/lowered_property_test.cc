// What the checker accepts, the simulator can run: random plans, every link model.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "program/random_plan.h"
#include "simulated.h"

namespace heddle {
namespace {

// A lowered Program with the times of its segments on a mesh.
struct Lowered {
  explicit Lowered(uint32_t seed, PlanKind kind = PlanKind::kFlush)
      : random(seed, kind),
        program(LowerPlan(random.plan(), random.graph()).value()),
        cluster(MeshOf(std::max(2, random.plan().devices_used()), "1 GB/s", "5 us")) {
    const OpCost cost(random.graph(), nullptr);
    seconds = CostSegments(program, cluster, &cost).value();
  }

  Simulation Run(LinkModel links, int repetitions = 0) const {
    Result<Simulation> simulation =
        Simulate(program, cluster, seconds, {.links = links, .repetitions = repetitions});
    if (!simulation.ok()) {
      RC_LOG() << NameOf(links) << "\n" << PrintProgram(program);
      RC_FAIL(simulation.error().ToString());
    }
    return std::move(simulation).value();
  }

  RandomPlan random;
  Program program;
  Cluster cluster;
  SegmentSeconds seconds;
};

RC_GTEST_PROP(LoweredProperty, EveryLinkModelGetsToTheEnd, ()) {
  const Lowered lowered(*rc::gen::arbitrary<uint32_t>());
  for (const LinkModel links : {LinkModel::kShared, LinkModel::kExclusive, LinkModel::kChannels}) {
    const Simulation sim = lowered.Run(links);
    RC_ASSERT(Validate(sim.timeline).ok());
    RC_ASSERT(sim.instructions == lowered.program.instruction_count() * sim.repetitions);
    for (const DeviceUse& use : sim.devices) {
      RC_ASSERT(use.busy <= sim.makespan + Seconds{1e-12});
      RC_ASSERT(use.busy <= sim.iteration + Seconds{1e-12});
    }
    // Messages of two bodies may get in each other's way, which those of the first do not know.
    RC_ASSERT(sim.iteration <= sim.makespan * 1.25);
  }
}

// Bodies of asynchronous plans overlap, so that nothing is said of how long one takes.
RC_GTEST_PROP(LoweredProperty, PlansOfEveryKindGetToTheEnd, ()) {
  const auto seed = *rc::gen::arbitrary<uint32_t>();
  for (const PlanKind kind : {PlanKind::kServed, PlanKind::kAsync, PlanKind::kLocal}) {
    const Lowered lowered(seed, kind);
    for (const LinkModel links :
         {LinkModel::kShared, LinkModel::kExclusive, LinkModel::kChannels}) {
      const Simulation sim = lowered.Run(links);
      RC_ASSERT(Validate(sim.timeline).ok());
      RC_ASSERT(sim.iteration > Seconds{0});
      for (const DeviceUse& use : sim.devices) {
        RC_ASSERT(use.busy <= sim.iteration + Seconds{1e-12});
      }
    }
  }
}

RC_GTEST_PROP(LoweredProperty, TheSameEveryTime, ()) {
  const auto seed = *rc::gen::arbitrary<uint32_t>();
  const Simulation one = Lowered(seed).Run(LinkModel::kShared, 2);
  const Simulation two = Lowered(seed).Run(LinkModel::kShared, 2);
  RC_ASSERT(one.timeline.events.size() == two.timeline.events.size());
  for (size_t k = 0; k < one.timeline.events.size(); ++k) {
    const TimelineEvent& a = one.timeline.events[k];
    const TimelineEvent& b = two.timeline.events[k];
    RC_ASSERT(std::tie(a.lane, a.label, a.microbatch, a.repetition, a.start, a.end) ==
              std::tie(b.lane, b.label, b.microbatch, b.repetition, b.start, b.end));
  }
}

// Bytes are counted alike under every model, and what is sent is received.
RC_GTEST_PROP(LoweredProperty, BytesAreConserved, ()) {
  const Lowered lowered(*rc::gen::arbitrary<uint32_t>());
  const Simulation shared = lowered.Run(LinkModel::kShared);
  const Simulation channels = lowered.Run(LinkModel::kChannels);
  int64_t sent = 0, received = 0;
  for (size_t d = 0; d < shared.devices.size(); ++d) {
    RC_ASSERT(shared.devices[d].sent == channels.devices[d].sent);
    sent += shared.devices[d].sent.value;
    received += shared.devices[d].received.value;
  }
  // Each is rounded to whole bytes.
  RC_ASSERT(std::abs(sent - received) <= static_cast<int64_t>(shared.devices.size()));
}

}  // namespace
}  // namespace heddle
