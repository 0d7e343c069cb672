// heddle profile: measure a model's ops on this machine. heddle-worker does it.

#include <fmt/format.h>

#include <memory>

#include "base/json_field.h"
#include "cli/command.h"
#include "cli/value_check.h"
#include "cli/worker_process.h"

namespace heddle {
namespace {

struct Flags {
  std::vector<std::string> models;
  std::vector<int64_t> rows = {1, 2, 4, 8};
  int64_t steps = 5;
  std::string type = "cpu";
  std::string dtype = "f32";
  std::string optimizer = "adam";
  double clip = 0;
  std::string output = "profile.json";
  std::string cluster;
};

Status Run(const Flags& flags, const Terminal& terminal) {
  HEDDLE_RETURN_IF_ERROR(ReadChoice<Optimizer>("--optimizer", flags.optimizer));
  const auto dtype = ParseChoice<DType>(flags.dtype);
  if (dtype != DType::kF32 && dtype != DType::kF64) {
    return BadInput("--dtype", fmt::format("\"{}\" is not measured here", flags.dtype),
                    "fp32 or fp64");
  }
  for (const std::string& model : flags.models) {
    if (IsProfileSpec(model)) {
      return BadInput(model, "is a layer profile: it was measured already",
                      "measure a model of the zoo");
    }
    HEDDLE_RETURN_IF_ERROR(BuildModel(model, {}));
  }
  const Json request = {
      {"models", flags.models}, {"rows", flags.rows},      {"steps", flags.steps},
      {"type", flags.type},     {"dtype", NameOf(*dtype)}, {"optimizer", flags.optimizer},
      {"clip", flags.clip},     {"output", flags.output},  {"cluster", flags.cluster}};
  HEDDLE_ASSIGN(const std::string asked, WorkerRequest(request));
  std::vector<std::string> words = {"profile", asked};
  if (terminal.json) words.push_back("--json");
  return BecomeWorker(std::move(words));
}

}  // namespace

void AddProfileCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  const Command command = commands.Add(
      "profile", "Measure the ops of models on this machine, for plan --profile",
      "heddle profile --model tiny-gpt --rows 4,8,16 -o profile.json --cluster this.toml");
  command.AddOption("--model", flags->models, "A zoo model; may be given several times").Required();
  command.AddOption("--rows", flags->rows, "Numbers of samples at once to measure")
      .SplitAt(',')
      .Check(Within(1, 1 << 20))
      .ShowDefault();
  command.AddOption("--steps", flags->steps, "Training steps to time each op in")
      .Check(Within(1, 1000))
      .ShowDefault();
  command.AddOption("--type", flags->type, "The device type to file the times under").ShowDefault();
  command.AddOption("--dtype", flags->dtype, "fp32 or fp64").ShowDefault();
  command.AddOption("--optimizer", flags->optimizer, ChoiceText<Optimizer>()).ShowDefault();
  command.AddOption("--clip,--max-grad-norm", flags->clip, "As in plan")
      .Check(AtLeast(0))
      .ShowDefault();
  command.AddOption("-o,--output", flags->output, "The profile; one that is there is added to")
      .ShowDefault();
  command.AddOption("--cluster", flags->cluster,
                    "Also measure the machine and write a cluster file of it");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
