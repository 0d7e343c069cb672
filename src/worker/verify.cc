#include "run/torch/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/json_field.h"
#include "base/text.h"
#include "model/zoo.h"
#include "program/lower/lower.h"
#include "worker/commands.h"
#include "worker/output.h"

namespace heddle {
namespace {

struct Flags {
  std::string file;
  std::string profile;
  int64_t steps = 3;
  bool json = false;
  bool whole = false;  // never a scaled-down copy
};

Result<Flags> ParseFlags(const Words& words) {
  Flags flags;
  for (size_t k = 0; k < words.size(); ++k) {
    const bool has_value = k + 1 < words.size();
    if (words[k] == "--json") {
      flags.json = true;
    } else if (words[k] == "--whole") {
      flags.whole = true;
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

// `small` is the copy that was verified in the plan's place, if one was.
Status PrintResult(const Verification& v, const Flags& flags, const Plan& plan, const Plan* small,
                   DType dtype) {
  if (flags.json) {
    Json json = {{"schema", "heddle.verification/1"},
                 {"ok", v.ok},
                 {"dtype", NameOf(dtype)},
                 {"max_loss_error", v.max_loss_error},
                 {"max_gradient_error", v.max_gradient_error},
                 {"max_parameter_error", v.max_parameter_error},
                 {"tensors", v.tensors},
                 {"rounding_alone", v.rounding_alone},
                 {"share_of_rounding", v.share},
                 {"worst", v.worst}};
    if (small != nullptr)
      json["scaled_to"] = {{"model", small->request.model}, {"batch", small->request.batch}};
    return PrintJson(json);
  }
  std::string text = fmt::format("{}: {} of {} on {} devices against one device, {}, {} {}\n",
                                 v.ok ? "equal" : "DIFFERENT", plan.strategy, plan.request.model,
                                 plan.devices_used(), dtype == DType::kF64 ? "fp64" : "fp32",
                                 flags.steps, plan.local ? "rounds" : "steps");
  if (small != nullptr) {
    text += fmt::format(
        "  too large to compute here: verified as {}, batch {}, under the same decisions\n",
        small->request.model, small->request.batch);
  }
  text +=
      fmt::format("  largest relative error: loss {:.2g}, gradients {:.2g}, parameters {:.2g}\n",
                  v.max_loss_error, v.max_gradient_error, v.max_parameter_error);
  if (v.rounding_alone > 0) {
    text += fmt::format(
        "  {} of {} values compared are rounding alone: no two orders of sums agree on them\n",
        v.rounding_alone, v.tensors);
  }
  return Print(text + fmt::format("  worst: {}\n", v.worst));
}

// What one training step of the plan takes here: memory of all devices, of the reference and of how
// far rounding moves it, in fp64, and arithmetic, three times.
bool TooLarge(const Plan& plan, const Graph& graph, int64_t steps) {
  constexpr double kMostBytes = 6e9;
  constexpr double kMostFlops = 3e12;
  double bytes = 0, flops = 0;
  for (const Estimate::Memory& memory : plan.estimate.memory) {
    bytes += 3 * static_cast<double>(memory.peak_bytes);
  }
  for (const Op& op : graph.ops()) flops += 3 * FlopsOf(op, op.extents).value;
  flops *= static_cast<double>(plan.batches_per_iteration());
  return bytes > kMostBytes || flops * static_cast<double>(steps) > kMostFlops;
}

// The plan's decisions for a small copy of its model.
struct SmallCopy {
  Plan plan;
  std::unique_ptr<Graph> graph;
};

Result<SmallCopy> ScaleDown(const Plan& plan) {
  constexpr int64_t kSamplesPerMicrobatch = 8;
  SmallCopy copy{plan, nullptr};
  HEDDLE_ASSIGN(copy.plan.request.model, ScaledDown(plan.request.model));
  copy.plan.request.batch = std::min(plan.request.batch, plan.microbatches * kSamplesPerMicrobatch);
  HEDDLE_ASSIGN(Graph graph,
                BuildModel(copy.plan.request.model, {copy.plan.request.batch, plan.request.dtype,
                                                     plan.request.optimizer, plan.request.clip}));
  copy.graph = std::make_unique<Graph>(std::move(graph));
  copy.plan.model_hash = copy.graph->ContentHash();
  return copy;
}

}  // namespace

Status VerifyCommand(const Words& words) {
  HEDDLE_ASSIGN(const Flags flags, ParseFlags(words));
  HEDDLE_ASSIGN(const PlanAndProfile both, LoadPlanAndProfile(flags.file, flags.profile));
  const Plan* plan = &both.loaded.plan;
  if (IsProfileSpec(plan->request.model)) {
    return BadInput(flags.file, "its model is a profile: it has times, no arithmetic",
                    "verify a model of the zoo; heddle run --emulate keeps a profile's time");
  }
  const Graph* graph = &both.loaded.planning->graph;
  SmallCopy copy;
  if (!flags.whole && TooLarge(*plan, *graph, flags.steps)) {
    HEDDLE_ASSIGN(copy, ScaleDown(*plan));
    plan = &copy.plan;
    graph = copy.graph.get();
  }
  HEDDLE_ASSIGN(const Program program, LowerPlan(*plan, *graph));
  VerifyOptions options;
  options.steps = flags.steps;
  options.ages = WeightAges(*plan, ChainOf(*graph).size());
  options.local = plan->local;
  HEDDLE_ASSIGN(const Verification verification, VerifyProgram(program, *graph, options));
  HEDDLE_RETURN_IF_ERROR(PrintResult(verification, flags, both.loaded.plan,
                                     copy.graph ? &copy.plan : nullptr, options.train.dtype));
  if (verification.ok) return Ok();
  return Error{ErrorKind::kParity, flags.file, "does not equal one device: " + verification.worst,
               ""};
}

}  // namespace heddle
