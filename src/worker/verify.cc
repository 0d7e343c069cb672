#include "run/torch/verify.h"

#include <fmt/format.h>

#include "base/json_field.h"
#include "base/text.h"
#include "program/lower/lower.h"
#include "worker/commands.h"

namespace heddle {
namespace {

struct Flags {
  std::string file;
  std::string profile;
  int64_t steps = 3;
  bool json = false;
};

Result<Flags> ParseFlags(const Words& words) {
  Flags flags;
  for (size_t k = 0; k < words.size(); ++k) {
    const bool has_value = k + 1 < words.size();
    if (words[k] == "--json") {
      flags.json = true;
    } else if (words[k] == "--steps" && has_value) {
      const auto steps = ParseInteger(words[++k]);
      if (!steps || *steps < 1 || *steps > 1000) return Usage("--steps takes 1 to 1000");
      flags.steps = *steps;
    } else if (words[k] == "--profile" && has_value) {
      flags.profile = words[++k];
    } else if (flags.file.empty()) {
      flags.file = words[k];
    } else {
      return Usage(fmt::format("unexpected \"{}\"", words[k]));
    }
  }
  if (flags.file.empty()) return Usage("no plan given");
  return flags;
}

void Print(const Verification& v, const Flags& flags, const Plan& plan) {
  if (flags.json) {
    const Json json = {{"schema", "heddle.verification/1"},
                       {"ok", v.ok},
                       {"max_loss_error", v.max_loss_error},
                       {"max_gradient_error", v.max_gradient_error},
                       {"max_parameter_error", v.max_parameter_error},
                       {"worst", v.worst}};
    fmt::print("{}\n", json.dump(2));
    return;
  }
  fmt::print("{}: {} of {} on {} devices against one device, fp64, {} steps\n",
             v.ok ? "equal" : "DIFFERENT", plan.strategy, plan.model, plan.devices_used(),
             flags.steps);
  fmt::print("  largest relative error: loss {:.2g}, gradients {:.2g}, parameters {:.2g}\n",
             v.max_loss_error, v.max_gradient_error, v.max_parameter_error);
  fmt::print("  worst: {}\n", v.worst);
}

}  // namespace

Status VerifyCommand(const Words& words) {
  HEDDLE_ASSIGN(const Flags flags, ParseFlags(words));
  HEDDLE_ASSIGN(const PlanAndProfile both, LoadPlanAndProfile(flags.file, flags.profile));
  const LoadedPlan& loaded = both.loaded;
  const Graph& graph = loaded.planning->graph;
  constexpr int64_t kMostElements = int64_t{1} << 28;
  if (graph.parameter_count() * static_cast<int64_t>(loaded.plan.devices_used()) > kMostElements) {
    return BadInput(flags.file, "the model is too large to verify on this machine",
                    "plan the same strategy for a smaller one, e.g. tiny-gpt");
  }
  HEDDLE_ASSIGN(const Program program, LowerPlan(loaded.plan, graph));
  VerifyOptions options;
  options.steps = flags.steps;
  HEDDLE_ASSIGN(const Verification verification, VerifyProgram(program, graph, options));
  Print(verification, flags, loaded.plan);
  if (verification.ok) return Ok();
  return Error{ErrorKind::kParity, flags.file, "does not equal one device: " + verification.worst,
               ""};
}

}  // namespace heddle
