// heddle: plans and simulates distributed training on mixed clusters.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>

#include "base/json_field.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/share.h"

namespace heddle {
namespace {

Terminal FindTerminal() {
  Terminal terminal;
  terminal.colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  const TerminalKind kind = TerminalKindOf(STDOUT_FILENO);
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

int Main(int argc, char** argv) {
  CLI::App app(
      "heddle plans and simulates distributed training of deep networks on mixed clusters.",
      "heddle");
  Terminal terminal = FindTerminal();
  app.set_version_flag("--version", std::string("heddle ") + kVersion);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", terminal.json, "Print one JSON object instead of text");
  Commands commands(app);
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
  AddDemoCommand(commands);
  for (int k = 1; k < argc; ++k) terminal.json = terminal.json || std::string(argv[k]) == "--json";
  if (argc > 1 && argv[1][0] != '-' && !commands.Knows(argv[1])) {
    return Fail(Usage(std::string("unknown command \"") + argv[1] + "\"",
                      SuggestName(argv[1], commands.Names())),
                terminal);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream text;
      app.exit(error, text, text);
      terminal.Print(text.str());
      return 0;
    }
    return Fail(Usage(error.what(), "see heddle --help, or heddle <command> --help"), terminal);
  }
  const Status status = commands.Run(terminal);
  return status.ok() ? 0 : Fail(status.error(), terminal);
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  try {
    return heddle::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "heddle: internal error: %s\n", error.what());
    return static_cast<int>(heddle::ErrorKind::kInternal);
  }
}
