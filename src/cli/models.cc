// heddle models: the zoo.

#include <fmt/format.h>

#include "base/json_field.h"
#include "base/text.h"
#include "cli/command.h"
#include "model/zoo.h"
#include "report/text_table.h"

namespace heddle {
namespace {

Status Run(const Terminal& terminal) {
  Json json;
  json["schema"] = "heddle.models/1";
  json["rows"] = Json::array();
  TextTable table({{"name"},
                   {"parameters", Align::kRight},
                   {"layers", Align::kRight, 1},
                   {"ops", Align::kRight, 2},
                   {"about"}});
  TextTable defaults({{"name"}, {"keys and their defaults"}});
  for (const ZooEntry& entry : Zoo()) {
    HEDDLE_ASSIGN(const Graph graph, BuildModel(entry.name, {}));
    json["rows"].push_back({{"name", entry.name},
                            {"parameters", graph.parameter_count()},
                            {"layers", graph.layers().size()},
                            {"ops", graph.ops().size()},
                            {"keys", entry.defaults}});
    std::string keys;
    for (const auto& [key, value] : entry.defaults) {
      keys += fmt::format("{}{}={}", keys.empty() ? "" : " ", key, value);
    }
    table.AddRow({entry.name, GroupDigits(graph.parameter_count()),
                  GroupDigits(static_cast<int64_t>(graph.layers().size())),
                  GroupDigits(static_cast<int64_t>(graph.ops().size())), entry.about});
    defaults.AddRow({entry.name, keys});
  }
  if (terminal.json) {
    terminal.PrintJson(json);
  } else {
    terminal.Print(table.Print(terminal.style()) + "\n" + defaults.Print(terminal.style()) +
                   "\nChange a key with 'name?key=value&key=value'.\n");
  }
  return Ok();
}

}  // namespace

void AddModelsCommand(Commands& commands) {
  const Command command =
      commands.Add("models", "List the models of the zoo", "heddle models --json");
  commands.OnRun(command, &Run);
}

}  // namespace heddle
