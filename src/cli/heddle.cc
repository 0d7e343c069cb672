#include "cli/heddle.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>

#include "base/json_field.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/devices.h"
#include "cli/share.h"
#include "cli/unknown_option.h"
#include "cli/value_check.h"

namespace heddle {
namespace {

Terminal FindTerminal(std::FILE* out, std::FILE* err) {
  Terminal terminal;
  terminal.out = out;
  terminal.err = err;
  terminal.colour = isatty(fileno(out)) != 0 && std::getenv("NO_COLOR") == nullptr;
  const TerminalKind kind = TerminalKindOf(fileno(out));
  terminal.width = kind.width;
  terminal.charset = kind.charset;
  return terminal;
}

int Fail(const Error& error, const Terminal& terminal) {
  if (terminal.json && !terminal.printed_json) {
    Json json;
    json["schema"] = "heddle.error/1";
    json["exit_code"] = static_cast<int>(error.kind);
    json["where"] = error.where;
    json["error"] = error.what;
    json["hint"] = error.hint;
    terminal.PrintJson(json);
  }
  terminal.PrintError("heddle: " + error.ToString() + "\n");
  return static_cast<int>(error.kind);
}

// The exit code, after a look at whether everything printed has arrived.
int Conclude(const Status& status, Terminal terminal) {
  if (!status.ok()) {
    const int code = Fail(status.error(), terminal);
    std::fflush(terminal.out);
    return code;
  }
  const Status written = terminal.Flush();
  if (written.ok()) return 0;
  terminal.json = false;  // it would go the same way
  return Fail(written.error(), terminal);
}

void AddCommands(Commands& commands, const Command& root) {
  AddPlanCommand(commands);
  AddCompareCommand(commands);
  AddExplainCommand(commands);
  AddSimulateCommand(commands);
  AddCheckCommand(commands);
  AddRunCommand(commands);
  AddVerifyCommand(commands);
  AddProfileCommand(commands);
  AddLowerCommand(commands);
  AddLabCommand(commands);
  AddShareCommand(commands);
  AddModelsCommand(commands);
  AddDevicesCommand(commands);
  AddDemoCommand(commands);
  AddHelpCommand(commands, root);
}

// Of the arguments; what --help and --version print.
Result<std::string> Parse(CommandLine& line, const Commands& commands, int argc,
                          const char* const* argv) {
  if (argc > 1 && argv[1][0] != '-' && !commands.Knows(argv[1])) {
    return Usage(std::string("unknown command \"") + argv[1] + "\"",
                 SuggestName(argv[1], commands.Names()));
  }
  if (auto unknown = FindUnknownOption(line.root(), argc, argv)) return *std::move(unknown);
  return line.Parse(argc, argv);
}

int Run(int argc, const char* const* argv, Terminal terminal) {
  CommandLine line(
      "heddle plans, simulates, runs and proves distributed training of deep networks on mixed "
      "clusters.",
      "heddle", std::string("heddle ") + kVersion,
      "Example:\n  heddle demo\n\nheddle help <command> explains a command.");
  const Command root = line.root();
  root.AddFlag("--json", terminal.json, "Print one JSON object instead of text");
  Commands commands(root);
  AddCommands(commands, root);
  CheckNumbers(root);
  for (int k = 1; k < argc; ++k) terminal.json = terminal.json || std::string(argv[k]) == "--json";
  const Result<std::string> printed = Parse(line, commands, argc, argv);
  if (!printed.ok()) return Conclude(Status(printed.error()), terminal);
  if (!printed.value().empty()) {
    terminal.Print(printed.value());
    return Conclude(Ok(), terminal);
  }
  return Conclude(commands.Run(terminal), terminal);
}

}  // namespace

int RunHeddle(const std::vector<std::string>& arguments, std::FILE* out, std::FILE* err) {
  std::vector<const char*> words = {"heddle"};
  for (const std::string& argument : arguments) words.push_back(argument.c_str());
  try {
    return Run(static_cast<int>(words.size()), words.data(), FindTerminal(out, err));
  } catch (const std::exception& error) {
    fmt::print(err, "heddle: internal error: {}\n", error.what());
    return static_cast<int>(ErrorKind::kInternal);
  }
}

}  // namespace heddle
