// heddle check: is a plan's Program, or a Program as text, well formed?

#include "program/check.h"

#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/program_source.h"

namespace heddle {
namespace {

Status Run(const ProgramFlags& flags, const Terminal& terminal) {
  HEDDLE_ASSIGN(const ProgramSource source, LoadProgramSource(flags));
  HEDDLE_ASSIGN(const std::vector<DeviceId> ids, FindDevices(source.program, source.GetCluster()));
  CheckOptions options;
  options.graph = source.GetGraph();
  for (const DeviceId id : ids) options.capacity.push_back(source.GetCluster().type_of(id).memory);
  const Verdict verdict = CheckProgram(source.program, options);
  if (terminal.json) {
    Json json;
    json["schema"] = "heddle.check/1";
    json["ok"] = verdict.ok();
    json["findings"] = Json::array();
    for (const Finding& finding : verdict.findings) {
      json["findings"].push_back({{"kind", NameOf(finding.kind)}, {"message", finding.message}});
    }
    json["memory"] = Json::array();
    for (size_t d = 0; d < ids.size(); ++d) {
      json["memory"].push_back({{"device", source.program.devices[d].name},
                                {"peak_bytes", verdict.memory[d].peak.value},
                                {"capacity_bytes", options.capacity[d].value}});
    }
    terminal.PrintJson(json);
  }
  if (!verdict.ok()) {
    std::string rest;
    for (size_t k = 1; k < verdict.findings.size() && k < 5; ++k) {
      rest += fmt::format("{}{}: {}", rest.empty() ? "also " : "\n  also ",
                          NameOf(verdict.findings[k].kind), verdict.findings[k].message);
    }
    const Finding& first = verdict.findings[0];
    const ErrorKind kind =
        first.kind == FindingKind::kMemory ? ErrorKind::kInfeasible : ErrorKind::kBadInput;
    return Error{kind, flags.file, fmt::format("{}: {}", NameOf(first.kind), first.message), rest};
  }
  if (!terminal.json) {
    Bytes peak;
    for (const DeviceMemory& memory : verdict.memory) peak = std::max(peak, memory.peak);
    terminal.Print(fmt::format(
        "ok: {} devices, {} instructions, every layer once, no deadlock, at most {} on a device\n",
        source.program.devices.size(), source.program.instruction_count(), ToText(peak)));
  }
  return Ok();
}

}  // namespace

void AddCheckCommand(Commands& commands) {
  auto flags = std::make_shared<ProgramFlags>();
  CLI::App* command =
      commands.Add("check", "Prove a plan's Program well formed", "heddle check plan.json");
  flags->AddTo(command, false);
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
