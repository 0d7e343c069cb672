// Plans on a mixed cluster, and the question whether their Programs equal one device.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "plan/planning.h"
#include "program/check/check.h"
#include "program/lower/lower.h"
#include "run/torch/verify.h"
#include "support/places.h"

namespace heddle {

inline const Cluster& Mixed4() {
  static const Cluster cluster =
      LoadCluster(SourceDir() + "/examples/clusters/mixed4.toml").value();
  return cluster;
}

inline Planning MakePlanning(const std::string& model, int64_t batch, Optimizer optimizer,
                             int64_t microbatches = 0, double clip = 0) {
  PlanRequest options;
  options.model = model;
  options.batch = batch;
  options.optimizer = optimizer;
  options.clip = clip;
  if (microbatches > 0) options.microbatches = microbatches;
  return Planning::Make(options, Mixed4(), nullptr).value();
}

inline void ExpectParity(const Program& program, const Graph& graph, const std::string& what,
                         const std::vector<LayerAge>& ages = {},
                         const std::optional<LocalPlan>& local = {}, int64_t steps = 3) {
  const Verdict verdict = CheckProgram(program, {&graph, {}});
  ASSERT_TRUE(verdict.ok()) << what << ": " << verdict.findings[0].message;
  VerifyOptions options;
  options.ages = ages;
  options.local = local;
  options.steps = steps;
  const Result<Verification> verification = VerifyProgram(program, graph, options);
  ASSERT_TRUE(verification.ok()) << what << ": " << verification.error().ToString();
  EXPECT_TRUE(verification.value().ok) << what << ": " << verification.value().worst;
}

inline StagePlan Stage(std::vector<LayerRun> chunks, std::vector<std::string> devices,
                       std::vector<double> shares, const std::string& order) {
  StagePlan stage;
  stage.chunks = std::move(chunks);
  stage.devices = std::move(devices);
  stage.shares = std::move(shares);
  stage.order = ParseOrder(order, "").value();
  return stage;
}

inline Plan HandMade(const Planning& planning, int64_t microbatches,
                     std::vector<PipelinePlan> pipelines) {
  Plan plan = planning.Blank("hand", "hand");
  plan.microbatches = microbatches;
  plan.bucket = Bytes{1024};
  plan.pipelines = std::move(pipelines);
  return plan;
}

}  // namespace heddle
