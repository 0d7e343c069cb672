// TimeAxis: round ticks under a picture whose columns are time.
//
//   const TimeAxis axis = MakeTimeAxis(Seconds{0.033}, 60);
//   axis.unit            ->  "ms"
//   axis.ticks[1]        ->  {column 9, "5"}
//   axis.Rule()          ->  "┬────────┬────────┬…"      as many columns as the picture
//   axis.Labels()        ->  "0        5        10…"
//
// The step is 1, 2 or 5 times a power of ten, the smallest with room for the labels.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"

namespace heddle {

struct TimeAxis {
  struct Tick {
    int column = 0;  // < columns
    std::string label;
  };
  std::string unit;  // "s", "ms", "us" or "ns"
  int columns = 0;
  std::vector<Tick> ticks;

  std::string Rule() const;
  std::string Labels() const;  // without trailing spaces; may end one column after the picture
};

// The column in which `time` of a picture of `span` begins, 0 … columns: rounded to the nearest
// border between columns, so that neighbours in time stay neighbours in the picture.
int ColumnOf(Seconds time, Seconds span, int columns);

// REQUIRES: span > 0, columns > 0.
TimeAxis MakeTimeAxis(Seconds span, int columns);

}  // namespace heddle
