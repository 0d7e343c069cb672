// heddle lower: print the Program of a plan.

#include <memory>

#include "base/destination.h"
#include "base/file.h"
#include "base/json_field.h"
#include "cli/command.h"
#include "cli/program_source.h"
#include "program/text/program_text.h"

namespace heddle {
namespace {

struct Flags {
  ProgramFlags program;
  std::string output;
};

Status Run(const Flags& flags, const Terminal& terminal) {
  HEDDLE_RETURN_IF_ERROR(CheckWritable(flags.output));
  HEDDLE_ASSIGN(const ProgramSource source, LoadProgramSource(flags.program));
  HEDDLE_RETURN_IF_ERROR(RefuseUnreadProfile(flags.program.profile, source.loaded.plan));
  const std::string text = PrintProgram(source.program);
  if (!flags.output.empty()) HEDDLE_RETURN_IF_ERROR(WriteFile(flags.output, text));
  if (terminal.json) {
    terminal.PrintJson(Json{{"schema", "heddle.program/1"},
                            {"devices", source.program.devices.size()},
                            {"instructions", source.program.instruction_count()},
                            {"text", text}});
    return Ok();
  }
  if (flags.output.empty()) terminal.PrintData(text);
  return Ok();
}

}  // namespace

void AddLowerCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  const Command command = commands.Add("lower", "Print what each device does under a plan",
                                       "heddle lower plan.json -o plan.heddle");
  flags->program.AddTo(command, false);
  command.AddOption("-o,--output", flags->output, "Write the Program to this file");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
