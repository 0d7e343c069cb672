// heddle lab: training methods under one simulated clock, and what theory says about them.

#include "cli/lab.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/json_field.h"
#include "base/text.h"

namespace heddle {
namespace {

Error BadStages(std::string_view part) {
  return BadInput("--stages", fmt::format("\"{}\" is no number of stages", part),
                  "expected a list, as in 2,4,8, or a range that doubles, as in 2..32");
}

}  // namespace

Result<std::vector<int>> ParseStages(const std::string& text) {
  constexpr int64_t kMostStages = 256;
  const auto number = [](std::string_view part) -> Result<int64_t> {
    const auto value = ParseInteger(part);
    if (!value || *value < 1 || *value > kMostStages) return BadStages(part);
    return *value;
  };
  std::vector<int> stages;
  for (const std::string_view part : SplitAt(text, ',')) {
    const size_t dots = part.find("..");
    HEDDLE_ASSIGN(const int64_t low, number(part.substr(0, dots)));
    int64_t high = low;
    if (dots != std::string_view::npos) {
      HEDDLE_ASSIGN(high, number(part.substr(dots + 2)));
      if (high < low) return BadStages(part);
    }
    for (int64_t s = low; s <= high; s *= 2) {
      const bool known = std::find(stages.begin(), stages.end(), s) != stages.end();
      if (!known) stages.push_back(static_cast<int>(s));
    }
  }
  return stages;
}

Result<std::vector<double>> ParseReals(const std::string& flag, const std::string& text) {
  std::vector<double> numbers;
  for (const std::string_view part : SplitAt(text, ',')) {
    const auto value = ParseReal(part);
    if (!value) {
      return BadInput(flag, fmt::format("\"{}\" is no number", part),
                      "expected numbers with commas between them, as in 0,0.05");
    }
    if (std::find(numbers.begin(), numbers.end(), *value) == numbers.end()) {
      numbers.push_back(*value);
    }
  }
  return numbers;
}

Json NumberOrNull(double value) { return std::isfinite(value) ? Json(value) : Json(); }

void AddLabCommand(Commands& commands) {
  const Command lab =
      commands.Add("lab", "Races between training methods under one clock, and their theory",
                   "heddle lab race --objective quadratic --stages 2,4 --methods pd,local,gpipe");
  // What is none of the experiments: so that the error can name the nearest.
  auto other = std::make_shared<std::string>();
  lab.AddOption("experiment", *other, "One of the subcommands below");
  auto experiments = std::make_shared<Commands>(lab);
  AddLabDelayCommand(*experiments);
  AddLabMapCommand(*experiments);
  AddLabRaceCommand(*experiments);
  AddLabTheoryCommand(*experiments);
  commands.OnRun(lab, [experiments, other](const Terminal& terminal) -> Status {
    if (other->empty()) return experiments->Run(terminal);
    return Usage(fmt::format("lab: unknown experiment \"{}\"", *other),
                 SuggestName(*other, experiments->Names()));
  });
}

}  // namespace heddle
