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
  std::vector<std::pair<Option, std::string>> options;  // with their names in JSON

  Option Note(Option option, const char* key) {
    options.emplace_back(option, key);
    return option;
  }
  // A run that is resumed needs to know which were meant.
  std::vector<std::string> Given() const {
    std::vector<std::string> given;
    for (const auto& [option, key] : options) {
      if (option.given()) given.push_back(key);
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
  HEDDLE_ASSIGN(const std::string asked, WorkerRequest(json));
  std::vector<std::string> words = {"run", asked};
  if (terminal.json) words.push_back("--json");
  return BecomeWorker(std::move(words));
}

// What is trained.
void AddTraining(const Command& command, Flags& flags) {
  RunConfig& config = flags.config;
  const auto note = [&](Option option, const char* key) { return flags.Note(option, key); };
  note(command.AddOption("plan", config.plan, "plan.json; a run that is resumed has its own"),
       "plan");
  note(command.AddOption("--steps", config.steps, "Optimizer steps of the whole run"), "steps")
      .Check(AtLeast(0))
      .ShowDefault();
  note(command.AddOption("--data", config.data,
                         "synthetic, text:FILE, libsvm:FILE, cifar:FILE,… or cifar100:FILE,…"),
       "data")
      .ShowDefault();
  note(command.AddOption("--validation", config.validation, "Fraction of the data held out"),
       "validation")
      .ShowDefault();
  note(command.AddOption("--seed", flags.seed,
                         "Of weights, order of samples, dropout: 1 unless given"),
       "seed");
  note(command.AddOption("--rate,--lr", config.learning_rate, "Learning rate"), "rate")
      .ShowDefault();
  note(command.AddOption(
           "--schedule", config.schedule,
           "Of the rate: constant, linear or cosine, as in cosine:warmup=100,floor=0.1"),
       "schedule")
      .ShowDefault();
  note(command.AddOption("--dtype", flags.dtype,
                         "fp32 or fp64; the plan's unless given, and needed for bf16 and fp16"),
       "dtype");
  note(command.AddFlag("--keep-going", config.keep_going,
                       "Train on when the loss or a gradient is not finite"),
       "keep_going");
  note(command.AddFlag("--measure-noise", config.measure_noise,
                       "Also say how much of a gradient is noise, for heddle plan --goal "
                       "time-to-loss"),
       "measure_noise");
}

// What is left on disk.
void AddFiles(const Command& command, Flags& flags) {
  RunConfig& config = flags.config;
  const auto note = [&](Option option, const char* key) { return flags.Note(option, key); };
  note(command.AddOption("--eval-every", config.eval_every,
                         "Steps between looks at held-out samples"),
       "eval_every")
      .Check(AtLeast(0));
  note(command.AddOption("--save-every", config.save_every, "Steps between checkpoints"),
       "save_every")
      .Check(AtLeast(0));
  note(command.AddOption("--check-every", config.check_every,
                         "Steps between looks whether replicas of a weight are equal; they are "
                         "compared at the start and at every save, too"),
       "check_every")
      .Check(AtLeast(0));
  note(command.AddOption("--keep", config.keep, "With --save-every: checkpoints kept"), "keep")
      .Check(AtLeast(1))
      .ShowDefault();
  note(command.AddOption("--dir", config.directory,
                         "The run's directory; a new one in runs/ if not given"),
       "directory");
  note(command.AddOption("--resume", config.resume,
                         "Go on with a run, or from one of its checkpoints: all is as it was but "
                         "for the options given"),
       "resume");
  note(command.AddFlag("--override", config.may_override,
                       "With --resume: also with other data, another seed, type or validation"),
       "override");
  note(command.AddOption("--weights", config.weights, "Write the trained weights, as safetensors"),
       "weights");
}

// How devices run.
void AddDevices(const Command& command, Flags& flags) {
  RunConfig& config = flags.config;
  const auto note = [&](Option option, const char* key) { return flags.Note(option, key); };
  note(command.AddFlag("--elastic", config.elastic,
                       "When a device is lost: plan again without it, and go on from the last "
                       "checkpoint"),
       "elastic");
  note(command.AddFlag(
           "--emulate", config.emulate,
           "Pace arithmetic and messages to the plan's cluster; devices are threads. Under a "
           "launcher: pace arithmetic only, messages take the real links"),
       "emulate");
  note(command.AddOption("--dilate", config.dilate, "With --emulate: how much slower time goes"),
       "dilate");
  note(command.AddFlag("--threads", config.threads, "Devices as threads of one process"),
       "threads");
  note(command.AddOption("--port", config.port,
                         "Under a launcher: the port, or on one host the number, at which "
                         "processes meet; MASTER_PORT if 0"),
       "port")
      .Check(Within(0, 65535));
  note(command.AddOption("--secret-file", config.secret_file,
                         "Under a launcher: a file of mode 600 with what all processes must know; "
                         "else it is HEDDLE_SECRET, needed across hosts"),
       "secret_file");
  note(command.AddOption("--interface", config.interface,
                         "Under a launcher: the network interface or address of this host to "
                         "listen on; MASTER_ADDR, and the way there, if not given"),
       "interface");
  note(command.AddOption("--meet-within", config.meet_within, "Seconds for all processes to come"),
       "meet_within")
      .ShowDefault();
  note(command.AddOption("--silent-after", config.silent_after,
                         "Seconds after which a process that gives no sign of life is lost"),
       "silent_after")
      .ShowDefault();
  note(command.AddOption("--stuck-after", config.stuck_after,
                         "A device is stuck that takes so many times what its work should take; "
                         "0: never"),
       "stuck_after")
      .ShowDefault();
  note(command.AddFlag("--native-collectives", config.native_collectives,
                       "The library's own reductions, whose last bits depend on the devices"),
       "native_collectives");
  note(command.AddOption("--profile", config.profile, "The profile the plan was made with"),
       "profile");
}

}  // namespace

void AddRunCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  const Command command =
      commands.Add("run", "Train a plan on this machine, with real tensors, each device a process",
                   "heddle run plan.json --data text:book.txt --steps 500 --eval-every 100\n"
                   "  heddle run --resume runs/tiny-gpt-2026-01-31-120000 --steps 1000");
  AddTraining(command, *flags);
  AddFiles(command, *flags);
  AddDevices(command, *flags);
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
