// heddle check: is a plan's Program, or a Program as text, well formed, and does it train right?

#include <fmt/format.h>

#include <memory>

#include "base/json_field.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/program_source.h"
#include "program/check/untagged.h"
#include "report/text_width.h"

namespace heddle {
namespace {

Status Run(const ProgramFlags& flags, const Terminal& terminal) {
  HEDDLE_ASSIGN(const ProgramSource source, LoadProgramSource(flags));
  HEDDLE_RETURN_IF_ERROR(RefuseUnreadProfile(flags.profile, source.loaded.plan));
  HEDDLE_ASSIGN(const Verdict verdict, CheckSource(source));
  if (terminal.json) {
    Json json;
    json["schema"] = "heddle.check/1";
    json["ok"] = verdict.ok();
    json["findings"] = Json::array();
    for (const Finding& finding : verdict.findings) {
      json["findings"].push_back({{"kind", NameOf(finding.kind)}, {"message", finding.message}});
    }
    const auto needs_tags = verdict.ok() ? NeedsTags(source.program) : std::nullopt;
    json["not_proven"] = verdict.not_proven.empty() ? Json() : Json(verdict.not_proven);
    json["needs_tags"] = needs_tags ? Json(*needs_tags) : Json();
    json["memory"] = MemoryJson(source, verdict);
    json["other_cluster"] = MatchJson(source.match);
    terminal.PrintJson(json);
  }
  if (!verdict.ok()) {
    Error error = ErrorOf(verdict, flags.file, "");
    for (size_t k = 1; k < verdict.findings.size() && k < 5; ++k) {
      error.what +=
          fmt::format("\n  {}: {}", NameOf(verdict.findings[k].kind), verdict.findings[k].message);
    }
    return error;
  }
  if (!terminal.json) {
    Bytes peak;
    for (const DeviceMemory& memory : verdict.memory) peak = std::max(peak, memory.peak);
    if (!source.match.file.empty()) {
      terminal.Print(Wrapped(source.match.Text(), terminal.width));
    }
    terminal.Print(fmt::format(
        "ok: {} devices, {} instructions, every layer once, no deadlock, at most {} on a device\n",
        GroupDigits(static_cast<int64_t>(source.program.devices.size())),
        GroupDigits(source.program.instruction_count()), ToText(peak)));
    if (!verdict.not_proven.empty()) {
      terminal.Print(Wrapped(
          "Not proven: that it trains right, because " + verdict.not_proven + ".", terminal.width));
    }
    if (const auto crossing = NeedsTags(source.program)) {
      terminal.Print(
          Wrapped("Its messages need tags, which libraries such as NCCL have not: " + *crossing,
                  terminal.width));
    }
  }
  return Ok();
}

}  // namespace

void AddCheckCommand(Commands& commands) {
  auto flags = std::make_shared<ProgramFlags>();
  const Command command =
      commands.Add("check", "Prove that a plan's Program trains right", "heddle check plan.json");
  flags->AddTo(command, false);
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
