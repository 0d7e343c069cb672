#include "report/plan/explanation.h"

#include "plan/list_guarantee.h"
#include "report/device_table.h"
#include "report/plan/spmd_text.h"
#include "report/summary.h"

namespace heddle {

Result<ExplainedPlan> ExplainPlan(const Planning& planning, Plan plan) {
  HEDDLE_ASSIGN(Evaluation evaluation, EvaluateFitting(planning, plan, /*keep_events=*/false));
  FillEstimate(planning, evaluation, plan);
  plan.estimate.guaranteed_seconds = ListGuarantee(planning, plan).value;
  HEDDLE_ASSIGN(const Throughput throughput, ThroughputOf(plan, planning.graph, *planning.cluster,
                                                          evaluation.simulation.iteration));
  return ExplainedPlan{std::move(plan), std::move(evaluation.simulation), throughput};
}

std::string ExplanationText(const ExplainedPlan& explained, const Planning& planning,
                            const TableStyle& style, bool all) {
  const auto& [plan, simulation, throughput] = explained;
  const Cluster& cluster = *planning.cluster;
  std::string text = VerdictText(plan, simulation, cluster, throughput, style) + "\n" +
                     DeviceTableText(plan, simulation, style, all) + "\n";
  if (plan.spmd) text += SpmdExplanation(plan, planning.graph, cluster, style, all) + "\n";
  return text + SearchText(plan.search, style, all);
}

}  // namespace heddle
