// The command line: each subcommand is one file that adds itself to the parser. Data goes to
// standard output, progress and errors to standard error.
#pragma once

#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "cli/command_line.h"
#include "plan/planning.h"
#include "program/plan/request_fields.h"
#include "report/terminal_text.h"
#include "report/text_table.h"

namespace heddle {

// What a subcommand shares with the others.
struct Terminal {
  bool json = false;
  bool colour = false;  // standard output is a terminal and NO_COLOR is not set
  int width = 80;
  Charset charset = Charset::kUtf8;
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  mutable bool printed_json = false;  // a failure then adds no second object
  mutable int output_error = 0;       // errno of the first write that failed

  TableStyle style() const { return {colour, width}; }

  // One JSON object on standard output.
  void PrintJson(const Json& value) const;
  // Text for people: lines go on in the next where the terminal ends.
  void Print(const std::string& text) const;
  // The same on standard error.
  void PrintError(const std::string& text) const;
  // Text for programs, as it is.
  void PrintData(const std::string& text) const;
  // Whether all that was printed has arrived: the last thing that a command is asked.
  Status Flush() const;
  // A progress line on standard error, only where someone watches.
  void Progress(const std::string& text) const;
  void EndProgress() const;
};

// Runs after parsing; the error's kind becomes the exit code.
using Action = std::function<Status(const Terminal&)>;

// Adds the subcommand to the parser and remembers what to run.
class Commands {
 public:
  explicit Commands(Command parent) : parent_(parent) {}
  Command Add(const std::string& name, const std::string& about, const std::string& example);
  void OnRun(Command command, Action action) { actions_.push_back({command, std::move(action)}); }
  Status Run(const Terminal& terminal) const;
  std::vector<std::string> Names() const;
  bool Knows(const std::string& name) const;

 private:
  struct Entry {
    Command command;
    Action action;
  };
  Command parent_;
  std::vector<Entry> actions_;
};

// What plan and compare are asked: the fields of a request as options (request_fields.h), and the
// files it is about.
class PlanFlags {
 public:
  explicit PlanFlags(RequestSource source) : source_(source) {}
  void AddTo(const Command& command);
  Result<PlanRequest> ToRequest() const;

  std::string cluster;
  std::string profile;

 private:
  RequestSource source_;
  std::map<std::string_view, std::string> texts_;  // by key; empty: not given
};

// A cluster, perhaps a profile, and the planning made from them: they stay where they are.
struct PlanInputs {
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<Profile> profile;
  std::unique_ptr<Planning> planning;
};
Result<PlanInputs> LoadInputs(const PlanFlags& flags, const Deadline& deadline);
Result<std::unique_ptr<Profile>> LoadOptionalProfile(const std::string& path);

void AddCheckCommand(Commands& commands);
void AddCompareCommand(Commands& commands);
void AddDemoCommand(Commands& commands);
void AddExplainCommand(Commands& commands);
void AddHelpCommand(Commands& commands, const Command& root);
void AddLabCommand(Commands& commands);
void AddLowerCommand(Commands& commands);
void AddModelsCommand(Commands& commands);
void AddPlanCommand(Commands& commands);
void AddSimulateCommand(Commands& commands);
void AddVerifyCommand(Commands& commands);
void AddRunCommand(Commands& commands);
void AddProfileCommand(Commands& commands);

}  // namespace heddle
