// heddle lab map: who is ahead where, over noise, rows per parameter, local steps and stages.

#include <fmt/format.h>

#include <memory>
#include <thread>

#include "base/destination.h"
#include "base/file.h"
#include "base/json_field.h"
#include "base/text.h"
#include "cli/lab.h"
#include "cli/value_check.h"
#include "lab/map.h"
#include "report/heat_map.h"
#include "report/lab/map_text.h"

namespace heddle {
namespace {

struct Flags {
  MapOptions map;
  std::string noise = "0,0.1,0.2,0.5";
  std::string rows = "0.1,0.4,1.5,6";
  std::string every = "1,2,5";
  std::string stages = "2..32";
  std::string plot;
  bool all = false;
};

Result<std::vector<int64_t>> ParseSteps(const std::string& text) {
  std::vector<int64_t> steps;
  for (const std::string_view part : SplitAt(text, ',')) {
    const auto value = ParseInteger(part);
    if (!value || *value < 1 || *value > 1000000) {
      return BadInput("--every", fmt::format("\"{}\" is no number of steps", part),
                      "expected a list, as in 1,2,5");
    }
    steps.push_back(*value);
  }
  return steps;
}

Result<MapOptions> ToOptions(const Flags& flags, const Terminal& terminal) {
  MapOptions options = flags.map;
  HEDDLE_ASSIGN(options.noises, ParseReals("--noise", flags.noise));
  HEDDLE_ASSIGN(options.rows, ParseReals("--rows-per-parameter", flags.rows));
  HEDDLE_ASSIGN(options.everys, ParseSteps(flags.every));
  HEDDLE_ASSIGN(options.stages, ParseStages(flags.stages));
  if (options.threads == 0) {
    options.threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }
  options.progress = [&terminal](const std::string& text) { terminal.Progress(text); };
  return options;
}

Status Run(const Flags& flags, const Terminal& terminal) {
  const bool svg = flags.plot.ends_with(".svg");
  if (!flags.plot.empty() && !svg && !flags.plot.ends_with(".html")) {
    return Usage("--plot: \"" + flags.plot + "\" is neither .svg nor .html",
                 "name the kind by the ending");
  }
  HEDDLE_RETURN_IF_ERROR(CheckWritable(flags.plot));
  HEDDLE_ASSIGN(const MapOptions options, ToOptions(flags, terminal));
  Result<Map> ran = RunMap(options);
  terminal.EndProgress();
  HEDDLE_ASSIGN(const Map map, std::move(ran));
  if (!flags.plot.empty()) {
    const HeatMap drawn = HeatMapOf(options, map);
    HEDDLE_RETURN_IF_ERROR(WriteFile(flags.plot, svg ? SvgOf(drawn) : HtmlOf(drawn)));
  }
  if (terminal.json) {
    terminal.PrintJson(MapJson(options, map));
    return Ok();
  }
  terminal.Print(MapText(options, map, flags.all, terminal.style()));
  if (!flags.plot.empty()) terminal.Print(fmt::format("Drawn in {}.\n", flags.plot));
  return Ok();
}

}  // namespace

void AddLabMapCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  flags->map.threads = 0;
  const Command command =
      commands.Add("map", "Who is ahead where: PipeDream, LocalSGD or a flush",
                   "heddle lab map --objective logistic --stages 2..32 --plot map.svg");
  command.AddOption("--objective", flags->map.objective, "logistic or least-squares, made data")
      .Check(OneOf({"logistic", "least-squares"}))
      .ShowDefault();
  command.AddOption("--dimension", flags->map.dimension, "Parameters")
      .Check(Within(1, 4096))
      .ShowDefault();
  command.AddOption("--noise", flags->noise, "σ of every gradient's element").ShowDefault();
  command.AddOption("--rows-per-parameter", flags->rows, "Samples for each parameter")
      .ShowDefault();
  command.AddOption("--every", flags->every, "LocalSGD: steps between averages").ShowDefault();
  command.AddOption("--stages", flags->stages, "As in 2,4,8, or 2..32, which doubles")
      .ShowDefault();
  command.AddOption("--seeds", flags->map.seeds, "Data and noises; 10 for a verdict").ShowDefault();
  command.AddOption("--tune-seeds", flags->map.tune_seeds, "Others, to choose step sizes on")
      .Check(AtLeast(1))
      .ShowDefault();
  command.AddOption("--seed", flags->map.first_seed, "The first of the seeds").ShowDefault();
  command.AddOption("--ticks", flags->map.ticks, "Simulated time").ShowDefault();
  command.AddOption("--threads", flags->map.threads, "0: as many as there are cores")
      .ShowDefault()
      .Check(Within(0, 256));
  command.AddFlag("--all", flags->all, "Every cell with its intervals, a line each");
  command.AddOption("--plot", flags->plot, "Write the map to this .svg or .html");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
