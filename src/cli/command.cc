#include "cli/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/json_field.h"
#include "base/json_text.h"
#include "base/text.h"
#include "cli/option_rules.h"
#include "cli/profile_fit.h"

namespace heddle {

void Terminal::PrintJson(const Json& value) const {
  printed_json = true;
  const bool ascii = charset == Charset::kAscii;  // JSON can say all characters in it
  PrintData(JsonText(value, 2, ascii) + "\n");
}

void Terminal::Print(const std::string& text) const {
  PrintData(ForTerminal(text, {width, charset, colour}));
}

void Terminal::PrintError(const std::string& text) const {
  std::fputs(ForTerminal(text, {width, charset}).c_str(), err);
}

void Terminal::PrintData(const std::string& text) const {
  const bool written = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (!written && output_error == 0) output_error = errno;
}

Status Terminal::Flush() const {
  if (std::fflush(out) != 0 && output_error == 0) output_error = errno;
  if (output_error == 0) return Ok();
  return BadInput("standard output", fmt::format("cannot write: {}", std::strerror(output_error)),
                  output_error == EBADF ? "it is closed: send it to a file, or to /dev/null"
                                        : "what was printed is not complete");
}

void Terminal::Progress(const std::string& text) const {
  if (isatty(fileno(err)) == 0) return;
  std::fprintf(err, "\r\033[K%s", InCharset(Printable(text), charset).c_str());
  std::fflush(err);
}

void Terminal::EndProgress() const {
  if (isatty(fileno(err)) != 0) std::fprintf(err, "\r\033[K");
}

Command Commands::Add(const std::string& name, const std::string& about,
                      const std::string& example) {
  return parent_.AddCommand(name, about, example);
}

std::vector<std::string> Commands::Names() const {
  std::vector<std::string> names;
  for (const Entry& entry : actions_) names.push_back(entry.command.name());
  return names;
}

bool Commands::Knows(const std::string& name) const {
  const std::vector<std::string> names = Names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status Commands::Run(const Terminal& terminal) const {
  for (const Entry& entry : actions_) {
    if (!entry.command.parsed()) continue;
    HEDDLE_RETURN_IF_ERROR(CheckOptionRules(entry.command));
    return entry.action(terminal);
  }
  return Usage("no subcommand given", "see heddle --help");
}

namespace {

const char* TypeName(RequestValue kind) {
  switch (kind) {
    case RequestValue::kCount:
      return "INT";
    case RequestValue::kNumber:
      return "FLOAT";
    case RequestValue::kText:
    case RequestValue::kChoice:
      break;
  }
  return "TEXT";
}

}  // namespace

void PlanFlags::AddTo(const Command& command) {
  for (const RequestField& field : RequestFields()) {
    if (!field.taken_by(source_)) continue;
    std::string names = field.option();
    if (!field.aliases.empty()) names += fmt::format(",{}", field.aliases);
    command.AddOption(names, texts_[field.key], field.about_with_choices())
        .TypeName(TypeName(field.kind))
        .Required(field.required)
        .DefaultText(field.default_text());
  }
  command
      .AddOption("--cluster", cluster,
                 "The cluster's TOML file; or in one line, as in "
                 "'4x8 a100-80gb, nvlink, ib 200 Gbit/s'; or 'here' (docs/cluster.md)")
      .Required();
  command.AddOption("--profile", profile, "Measured times of ops (JSON)");
}

Result<PlanRequest> PlanFlags::ToRequest() const {
  PlanRequest request;
  for (const auto& [key, text] : texts_) {
    if (!text.empty()) HEDDLE_RETURN_IF_ERROR(SetFromText(RequestFieldOf(key), text, request));
  }
  HEDDLE_RETURN_IF_ERROR(
      CheckRequest(request, [](std::string_view key) { return RequestFieldOf(key).option(); }));
  return request;
}

Result<std::unique_ptr<Profile>> LoadOptionalProfile(const std::string& path) {
  if (path.empty()) return std::unique_ptr<Profile>();
  HEDDLE_ASSIGN(Profile profile, LoadProfile(path));
  return std::make_unique<Profile>(std::move(profile));
}

Result<PlanInputs> LoadInputs(const PlanFlags& flags, const Deadline& deadline) {
  PlanInputs inputs;
  HEDDLE_ASSIGN(const PlanRequest request, flags.ToRequest());
  HEDDLE_ASSIGN(Cluster cluster, LoadCluster(flags.cluster));
  inputs.cluster = std::make_unique<Cluster>(std::move(cluster));
  HEDDLE_ASSIGN(inputs.profile, LoadOptionalProfile(flags.profile));
  HEDDLE_RETURN_IF_ERROR(CheckProfileIsOf(*inputs.cluster, inputs.profile.get(), flags.profile));
  HEDDLE_ASSIGN(Planning planning,
                Planning::Make(request, *inputs.cluster, inputs.profile.get(), deadline));
  inputs.planning = std::make_unique<Planning>(std::move(planning));
  return inputs;
}

}  // namespace heddle
