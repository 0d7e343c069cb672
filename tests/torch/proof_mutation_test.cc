// The checker's proof against arithmetic: every single change of a communication, an update or a
// scale is refused, or the Program still computes what one device would. There is no third case.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/program_mutants.h"
#include "torch/spmd_fixture.h"
#include "torch/verify_fixture.h"

namespace heddle {
namespace {

constexpr char kGpt[] = "tiny-gpt?layers=1&hidden=4&heads=2&seq=2&vocab=8";
constexpr char kUntied[] = "tiny-gpt?layers=1&hidden=4&heads=2&seq=2&vocab=8&tied=0";
constexpr char kMlp[] = "tiny-mlp?layers=2";

void ExpectAllNoticed(const Program& program, const Graph& graph, const VerifyOptions& options,
                      const std::string& name) {
  const Verdict verdict = CheckProgram(program, {&graph, {}});
  ASSERT_TRUE(verdict.ok()) << name << ": " << verdict.findings[0].message;
  ASSERT_EQ(verdict.not_proven, "") << name;
  int64_t refused = 0, equal = 0;
  ForEachMutant(program, [&](const std::string& what, const Program& mutant) {
    const Verdict found = CheckProgram(mutant, {&graph, {}});
    if (!found.ok()) {
      ++refused;
      return;
    }
    EXPECT_EQ(found.not_proven, "") << name << ": " << what;
    const Result<Verification> verification = VerifyProgram(mutant, graph, options);
    ASSERT_TRUE(verification.ok())
        << name << ": " << what << ": " << verification.error().ToString();
    EXPECT_TRUE(verification.value().ok)
        << name << ": " << what << ": " << verification.value().worst;
    ++equal;
  });
  EXPECT_GT(refused, equal) << name;
  EXPECT_GT(refused, 20) << name;
}

void ExpectPlanMutantsNoticed(const Planning& planning, const Plan& plan, const std::string& name) {
  const Status valid = ValidatePlan(plan, planning.chain.size(), name);
  ASSERT_TRUE(valid.ok()) << valid.error().ToString();
  VerifyOptions options;
  options.ages = WeightAges(plan, planning.chain.size());
  options.local = plan.local;
  options.train.learning_rate = 0.05;
  ExpectAllNoticed(LowerPlan(plan, planning.graph).value(), planning.graph, options, name);
}

TEST(ProofMutationTest, DataParallel) {
  const Planning planning = MakePlanning(kMlp, 4, Optimizer::kMomentum);
  const Plan plan =
      HandMade(planning, 2,
               {{{Stage({{0, planning.chain.size() - 1}}, {"a:0", "b:0"}, {1, 1}, "(F B)*2")}}});
  ExpectPlanMutantsNoticed(planning, plan, "data parallel");
}

TEST(ProofMutationTest, PipelineOfReplicasWithClipping) {
  const Planning planning = MakePlanning(kGpt, 6, Optimizer::kAdam, 0, 0.1);
  const int last = planning.chain.size() - 1;
  const Plan plan = HandMade(planning, 2,
                             {{{Stage({{0, 1}}, {"a:0", "a:1"}, {2, 1}, "F*2 B*2"),
                                Stage({{2, last}}, {"b:0"}, {1}, "(F B)*2")}}});
  ExpectPlanMutantsNoticed(planning, plan, "pipeline");
}

TEST(ProofMutationTest, Servers) {
  const Planning planning = MakePlanning(kMlp, 4, Optimizer::kAdam);
  Plan plan =
      HandMade(planning, 2,
               {{{Stage({{0, planning.chain.size() - 1}}, {"a:0", "b:0"}, {1, 1}, "(F B)*2")}}});
  plan.request.sync = GradientSync::kServers;
  ExpectPlanMutantsNoticed(planning, plan, "servers");
}

TEST(ProofMutationTest, AsynchronousPipelines) {
  const Planning planning = MakePlanning(kUntied, 4, Optimizer::kAdam);
  const int last = planning.chain.size() - 1;
  for (const WeightVersions versions : kWeightVersions) {
    const int64_t microbatches = versions == WeightVersions::kTwo ? 2 : 1;
    const std::string order = fmt::format("(F B)*{}", microbatches);
    Plan plan = HandMade(planning, microbatches,
                         {{{Stage({{0, 1}}, {"a:0"}, {1}, order),
                            Stage({{2, last}}, {"b:0", "b:1"}, {1, 1}, order)}}});
    plan.async = AsyncPlan{versions};
    ExpectPlanMutantsNoticed(planning, plan, std::string(NameOf(versions)));
  }
}

TEST(ProofMutationTest, WholeReplicasThatAreAveraged) {
  const Planning planning = MakePlanning(kMlp, 2, Optimizer::kAdam);
  std::vector<PipelinePlan> pipelines;
  for (const char* name : {"a:0", "b:0"}) {
    pipelines.push_back({{Stage({{0, planning.chain.size() - 1}}, {name}, {1}, "F B")}});
  }
  Plan plan = HandMade(planning, 1, std::move(pipelines));
  plan.local = LocalPlan{{3, 1}};
  ExpectPlanMutantsNoticed(planning, plan, "whole replicas");
}

TEST(ProofMutationTest, ReplicasThatShareAPipeline) {
  const Planning planning = MakePlanning(kUntied, 2, Optimizer::kMomentum);
  const int last = planning.chain.size() - 1;
  Plan plan =
      HandMade(planning, 1,
               {{{Stage({{0, 1}}, {"a:0"}, {1}, "F B"), Stage({{2, last}}, {"b:0"}, {1}, "F B")}}});
  plan.local = LocalPlan{{2, 2}};
  ExpectPlanMutantsNoticed(planning, plan, "shared pipeline");
}

TEST(ProofMutationTest, Shards) {
  const Graph graph = Tiny("tiny-mlp?layers=2", 4);
  ExpectAllNoticed(Lowered(ZeroSharded(graph, FlatMesh(2), {0.7, 0.3}), graph, "zero"), graph, {},
                   "zero");
  for (unsigned seed = 0; seed < 2; ++seed) {
    const SpmdPlan plan = RandomSpmdPlan(graph, {{"a:0", "a:1"}, {"b:0", "b:1"}}, seed);
    ExpectAllNoticed(Lowered(plan, graph, "spmd"), graph, {}, fmt::format("spmd {}", seed));
  }
}

}  // namespace
}  // namespace heddle
