#include "cli/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/json_field.h"
#include "base/text.h"
#include "cli/option_rules.h"
#include "cli/profile_fit.h"
#include "cli/unknown_option.h"

namespace heddle {

void Terminal::PrintJson(const Json& value) const {
  printed_json = true;
  const bool ascii = charset == Charset::kAscii;  // JSON can say all characters in it
  PrintData(value.dump(2, ' ', ascii, Json::error_handler_t::replace) + "\n");
}

void Terminal::Print(const std::string& text) const {
  PrintData(ForTerminal(text, {width, charset, colour}));
}

void Terminal::PrintError(const std::string& text) const {
  std::fputs(ForTerminal(text, {width, charset}).c_str(), stderr);
}

void Terminal::PrintData(const std::string& text) const {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written && output_error == 0) output_error = errno;
}

Status Terminal::Flush() const {
  if (std::fflush(stdout) != 0 && output_error == 0) output_error = errno;
  if (output_error == 0) return Ok();
  return BadInput("standard output", fmt::format("cannot write: {}", std::strerror(output_error)),
                  output_error == EBADF ? "it is closed: send it to a file, or to /dev/null"
                                        : "what was printed is not complete");
}

void Terminal::Progress(const std::string& text) const {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K%s", InCharset(Printable(text), charset).c_str());
  std::fflush(stderr);
}

void Terminal::EndProgress() const {
  if (isatty(STDERR_FILENO) != 0) std::fprintf(stderr, "\r\033[K");
}

CLI::App* Commands::Add(const std::string& name, const std::string& about,
                        const std::string& example) {
  CLI::App* command = app_.add_subcommand(name, about);
  command->footer("Example:\n  " + example);
  return command;
}

std::vector<std::string> Commands::Names() const {
  std::vector<std::string> names;
  for (const Entry& entry : actions_) names.push_back(entry.command->get_name());
  return names;
}

bool Commands::Knows(const std::string& name) const {
  const std::vector<std::string> names = Names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status Commands::Run(const Terminal& terminal) const {
  for (const Entry& entry : actions_) {
    if (!entry.command->parsed()) continue;
    HEDDLE_RETURN_IF_ERROR(CheckOptionRules(PathOf(*entry.command), *entry.command));
    return entry.action(terminal);
  }
  return Usage("no subcommand given", "see heddle --help");
}

void PlanFlags::AddTo(CLI::App* command) {
  command
      ->add_option("--model", model,
                   "A zoo model, e.g. gpt?layers=24 (see heddle models), or the path of a layer "
                   "profile, with a slash or .txt (see docs/models.md)")
      ->required();
  command->add_option("--profile-batch", profile_batch,
                      "Samples that a layer profile was measured with; needed with one");
  command->add_option("--profile-device", profile_device,
                      "Device type that a layer profile's times hold for, others take them by "
                      "relative speed; unless given the first named like V100, else the fastest");
  command->add_option("--cluster", cluster, "The cluster's TOML file (see docs/cluster.md)")
      ->required();
  command->add_option("--batch,--global-batch-size", batch, "Samples per update over all devices")
      ->capture_default_str();
  command->add_option("--microbatches", microbatches, "Parts of a batch; tuned unless given");
  command->add_option("--micro-batch-size", micro_batch_size,
                      "Instead of --microbatches: samples of each part");
  command->add_option("--dtype", dtype, "fp32, bf16, fp16 or fp64")->capture_default_str();
  command->add_option("--optimizer", optimizer, std::string(kOptimizerChoices))
      ->capture_default_str();
  command
      ->add_option("--clip,--max-grad-norm", clip,
                   "Largest norm of all gradients together; 0: none")
      ->capture_default_str();
  command->add_option("--profile", profile, "Measured times of ops (JSON)");
  command
      ->add_option("--versions", versions,
                   "Weights that asynchronous stages read: stash, vertical, none, 2bw")
      ->capture_default_str();
  command
      ->add_option("--sync", sync,
                   "How replicas come to the same gradient: allreduce, or ps, parameter servers")
      ->capture_default_str();
  command->add_option(
      "--compress", compress,
      "fp16: gradients travel in half precision between replicas; not unless given");
  command->add_option("--every", every, "LocalSGD: updates of each replica between two averages")
      ->capture_default_str();
  command->add_option("--replicas", replicas,
                      "LocalSGD: whole, one on each device, or pipelined, all on every stage; the "
                      "faster unless given");
  command
      ->add_option("--search", search,
                   "spmd: how programs are searched: fold, a dynamic program; astar, A* after it, "
                   "slower and sure; auto, fold, and A* for the plan taken")
      ->capture_default_str();
  command->add_option("--links", links, "How transfers share links: shared, exclusive, channels")
      ->capture_default_str();
}

namespace {

// Parts of a batch as they were asked for; nothing: they are tuned.
Result<std::optional<int64_t>> MicrobatchesOf(const PlanFlags& flags) {
  if (flags.micro_batch_size) {
    const int64_t size = *flags.micro_batch_size;
    if (size >= 1 && size <= flags.batch && flags.batch % size == 0) {
      return std::optional(flags.batch / size);
    }
    return BadInput("--micro-batch-size",
                    fmt::format("{} does not divide the batch of {}", size, flags.batch),
                    "choose a divisor, change --batch, or leave it out to have it tuned");
  }
  if (!flags.microbatches) return std::optional<int64_t>();
  const int64_t most = std::min<int64_t>(flags.batch, 1 << 16);
  if (*flags.microbatches >= 1 && *flags.microbatches <= most) return flags.microbatches;
  return BadInput("--microbatches", fmt::format("{} is out of range", *flags.microbatches),
                  fmt::format("1 to {}; leave it out to have it tuned", most));
}

}  // namespace

Result<PlanOptions> PlanFlags::ToOptions() const {
  PlanOptions options;
  options.model = model;
  constexpr int64_t kMostBatch = 1 << 24;
  if (batch < 1 || batch > kMostBatch) {
    return BadInput("--batch", fmt::format("{} is out of range", batch),
                    fmt::format("expected 1 to {}", kMostBatch));
  }
  options.batch = batch;
  if (profile_batch && (*profile_batch < 1 || *profile_batch > kMostBatch)) {
    return BadInput("--profile-batch", fmt::format("{} is out of range", *profile_batch),
                    fmt::format("expected 1 to {}", kMostBatch));
  }
  options.profile_batch = profile_batch.value_or(0);
  options.profile_device = profile_device;
  HEDDLE_ASSIGN(options.microbatches, MicrobatchesOf(*this));
  const auto type = ParseDType(dtype);
  if (!type || *type == DType::kI64) {
    return BadInput("--dtype", fmt::format("\"{}\" is unknown", dtype), "fp32, bf16, fp16 or fp64");
  }
  options.dtype = *type;
  const auto parsed_optimizer = ParseOptimizer(optimizer);
  if (!parsed_optimizer) {
    return BadInput("--optimizer", fmt::format("\"{}\" is unknown", optimizer),
                    std::string(kOptimizerChoices));
  }
  options.optimizer = *parsed_optimizer;
  if (!(clip >= 0) || !std::isfinite(clip)) {
    return BadInput("--clip", fmt::format("{} is no norm", clip), "a positive number, or 0");
  }
  options.clip = clip;
  const auto weight_versions = ParseWeightVersions(versions);
  if (!weight_versions) {
    return BadInput("--versions", fmt::format("\"{}\" is unknown", versions),
                    "stash, vertical, none or 2bw");
  }
  options.versions = *weight_versions;
  const auto gradient_sync = ParseGradientSync(sync);
  if (!gradient_sync) {
    return BadInput("--sync", fmt::format("\"{}\" is unknown", sync),
                    std::string(kGradientSyncChoices));
  }
  options.sync = *gradient_sync;
  if (!compress.empty() && compress != "fp16") {
    return BadInput("--compress", fmt::format("\"{}\" is unknown", compress), "fp16");
  }
  options.compress = !compress.empty();
  constexpr int64_t kMostEvery = 4096;
  if (every < 1 || every > kMostEvery) {
    return BadInput("--every", fmt::format("{} is out of range", every),
                    fmt::format("expected 1 to {} updates", kMostEvery));
  }
  options.every = every;
  if (replicas == "whole") {
    options.replicas = ReplicaPlace::kWhole;
  } else if (replicas == "pipelined") {
    options.replicas = ReplicaPlace::kPipelined;
  } else if (!replicas.empty()) {
    return BadInput("--replicas", fmt::format("\"{}\" is unknown", replicas), "whole or pipelined");
  }
  const auto spmd_search = ParseSpmdSearch(search);
  if (!spmd_search) {
    return BadInput("--search", fmt::format("\"{}\" is unknown", search),
                    std::string(kSpmdSearchChoices));
  }
  options.search = *spmd_search;
  const auto link_model = ParseLinkModel(links);
  if (!link_model) {
    return BadInput("--links", fmt::format("\"{}\" is unknown", links),
                    "shared, exclusive or channels");
  }
  options.links = *link_model;
  return options;
}

Result<std::unique_ptr<Profile>> LoadOptionalProfile(const std::string& path) {
  if (path.empty()) return std::unique_ptr<Profile>();
  HEDDLE_ASSIGN(Profile profile, LoadProfile(path));
  return std::make_unique<Profile>(std::move(profile));
}

Result<PlanInputs> LoadInputs(const PlanFlags& flags) {
  PlanInputs inputs;
  HEDDLE_ASSIGN(const PlanOptions options, flags.ToOptions());
  HEDDLE_ASSIGN(Cluster cluster, LoadCluster(flags.cluster));
  inputs.cluster = std::make_unique<Cluster>(std::move(cluster));
  HEDDLE_ASSIGN(inputs.profile, LoadOptionalProfile(flags.profile));
  HEDDLE_RETURN_IF_ERROR(CheckProfileIsOf(*inputs.cluster, inputs.profile.get(), flags.profile));
  HEDDLE_ASSIGN(Planning planning, Planning::Make(options, *inputs.cluster, inputs.profile.get()));
  inputs.planning = std::make_unique<Planning>(std::move(planning));
  return inputs;
}

}  // namespace heddle
