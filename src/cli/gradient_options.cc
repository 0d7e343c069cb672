#include "cli/gradient_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "program/lower/lower.h"
#include "program/text/program_text.h"

namespace heddle {

Status RefuseUnusedGradientOptions(const Plan& plan, const Graph& graph) {
  constexpr std::string_view kWithoutReplicas[] = {"gpipe", "1f1b", "zb-h1", "interleaved"};
  const bool servers = plan.request.sync == GradientSync::kServers;
  const bool asked = servers || plan.request.compress;
  if (!asked || std::find(std::begin(kWithoutReplicas), std::end(kWithoutReplicas),
                          plan.strategy) == std::end(kWithoutReplicas)) {
    return Ok();
  }
  Plan plain = plan;
  plain.request.sync = GradientSync::kAllReduce;
  plain.request.compress = false;
  HEDDLE_ASSIGN(const Program with, LowerPlan(plan, graph));
  HEDDLE_ASSIGN(const Program without, LowerPlan(plain, graph));
  if (PrintProgram(with) != PrintProgram(without)) return Ok();
  return Usage(fmt::format("{} has no effect: {} puts no weight of this model on two devices",
                           servers ? "--sync" : "--compress", plan.strategy),
               "leave it out, or take a strategy with replicas, such as dp");
}

}  // namespace heddle
