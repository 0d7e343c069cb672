// heddle lab race: every method at its best step size, loss against simulated time.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <thread>

#include "base/file.h"
#include "base/json_field.h"
#include "base/text.h"
#include "cli/lab.h"
#include "lab/methods.h"
#include "lab/problems.h"
#include "lab/race.h"
#include "report/line_chart.h"
#include "report/text_width.h"

namespace heddle {
namespace {

struct Flags {
  std::string objective = "quadratic";
  ProblemOptions problem;
  std::string stages = "2,4,8,16,32";
  std::string methods = "pd,rpd,local,local-plain,gpipe,2bw";
  std::string noise = "0";
  std::string plot;
  RaceOptions race;
};

Status CheckPlotName(const std::string& plot) {
  if (plot.empty() || plot.ends_with(".svg") || plot.ends_with(".html")) return Ok();
  return Usage("--plot: \"" + plot + "\" is neither .svg nor .html", "name the kind by the ending");
}

Result<RaceOptions> ToOptions(const Flags& flags) {
  RaceOptions options = flags.race;
  HEDDLE_ASSIGN(options.stages, ParseStages(flags.stages));
  HEDDLE_ASSIGN(options.noises, ParseReals("--noise", flags.noise));
  options.methods.clear();
  for (const std::string_view name : SplitAt(flags.methods, ',')) {
    HEDDLE_ASSIGN(const Method* method, FindMethod(std::string(name)));
    const bool known = std::find(options.methods.begin(), options.methods.end(), method->name) !=
                       options.methods.end();
    if (!known) options.methods.push_back(method->name);
  }
  if (options.threads == 0) {
    options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }
  return options;
}

// How many ticks a curve's points are.
Json CurveJson(const RaceEntry& entry, const TrialOptions& trial) {
  Json json{{"method", entry.method},    {"stages", entry.stages},     {"noise", entry.noise},
            {"ticks", Json::array()},    {"loss_mean", Json::array()}, {"loss_low", Json::array()},
            {"loss_high", Json::array()}};
  for (size_t point = 0; point < entry.curve.size(); ++point) {
    json["ticks"].push_back(PointTick(trial, static_cast<int>(point)));
    json["loss_mean"].push_back(NumberOrNull(entry.curve[point].mean));
    json["loss_low"].push_back(NumberOrNull(entry.curve[point].low));
    json["loss_high"].push_back(NumberOrNull(entry.curve[point].high));
  }
  return json;
}

Json RatioJson(const RaceEntry& entry) {
  if (!entry.against_first) return Json();
  return {{"mean", entry.against_first->mean},
          {"low", entry.against_first->low},
          {"high", entry.against_first->high}};
}

Json ToJson(const std::string& name, const Objective& objective, const RaceOptions& options,
            const Race& race) {
  Json json;
  json["schema"] = "heddle.lab.race/1";
  json["objective"] = name;
  json["dimension"] = objective.dimension();
  json["smoothness"] = objective.smoothness();
  json["lowest_loss"] = objective.lowest();
  json["seeds"] = options.seeds;
  json["interval"] = "95% t-interval over seeds";
  json["clock"] = {{"forward", options.clock.forward},
                   {"backward", options.clock.backward},
                   {"latency", options.clock.latency},
                   {"average", options.trial.average_ticks}};
  json["every"] = options.trial.every;
  json["grid"] = {{"low", race.lowest_step},
                  {"high", race.highest_step},
                  {"count", options.step_sizes},
                  {"refine", options.refine}};
  json["rows"] = Json::array();
  json["curves"] = Json::array();
  for (const RaceEntry& entry : race.entries) {
    json["rows"].push_back({{"objective", name},
                            {"method", entry.method},
                            {"stages", entry.stages},
                            {"noise", entry.noise},
                            {"step_size", entry.step_size},
                            {"step_sizes_tried", entry.tried},
                            {"loss_mean", NumberOrNull(entry.final.mean)},
                            {"loss_low", NumberOrNull(entry.final.low)},
                            {"loss_high", NumberOrNull(entry.final.high)},
                            {"ticks", options.trial.ticks},
                            {"against_first", RatioJson(entry)}});
    json["curves"].push_back(CurveJson(entry, options.trial));
  }
  return json;
}

// Panels by noise and stages; on a logarithmic axis what is left above the lowest loss.
LineChart ChartOf(const std::string& name, const Objective& objective, const RaceOptions& options,
                  const Race& race) {
  LineChart chart;
  chart.title =
      fmt::format("{}: loss against simulated time, {} seeds, 95% intervals", name, options.seeds);
  chart.x_label = "ticks";
  chart.y_label = objective.lowest() == 0 ? "loss" : "loss above the lowest";
  chart.log_y = true;
  for (size_t k = 0; k < race.entries.size(); ++k) {
    const RaceEntry& entry = race.entries[k];
    if (k % options.methods.size() == 0) {
      const std::string noise =
          options.noises.size() == 1 ? "" : fmt::format(", noise {}", entry.noise);
      chart.panels.push_back({fmt::format("{} stages{}", entry.stages, noise), {}});
    }
    ChartSeries series;
    series.name = entry.method;
    for (size_t point = 0; point < entry.curve.size(); ++point) {
      const Interval& loss = entry.curve[point];
      series.x.push_back(static_cast<double>(PointTick(options.trial, static_cast<int>(point))));
      series.y.push_back(loss.mean - objective.lowest());
      series.low.push_back(loss.low - objective.lowest());
      series.high.push_back(loss.high - objective.lowest());
    }
    chart.panels.back().series.push_back(std::move(series));
  }
  return chart;
}

std::string Number(double value) { return fmt::format("{:.4g}", value); }

std::string RatioText(const RaceEntry& entry) {
  if (!entry.against_first) return "";
  return fmt::format("{:.3g} [{:.3g}, {:.3g}]", entry.against_first->mean, entry.against_first->low,
                     entry.against_first->high);
}

void PrintTable(const std::string& name, const Objective& objective, const RaceOptions& options,
                const Race& race, const Terminal& terminal) {
  terminal.Print(fmt::format("{} · {} parameters · L {} · lowest loss {} · {} ticks · {} seeds\n\n",
                             name, objective.dimension(), Number(objective.smoothness()),
                             Number(objective.lowest()), options.trial.ticks, options.seeds));
  std::vector<Column> columns = {{"noise", Align::kRight},
                                 {"stages", Align::kRight},
                                 {"method"},
                                 {"step size", Align::kRight},
                                 {"loss", Align::kRight},
                                 {"low", Align::kRight},
                                 {"high", Align::kRight},
                                 {"against " + options.methods[0], Align::kRight}};
  const bool above = objective.lowest() != 0;
  if (above) columns.push_back({"above lowest", Align::kRight});
  TextTable table(columns);
  for (size_t begin = 0; begin < race.entries.size(); begin += options.methods.size()) {
    std::vector<RaceEntry> group(
        race.entries.begin() + static_cast<ptrdiff_t>(begin),
        race.entries.begin() + static_cast<ptrdiff_t>(begin + options.methods.size()));
    std::stable_sort(group.begin(), group.end(), [](const RaceEntry& a, const RaceEntry& b) {
      return a.final.mean < b.final.mean;
    });
    if (begin > 0) table.AddRule();
    for (const RaceEntry& entry : group) {
      std::vector<std::string> cells = {Number(entry.noise),
                                        std::to_string(entry.stages),
                                        entry.method,
                                        Number(entry.step_size),
                                        Number(entry.final.mean),
                                        Number(entry.final.low),
                                        Number(entry.final.high),
                                        RatioText(entry)};
      if (above) cells.push_back(Number(entry.final.mean - objective.lowest()));
      table.AddRow(std::move(cells));
    }
  }
  terminal.Print(table.Print({terminal.colour, 0}));
  terminal.Print(Wrapped(
      fmt::format("\nEach method at its best step size, from {} a factor √2 apart, more beyond an "
                  "edge, then {} halvings around the best. low and high: 95% t-interval over the "
                  "seeds. against {}: what is left above the lowest loss, divided seed by seed; "
                  "below 1 is better.",
                  options.step_sizes, options.refine, options.methods[0]),
      terminal.width));
}

Status Run(const Flags& flags, const Terminal& terminal) {
  HEDDLE_RETURN_IF_ERROR(CheckPlotName(flags.plot));
  HEDDLE_ASSIGN(RaceOptions options, ToOptions(flags));
  HEDDLE_ASSIGN(const auto objective, MakeProblem(flags.objective, flags.problem));
  options.progress = [&](int64_t done, int64_t known) {
    terminal.Progress(fmt::format("racing: {} of {} trials …", done, known));
  };
  Result<Race> ran = RunRace(*objective, options);
  terminal.EndProgress();
  HEDDLE_ASSIGN(const Race race, std::move(ran));
  if (!flags.plot.empty()) {
    const LineChart chart = ChartOf(flags.objective, *objective, options, race);
    const std::string drawn = flags.plot.ends_with(".svg") ? SvgOf(chart) : HtmlOf(chart);
    HEDDLE_RETURN_IF_ERROR(WriteFile(flags.plot, drawn));
  }
  if (terminal.json) {
    terminal.PrintJson(ToJson(flags.objective, *objective, options, race));
  } else {
    PrintTable(flags.objective, *objective, options, race, terminal);
    if (!flags.plot.empty()) terminal.Print(fmt::format("Curves drawn in {}.\n", flags.plot));
  }
  return Ok();
}

// Objectives and methods by name, for the help.
std::string Listing() {
  std::string text = "Objectives:\n";
  for (const Problem& problem : Problems()) {
    text += fmt::format("  {:<16}{}\n", problem.name, problem.about);
  }
  text += "\nMethods:\n";
  for (const Method& method : Methods()) {
    text += fmt::format("  {:<16}{}\n", method.name, method.about);
  }
  return text + "\n";
}

}  // namespace

void AddLabRaceCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  flags->race.threads = 0;
  CLI::App* command =
      commands.Add("race", "Loss against simulated time, every method at its best step size",
                   "heddle lab race --objective quadratic --stages 2..32 --methods pd,rpd,local "
                   "--plot race.svg");
  command->footer(Listing() + command->get_footer());
  command->add_option("--objective", flags->objective, "What is minimised; see below")
      ->capture_default_str();
  command->add_option("--data", flags->problem.data, "logistic: a libsvm file with two labels");
  command->add_option("--dimension", flags->problem.dimension, "Parameters, unless data say it");
  command->add_option("--stages", flags->stages, "As in 2,4,8, or 2..32, which doubles")
      ->capture_default_str();
  command->add_option("--methods", flags->methods, "Who takes part; see below")
      ->capture_default_str();
  command->add_option("--seeds", flags->race.seeds, "Starts and noises; at least 5")
      ->capture_default_str();
  command->add_option("--seed", flags->race.first_seed, "The first of the seeds")
      ->capture_default_str();
  command->add_option("--noise", flags->noise, "σ of every gradient's element, as in 0,0.05")
      ->capture_default_str();
  TrialOptions& trial = flags->race.trial;
  command->add_option("--ticks", trial.ticks, "Simulated time")->capture_default_str();
  command->add_option("--points", trial.points, "Losses taken on the way")->capture_default_str();
  command->add_option("--every", trial.every, "Local methods: steps between averages")
      ->capture_default_str();
  command->add_option("--microbatches", trial.microbatches,
                      "gpipe and 2bw: microbatches of a batch; one for each stage unless given");
  command->add_option("--step-sizes", flags->race.step_sizes, "Points of the grid")
      ->capture_default_str();
  command->add_option("--refine", flags->race.refine, "Times to halve the grid around the best")
      ->capture_default_str();
  command->add_option("--backward", flags->race.clock.backward, "Ticks of a backward")
      ->capture_default_str();
  command->add_option("--latency", flags->race.clock.latency, "Ticks from stage to stage")
      ->capture_default_str();
  command->add_option("--average-ticks", trial.average_ticks, "Ticks of an average of replicas")
      ->capture_default_str();
  command->add_option("--threads", flags->race.threads, "0: as many as there are cores")
      ->capture_default_str()
      ->check(CLI::Range(0, 256));
  command->add_option("--plot", flags->plot, "Write the curves to this .svg or .html");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
