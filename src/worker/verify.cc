#include "run/torch/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/file.h"
#include "base/json_field.h"
#include "base/text.h"
#include "model/zoo.h"
#include "program/check/check.h"
#include "program/lower/lower.h"
#include "program/program_file.h"
#include "program/proof/rule_ages.h"
#include "program/text/program_text.h"
#include "worker/commands.h"
#include "worker/output.h"

namespace heddle {
namespace {

struct Flags {
  std::string file;
  std::string plan;  // of a Program as text, if given
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
    } else if (words[k] == "--plan" && has_value) {
      flags.plan = words[++k];
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

// What is verified, for people.
struct Subject {
  std::string strategy, model;
  int devices = 0;
  bool rounds = false;  // of LocalSGD
};

// `small` is the copy that was verified in the plan's place, if one was.
Status PrintResult(const Verification& v, const Flags& flags, const Subject& subject,
                   const Plan* small, DType dtype) {
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
                                 v.ok ? "equal" : "DIFFERENT", subject.strategy, subject.model,
                                 subject.devices, dtype == DType::kF64 ? "fp64" : "fp32",
                                 flags.steps, subject.rounds ? "rounds" : "steps");
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

// What the training takes here: memory of all devices, of the reference and of how far rounding
// moves it, in fp64, and arithmetic, three times.
bool TooLarge(Bytes peaks, int64_t batches, const Graph& graph) {
  constexpr double kMostBytes = 6e9;
  constexpr double kMostFlops = 3e12;
  double flops = 0;
  for (const Op& op : graph.ops()) flops += 3 * FlopsOf(op, op.extents).value;
  return 3 * static_cast<double>(peaks.value) > kMostBytes ||
         flops * static_cast<double>(batches) > kMostFlops;
}

bool TooLarge(const Plan& plan, const Graph& graph, int64_t steps) {
  Bytes peaks;
  for (const Estimate::Memory& memory : plan.estimate.memory) peaks += Bytes{memory.peak_bytes};
  return TooLarge(peaks, steps * plan.batches_per_iteration(), graph);
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

Status Judge(const Verification& verification, const Flags& flags) {
  if (verification.ok) return Ok();
  return Error{ErrorKind::kParity, flags.file, "does not equal one device: " + verification.worst,
               ""};
}

Status RefuseProfileModel(const std::string& file, const std::string& model) {
  if (!IsProfileSpec(model)) return Ok();
  return BadInput(file, "its model is a profile: it has times, no arithmetic",
                  "verify a model of the zoo; heddle run --emulate keeps a profile's time");
}

// The model of a Program as text: the one it names, or that of the plan given beside it.
struct TextModel {
  std::string name;
  PlanAndProfile both;           // if a plan is given
  std::unique_ptr<Graph> named;  // if none is

  const Graph& graph() const { return named ? *named : both.loaded.planning->graph; }
};

Result<TextModel> FindModel(const Program& program, const Flags& flags) {
  TextModel model{program.model, {}, nullptr};
  HEDDLE_RETURN_IF_ERROR(RefuseProfileModel(flags.file, program.model));
  if (flags.plan.empty()) {
    if (program.model.empty()) {
      return BadInput(flags.file, "names no model, whose arithmetic it would be compared with",
                      "give the plan it was made from with --plan");
    }
    HEDDLE_ASSIGN(Graph graph, ModelOf(program, flags.file));
    model.named = std::make_unique<Graph>(std::move(graph));
    return model;
  }
  HEDDLE_ASSIGN(model.both, LoadPlanAndProfile(flags.plan, flags.profile));
  const Plan& plan = model.both.loaded.plan;
  model.name = plan.request.model;
  HEDDLE_RETURN_IF_ERROR(RefuseProfileModel(flags.plan, plan.request.model));
  const bool other_hash = !program.model_hash.empty() && program.model_hash != plan.model_hash;
  const int64_t samples = model.graph().batch() * BatchesPerBody(program);
  if (other_hash || program.samples() != samples) {
    return BadInput(flags.file, "is of another model or batch than " + flags.plan,
                    "give the plan it was made from");
  }
  return model;
}

// Why a checked Program cannot be run beside one device; empty: it can.
std::string WhyNotRun(const Program& program, const Verdict& verdict) {
  if (program.updates == 0) return "it trains nothing";
  if (!verdict.not_proven.empty()) return verdict.not_proven;
  for (const Segment& segment : program.segments) {
    const bool works =
        segment.phase != SegmentPhase::kOther && segment.phase != SegmentPhase::kUpdate;
    if (works && segment.ops.empty()) return fmt::format("segment {} has no ops", segment.name);
  }
  return "";
}

// Real tensors are for a Program that the checker has proven: what it refuses may do anything.
Result<Verdict> CheckText(const Program& program, const Graph& graph, const std::string& file) {
  Verdict verdict = CheckProgram(program, {&graph, {}});
  if (!verdict.ok()) {
    const Finding& finding = verdict.findings[0];
    return BadInput(file, fmt::format("{}: {}", NameOf(finding.kind), finding.message));
  }
  const std::string why = WhyNotRun(program, verdict);
  if (why.empty()) return verdict;
  return BadInput(file, "cannot be compared with one device: " + why);
}

// A Program as text, written by hand or edited. Which versions are read, and what is averaged, its
// header says.
Status VerifyText(const Flags& flags, const std::string& text) {
  HEDDLE_ASSIGN(const Program program, ParseProgram(text, flags.file));
  HEDDLE_ASSIGN(const TextModel model, FindModel(program, flags));
  HEDDLE_ASSIGN(const Verdict verdict, CheckText(program, model.graph(), flags.file));
  Bytes peaks;
  for (const auto& memory : verdict.memory) peaks += memory.peak;
  if (!flags.whole && TooLarge(peaks, flags.steps * BatchesPerBody(program), model.graph())) {
    return BadInput(flags.file, "is too large to compute here, and only a plan can be scaled down",
                    "verify its plan, or add --whole");
  }
  const bool local = program.rule == UpdateRule::kLocal;
  VerifyOptions options;
  options.steps = flags.steps;
  HEDDLE_ASSIGN(options.ages, AgesByRule(program, flags.file));
  const auto layers = static_cast<size_t>(ChainOf(model.graph()).size());
  if (!options.ages.empty() && options.ages.size() != layers) {
    return BadInput(flags.file + ": layers", fmt::format("is {}", program.layers),
                    fmt::format("the model has {}", layers));
  }
  if (local) options.local = LocalPlan{program.local_steps};
  HEDDLE_ASSIGN(const Verification verification, VerifyProgram(program, model.graph(), options));
  const Subject subject{program.strategy, model.name, static_cast<int>(program.devices.size()),
                        local};
  HEDDLE_RETURN_IF_ERROR(PrintResult(verification, flags, subject, nullptr, options.train.dtype));
  return Judge(verification, flags);
}

}  // namespace

Status VerifyCommand(const Words& words) {
  HEDDLE_ASSIGN(const Flags flags, ParseFlags(words));
  HEDDLE_ASSIGN(const std::string text, ReadFile(flags.file));
  if (IsProgramText(text)) return VerifyText(flags, text);
  if (!flags.plan.empty()) {
    return Usage("--plan has no effect beside a plan", "it is for a Program as text");
  }
  HEDDLE_ASSIGN(const PlanAndProfile both, LoadPlanAndProfile(flags.file, flags.profile));
  const Plan* plan = &both.loaded.plan;
  HEDDLE_RETURN_IF_ERROR(RefuseProfileModel(flags.file, plan->request.model));
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
  const Plan& asked = both.loaded.plan;
  HEDDLE_RETURN_IF_ERROR(PrintResult(
      verification, flags,
      {asked.strategy, asked.request.model, asked.devices_used(), asked.local.has_value()},
      copy.graph ? &copy.plan : nullptr, options.train.dtype));
  return Judge(verification, flags);
}

}  // namespace heddle
