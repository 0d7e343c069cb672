#include "report/time_axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace heddle {
namespace {

constexpr int kLeastSpacing = 8;  // columns from tick to tick, where there is room for two

struct TimeUnit {
  double seconds;
  std::string_view name;
};

TimeUnit UnitFor(Seconds span) {
  static constexpr std::array<TimeUnit, 4> kUnits = {
      {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}};
  for (const TimeUnit& unit : kUnits) {
    if (span.value >= unit.seconds) return unit;
  }
  return kUnits.back();
}

// The smallest of 1, 2, 5 times a power of ten that is at least `least`.
double RoundStep(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

}  // namespace

int ColumnOf(Seconds time, Seconds span, int columns) {
  // Equal times may differ in their last bits; the small shift lets them round alike.
  const double exact = time.value / span.value * columns + 1e-6;
  return static_cast<int>(std::clamp(std::floor(exact + 0.5), 0.0, static_cast<double>(columns)));
}

TimeAxis MakeTimeAxis(Seconds span, int columns) {
  HEDDLE_CHECK(span.value > 0 && columns > 0);
  const TimeUnit unit = UnitFor(span);
  const double length = span.value / unit.seconds;
  // The longest label is the last; one space more, so that labels do not touch.
  const int label = static_cast<int>(fmt::format("{:.0f}", length).size()) + 3;
  const int spacing = std::max(label, std::min(kLeastSpacing, columns / 2));
  const double step = RoundStep(length * spacing / columns);
  const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(step) - 1e-9)));

  TimeAxis axis{std::string(unit.name), columns, {}};
  for (int i = 0;; ++i) {
    const int column = ColumnOf(Seconds{i * step}, Seconds{length}, columns);
    if (column >= columns) break;
    axis.ticks.push_back({column, fmt::format("{:.{}f}", i * step, i == 0 ? 0 : decimals)});
  }
  return axis;
}

std::string TimeAxis::Rule() const {
  std::string rule;
  auto tick = ticks.begin();
  for (int column = 0; column < columns; ++column) {
    const bool marked = tick != ticks.end() && tick->column == column;
    rule += marked ? "┬" : "─";
    if (marked) ++tick;
  }
  return rule;
}

std::string TimeAxis::Labels() const {
  std::string line;
  for (const Tick& tick : ticks) {
    if (tick.column + static_cast<int>(tick.label.size()) > columns + 1) break;
    line.resize(std::max(line.size(), static_cast<size_t>(tick.column)), ' ');
    line += tick.label;
  }
  return line;
}

}  // namespace heddle
