// heddle help: what --help says, as a command; with --json every command and option, for tools.

#include <fmt/format.h>

#include <memory>

#include "base/json_field.h"
#include "base/text.h"
#include "cli/command.h"

namespace heddle {
namespace {

Json OptionJson(const Option& option) {
  Json json;
  json["names"] = option.names();
  json["positional"] = option.positional();
  json["takes"] = option.takes_value() ? Json(option.type_name()) : Json();
  json["default"] = option.default_text().empty() ? Json() : Json(option.default_text());
  json["required"] = option.required();
  json["about"] = option.about();
  return json;
}

void AddCommandJson(const Command& command, Json& commands) {
  Json json;
  json["name"] = command.path();
  json["about"] = command.about();
  json["options"] = Json::array();
  for (const Option& option : command.options()) json["options"].push_back(OptionJson(option));
  commands.push_back(std::move(json));
  for (const Command& below : command.below()) AddCommandJson(below, commands);
}

Result<Command> FindCommand(const Command& root, const std::vector<std::string>& words) {
  Command at = root;
  for (const std::string& word : words) {
    std::optional<Command> found;
    std::vector<std::string> names;
    for (const Command& below : at.below()) {
      names.push_back(below.name());
      if (below.name() == word) found = below;
    }
    if (!found) {
      return Usage(fmt::format("help: unknown command \"{}\"", word),
                   names.empty() ? fmt::format("{} has no commands below it", at.path())
                                 : SuggestName(word, names));
    }
    at = *found;
  }
  return at;
}

Status Run(const Command& root, const std::vector<std::string>& words, const Terminal& terminal) {
  HEDDLE_ASSIGN(const Command command, FindCommand(root, words));
  if (!terminal.json) {
    terminal.Print(command.Help());
    return Ok();
  }
  Json json;
  json["schema"] = "heddle.help/1";
  json["commands"] = Json::array();
  AddCommandJson(command, json["commands"]);
  terminal.PrintJson(json);
  return Ok();
}

}  // namespace

void AddHelpCommand(Commands& commands, const Command& root) {
  auto words = std::make_shared<std::vector<std::string>>();
  const Command command =
      commands.Add("help", "Explain a command and its options", "heddle help plan");
  command.AddOption("command", *words, "The command, as in plan, or lab race; all unless given");
  commands.OnRun(command,
                 [words, root](const Terminal& terminal) { return Run(root, *words, terminal); });
}

}  // namespace heddle
