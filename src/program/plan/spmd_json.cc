#include "program/plan/spmd_json.h"

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <optional>

#include "base/json_field.h"
#include "base/text.h"
#include "program/plan/spmd_conversion.h"

namespace heddle {
namespace {

constexpr int64_t kMostRatios = 127;  // as many as ShardState can tell apart

// "S1'2": what comes before the quote, and the number after it; 0 without one.
struct Quoted {
  std::string_view name;
  int8_t ratios = 0;
};

std::optional<Quoted> SplitQuote(std::string_view text) {
  const size_t quote = text.find('\'');
  if (quote == std::string_view::npos) return Quoted{text, 0};
  const auto ratios = ParseInteger(text.substr(quote + 1));
  if (!ratios || *ratios < 0 || *ratios >= kMostRatios) return std::nullopt;
  return Quoted{text.substr(0, quote), static_cast<int8_t>(*ratios)};
}

std::optional<ShardState> ParseState(std::string_view text) {
  const auto parts = SplitQuote(text);
  if (!parts) return std::nullopt;
  if (parts->name == "R") return ShardState::Replicated();
  if (parts->name == "P") return ShardState::Partial();
  if (parts->name.empty() || parts->name[0] != 'S') return std::nullopt;
  const auto dim = ParseInteger(parts->name.substr(1));
  if (!dim || *dim < 0 || *dim > INT8_MAX) return std::nullopt;
  return ShardState::Sharded(static_cast<int>(*dim), parts->ratios);
}

std::optional<AxisRule> ParseRule(std::string_view text) {
  AxisRule rule;
  if (text == "-") return rule;
  if (text.size() > 1 && text[0] == 'P') {
    for (const char digit : text.substr(1)) {
      if (digit < '0' || digit > '7') return std::nullopt;
      rule.partial = static_cast<uint8_t>(rule.partial | 1U << (digit - '0'));
    }
    return rule;
  }
  const auto parts = SplitQuote(text);
  if (!parts || parts->name.size() != 1) return std::nullopt;
  rule.letter = parts->name[0];
  rule.ratios = parts->ratios;
  return rule;
}

// "outer.inner", each as `parse` reads it.
template <class T>
std::optional<std::array<T, kMeshAxes>> ParseBoth(std::string_view text,
                                                  std::optional<T> (*parse)(std::string_view)) {
  const std::vector<std::string_view> parts = SplitAt(text, '.');
  if (parts.size() != kMeshAxes) return std::nullopt;
  const auto outer = parse(parts[0]), inner = parse(parts[1]);
  if (!outer || !inner) return std::nullopt;
  return std::array<T, kMeshAxes>{*outer, *inner};
}

Result<Layout> LayoutFrom(std::string_view text, const JsonField& field) {
  if (const auto layout = ParseBoth(text, &ParseState)) return *layout;
  return field.Bad(fmt::format("\"{}\" is no layout", text),
                   "e.g. \"R.S1\": R, P or S and a dimension, between nodes and inside");
}

std::string StepText(const SpmdStep& step, const Graph& graph) {
  if (!step.converts()) return graph.op(step.op).name + " " + NameOf(step.rule);
  std::string text = fmt::format("{}: {} -> {}", graph.tensor(step.tensor).name, NameOf(step.from),
                                 NameOf(step.to));
  const auto conversion = ConversionOf(step.from, step.to);
  if (conversion && conversion->exchanges) text += fmt::format(" {}", NameOf(step.algorithm));
  return text;
}

Result<SpmdStep> ConversionFrom(const std::vector<std::string_view>& words, const JsonField& field,
                                const Graph& graph) {
  const bool has_algorithm = words.size() == 5;
  if ((words.size() != 4 && !has_algorithm) || words[2] != "->") {
    return field.Bad("is no conversion", "e.g. \"d.x: P.R -> R.R ring\"");
  }
  const std::string_view name = words[0].substr(0, words[0].size() - 1);
  SpmdStep step;
  const auto tensor = graph.FindTensor(name);
  if (!tensor) return field.Bad(fmt::format("the model has no tensor \"{}\"", name));
  step.tensor = *tensor;
  HEDDLE_ASSIGN(step.from, LayoutFrom(words[1], field));
  HEDDLE_ASSIGN(step.to, LayoutFrom(words[3], field));
  if (!has_algorithm) return step;
  const auto algorithm = ParseChoice<CollectiveAlgorithm>(words[4]);
  if (!algorithm) {
    return field.Bad(fmt::format("\"{}\" is unknown", words[4]),
                     "ring, tree, hierarchical or grouped");
  }
  step.algorithm = *algorithm;
  return step;
}

Result<SpmdStep> StepFrom(const JsonField& field, const Graph& graph) {
  HEDDLE_ASSIGN(const std::string text, field.AsString());
  const std::vector<std::string_view> words = SplitWords(text);
  if (!words.empty() && words[0].back() == ':') return ConversionFrom(words, field, graph);
  if (words.size() != 2) {
    return field.Bad("is no step", "e.g. \"block0.fc1 b.n\" or \"d.x: P.R -> R.R ring\"");
  }
  SpmdStep step;
  const auto op = graph.FindOp(words[0]);
  if (!op) return field.Bad(fmt::format("the model has no op \"{}\"", words[0]));
  step.op = *op;
  const auto rule = ParseBoth(words[1], &ParseRule);
  if (!rule) {
    return field.Bad(fmt::format("\"{}\" is no rule", words[1]),
                     "e.g. \"b.n\": a letter of the op, - for all of it, P0 for a partial input, "
                     "between nodes and inside");
  }
  step.rule = *rule;
  return step;
}

Result<std::vector<double>> NumbersFrom(const JsonField& field) {
  if (!field.json().is_array()) return field.Bad("is not a list of shares");
  std::vector<double> numbers;
  for (size_t k = 0; k < field.size(); ++k) {
    HEDDLE_ASSIGN(numbers.emplace_back(), field.Element(k).AsNumber());
  }
  return numbers;
}

}  // namespace

Status ReadMesh(const JsonField& json, SpmdPlan& plan) {
  HEDDLE_ASSIGN(const JsonField mesh, json.Array("mesh"));
  for (size_t n = 0; n < mesh.size(); ++n) {
    const JsonField node = mesh.Element(n);
    if (!node.json().is_array()) return node.Bad("is not a list of devices", "one list per node");
    plan.mesh.emplace_back();
    for (size_t d = 0; d < node.size(); ++d) {
      HEDDLE_ASSIGN(plan.mesh.back().emplace_back(), node.Element(d).AsString());
    }
  }
  HEDDLE_ASSIGN(const JsonField ratios, json.Array("ratios"));
  if (ratios.size() != kMeshAxes) {
    return ratios.Bad("does not have two axes", "[[vectors between nodes], [vectors inside]]");
  }
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    const JsonField vectors = ratios.Element(axis);
    if (!vectors.json().is_array() || vectors.size() >= kMostRatios) {
      return vectors.Bad("is not a list of ratio vectors");
    }
    for (size_t k = 0; k < vectors.size(); ++k) {
      HEDDLE_ASSIGN(plan.ratios[axis].emplace_back(), NumbersFrom(vectors.Element(k)));
    }
  }
  return Ok();
}

Status ReadStorage(const JsonField& json, const Graph& graph,
                   const std::vector<int32_t>& parameters, SpmdPlan& plan) {
  std::map<TensorId, size_t> numbers;
  for (const int32_t p : parameters) {
    const Parameter& parameter = graph.parameters()[static_cast<size_t>(p)];
    numbers[parameter.tensor] = plan.storage.size();
    plan.storage.push_back({parameter.tensor, {}});
  }
  HEDDLE_ASSIGN(const JsonField storage, json.Object("storage"));
  for (const auto& item : storage.json().items()) {
    HEDDLE_ASSIGN(const JsonField field, storage.Child(item.key()));
    const auto tensor = graph.FindTensor(item.key());
    if (!tensor || !numbers.contains(*tensor)) {
      const bool all = parameters.size() == graph.parameters().size();
      return field.Bad(fmt::format("is no parameter of the {}", all ? "model" : "stage"));
    }
    HEDDLE_ASSIGN(const std::string text, field.AsString());
    HEDDLE_ASSIGN(plan.storage[numbers.at(*tensor)].layout, LayoutFrom(text, field));
  }
  return Ok();
}

Json StorageToJson(const SpmdPlan& plan, const Graph& graph) {
  Json json = Json::object();
  for (const SpmdStorage& storage : plan.storage) {
    if (storage.layout == Layout{}) continue;
    json[graph.tensor(storage.parameter).name] = NameOf(storage.layout);
  }
  return json;
}

Json StepsToJson(const SpmdPlan& plan, size_t begin, size_t end, const Graph& graph) {
  Json json = Json::array();
  for (size_t k = begin; k < end; ++k) json.push_back(StepText(plan.steps[k], graph));
  return json;
}

Status ReadSteps(const JsonField& steps, const Graph& graph, SpmdPlan& plan) {
  for (size_t k = 0; k < steps.size(); ++k) {
    HEDDLE_ASSIGN(plan.steps.emplace_back(), StepFrom(steps.Element(k), graph));
  }
  return Ok();
}

Json ArrivalToJson(const BodyArrival& arrival, const Graph& graph) {
  return fmt::format("{}: {}", graph.tensor(arrival.tensor).name, NameOf(arrival.layout));
}

Result<BodyArrival> ArrivalFromJson(const JsonField& field, const Graph& graph) {
  HEDDLE_ASSIGN(const std::string text, field.AsString());
  const std::vector<std::string_view> words = SplitWords(text);
  if (words.size() != 2 || words[0].back() != ':') {
    return field.Bad("is no tensor with its layout", "e.g. \"block0.y: S0.R\"");
  }
  const std::string_view name = words[0].substr(0, words[0].size() - 1);
  const auto tensor = graph.FindTensor(name);
  if (!tensor) return field.Bad(fmt::format("the model has no tensor \"{}\"", name));
  HEDDLE_ASSIGN(const Layout layout, LayoutFrom(words[1], field));
  return BodyArrival{*tensor, layout};
}

Json SpmdToJson(const SpmdPlan& plan, const Graph& graph) {
  Json json;
  json["mesh"] = plan.mesh;
  json["ratios"] = plan.ratios;
  if (plan.converts_each) json["converts_each"] = true;
  json["storage"] = StorageToJson(plan, graph);
  json["steps"] = StepsToJson(plan, 0, plan.steps.size(), graph);
  return json;
}

Result<SpmdPlan> SpmdFromJson(const JsonField& json, const Graph& graph) {
  HEDDLE_RETURN_IF_ERROR(json.OnlyKeys({"mesh", "ratios", "converts_each", "storage", "steps"}));
  SpmdPlan plan;
  if (json.Has("converts_each")) {
    HEDDLE_ASSIGN(plan.converts_each, json.Bool("converts_each"));
  }
  HEDDLE_RETURN_IF_ERROR(ReadMesh(json, plan));
  std::vector<int32_t> all(graph.parameters().size());
  std::iota(all.begin(), all.end(), 0);
  HEDDLE_RETURN_IF_ERROR(ReadStorage(json, graph, all, plan));
  HEDDLE_ASSIGN(const JsonField steps, json.Array("steps"));
  HEDDLE_RETURN_IF_ERROR(ReadSteps(steps, graph, plan));
  return plan;
}

}  // namespace heddle
