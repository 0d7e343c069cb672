// Plans of many microbatches judged by few, and bounds without a Program, against the simulation of
// all of it.
#include "plan/few_microbatches.h"

#include <gtest/gtest.h>

#include <random>

#include "plan/planning.h"
#include "plan/spmd/certificate.h"
#include "plan/spmd/schedule_bound.h"
#include "plan/spmd/spmd_planner.h"
#include "plan/spmd_cases.h"

namespace heddle {
namespace {

struct Case {
  PlanRequest options;
  ClusterNumbers numbers;
  int64_t microbatches;
};

template <class T>
T OneOf(std::mt19937& random, const std::vector<T>& some) {
  return some[random() % some.size()];
}

Case RandomCase(std::mt19937& random) {
  Case one;
  one.options.model = OneOf<std::string>(
      random, {"tiny-mlp", "tiny-gpt?layers=2", "mlp?layers=4&inputs=256&hidden=512&outputs=64",
               "tiny-moe?layers=2&experts=8", "bert-base?layers=2&hidden=64&heads=4&vocab=500"});
  one.options.clip = OneOf<double>(random, {0.0, 1.0});
  one.microbatches = OneOf<int64_t>(random, {1, 2, 5, 8, 12, 20});
  one.options.batch = one.microbatches * OneOf<int64_t>(random, {1, 3, 8});
  one.numbers = RandomCluster(random);
  one.numbers.flops *= 1e3;
  return one;
}

Planning PartOf(const PlanRequest& options, const Cluster& cluster, int64_t microbatches) {
  PlanRequest part = options;
  part.batch = options.batch / microbatches;
  return Planning::Make(part, cluster, nullptr).value();
}

// Every program of the search, with gradients exchanged at the end and after each microbatch.
template <class Check>
void ForEachProgram(int rounds, int seed, const Check& check,
                    LinkModel links = LinkModel::kShared) {
  std::mt19937 random(static_cast<unsigned>(seed));
  for (int round = 0; round < rounds; ++round) {
    Case one = RandomCase(random);
    one.options.links = links;
    const Cluster cluster = ClusterOf(one.numbers);
    const Planning planning = Planning::Make(one.options, cluster, nullptr).value();
    const auto found = PlanSpmd(PartOf(one.options, cluster, one.microbatches),
                                {.microbatches = one.microbatches});
    ASSERT_TRUE(found.ok()) << found.error().ToString();
    for (const SpmdCandidate& candidate : found.value()) {
      for (const bool each : {false, true}) {
        if (each && one.microbatches == 1) continue;
        Plan plan = planning.Blank("spmd", "");
        plan.microbatches = one.microbatches;
        plan.spmd = candidate.plan;
        plan.spmd->converts_each = each;
        const std::string what = fmt::format("round {}: {}, {}, {} microbatches", round,
                                             one.options.model, candidate.how, one.microbatches);
        const StepTimes& times = each ? candidate.times_each : candidate.times;
        check(planning, plan, times.least, what);
      }
    }
  }
}

TEST(FewMicrobatchesTest, TheTimeAndMemoryAreThoseOfAll) {
  int judged = 0;
  ForEachProgram(6, 1, [&](const Planning& planning, const Plan& plan, double, const auto& what) {
    const Evaluation all = Evaluate(planning, plan, false).value();
    const Evaluation quick = EvaluateQuickly(planning, plan, Seconds{INFINITY}).value();
    judged += quick.program.microbatch_rows.size() < all.program.microbatch_rows.size() ? 1 : 0;
    EXPECT_NEAR(quick.simulation.iteration.value, all.simulation.iteration.value,
                1e-9 * all.simulation.iteration.value)
        << what;
    for (size_t d = 0; d < all.verdict.memory.size(); ++d) {
      EXPECT_EQ(quick.verdict.memory[d].peak, all.verdict.memory[d].peak) << what;
      EXPECT_NEAR(quick.simulation.devices[d].busy.value, all.simulation.devices[d].busy.value,
                  1e-9 * all.simulation.iteration.value)
          << what;
    }
  });
  EXPECT_GT(judged, 10);
}

TEST(ScheduleBoundTest, NoSimulationTakesLess) {
  int checked = 0;
  ForEachProgram(
      16, 2, [&](const Planning& planning, const Plan& plan, double least, const auto& what) {
        const double seconds =
            EvaluateQuickly(planning, plan, Seconds{INFINITY}).value().simulation.iteration.value;
        EXPECT_LE(least, seconds) << what;
        ++checked;
      });
  EXPECT_GT(checked, 50);
}

// On one axis and two, where wires are shared and where one exchange has them at a time.
TEST(ScheduleBoundTest, IsTheSimulatedTime) {
  int checked = 0, tight = 0, on_two_axes = 0;
  for (const LinkModel links : {LinkModel::kShared, LinkModel::kExclusive, LinkModel::kChannels}) {
    ForEachProgram(
        links == LinkModel::kShared ? 8 : 3, 4,
        [&](const Planning& planning, const Plan& plan, double, const auto& what) {
          const Planning part = PartOf(planning.request, *planning.cluster, plan.microbatches);
          const SpmdMesh mesh = MeshOf(*planning.cluster, *plan.spmd).value();
          const OpCost cost = part.cost();
          SpmdProblem problem(cost, *planning.cluster, mesh);
          const double bound = ScheduleBound(problem, *plan.spmd, plan.microbatches, links);
          const double seconds =
              EvaluateQuickly(planning, plan, Seconds{INFINITY}).value().simulation.iteration.value;
          EXPECT_LE(bound, seconds) << what << ", " << NameOf(links);
          ++checked;
          tight += bound > 0.997 * seconds ? 1 : 0;
          on_two_axes += mesh.flat() ? 0 : 1;
        },
        links);
  }
  EXPECT_GT(on_two_axes, 50);
  EXPECT_GT(tight, checked * 95 / 100);
}

// Whoever finds no room for sums of gradients between microbatches leaves the plan out, so it must
// be right.
TEST(LaterEstimateTest, WhatHasNoRoomByItDoesNotFit) {
  std::mt19937 random(3);
  int without_room = 0, with_room = 0;
  for (int round = 0; round < 24; ++round) {
    Case one = RandomCase(random);
    one.microbatches = OneOf<int64_t>(random, {2, 4, 8});
    one.options.batch = one.microbatches * 4;
    one.numbers.memory = OneOf<double>(random, {0.1e6, 0.3e6, 1e6, 2e6, 3e6, 5e6, 8e6});
    const Cluster cluster = ClusterOf(one.numbers);
    const Planning planning = Planning::Make(one.options, cluster, nullptr).value();
    const auto found = PlanSpmd(PartOf(one.options, cluster, one.microbatches),
                                {.microbatches = one.microbatches});
    if (!found.ok()) continue;
    for (const SpmdCandidate& candidate : found.value()) {
      for (const bool each : {false, true}) {
        const bool fits = each ? candidate.fits_each : candidate.fits;
        (fits ? with_room : without_room) += 1;
        if (fits) continue;
        Plan plan = planning.Blank("spmd", "");
        plan.microbatches = one.microbatches;
        plan.spmd = candidate.plan;
        plan.spmd->converts_each = each;
        EXPECT_GT(Evaluate(planning, plan, false).value().lacks.value, 0)
            << "round " << round << ": " << one.options.model << ", " << candidate.how;
      }
    }
  }
  EXPECT_GT(without_room, 5);
  EXPECT_GT(with_room, 5);
}

}  // namespace
}  // namespace heddle
