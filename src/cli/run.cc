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
  std::vector<std::pair<CLI::Option*, std::string>> options;  // with their names in JSON

  CLI::Option* Note(CLI::Option* option, const char* key) {
    options.emplace_back(option, key);
    return option;
  }
  // A run that is resumed needs to know which were meant.
  std::vector<std::string> Given() const {
    std::vector<std::string> given;
    for (const auto& [option, key] : options) {
      if (option->count() > 0) given.push_back(key);
    }
    return given;
  }
};

Status Run(const Flags& flags, const Terminal& terminal) {
  RunConfig config = flags.config;
  config.seed = flags.seed;
  if (!flags.dtype.empty()) {
    config.dtype = ParseChoice<DType>(flags.dtype);
    if (!config.dtype) {
      return BadInput("--dtype", fmt::format("\"{}\" is unknown", flags.dtype), "fp32 or fp64");
    }
  }
  HEDDLE_RETURN_IF_ERROR(CheckRunConfig(config));
  const std::vector<std::string> given = flags.Given();
  if (config.resume.empty()) {
    if (config.plan.empty()) {
      return Usage("no plan given", "heddle run plan.json, or heddle run --resume runs/…");
    }
    HEDDLE_RETURN_IF_ERROR(CheckGivenOptions(config, given));
  }
  Json json = RunConfigToJson(config);
  json["given"] = given;
  std::vector<std::string> words = {"run", json.dump()};
  if (terminal.json) words.push_back("--json");
  return BecomeWorker(std::move(words));
}

// What is trained.
void AddTraining(CLI::App* command, Flags& flags) {
  RunConfig& config = flags.config;
  const auto note = [&](CLI::Option* option, const char* key) { return flags.Note(option, key); };
  note(command->add_option("plan", config.plan, "plan.json; a run that is resumed has its own"),
       "plan");
  note(command->add_option("--steps", config.steps, "Optimizer steps of the whole run"), "steps")
      ->check(AtLeast(0))
      ->capture_default_str();
  note(command->add_option("--data", config.data,
                           "synthetic, text:FILE, libsvm:FILE, cifar:FILE,… or cifar100:FILE,…"),
       "data")
      ->capture_default_str();
  note(command->add_option("--validation", config.validation, "Fraction of the data held out"),
       "validation")
      ->capture_default_str();
  note(command->add_option("--seed", flags.seed,
                           "Of weights, order of samples, dropout: 1 unless given"),
       "seed");
  note(command->add_option("--rate,--lr", config.learning_rate, "Learning rate"), "rate")
      ->capture_default_str();
  note(command->add_option(
           "--schedule", config.schedule,
           "Of the rate: constant, linear or cosine, as in cosine:warmup=100,floor=0.1"),
       "schedule")
      ->capture_default_str();
  note(command->add_option("--dtype", flags.dtype,
                           "fp32 or fp64; the plan's unless given, and needed for bf16 and fp16"),
       "dtype");
  note(command->add_flag("--keep-going", config.keep_going,
                         "Train on when the loss or a gradient is not finite"),
       "keep_going");
  note(command->add_flag("--measure-noise", config.measure_noise,
                         "Also say how much of a gradient is noise, for heddle plan --goal "
                         "time-to-loss"),
       "measure_noise");
}

// What is left on disk.
void AddFiles(CLI::App* command, Flags& flags) {
  RunConfig& config = flags.config;
  const auto note = [&](CLI::Option* option, const char* key) { return flags.Note(option, key); };
  note(command->add_option("--eval-every", config.eval_every,
                           "Steps between looks at held-out samples"),
       "eval_every")
      ->check(AtLeast(0));
  note(command->add_option("--save-every", config.save_every, "Steps between checkpoints"),
       "save_every")
      ->check(AtLeast(0));
  note(command->add_option("--check-every", config.check_every,
                           "Steps between looks whether replicas of a weight are equal; they are "
                           "compared at the start and at every save, too"),
       "check_every")
      ->check(AtLeast(0));
  note(command->add_option("--keep", config.keep, "With --save-every: checkpoints kept"), "keep")
      ->check(AtLeast(1))
      ->capture_default_str();
  note(command->add_option("--dir", config.directory,
                           "The run's directory; a new one in runs/ if not given"),
       "directory");
  note(command->add_option("--resume", config.resume,
                           "Go on with a run, or from one of its checkpoints: all is as it was but "
                           "for the options given"),
       "resume");
  note(command->add_flag("--override", config.may_override,
                         "With --resume: also with other data, another seed, type or validation"),
       "override");
  note(
      command->add_option("--weights", config.weights, "Write the trained weights, as safetensors"),
      "weights");
}

// How devices run.
void AddDevices(CLI::App* command, Flags& flags) {
  RunConfig& config = flags.config;
  const auto note = [&](CLI::Option* option, const char* key) { return flags.Note(option, key); };
  note(command->add_flag("--elastic", config.elastic,
                         "When a device is lost: plan again without it, and go on from the last "
                         "checkpoint"),
       "elastic");
  note(command->add_flag(
           "--emulate", config.emulate,
           "Pace arithmetic and messages to the plan's cluster; devices are threads. Under a "
           "launcher: pace arithmetic only, messages take the real links"),
       "emulate");
  note(command->add_option("--dilate", config.dilate, "With --emulate: how much slower time goes"),
       "dilate");
  note(command->add_flag("--threads", config.threads, "Devices as threads of one process"),
       "threads");
  note(command->add_option("--port", config.port,
                           "Under a launcher: the port, or on one host the number, at which "
                           "processes meet; MASTER_PORT if 0"),
       "port")
      ->check(Within(0, 65535));
  note(
      command->add_option("--secret-file", config.secret_file,
                          "Under a launcher: a file of mode 600 with what all processes must know; "
                          "else it is HEDDLE_SECRET, needed across hosts"),
      "secret_file");
  note(command->add_option("--interface", config.interface,
                           "Under a launcher: the network interface or address of this host to "
                           "listen on; MASTER_ADDR, and the way there, if not given"),
       "interface");
  note(
      command->add_option("--meet-within", config.meet_within, "Seconds for all processes to come"),
      "meet_within")
      ->capture_default_str();
  note(command->add_option("--silent-after", config.silent_after,
                           "Seconds after which a process that gives no sign of life is lost"),
       "silent_after")
      ->capture_default_str();
  note(command->add_option("--stuck-after", config.stuck_after,
                           "A device is stuck that takes so many times what its work should take; "
                           "0: never"),
       "stuck_after")
      ->capture_default_str();
  note(command->add_flag("--native-collectives", config.native_collectives,
                         "The library's own reductions, whose last bits depend on the devices"),
       "native_collectives");
  note(command->add_option("--profile", config.profile, "The profile the plan was made with"),
       "profile");
}

}  // namespace

void AddRunCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      commands.Add("run", "Train a plan on this machine, with real tensors, each device a process",
                   "heddle run plan.json --data text:book.txt --steps 500 --eval-every 100\n"
                   "  heddle run --resume runs/tiny-gpt-2026-01-31-120000 --steps 1000");
  AddTraining(command, *flags);
  AddFiles(command, *flags);
  AddDevices(command, *flags);
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
