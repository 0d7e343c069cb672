// heddle run: train a plan. heddle-worker does it.

#include <fmt/format.h>

#include <memory>

#include "base/json_field.h"
#include "cli/command.h"
#include "cli/value_check.h"
#include "cli/worker_process.h"
#include "run/run_config.h"

namespace heddle {
namespace {

struct Flags {
  RunConfig config;
  std::string dtype;
  std::optional<uint64_t> seed;
};

Status Run(const Flags& flags, const Terminal& terminal) {
  RunConfig config = flags.config;
  config.seed = flags.seed;
  if (!flags.dtype.empty()) {
    config.dtype = ParseDType(flags.dtype);
    if (!config.dtype) {
      return BadInput("--dtype", fmt::format("\"{}\" is unknown", flags.dtype), "fp32 or fp64");
    }
  }
  HEDDLE_RETURN_IF_ERROR(CheckRunConfig(config));
  std::vector<std::string> words = {"run", RunConfigToJson(config).dump()};
  if (terminal.json) words.push_back("--json");
  return BecomeWorker(std::move(words));
}

}  // namespace

void AddRunCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  RunConfig& config = flags->config;
  CLI::App* command =
      commands.Add("run", "Train a plan on this machine, with real tensors, each device a process",
                   "heddle run plan.json --data text:book.txt --steps 500 --eval-every 100");
  command->add_option("plan", config.plan, "plan.json")->required();
  command->add_option("--steps", config.steps, "Optimizer steps of the whole run")
      ->check(AtLeast(0))
      ->capture_default_str();
  command
      ->add_option("--data", config.data,
                   "synthetic, text:FILE, libsvm:FILE, cifar:FILE,… or cifar100:FILE,…")
      ->capture_default_str();
  command->add_option("--validation", config.validation, "Fraction of the data held out")
      ->capture_default_str();
  command->add_option("--seed", flags->seed,
                      "Of weights, order of samples, dropout: 1 unless given");
  command->add_option("--rate,--lr", config.learning_rate, "Learning rate")->capture_default_str();
  command
      ->add_option("--schedule", config.schedule,
                   "Of the rate: constant, linear or cosine, as in cosine:warmup=100,floor=0.1")
      ->capture_default_str();
  command->add_option("--dtype", flags->dtype, "fp32 or fp64; the plan's unless given");
  command->add_option("--eval-every", config.eval_every, "Steps between looks at held-out samples")
      ->check(AtLeast(0));
  command->add_option("--save-every", config.save_every, "Steps between checkpoints")
      ->check(AtLeast(0));
  command->add_option("--keep", config.keep, "Checkpoints kept")
      ->check(AtLeast(1))
      ->capture_default_str();
  command->add_option("--dir", config.directory,
                      "The run's directory; a new one in runs/ if not given");
  command->add_option("--resume", config.resume,
                      "Go on from a run, or from one of its checkpoints");
  command->add_option("--weights", config.weights, "Write the trained weights, as safetensors");
  command->add_flag("--elastic", config.elastic,
                    "When a device is lost: plan again without it, and go on from the last "
                    "checkpoint");
  command->add_flag("--emulate", config.emulate,
                    "Pace arithmetic and messages to the plan's cluster; devices are threads");
  command->add_option("--dilate", config.dilate, "With --emulate: how much slower time goes");
  command->add_flag("--threads", config.threads, "Devices as threads of one process");
  command->add_option("--port", config.port, "Where processes find each other; any free one if 0")
      ->check(Within(0, 65535));
  command->add_option("--meet-within", config.meet_within, "Seconds for all processes to come")
      ->capture_default_str();
  command->add_flag("--native-collectives", config.native_collectives,
                    "The library's own reductions, whose last bits depend on the devices");
  command->add_option("--profile", config.profile, "The profile the plan was made with");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
