#include "lab/map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace heddle {
namespace {

const std::vector<std::string> kFlushes = {"gpipe", "gpipe-1", "gpipe-4"};

RaceOptions RaceOf(const MapOptions& options, std::vector<std::string> methods, int64_t every) {
  RaceOptions race;
  race.stages = options.stages;
  race.methods = std::move(methods);
  race.noises = options.noises;
  race.seeds = options.seeds;
  race.tune_seeds = options.tune_seeds;
  race.first_seed = options.first_seed;
  race.step_sizes = 6;
  race.refine = 1;
  race.powers_of_two = true;
  race.trial.ticks = options.ticks;
  race.trial.points = 4;  // those that diverge end early
  race.trial.every = every;
  race.threads = options.threads;
  return race;
}

// What the races on data with one number of rows found, by noise, stages and H (0: not local).
using Entries = std::map<std::tuple<double, int, int64_t, std::string>, RaceEntry>;

Result<Entries> RaceRows(const MapOptions& options, double rows) {
  HEDDLE_ASSIGN(
      const DataBySeed data,
      DataBySeed::Make(options.objective, MapProblem(options.objective, options.dimension, rows),
                       options.first_seed, options.seeds + options.tune_seeds, options.threads));
  const ObjectiveOf objective_of = [&](uint64_t seed) -> const Objective& { return data.Of(seed); };
  Entries entries;
  const auto race = [&](const std::vector<std::string>& methods, int64_t every) -> Status {
    options.progress(
        fmt::format("racing {} rows per parameter, {} …", rows,
                    every == 0 ? "pd and flushes" : fmt::format("local H = {}", every)));
    HEDDLE_ASSIGN(const Race run,
                  RunRace(objective_of, RaceOf(options, methods, std::max<int64_t>(every, 1))));
    for (const RaceEntry& entry : run.entries) {
      entries[{entry.noise, entry.stages, every, entry.method}] = entry;
    }
    return Ok();
  };
  std::vector<std::string> others = {"pd"};
  others.insert(others.end(), kFlushes.begin(), kFlushes.end());
  HEDDLE_RETURN_IF_ERROR(race(others, 0));
  for (const int64_t every : options.everys) HEDDLE_RETURN_IF_ERROR(race({"local"}, every));
  return entries;
}

MapCell CellOf(const Entries& entries, double noise, double rows, int64_t every, int stages) {
  const RaceEntry& pd = entries.at({noise, stages, 0, "pd"});
  const RaceEntry& local = entries.at({noise, stages, every, "local"});
  const RaceEntry* flush = nullptr;
  for (const std::string& name : kFlushes) {
    const RaceEntry& one = entries.at({noise, stages, 0, name});
    if (flush == nullptr || one.tuned < flush->tuned) flush = &one;
  }
  MapCell cell;
  cell.noise = noise;
  cell.rows = rows;
  cell.every = every;
  cell.stages = stages;
  cell.rounds = local.rounds;
  cell.flush = flush->method;
  constexpr double kRounding = 1e-12;  // above the lowest, which is a search's result
  cell.local_to_pd.paired = ComparePaired(local.left, pd.left, kRounding);
  cell.flush_to_pd.paired = ComparePaired(flush->left, pd.left, kRounding);
  cell.local_to_flush.paired = ComparePaired(local.left, flush->left, kRounding);
  return cell;
}

// What `a` is to `b` in a cell.
Standing StandingOf(const MapCell& cell, size_t a, size_t b) {
  if (a > b) {
    const Standing other = StandingOf(cell, b, a);
    if (other == Standing::kAhead) return Standing::kBehind;
    return other == Standing::kBehind ? Standing::kAhead : other;
  }
  // Of pd to local, pd to flush, local to flush.
  const auto reversed = [](Standing one) {
    if (one == Standing::kAhead) return Standing::kBehind;
    return one == Standing::kBehind ? Standing::kAhead : one;
  };
  if (a == 0) return reversed(b == 1 ? cell.local_to_pd.standing : cell.flush_to_pd.standing);
  return cell.local_to_flush.standing;
}

void SetFront(MapCell& cell) {
  std::vector<size_t> front;
  for (const size_t a : {0, 1, 2}) {
    bool beaten = false;
    for (const size_t b : {0, 1, 2}) {
      beaten = beaten || (a != b && StandingOf(cell, a, b) == Standing::kBehind);
    }
    if (!beaten) front.push_back(a);
  }
  cell.tie = front.size() > 1;
  for (size_t k = 0; k < front.size(); ++k) {
    cell.front.emplace_back(kMapKinds[front[k]]);
    for (size_t other = 0; other < k; ++other) {
      cell.tie = cell.tie && StandingOf(cell, front[other], front[k]) == Standing::kTie;
    }
  }
}

// All pairs of all cells at once. What does not depend on H counts once.
void JudgeCells(std::vector<MapCell>& cells, int64_t first_every) {
  std::vector<MapPair*> pairs;
  std::vector<std::optional<Paired>> comparisons;
  const auto add = [&](MapPair& pair) {
    pairs.push_back(&pair);
    comparisons.push_back(pair.paired);
  };
  for (MapCell& cell : cells) {
    add(cell.local_to_pd);
    add(cell.local_to_flush);
    if (cell.every == first_every) add(cell.flush_to_pd);
  }
  const std::vector<Standing> standings = JudgeAll(comparisons);
  for (size_t k = 0; k < pairs.size(); ++k) pairs[k]->standing = standings[k];
  std::map<std::tuple<double, double, int>, Standing> of_flush;
  for (const MapCell& cell : cells) {
    if (cell.every == first_every) {
      of_flush[{cell.noise, cell.rows, cell.stages}] = cell.flush_to_pd.standing;
    }
  }
  for (MapCell& cell : cells) {
    cell.flush_to_pd.standing = of_flush.at({cell.noise, cell.rows, cell.stages});
    SetFront(cell);
  }
}

Status CheckMap(const MapOptions& options) {
  if (options.objective != "logistic" && options.objective != "least-squares") {
    return BadInput("--objective", "\"" + options.objective + "\" has no map",
                    "expected logistic or least-squares");
  }
  if (options.everys.empty() || options.noises.empty() || options.rows.empty() ||
      options.stages.empty()) {
    return BadInput("map", "an axis without values", "give one at least");
  }
  for (const double rows : options.rows) {
    if (!(rows > 0) || rows > 1000 || rows * static_cast<double>(options.dimension) < 1) {
      return BadInput("--rows-per-parameter", fmt::format("{} is out of range", rows),
                      fmt::format("expected 1/{} to 1000", options.dimension));
    }
  }
  return Ok();
}

}  // namespace

ObjectiveOptions MapProblem(const std::string& objective, int64_t dimension,
                            double rows_per_parameter) {
  ObjectiveOptions problem;
  problem.dimension = dimension;
  problem.rows =
      std::max<int64_t>(1, std::llround(rows_per_parameter * static_cast<double>(dimension)));
  problem.batch = 1;
  problem.start = LinearStart::kZero;
  // Labels of a w that is standard normal.
  if (objective == "logistic") problem.sharpness = std::sqrt(static_cast<double>(dimension));
  return problem;
}

Result<Map> RunMap(const MapOptions& options) {
  HEDDLE_RETURN_IF_ERROR(CheckMap(options));
  std::map<double, Entries> by_rows;
  for (const double rows : options.rows) {
    HEDDLE_ASSIGN(by_rows[rows], RaceRows(options, rows));
  }
  Map map;
  for (const double noise : options.noises) {
    for (const double rows : options.rows) {
      for (const int64_t every : options.everys) {
        for (const int stages : options.stages) {
          map.cells.push_back(CellOf(by_rows.at(rows), noise, rows, every, stages));
        }
      }
    }
  }
  JudgeCells(map.cells, options.everys[0]);
  return map;
}

}  // namespace heddle
