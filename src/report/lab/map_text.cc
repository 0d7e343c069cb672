#include "report/lab/map_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_field.h"
#include "base/text.h"
#include "report/text_width.h"

namespace heddle {
namespace {

std::string RatioText(const MapPair& pair) {
  if (!pair.paired) return "";
  return fmt::format("{:.2g}", pair.paired->ratio.mean);
}

std::string IntervalText(const MapPair& pair) {
  if (!pair.paired) return "at the lowest";
  const Interval& ratio = pair.paired->ratio;
  return fmt::format("{:.2g} [{:.2g}, {:.2g}]", ratio.mean, ratio.low, ratio.high);
}

// "local", "pd = flush" for a tie, "pd ? flush" for what is open.
std::string FrontText(const MapCell& cell) { return Join(cell.front, cell.tie ? " = " : " ? "); }

// The same in letters, P, L and F.
std::string FrontLetters(const MapCell& cell) {
  std::string letters;
  for (const std::string& kind : cell.front) {
    if (!letters.empty()) letters += cell.tie ? '=' : '?';
    letters += kind == "pd" ? 'P' : kind == "local" ? 'L' : 'F';
  }
  return letters;
}

int KindOf(const std::string& name) {
  return static_cast<int>(std::find(std::begin(kMapKinds), std::end(kMapKinds), name) -
                          std::begin(kMapKinds));
}

// Whose colours a cell has: those of who is in front, unless that is everybody.
std::vector<int> KindsOf(const MapCell& cell) {
  std::vector<int> kinds;
  if (cell.front.size() == std::size(kMapKinds)) return kinds;
  for (const std::string& name : cell.front) kinds.push_back(KindOf(name));
  return kinds;
}

// How far the winner is ahead of the next: 1 for a factor of 8 and more.
double StrengthOf(const MapCell& cell) {
  if (cell.front.size() != 1) return 0;
  const auto log_ratio = [](const MapPair& pair) {
    return pair.paired ? std::log(pair.paired->ratio.mean) : 0;
  };
  const double local = log_ratio(cell.local_to_pd), flush = log_ratio(cell.flush_to_pd);
  const double all[] = {0, local, flush};
  const auto winner = static_cast<size_t>(KindOf(cell.front[0]));
  double next = INFINITY;
  for (size_t k = 0; k < 3; ++k) {
    if (k != winner) next = std::min(next, all[k] - all[winner]);
  }
  return std::clamp(next / std::log(8.0), 0.0, 1.0);
}

std::string ShadeText(const MapCell& cell) {
  if (cell.front.size() != 1) return " ";
  static constexpr const char* kShades[] = {"░", "▒", "▓", "█"};
  return kShades[static_cast<size_t>(std::min(3.0, 4 * StrengthOf(cell)))];
}

Json PairJson(const MapPair& pair) {
  Json json{{"standing", ToText(pair.standing)}};
  if (!pair.paired) return json;
  json["mean"] = pair.paired->ratio.mean;
  json["low"] = pair.paired->ratio.low;
  json["high"] = pair.paired->ratio.high;
  json["chance"] = pair.paired->chance;
  return json;
}

std::string DetailOf(const MapCell& cell) {
  return fmt::format(
      "noise {}, {} rows per parameter, H {}, {} stages: {}; local/pd {}; {}/pd {}; local/{} {}; "
      "{} rounds of local",
      cell.noise, cell.rows, cell.every, cell.stages, FrontText(cell),
      IntervalText(cell.local_to_pd), cell.flush, IntervalText(cell.flush_to_pd), cell.flush,
      IntervalText(cell.local_to_flush), cell.rounds);
}

template <class Number>
std::vector<std::string> Names(const std::vector<Number>& numbers) {
  std::vector<std::string> names;
  for (const Number number : numbers) names.push_back(fmt::format("{}", number));
  return names;
}

// How it was judged, for below.
std::string Method(const MapOptions& options) {
  return fmt::format(
      "{}, {} parameters, {} ticks, {} seeds with data of their own, step sizes chosen on {} "
      "others; what is left above the lowest loss, local over pd, seed by seed, 95% intervals; at "
      "most 5% of the verdicts of this map false (Benjamini and Hochberg), a tie within 5%.",
      options.objective, options.dimension, options.ticks, options.seeds, options.tune_seeds);
}

// The shortest of local's races, where it is too short.
std::string FewRounds(const Map& map) {
  const auto least =
      std::min_element(map.cells.begin(), map.cells.end(),
                       [](const MapCell& a, const MapCell& b) { return a.rounds < b.rounds; });
  if (least->rounds >= kFewRounds) return "";
  return fmt::format(
      "With H = {} on {} stages only {} whole rounds of local end; below {} the last one weighs "
      "too much: give more --ticks.",
      least->every, least->stages, least->rounds, kFewRounds);
}

std::string AllCells(const Map& map, const TableStyle& style) {
  TextTable table({{"noise", Align::kRight},
                   {"rows", Align::kRight},
                   {"H", Align::kRight},
                   {"stages", Align::kRight},
                   {"ahead"},
                   {"local/pd"},
                   {"flush/pd"},
                   {"local/flush", Align::kLeft, 2},
                   {"flush", Align::kLeft, 1}});
  for (const MapCell& cell : map.cells) {
    table.AddRow({fmt::format("{}", cell.noise), fmt::format("{}", cell.rows),
                  std::to_string(cell.every), std::to_string(cell.stages), FrontText(cell),
                  IntervalText(cell.local_to_pd), IntervalText(cell.flush_to_pd),
                  IntervalText(cell.local_to_flush), cell.flush});
  }
  return table.Print(style) + "\n";
}

}  // namespace

Json MapJson(const MapOptions& options, const Map& map) {
  Json json;
  json["schema"] = "heddle.lab.map/1";
  json["objective"] = options.objective;
  json["dimension"] = options.dimension;
  json["ticks"] = options.ticks;
  json["seeds"] = options.seeds;
  json["tune_seeds"] = options.tune_seeds;
  json["cells"] = Json::array();
  for (const MapCell& cell : map.cells) {
    json["cells"].push_back({{"noise", cell.noise},
                             {"rows_per_parameter", cell.rows},
                             {"every", cell.every},
                             {"stages", cell.stages},
                             {"rounds", cell.rounds},
                             {"front", cell.front},
                             {"tie", cell.tie},
                             {"flush", cell.flush},
                             {"local_to_pd", PairJson(cell.local_to_pd)},
                             {"flush_to_pd", PairJson(cell.flush_to_pd)},
                             {"local_to_flush", PairJson(cell.local_to_flush)}});
  }
  return json;
}

HeatMap HeatMapOf(const MapOptions& options, const Map& map) {
  HeatMap drawn;
  drawn.title = fmt::format("Who is ahead after {} ticks, {}: PipeDream, LocalSGD or a flush",
                            options.ticks, options.objective);
  drawn.x_label = "stages";
  drawn.y_label = "rows per parameter";
  drawn.x = Names(options.stages);
  drawn.y = Names(options.rows);
  drawn.kinds = {"PipeDream (pd)", "LocalSGD (local)", "a flush (flush)"};
  drawn.two = "nobody is ahead of these two";
  drawn.none = "of none of the three";
  drawn.columns = std::min<size_t>(2, options.noises.size());  // as wide as a page
  for (const int64_t every : options.everys) {
    for (const double noise : options.noises) {
      HeatPanel& panel = drawn.panels.emplace_back();
      panel.title = fmt::format("noise {}, H = {}", noise, every);
      for (const double rows : options.rows) {
        std::vector<HeatCell>& row = panel.cells.emplace_back();
        for (const MapCell& cell : map.cells) {
          if (cell.noise != noise || cell.every != every || cell.rows != rows) continue;
          row.push_back({KindsOf(cell),
                         StrengthOf(cell),
                         {cell.front.size() == 1 ? cell.front[0] : FrontLetters(cell),
                          IntervalText(cell.local_to_pd)},
                         DetailOf(cell)});
        }
      }
    }
  }
  drawn.notes = {
      "In a cell: who is ahead of both others, the fuller the colour the farther, or whom nobody "
      "is ahead of (P?L: not told apart, P=L: a tie); below, local over pd with its 95% interval.",
      Method(options)};
  if (const std::string few = FewRounds(map); !few.empty()) drawn.notes.push_back(few);
  return drawn;
}

std::string MapText(const MapOptions& options, const Map& map, bool all, const TableStyle& style) {
  std::string text = all ? AllCells(map, style) : "";
  for (const int64_t every : options.everys) {
    std::vector<Column> columns = {{"noise", Align::kRight}, {"rows/parameter", Align::kRight}};
    for (const int stages : options.stages) columns.push_back({fmt::format("S = {}", stages)});
    TextTable table(columns);
    for (const double noise : options.noises) {
      if (noise != options.noises[0]) table.AddRule();
      for (const double rows : options.rows) {
        std::vector<std::string> cells = {fmt::format("{}", noise), fmt::format("{}", rows)};
        for (const MapCell& cell : map.cells) {
          if (cell.noise != noise || cell.every != every || cell.rows != rows) continue;
          cells.push_back(fmt::format("{}{} {}", FrontLetters(cell), ShadeText(cell),
                                      RatioText(cell.local_to_pd)));
        }
        table.AddRow(std::move(cells));
      }
    }
    text += fmt::format("H = {}\n{}\n", every, table.Print(style));
  }
  text += Wrapped(
              "P, L or F: pd, local or a flush is ahead of both others, from ░, a "
              "little, to █, by a factor of 6 and more; L?F: not told apart, L=F: a tie. "
              "The number is local over pd; --all has the intervals.",
              style.width) +
          "\n" + Wrapped(Method(options), style.width);
  if (const std::string few = FewRounds(map); !few.empty()) {
    text += "\n" + Wrapped(few, style.width);
  }
  return text;
}

}  // namespace heddle
