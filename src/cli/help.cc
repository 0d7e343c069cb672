// heddle help: what --help says, as a command; with --json every command and option, for tools.

#include <fmt/format.h>

#include <memory>

#include "base/json_field.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/unknown_option.h"

namespace heddle {
namespace {

using Apps = std::vector<const CLI::App*>;

Apps Below(const CLI::App& command) {
  return command.get_subcommands([](const CLI::App*) { return true; });
}

Json OptionJson(const CLI::Option& option) {
  Json json;
  json["names"] = Json::array();
  for (const std::string& name : option.get_snames()) json["names"].push_back("-" + name);
  for (const std::string& name : option.get_lnames()) json["names"].push_back("--" + name);
  if (option.get_positional()) json["names"].push_back(option.get_single_name());
  json["positional"] = !option.nonpositional();
  const std::string type = option.get_type_name();
  json["takes"] = option.get_items_expected_max() == 0 ? Json() : Json(type);
  json["default"] = option.get_default_str().empty() ? Json() : Json(option.get_default_str());
  json["required"] = option.get_required();
  json["about"] = option.get_description();
  return json;
}

void AddCommandJson(const CLI::App& command, Json& commands) {
  Json json;
  json["name"] = PathOf(command);
  json["about"] = command.get_description();
  json["options"] = Json::array();
  for (const CLI::Option* option : command.get_options()) {
    json["options"].push_back(OptionJson(*option));
  }
  commands.push_back(std::move(json));
  for (const CLI::App* below : Below(command)) AddCommandJson(*below, commands);
}

Result<const CLI::App*> FindCommand(const CLI::App& app, const std::vector<std::string>& words) {
  const CLI::App* at = &app;
  for (const std::string& word : words) {
    const CLI::App* found = nullptr;
    std::vector<std::string> names;
    for (const CLI::App* below : Below(*at)) {
      names.push_back(below->get_name());
      if (below->get_name() == word) found = below;
    }
    if (found == nullptr) {
      return Usage(fmt::format("help: unknown command \"{}\"", word),
                   names.empty() ? fmt::format("{} has no commands below it", PathOf(*at))
                                 : SuggestName(word, names));
    }
    at = found;
  }
  return at;
}

Status Run(const CLI::App& app, const std::vector<std::string>& words, const Terminal& terminal) {
  HEDDLE_ASSIGN(const CLI::App* command, FindCommand(app, words));
  if (!terminal.json) {
    const std::string path = PathOf(*command);
    const std::string called = path.empty() ? "heddle" : "heddle " + path;
    terminal.Print(
        command->get_formatter()->make_help(command, called, CLI::AppFormatMode::Normal));
    return Ok();
  }
  Json json;
  json["schema"] = "heddle.help/1";
  json["commands"] = Json::array();
  AddCommandJson(*command, json["commands"]);
  terminal.PrintJson(json);
  return Ok();
}

}  // namespace

void AddHelpCommand(Commands& commands, const CLI::App& app) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command = commands.Add("help", "Explain a command and its options", "heddle help plan");
  command->add_option("command", *words, "The command, as in plan, or lab race; all unless given");
  commands.OnRun(command,
                 [words, &app](const Terminal& terminal) { return Run(app, *words, terminal); });
}

}  // namespace heddle
