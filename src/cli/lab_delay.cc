// heddle lab delay: how old the weights of an asynchronous pipeline are, counted in its Program.

#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "base/json_field.h"
#include "base/text.h"
#include "cli/lab.h"
#include "cli/value_check.h"
#include "lab/replay.h"
#include "report/text_table.h"

namespace heddle {
namespace {

struct Flags {
  std::string stages = "1..32";
  int64_t forward = 1, backward = 1, latency = 0;
  std::string slowness;
};

struct Row {
  int stages;
  DelayCounts counts;
};

// a S² + b S + c by least squares; needs three numbers of stages.
struct Parabola {
  double square = 0, linear = 0, constant = 0;
};

// Normal equations by Cramer's rule.
Parabola Fit(const std::vector<Row>& rows) {
  double s[5] = {}, t[3] = {};
  for (const Row& row : rows) {
    double power = 1;
    for (int k = 0; k < 5; ++k) {
      s[k] += power;
      if (k < 3) t[k] += power * static_cast<double>(row.counts.most);
      power *= row.stages;
    }
  }
  const auto determinant = [](double a, double b, double c, double d, double e, double f, double g,
                              double h, double i) {
    return a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g);
  };
  const double all = determinant(s[0], s[1], s[2], s[1], s[2], s[3], s[2], s[3], s[4]);
  return {determinant(s[0], s[1], t[0], s[1], s[2], t[1], s[2], s[3], t[2]) / all,
          determinant(s[0], t[0], s[2], s[1], t[1], s[3], s[2], t[2], s[4]) / all,
          determinant(t[0], s[1], s[2], t[1], s[2], s[3], t[2], s[3], s[4]) / all};
}

// "1..32": every one of them.
Result<std::vector<int>> EveryStage(const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos) return ParseStages(text);
  HEDDLE_ASSIGN(const std::vector<int> low, ParseStages(text.substr(0, dots)));
  HEDDLE_ASSIGN(const std::vector<int> high, ParseStages(text.substr(dots + 2)));
  std::vector<int> stages;
  for (int s = low[0]; s <= high[0]; ++s) stages.push_back(s);
  return stages;
}

Result<std::vector<int64_t>> SlownessOf(const std::string& text) {
  std::vector<int64_t> slowness;
  if (text.empty()) return slowness;
  for (const std::string_view part : SplitAt(text, ',')) {
    const auto value = ParseInteger(part);
    if (!value || *value < 1 || *value > 1000) {
      return BadInput("--slowness", fmt::format("\"{}\" is no whole number from 1 to 1000", part),
                      "expected a list, as in 1,1,2");
    }
    slowness.push_back(*value);
  }
  return slowness;
}

// The law for stages that take a tick each way: ⌊S² - S/2⌋.
int64_t LawOf(int stages) { return (2 * int64_t{stages} * stages - stages) / 2; }

constexpr const char* kTies =
    "within a tick the stages act in order of their index; another order changes the linear term";

std::string OwnText(const std::vector<int64_t>& own) {
  std::string text;
  for (const int64_t delay : own) text += (text.empty() ? "" : " ") + std::to_string(delay);
  return text;
}

Json ToJson(const std::vector<Row>& rows) {
  Json json;
  json["schema"] = "heddle.lab.delay/1";
  json["rows"] = Json::array();
  for (const Row& row : rows) {
    json["rows"].push_back({{"stages", row.stages},
                            {"max_delay", row.counts.most},
                            {"mean_delay", row.counts.mean},
                            {"law", LawOf(row.stages)},
                            {"deviation", row.counts.most - LawOf(row.stages)},
                            {"own_delay", row.counts.own}});
  }
  json["ties"] = kTies;
  json["fit"] = Json();
  if (rows.size() >= 3) {
    const Parabola fit = Fit(rows);
    json["fit"] = {{"square", fit.square},
                   {"linear", fit.linear},
                   {"constant", fit.constant},
                   {"stages", {rows.front().stages, rows.back().stages}}};
  }
  return json;
}

Status Run(const Flags& flags, const Terminal& terminal) {
  HEDDLE_ASSIGN(const std::vector<int> stages, EveryStage(flags.stages));
  ReplayOptions options;
  options.clock = {1, flags.forward, flags.backward, flags.latency};
  HEDDLE_ASSIGN(options.slowness, SlownessOf(flags.slowness));
  std::vector<Row> rows;
  for (const int s : stages) {
    terminal.Progress(fmt::format("replaying {} stages …", s));
    options.clock.stages = s;
    Result<DelayCounts> counts = ReplayedDelays(options);
    if (!counts.ok()) {
      terminal.EndProgress();
      return counts.error();
    }
    rows.push_back({s, std::move(counts).value()});
  }
  terminal.EndProgress();
  if (terminal.json) {
    terminal.PrintJson(ToJson(rows));
    return Ok();
  }
  TextTable table({{"stages", Align::kRight},
                   {"most", Align::kRight},
                   {"less ⌊S² - S/2⌋", Align::kRight},
                   {"mean", Align::kRight},
                   {"own, by stage"}});
  for (const Row& row : rows) {
    const int64_t deviation = row.counts.most - LawOf(row.stages);
    table.AddRow({std::to_string(row.stages), std::to_string(row.counts.most),
                  deviation == 0 ? "0" : fmt::format("{:+d}", deviation),
                  fmt::format("{:.4g}", row.counts.mean), OwnText(row.counts.own)});
  }
  terminal.Print(table.Print(terminal.style()));
  if (rows.size() >= 3) {
    const Parabola fit = Fit(rows);
    terminal.Print(
        fmt::format("\nmost ≈ {:.3f} S² {:+.3f} S {:+.3f}   (least squares over S = {} … {}, {} "
                    "numbers)\n",
                    fit.square, fit.linear, fit.constant, rows.front().stages, rows.back().stages,
                    rows.size()));
  }
  terminal.Print(fmt::format(
      "Updates of any stage between a microbatch's read of a block and its own update of one, "
      "counted by replaying the Program in the simulator; own: of the stage itself. Ties: {}.\n",
      kTies));
  return Ok();
}

}  // namespace

void AddLabDelayCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  const Command command = commands.Add("delay", "How old weights are in an asynchronous pipeline",
                                       "heddle lab delay --stages 1..8");
  command.AddOption("--stages", flags->stages, "Numbers of stages: 1..32, or 2,4,8").ShowDefault();
  command.AddOption("--forward", flags->forward, "Ticks of a forward")
      .Check(Within(1, 1000))
      .ShowDefault();
  command.AddOption("--backward", flags->backward, "Ticks of a backward")
      .Check(Within(1, 1000))
      .ShowDefault();
  command.AddOption("--latency", flags->latency, "Ticks from one stage to the next")
      .Check(Within(0, 1000))
      .ShowDefault();
  command.AddOption("--slowness", flags->slowness,
                    "How many times as long stages take, repeated, as in 1,1,2");
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
