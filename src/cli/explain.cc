// heddle explain: why this plan; what limits it; how far from the bounds; memory per device.

#include <memory>

#include "cli/command.h"
#include "cli/program_source.h"
#include "report/summary.h"

namespace heddle {
namespace {

struct Flags {
  std::string file;
  std::string profile;
};

Status Run(const Flags& flags, const Terminal& terminal) {
  HEDDLE_ASSIGN(const std::unique_ptr<Profile> profile, LoadOptionalProfile(flags.profile));
  HEDDLE_ASSIGN(LoadedPlan loaded, LoadForUse(flags.file, profile.get()));
  HEDDLE_ASSIGN(const Evaluation evaluation,
                EvaluateFitting(*loaded.planning, loaded.plan, /*keep_events=*/false));
  FillEstimate(*loaded.planning, evaluation, loaded.plan);
  if (!terminal.json) {
    terminal.Print(
        ExplainText(loaded.plan, evaluation.simulation, *loaded.cluster, terminal.style()));
    return Ok();
  }
  Json json = PlanToJson(loaded.plan);
  json["schema"] = "heddle.explanation/1";
  json.erase("cluster");
  json["bottleneck"] = BottleneckSentence(evaluation.simulation, *loaded.cluster);
  json["devices"] = DevicesJson(evaluation.simulation);
  terminal.PrintJson(json);
  return Ok();
}

}  // namespace

void AddExplainCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = commands.Add("explain", "Say why a plan takes as long as it does",
                                   "heddle explain plan.json");
  command->add_option("plan", flags->file, "plan.json")->required();
  command->add_option("--profile", flags->profile, "The profile the plan was made with");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
