#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <sstream>

#include "base/text.h"

namespace heddle {

Option Option::Required(bool required) const {
  option_->required(required);
  return *this;
}

Option Option::About(const std::string& about) const {
  option_->description(about);
  return *this;
}

Option Option::Check(const ValueCheck& check) const {
  option_->check(CLI::Validator(
      [objection = check.objection](std::string& text) { return objection(text); }, check.allowed));
  return *this;
}

Option Option::ShowDefault() const {
  option_->capture_default_str();
  return *this;
}

Option Option::DefaultText(const std::string& text) const {
  option_->default_str(text);
  return *this;
}

Option Option::TypeName(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

Option Option::SplitAt(char delimiter) const {
  option_->delimiter(delimiter);
  return *this;
}

Option Option::FromEnvironment(const std::string& variable) const {
  option_->envname(variable);
  return *this;
}

bool Option::given() const { return option_->count() > 0; }

std::string Option::value() const {
  if (!given()) return default_text();
  return option_->get_expected_max() > 1 ? Join(option_->results(), ",")
                                         : option_->results().back();
}

void Option::Give(const std::string& text) const {
  option_->add_result(text);
  option_->run_callback();
}

std::vector<std::string> Option::names() const {
  std::vector<std::string> names;
  for (const std::string& name : option_->get_snames()) names.push_back("-" + name);
  for (const std::string& name : option_->get_lnames()) names.push_back("--" + name);
  if (option_->get_positional()) names.push_back(option_->get_single_name());
  return names;
}

std::vector<std::string> Option::long_names() const { return option_->get_lnames(); }
std::string Option::about() const { return option_->get_description(); }
std::string Option::type_name() const { return option_->get_type_name(); }
std::string Option::default_text() const { return option_->get_default_str(); }
bool Option::required() const { return option_->get_required(); }
bool Option::positional() const { return !option_->nonpositional(); }
bool Option::takes_value() const { return option_->get_items_expected_max() > 0; }
bool Option::needs_value() const { return option_->get_items_expected_min() > 0; }

Command Command::AddCommand(const std::string& name, const std::string& about,
                            const std::string& example) const {
  CLI::App* command = app_->add_subcommand(name, about);
  command->footer("Example:\n  " + example);
  return Command(command);
}

template <class Value>
Option Command::AddOption(const std::string& names, Value& value, const std::string& about) const {
  return Option(app_->add_option(names, value, about));
}

template Option Command::AddOption(const std::string&, std::string&, const std::string&) const;
template Option Command::AddOption(const std::string&, int32_t&, const std::string&) const;
template Option Command::AddOption(const std::string&, int64_t&, const std::string&) const;
template Option Command::AddOption(const std::string&, uint64_t&, const std::string&) const;
template Option Command::AddOption(const std::string&, double&, const std::string&) const;
template Option Command::AddOption(const std::string&, std::optional<uint64_t>&,
                                   const std::string&) const;
template Option Command::AddOption(const std::string&, std::optional<double>&,
                                   const std::string&) const;
template Option Command::AddOption(const std::string&, std::vector<std::string>&,
                                   const std::string&) const;
template Option Command::AddOption(const std::string&, std::vector<int64_t>&,
                                   const std::string&) const;

Option Command::AddFlag(const std::string& names, bool& value, const std::string& about) const {
  return Option(app_->add_flag(names, value, about));
}

void Command::ExplainBeforeExample(const std::string& text) const {
  app_->footer(text + app_->get_footer());
}

std::string Command::name() const { return app_->get_name(); }

std::string Command::path() const {
  if (!above()) return "";
  const std::string path = above()->path();
  return path.empty() ? name() : path + " " + name();
}

std::string Command::about() const { return app_->get_description(); }

std::string Command::Help() const {
  const std::string called = path().empty() ? "heddle" : "heddle " + path();
  return app_->get_formatter()->make_help(app_, called, CLI::AppFormatMode::Normal);
}

bool Command::parsed() const { return app_->parsed(); }

std::optional<Command> Command::above() const {
  CLI::App* parent = app_->get_parent();
  return parent == nullptr ? std::nullopt : std::optional(Command(parent));
}

std::vector<Command> Command::below() const {
  std::vector<Command> commands;
  for (CLI::App* command : app_->get_subcommands([](CLI::App*) { return true; })) {
    commands.emplace_back(command);
  }
  return commands;
}

std::vector<Option> Command::options() const {
  std::vector<Option> options;
  for (CLI::Option* option : app_->get_options()) options.emplace_back(option);
  return options;
}

std::optional<Option> Command::Find(const std::string& name) const {
  CLI::Option* option = app_->get_option_no_throw(name);
  return option == nullptr ? std::nullopt : std::optional(Option(option));
}

std::optional<Option> Command::FindUpwards(const std::string& name) const {
  if (const auto option = Find(name)) return option;
  const auto parent = above();
  return parent ? parent->FindUpwards(name) : std::nullopt;
}

CommandLine::CommandLine(const std::string& about, const std::string& name,
                         const std::string& version, const std::string& footer)
    : app_(std::make_unique<CLI::App>(about, name)) {
  app_->set_version_flag("--version", version);
  app_->require_subcommand(1);
  app_->fallthrough();
  app_->footer(footer);
}

CommandLine::~CommandLine() = default;

Result<std::string> CommandLine::Parse(int argc, const char* const* argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      return Usage(error.what(), "see heddle --help, or heddle <command> --help");
    }
    std::ostringstream out;
    app_->exit(error, out, out);
    return out.str();
  }
  return std::string();
}

}  // namespace heddle
