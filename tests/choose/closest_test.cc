// Where memory is short: what fits is found, and what does not is told with the closest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "choose/planners.h"
#include "support/places.h"

namespace heddle {
namespace {

using testing::HasSubstr;
using testing::Not;

const Cluster& ClusterNamed(const std::string& name) {
  static std::map<std::string, Cluster> clusters;
  const auto found = clusters.find(name);
  if (found != clusters.end()) return found->second;
  return clusters
      .emplace(name, LoadCluster(SourceDir() + "/examples/clusters/" + name + ".toml").value())
      .first->second;
}

Planning PlanningFor(const std::string& model, int64_t batch, const std::string& cluster,
                     std::optional<int64_t> microbatches = std::nullopt) {
  PlanRequest options;
  options.model = model;
  options.batch = batch;
  options.dtype = DType::kF16;
  options.microbatches = microbatches;
  return Planning::Make(options, ClusterNamed(cluster), nullptr).value();
}

// A model of 6.7 billion parameters: one sample at a time, everything computed again.
constexpr const char* kLarge = "gpt?layers=32&hidden=4096&heads=32&seq=1024";

TEST(ClosestTest, WhatFitsOneSampleAtATimeIsFound) {
  const Planning planning = PlanningFor(kLarge, 64, "equal8");
  const Result<Plan> theirs = MakePlan("1f1b", planning), ours = MakePlan("pipeline", planning);
  ASSERT_TRUE(theirs.ok()) << theirs.error().ToString();
  ASSERT_TRUE(ours.ok()) << ours.error().ToString();
  EXPECT_LE(ours.value().estimate.iteration_seconds, theirs.value().estimate.iteration_seconds);
}

// Of each strategy: no number of microbatches given by hand lacks less.
TEST(ClosestTest, NoNumberByHandIsCloser) {
  const std::string larger = "gpt?layers=40&hidden=4096&heads=32&seq=1024";
  const auto lack = [](const Error& error) {  // in MiB
    const size_t at = error.what.rfind(": ");
    const std::string text = error.what.substr(at + 2);
    return std::stod(text) * (text.find("GiB") != std::string::npos ? 1024 : 1);
  };
  for (const char* strategy : {"pipeline", "1f1b", "gpipe", "hetpipe", "dp"}) {
    const Result<Plan> tuned = MakePlan(strategy, PlanningFor(larger, 32, "equal8"));
    ASSERT_FALSE(tuned.ok()) << strategy;
    ASSERT_THAT(tuned.error().what, HasSubstr("too much"));
    EXPECT_THAT(tuned.error().hint, Not(HasSubstr("more microbatches")));
    for (const int64_t m : {8, 32}) {
      const Result<Plan> given = MakePlan(strategy, PlanningFor(larger, 32, "equal8", m));
      ASSERT_FALSE(given.ok());
      EXPECT_LE(lack(tuned.error()), lack(given.error()) + 1) << strategy << " with " << m << "\n"
                                                              << tuned.error().ToString() << "\n"
                                                              << given.error().ToString();
    }
  }
}

// By arithmetic, before any search: even once, the model is too large.
TEST(ClosestTest, WhatCannotFitIsNotSearchedFor) {
  const Planning planning = PlanningFor("gpt?layers=96&hidden=8192&heads=64", 32, "mixed4");
  for (const char* strategy : {"spmd", "zero"}) {
    const Result<Plan> plan = MakePlan(strategy, planning);
    ASSERT_FALSE(plan.ok());
    EXPECT_THAT(plan.error().what, HasSubstr("if stored once, and all devices together have"));
  }
  const Result<Plan> local = MakePlan("local", planning);
  ASSERT_FALSE(local.ok());
  EXPECT_THAT(local.error().what, HasSubstr("parameters and optimizer state"));
}

// A batch of 256 on four devices: the fill of the pipeline is long with 16 microbatches.
TEST(ClosestTest, PipelinesTakeMoreThanFourMicrobatchesPerStage) {
  PlanRequest options = PlanningFor("gpt?layers=24", 256, "mixed4").request;
  options.dtype = DType::kF32;
  for (const char* strategy : {"zb-h1", "1f1b"}) {
    options.microbatches.reset();
    const Planning free = Planning::Make(options, ClusterNamed("mixed4"), nullptr).value();
    options.microbatches = 128;
    const Planning given = Planning::Make(options, ClusterNamed("mixed4"), nullptr).value();
    EXPECT_LE(MakePlan(strategy, free).value().estimate.iteration_seconds,
              MakePlan(strategy, given).value().estimate.iteration_seconds)
        << strategy;
  }
}

}  // namespace
}  // namespace heddle
