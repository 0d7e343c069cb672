// Map: who is ahead where, over noise, rows per parameter, local steps and stages.
//
//   MapOptions options;
//   HEDDLE_ASSIGN(const Map map, RunMap(options));
//   map.cells[0].front                            {"local"}: nobody is ahead of it, it of all
//   others
//
// A cell is a race of three kinds on a linear model of made data, from zero, a row at a time:
// PipeDream, LocalSGD with H steps between averages, and the best of three flushes (one
// microbatch, S or 4S of them in a batch; which is best is decided on the seeds that step sizes
// are). They meet on the same seeds, each with data of its own; what a method leaves above the
// lowest loss is compared seed by seed, and false verdicts are held to 5% over the whole map
// (standing.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "lab/problems.h"
#include "lab/race.h"
#include "lab/standing.h"

namespace heddle {

struct MapOptions {
  std::string objective = "logistic";  // or least-squares
  int64_t dimension = 128;
  std::vector<double> noises = {0, 0.1, 0.2, 0.5};
  std::vector<double> rows = {0.1, 0.4, 1.5, 6};  // for each parameter
  std::vector<int64_t> everys = {1, 2, 5};        // H
  std::vector<int> stages = {2, 4, 8, 16, 32};
  int seeds = 10;
  int tune_seeds = 4;
  uint64_t first_seed = 0;
  int64_t ticks = 3180;
  int threads = 2;
  std::function<void(const std::string&)> progress = [](const std::string&) {};
};

// The three kinds, in this order everywhere.
inline constexpr const char* kMapKinds[] = {"pd", "local", "flush"};

struct MapPair {
  std::optional<Paired> paired;  // of the first to the second; nothing if one is at the lowest
  Standing standing = Standing::kOpen;
};

struct MapCell {
  double noise = 0;
  double rows = 0;  // for each parameter
  int64_t every = 0;
  int stages = 0;
  int64_t rounds = 0;  // of local
  std::string flush;   // which of the three
  MapPair local_to_pd, flush_to_pd, local_to_flush;
  // Whom nobody is ahead of: one is the winner; several are told apart by nothing here, or tie.
  std::vector<std::string> front;
  bool tie = false;  // all pairs of the front are ties
};

struct Map {
  std::vector<MapCell> cells;  // by noise, rows, H, stages, as the options name them
};

// The problem of a cell, as `lab race` would take it.
ObjectiveOptions MapProblem(const std::string& objective, int64_t dimension,
                            double rows_per_parameter);

// Bad input: options out of range.
Result<Map> RunMap(const MapOptions& options);

}  // namespace heddle
