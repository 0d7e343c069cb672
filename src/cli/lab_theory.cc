// heddle lab theory: the bound of stale block descent, beside what a race measures.

#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <thread>

#include "base/json_field.h"
#include "base/text.h"
#include "cli/lab.h"
#include "cli/value_check.h"
#include "lab/problems.h"
#include "lab/theory.h"
#include "report/text_width.h"

namespace heddle {
namespace {

struct Flags {
  std::string stages = "2,4,8,16,32";
  BoundInputs inputs{1, 1, 1, 1, 1e6};
  ObjectiveOptions problem;
  StalenessOptions study;
};

constexpr const char* kAssumptions[] = {
    "f is L-smooth",
    "block gradients are unbiased",
    "E‖block gradient‖² is at most G², whatever came before: a second moment, which Gaussian noise "
    "has, not a bound of the norm, which it has not",
    "delays are at most δ = ⌊S² - S/2⌋, counted in the schedule",
};

// A row of the bound: how the step was tuned, what the stale term counts.
struct BoundRow {
  int stages = 0;
  bool tuned_with_stale = false;
  Accounting accounting = Accounting::kByDelay;
  Bound bound;
};

constexpr Accounting kForms[] = {Accounting::kByDelay, Accounting::kConstant, Accounting::kUniform};

std::vector<BoundRow> BoundRows(const std::vector<int>& stages, BoundInputs inputs) {
  std::vector<BoundRow> rows;
  for (const int s : stages) {
    inputs.stages = s;
    for (const bool with : {false, true}) {
      for (const Accounting accounting : kForms) {
        const double step = with ? TunedStepWithStale(inputs, accounting) : TunedStep(inputs);
        rows.push_back({s, with, accounting, BoundAt(inputs, step, accounting)});
      }
    }
  }
  return rows;
}

const char* FormOf(Accounting accounting) {
  static constexpr const char* kNames[] = {"S^4", "S^3", "S^3 uniform"};
  return kNames[static_cast<size_t>(accounting)];
}

// What Σ n_j² is for a method, and how that is known.
struct ReadCount {
  double count = 0;
  const char* known;
};

constexpr int64_t kCountedUpdates = 20000;

ReadCount CountFor(const std::string& method, int stages) {
  if (method == "pd") return {static_cast<double>(PipeDreamCount(stages)), "counted, no proof"};
  return {StaleCount(stages, Accounting::kUniform), "proven"};
}

Json IntervalJson(const Interval& interval) {
  return {{"mean", interval.mean}, {"low", interval.low}, {"high", interval.high}};
}

Json FitJson(const std::string& method, const StalenessFit& fit) {
  Json json;
  json["method"] = method;
  json["rows"] = Json::array();
  for (const StalenessRow& row : fit.rows) {
    json["rows"].push_back({{"stages", row.stages},
                            {"distance", IntervalJson(row.distance)},
                            {"block_gradient", IntervalJson(row.gradient)},
                            {"largest_block_gradient", row.largest},
                            {"count", IntervalJson(row.count)},
                            {"count_by_delay", StaleCount(row.stages, Accounting::kByDelay)},
                            {"count_sharper", CountFor(method, row.stages).count},
                            {"count_sharper_is", CountFor(method, row.stages).known}});
    if (method == "pd") continue;
    Json& last = json["rows"].back();
    last["count_constant_delay"] = StaleCount(row.stages, Accounting::kConstant);
    last["counted_uniform"] =
        CountedReads(row.stages, Accounting::kUniform, kCountedUpdates, /*seed=*/0);
    last["counted_constant_delay"] =
        CountedReads(row.stages, Accounting::kConstant, kCountedUpdates, /*seed=*/0);
  }
  json["distance_exponent"] = IntervalJson(fit.distance_exponent);
  json["count_exponent"] = IntervalJson(fit.count_exponent);
  return json;
}

Json ToJson(const Flags& flags, const std::vector<BoundRow>& rows, const StalenessStudy& study) {
  Json json;
  json["schema"] = "heddle.lab.theory/1";
  json["L"] = flags.inputs.smoothness;
  json["G"] = flags.inputs.gradient;
  json["gap"] = flags.inputs.gap;
  json["steps"] = flags.inputs.steps;
  json["assumptions"] = kAssumptions;
  json["rows"] = Json::array();
  for (const BoundRow& row : rows) {
    json["rows"].push_back({{"stages", row.stages},
                            {"form", FormOf(row.accounting)},
                            {"tuned_with_stale", row.tuned_with_stale},
                            {"step_size", row.bound.step_size},
                            {"descent_term", row.bound.descent},
                            {"noise_term", row.bound.noise},
                            {"stale_term", row.bound.stale},
                            {"bound", row.bound.total()}});
  }
  json["measured"] = {
      {"step_size", study.step_size},
      {"noise", flags.study.noise},
      {"ticks", flags.study.ticks},
      {"seeds", flags.study.seeds},
      {"methods", {FitJson("pd", study.pipedream), FitJson("rpd", study.randomized)}}};
  return json;
}

std::string Number(double value) { return fmt::format("{:.3g}", value); }

std::string Shown(const Interval& interval) {
  return fmt::format("{} [{}, {}]", Number(interval.mean), Number(interval.low),
                     Number(interval.high));
}

void PrintBound(const Flags& flags, const std::vector<BoundRow>& rows, const Terminal& terminal) {
  terminal.Print(fmt::format(
      "mean of E‖∇f‖² <= 2SΔ/(γK) + γSLG² + γ²L²G²·c        L {} · G {} · Δ {} · K {}\n"
      "Proven, for Randomized PipeDream. c: δ², of order S^4; or E Σ n_j², of order S^3, "
      "with delays of δ or uniform up to it. It assumes:\n",
      Number(flags.inputs.smoothness), Number(flags.inputs.gradient), Number(flags.inputs.gap),
      Number(flags.inputs.steps)));
  for (const char* assumption : kAssumptions) terminal.Print(fmt::format("  - {}\n", assumption));
  terminal.Print("\n");
  TextTable table({{"stages", Align::kRight},
                   {"tuned"},
                   {"form"},
                   {"c", Align::kRight},
                   {"step size", Align::kRight, 2},
                   {"descent", Align::kRight, 1},
                   {"noise", Align::kRight, 1},
                   {"stale", Align::kRight},
                   {"bound", Align::kRight}});
  for (const BoundRow& row : rows) {
    table.AddRow({std::to_string(row.stages),
                  row.tuned_with_stale ? "with stale term" : "without stale term",
                  FormOf(row.accounting), Number(StaleCount(row.stages, row.accounting)),
                  Number(row.bound.step_size), Number(row.bound.descent), Number(row.bound.noise),
                  Number(row.bound.stale), Number(row.bound.total())});
  }
  terminal.Print(table.Print(terminal.style()));
}

void PrintStudy(const Flags& flags, const StalenessStudy& study, const Terminal& terminal) {
  terminal.Print(fmt::format(
      "\nMeasured on the quadratic, step size {} for all, noise {}, {} ticks, {} seeds:\n\n",
      Number(study.step_size), Number(flags.study.noise), flags.study.ticks, flags.study.seeds));
  TextTable table({{"method"},
                   {"stages", Align::kRight},
                   {"‖x - z‖², measured", Align::kLeft, 1},
                   {"c = ‖x - z‖²/(γ²g²), measured"},
                   {"Σ n_j²", Align::kRight},
                   {"which is"},
                   {"counted", Align::kRight, 2},
                   {"δ²", Align::kRight, 1}});
  const std::pair<std::string, const StalenessFit*> fits[] = {{"pd", &study.pipedream},
                                                              {"rpd", &study.randomized}};
  for (const auto& [name, fit] : fits) {
    for (const StalenessRow& row : fit->rows) {
      const ReadCount reads = CountFor(name, row.stages);
      const double counted =
          name == "pd" ? reads.count
                       : CountedReads(row.stages, Accounting::kUniform, kCountedUpdates, 0);
      table.AddRow({name, std::to_string(row.stages), Shown(row.distance), Shown(row.count),
                    fmt::format("{:.4g}", reads.count), reads.known, fmt::format("{:.4g}", counted),
                    Number(StaleCount(row.stages, Accounting::kByDelay))});
    }
  }
  terminal.Print(table.Print(terminal.style()) + "\n");
  for (const auto& [name, fit] : fits) {
    if (fit->count_exponent.mean == 0) {
      terminal.Print(fmt::format("{}: too few numbers of stages for an exponent\n", name));
      continue;
    }
    terminal.Print(
        fmt::format("{}: c grows as S^{}, ‖x - z‖² as S^{}; the bound says 4, the sharper form 3\n",
                    name, Shown(fit->count_exponent), Shown(fit->distance_exponent)));
  }
  terminal.Print(
      Wrapped("\ng² is the mean squared norm of the updated block's gradient. Intervals: "
              "95%, t over seeds; of exponents, of the slope over stages and seeds. The bound is "
              "proven for rpd and for no other; what stands beside pd is counted or measured.",
              terminal.width));
}

Status Run(Flags flags, const Terminal& terminal) {
  HEDDLE_ASSIGN(const std::vector<int> stages, ParseStages(flags.stages));
  const std::pair<const char*, double> positive[] = {{"--L", flags.inputs.smoothness},
                                                     {"--G", flags.inputs.gradient},
                                                     {"--gap", flags.inputs.gap},
                                                     {"--steps", flags.inputs.steps}};
  for (const auto& [flag, value] : positive) {
    if (!(value > 0) || !std::isfinite(value)) {
      return BadInput(flag, fmt::format("{} is not positive and finite", value));
    }
  }
  HEDDLE_ASSIGN(const auto quadratic, MakeProblem("quadratic", flags.problem));
  flags.study.stages = stages;
  flags.study.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  terminal.Progress("measuring ‖x - z‖² …");
  Result<StalenessStudy> measured = MeasureStaleness(*quadratic, flags.study);
  terminal.EndProgress();
  HEDDLE_ASSIGN(const StalenessStudy study, std::move(measured));
  const std::vector<BoundRow> rows = BoundRows(stages, flags.inputs);
  if (terminal.json) {
    terminal.PrintJson(ToJson(flags, rows, study));
    return Ok();
  }
  PrintBound(flags, rows, terminal);
  PrintStudy(flags, study, terminal);
  return Ok();
}

}  // namespace

void AddLabTheoryCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  const Command command =
      commands.Add("theory", "The bound of stale block descent beside measured staleness",
                   "heddle lab theory --stages 2..32 --L 4.01 --G 1 --gap 500 --steps 100000");
  command.AddOption("--stages", flags->stages, "As in 2,4,8, or 2..32, which doubles")
      .ShowDefault();
  command.AddOption("--L", flags->inputs.smoothness, "Smoothness").ShowDefault();
  command
      .AddOption("--G", flags->inputs.gradient,
                 "Root of the bound of a block gradient's second moment")
      .ShowDefault();
  command.AddOption("--gap", flags->inputs.gap, "f at the start minus f at the minimum")
      .ShowDefault();
  command.AddOption("--steps", flags->inputs.steps, "Block updates").ShowDefault();
  command.AddOption("--dimension", flags->problem.dimension, "Of the quadratic measured on")
      .Check(AtLeast(1));
  command
      .AddOption("--step-size", flags->study.step_size,
                 "Of the measurement; unless given half of what is stable for the most stages")
      .Check(Above(0));
  command.AddOption("--noise", flags->study.noise, "σ of the measurement").ShowDefault();
  command.AddOption("--ticks", flags->study.ticks, "Of the measurement").ShowDefault();
  command.AddOption("--seeds", flags->study.seeds, "Of the measurement").ShowDefault();
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
