#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>

#include "base/text.h"

namespace heddle {
namespace {

struct UnitName {
  std::string_view name;
  double factor;
};

constexpr auto kByteUnits = std::to_array<UnitName>({
    {"B", 1},
    {"kB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"KiB", 1024.0},
    {"MiB", 1048576.0},
    {"GiB", 1073741824.0},
    {"TiB", 1099511627776.0},
});
constexpr auto kBandwidthUnits = std::to_array<UnitName>({
    {"B/s", 1},
    {"kB/s", 1e3},
    {"MB/s", 1e6},
    {"GB/s", 1e9},
    {"TB/s", 1e12},
    {"KiB/s", 1024.0},
    {"MiB/s", 1048576.0},
    {"GiB/s", 1073741824.0},
    {"bit/s", 0.125},
    {"kbit/s", 125.0},
    {"Mbit/s", 125e3},
    {"Gbit/s", 125e6},
    {"Tbit/s", 125e9},
});
constexpr auto kSecondUnits = std::to_array<UnitName>({
    {"s", 1},
    {"ms", 1e-3},
    {"us", 1e-6},
    {"ns", 1e-9},
    {"min", 60},
});
constexpr auto kFlopRateUnits = std::to_array<UnitName>({
    {"FLOP/s", 1},
    {"MFLOP/s", 1e6},
    {"GFLOP/s", 1e9},
    {"TFLOP/s", 1e12},
    {"PFLOP/s", 1e15},
});

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Result<double> ParseWithUnit(std::string_view text, std::span<const UnitName> units,
                             std::string_view example) {
  const std::string_view trimmed = Trim(text);
  const std::string hint = fmt::format("write a number and a unit, e.g. \"{}\"", example);
  double number = 0;
  const auto [end, code] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  if (code != std::errc() || !std::isfinite(number)) {
    return BadInput("", fmt::format("\"{}\" does not start with a finite number", text), hint);
  }
  const std::string_view unit = Trim(trimmed.substr(static_cast<size_t>(end - trimmed.data())));
  if (unit.empty()) return BadInput("", fmt::format("\"{}\" has no unit", text), hint);
  if (number < 0) return BadInput("", fmt::format("\"{}\" is negative", text), hint);
  for (const UnitName& candidate : units) {
    if (candidate.name != unit) continue;
    const double value = number * candidate.factor;
    if (value > 9e18) return BadInput("", fmt::format("\"{}\" is too large", text), hint);
    return value;
  }
  std::string known;
  for (const UnitName& candidate : units) {
    known += (known.empty() ? "" : ", ") + std::string(candidate.name);
  }
  return BadInput("", fmt::format("\"{}\" has the unknown unit \"{}\"", text, unit),
                  "known units: " + known);
}

struct Scale {
  double factor;
  std::string_view unit;
};

std::string Scaled(double value, std::span<const Scale> scales) {
  for (const Scale& scale : scales) {
    if (std::abs(value) < scale.factor && &scale != &scales.back()) continue;
    const double shown = value / scale.factor;
    constexpr double kMostGrouped = 1e15;  // beyond it digits are made up
    if (std::abs(shown) >= kMostGrouped) return fmt::format("{:.3g} {}", shown, scale.unit);
    if (std::abs(shown) >= 999.5) {
      return fmt::format("{} {}", GroupDigits(std::llround(shown)), scale.unit);
    }
    const int decimals = std::abs(shown) >= 100 ? 0 : std::abs(shown) >= 10 ? 1 : 2;
    return fmt::format("{:.{}f} {}", shown, decimals, scale.unit);
  }
  return "";
}

}  // namespace

Result<Bytes> ParseBytes(std::string_view text) {
  HEDDLE_ASSIGN(const double value, ParseWithUnit(text, kByteUnits, "16 GiB"));
  return Bytes{static_cast<int64_t>(std::llround(value))};
}

Result<Bandwidth> ParseBandwidth(std::string_view text) {
  HEDDLE_ASSIGN(const double value, ParseWithUnit(text, kBandwidthUnits, "10 Gbit/s"));
  return Bandwidth{value};
}

Result<Seconds> ParseSeconds(std::string_view text) {
  HEDDLE_ASSIGN(const double value, ParseWithUnit(text, kSecondUnits, "20 us"));
  return Seconds{value};
}

Result<FlopRate> ParseFlopRate(std::string_view text) {
  HEDDLE_ASSIGN(const double value, ParseWithUnit(text, kFlopRateUnits, "14 TFLOP/s"));
  return FlopRate{value};
}

std::string ToText(Seconds seconds) {
  static constexpr Scale kScales[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
  if (seconds.value == 0) return "0 s";
  return Scaled(seconds.value, kScales);
}

std::string ToText(Bytes bytes) {
  static constexpr Scale kScales[] = {{0x1p60, "EiB"}, {0x1p50, "PiB"}, {0x1p40, "TiB"},
                                      {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"},
                                      {1, "B"}};
  if (std::abs(bytes.value) < 1024) return fmt::format("{} B", bytes.value);
  return Scaled(static_cast<double>(bytes.value), kScales);
}

std::string ToText(Bandwidth bandwidth) {
  static constexpr Scale kScales[] = {{1e9, "GB/s"}, {1e6, "MB/s"}, {1e3, "kB/s"}, {1, "B/s"}};
  return Scaled(bandwidth.value, kScales);
}

std::string ToText(FlopRate rate) {
  static constexpr Scale kScales[] = {{1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}, {1e6, "MFLOP/s"}};
  return Scaled(rate.value, kScales);
}

std::string ToText(Flops flops) {
  static constexpr Scale kScales[] = {{1e12, "TFLOP"}, {1e9, "GFLOP"}, {1e6, "MFLOP"}};
  return Scaled(flops.value, kScales);
}

std::string ExactNumber(double value) { return fmt::format("{}", value); }

}  // namespace heddle
