// heddle models: the zoo; or what was read of one model.

#include <fmt/format.h>

#include <algorithm>

#include "base/json_field.h"
#include "base/text.h"
#include "cli/command.h"
#include "model/hf_model.h"
#include "model/zoo.h"
#include "report/text_table.h"

namespace heddle {
namespace {

Status ListZoo(const Terminal& terminal) {
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

// What heddle makes of a configuration, where it can: nothing is trained, so its batch is one
// sample.
struct Built {
  int64_t layers = 0;
  int64_t ops = 0;
  int64_t trained = 0;  // parameters
};

Result<std::optional<Built>> Build(const HfModel& model, const std::string& spec) {
  const bool whole = std::none_of(model.parts.begin(), model.parts.end(),
                                  [](const HfPart& part) { return part.missing; });
  if (!whole) return std::optional<Built>();
  HEDDLE_ASSIGN(const Graph graph, BuildModel(spec, {}));
  return std::optional<Built>(Built{static_cast<int64_t>(graph.layers().size()),
                                    static_cast<int64_t>(graph.ops().size()),
                                    graph.parameter_count()});
}

Json RowOf(const std::string& spec, const HfModel& model, const std::optional<Built>& built) {
  const HfConfig& config = model.config;
  Json row = {{"name", spec},
              {"family", NameOf(config.family)},
              {"architecture", config.architecture},
              {"parameters", model.parameters},
              {"layers", config.layers + config.decoder_layers},
              {"ops", nullptr},
              {"trained_parameters", nullptr},
              {"unsupported", Json::array()},
              {"parts", Json::array()}};
  if (built) {
    row["ops"] = built->ops;
    row["trained_parameters"] = built->trained;
  }
  for (const HfPart& part : model.parts) {
    const Json entry = {{"op", part.op}, {"count", part.count}, {"where", part.where}};
    if (part.missing) row["unsupported"].push_back(entry);
    Json& whole = row["parts"].emplace_back(entry);
    whole["parameters"] = part.parameters;
  }
  return row;
}

std::string TextOf(const HfModel& model, const std::optional<Built>& built,
                   const Terminal& terminal) {
  const HfConfig& config = model.config;
  std::string text =
      fmt::format("{}: {} parameters in {} blocks, family {}\n", config.architecture,
                  GroupDigits(model.parameters), GroupDigits(config.layers + config.decoder_layers),
                  NameOf(config.family));
  if (built) {
    text += fmt::format("{} ops; {} parameters are trained", GroupDigits(built->ops),
                        GroupDigits(built->trained));
    text += model.sequence > 0
                ? fmt::format(", at {} positions a sample\n", GroupDigits(model.sequence))
                : "\n";
  }
  TextTable table({{"op"},
                   {"count", Align::kRight},
                   {"parameters of each", Align::kRight, 1},
                   {"heddle has it"},
                   {"where"}});
  for (const HfPart& part : model.parts) {
    table.AddRow({part.op, GroupDigits(part.count), GroupDigits(part.parameters),
                  part.missing ? "no" : "yes", part.where});
  }
  text += "\n" + table.Print(terminal.style());
  if (!built) text += "\nheddle cannot train it: it lacks the ops that say no.\n";
  return text;
}

Status ShowOne(const std::string& text, const Terminal& terminal) {
  if (!IsConfigSpec(text)) {
    return BadInput(
        fmt::format("models {}", Printable(text)), "no configuration",
        "give the path of a config.json; without a path, the models of the zoo are listed");
  }
  HEDDLE_ASSIGN(const ModelSpec spec, ParseModelSpec(text));
  HEDDLE_ASSIGN(const HfModel model, ReadHfModel(spec));
  HEDDLE_ASSIGN(const std::optional<Built> built, Build(model, text));
  if (terminal.json) {
    terminal.PrintJson(
        {{"schema", "heddle.models/1"}, {"rows", Json::array({RowOf(text, model, built)})}});
  } else {
    terminal.Print(TextOf(model, built, terminal));
  }
  return Ok();
}

}  // namespace

void AddModelsCommand(Commands& commands) {
  const Command command = commands.Add(
      "models", "List the models of the zoo, or what is read of a Hugging Face config.json",
      "heddle models opt-125m/config.json");
  auto path = std::make_shared<std::string>();
  command.AddOption("path", *path,
                    "A config.json: its parameters and ops, and those that heddle lacks");
  commands.OnRun(command, [path](const Terminal& terminal) {
    return path->empty() ? ListZoo(terminal) : ShowOne(*path, terminal);
  });
}

}  // namespace heddle
