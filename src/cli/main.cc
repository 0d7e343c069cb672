// heddle: plans and simulates distributed training on mixed clusters.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <sstream>

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

// A file opened while standard output is closed would take its number, and what is printed would go
// there. What takes the places here can only be used the wrong way round, so that printing fails.
void HoldStandardStreams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    if (open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

// The exit code, after a look at whether everything printed has arrived.
int Conclude(const Status& status, Terminal terminal) {
  if (!status.ok()) {
    const int code = Fail(status.error(), terminal);
    std::fflush(stdout);
    return code;
  }
  const Status written = terminal.Flush();
  if (written.ok()) return 0;
  terminal.json = false;  // it would go the same way
  return Fail(written.error(), terminal);
}

void AddCommands(Commands& commands, const CLI::App& app) {
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
  AddHelpCommand(commands, app);
}

// Of the arguments; or what --help and --version print.
Status Parse(CLI::App& app, const Commands& commands, int argc, char** argv, std::string* printed) {
  if (argc > 1 && argv[1][0] != '-' && !commands.Knows(argv[1])) {
    return Usage(std::string("unknown command \"") + argv[1] + "\"",
                 SuggestName(argv[1], commands.Names()));
  }
  if (auto unknown = FindUnknownOption(app, argc, argv)) return *std::move(unknown);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      return Usage(error.what(), "see heddle --help, or heddle <command> --help");
    }
    std::ostringstream out;
    app.exit(error, out, out);
    *printed = out.str();
  }
  return Ok();
}

int Main(int argc, char** argv) {
  HoldStandardStreams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of whoever writes it
  CLI::App app(
      "heddle plans, simulates, runs and proves distributed training of deep networks on mixed "
      "clusters.",
      "heddle");
  Terminal terminal = FindTerminal();
  app.set_version_flag("--version", std::string("heddle ") + kVersion);
  app.require_subcommand(1);
  app.fallthrough();
  app.footer("Example:\n  heddle demo\n\nheddle help <command> explains a command.");
  app.add_flag("--json", terminal.json, "Print one JSON object instead of text");
  Commands commands(app);
  AddCommands(commands, app);
  CheckNumbers(app);
  for (int k = 1; k < argc; ++k) terminal.json = terminal.json || std::string(argv[k]) == "--json";
  std::string printed;
  const Status parsed = Parse(app, commands, argc, argv, &printed);
  if (!parsed.ok()) return Conclude(parsed, terminal);
  if (!printed.empty()) {
    terminal.Print(printed);
    return Conclude(Ok(), terminal);
  }
  return Conclude(commands.Run(terminal), terminal);
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
