// The command line as commands and options. Behind these handles is CLI11, whose header takes the
// compiler ten seconds: command_line.cc alone includes it.
//
//   CommandLine line("heddle plans …", "heddle");
//   Command check = line.root().AddCommand("check", "Prove a plan well formed", "heddle check
//   plan.json"); check.AddOption("--rows", rows, "Most devices to draw").Check(Within(1,
//   100)).ShowDefault(); HEDDLE_ASSIGN(const std::string printed, line.Parse(argc, argv));   //
//   rows is set
//
// Command and Option are as small as pointers, and live as long as the CommandLine.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace heddle {

// What a value on the command line may be; value_check.h has those we use.
struct ValueCheck {
  std::function<std::string(const std::string& text)> objection;  // empty: it may be this
  std::string allowed;                                            // in words, for the help
};

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option Required(bool required = true) const;
  Option About(const std::string& about) const;
  Option Check(const ValueCheck& check) const;
  Option ShowDefault() const;  // what its variable holds now
  Option DefaultText(const std::string& text) const;
  Option TypeName(const std::string& name) const;
  Option SplitAt(char delimiter) const;  // one word may hold several elements
  Option FromEnvironment(const std::string& variable) const;

  // After parsing.
  bool given() const;
  std::string value() const;  // as text, given or not; of a list all elements, with commas
  void Give(const std::string& text) const;  // as if it had been on the command line

  std::vector<std::string> names() const;       // "-o", "--output"; one without dashes comes last
  std::vector<std::string> long_names() const;  // "output"
  std::string about() const;
  std::string type_name() const;  // "INT", with what its checks allow
  std::string default_text() const;
  bool required() const;
  bool positional() const;
  bool takes_value() const;  // a flag does not
  bool needs_value() const;  // the next word is its value, whatever it looks like

 private:
  CLI::Option* option_;
};

class Command {
 public:
  explicit Command(CLI::App* app) : app_(app) {}

  Command AddCommand(const std::string& name, const std::string& about,
                     const std::string& example) const;
  // `value` is where the text goes: text, a number, an optional number or a list (command_line.cc
  // names the types). It stays as it is if the option is not given.
  template <class Value>
  Option AddOption(const std::string& names, Value& value, const std::string& about) const;
  Option AddFlag(const std::string& names, bool& value, const std::string& about) const;
  void ExplainBeforeExample(const std::string& text) const;

  std::string name() const;
  std::string path() const;  // "lab race": names from below `heddle` on; empty for `heddle` itself
  std::string about() const;
  std::string Help() const;
  bool parsed() const;  // it is the one called, or the one called is below it
  std::optional<Command> above() const;
  std::vector<Command> below() const;
  std::vector<Option> options() const;
  std::optional<Option> Find(const std::string& name) const;  // "--rows"
  // Its own, or one of a command above: a command passes on what it does not know.
  std::optional<Option> FindUpwards(const std::string& name) const;

 private:
  CLI::App* app_;
};

class CommandLine {
 public:
  CommandLine(const std::string& about, const std::string& name, const std::string& version,
              const std::string& footer);
  ~CommandLine();
  Command root() { return Command(app_.get()); }

  // What --help or --version print, else nothing. Bad usage is an error.
  Result<std::string> Parse(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace heddle
