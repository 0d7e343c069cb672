#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <span>
#include <string>

#include "base/text.h"

namespace heddle {
namespace {

// A unit as people write it. The first of those with the same factor is the one that errors list.
struct UnitName {
  std::string_view name;
  double factor;
};

// GB is 1e9 bytes, GiB 2^30. Small letters are refused: gb could be bits, kb either.
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
// B is a byte, b and bit are bits.
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
    {"Bps", 1},
    {"kBps", 1e3},
    {"MBps", 1e6},
    {"GBps", 1e9},
    {"TBps", 1e12},
    {"KiBps", 1024.0},
    {"MiBps", 1048576.0},
    {"GiBps", 1073741824.0},
    {"b/s", 0.125},
    {"kb/s", 125.0},
    {"Mb/s", 125e3},
    {"Gb/s", 125e6},
    {"Tb/s", 125e9},
    {"bps", 0.125},
    {"kbps", 125.0},
    {"Kbps", 125.0},
    {"Mbps", 125e3},
    {"Gbps", 125e6},
    {"Tbps", 125e9},
    {"kbits/s", 125.0},
    {"Mbits/s", 125e3},
    {"Gbits/s", 125e6},
    {"Tbits/s", 125e9},
});
constexpr auto kSecondUnits = std::to_array<UnitName>({
    {"s", 1},
    {"ms", 1e-3},
    {"us", 1e-6},
    {"ns", 1e-9},
    {"min", 60},
    {"sec", 1},
    {"msec", 1e-3},
    {"usec", 1e-6},
    {"nsec", 1e-9},
    {"\u00b5s", 1e-6},  // the micro sign
    {"\u03bcs", 1e-6},  // the Greek letter, which looks the same
});
// Also without the s, or with any of its letters small.
constexpr auto kFlopRateUnits = std::to_array<UnitName>({
    {"FLOP/s", 1},
    {"MFLOP/s", 1e6},
    {"GFLOP/s", 1e9},
    {"TFLOP/s", 1e12},
    {"PFLOP/s", 1e15},
});

// What is not understood because it can be read in two ways, and the ways to write it.
struct AmbiguousUnit {
  std::string_view name;
  std::string_view write;
};
constexpr auto kAmbiguousUnits = std::to_array<AmbiguousUnit>({
    {"K", "kB (1000 bytes) or KiB (1024)"},
    {"k", "kB (1000 bytes) or KiB (1024)"},
    {"M", "MB (10^6 bytes) or MiB (2^20)"},
    {"G", "GB (10^9 bytes) or GiB (2^30)"},
    {"T", "TB (10^12 bytes) or TiB (2^40)"},
    {"KB", "kB (1000 bytes) or KiB (1024)"},
    {"kb", "kB (1000 bytes) or KiB (1024)"},
    {"Kb", "kB (1000 bytes) or KiB (1024)"},
    {"mb", "MB (10^6 bytes) or MiB (2^20)"},
    {"Mb", "MB (10^6 bytes) or MiB (2^20)"},
    {"gb", "GB (10^9 bytes) or GiB (2^30)"},
    {"Gb", "GB (10^9 bytes) or GiB (2^30)"},
    {"tb", "TB (10^12 bytes) or TiB (2^40)"},
    {"Tb", "TB (10^12 bytes) or TiB (2^40)"},
    {"KB/s", "kB/s (1000 bytes) or KiB/s (1024)"},
    {"mb/s", "Mbit/s or MB/s"},
    {"gb/s", "Gbit/s or GB/s"},
    {"tb/s", "Tbit/s or TB/s"},
    {"mbps", "Mbit/s or MB/s"},
    {"gbps", "Gbit/s or GB/s"},
    {"tbps", "Tbit/s or TB/s"},
});

std::string_view Trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "known units: B, kB, …", each factor once.
std::string KnownUnits(std::span<const UnitName> units) {
  std::string known;
  for (const UnitName& unit : units) {
    const auto first = std::find_if(units.begin(), units.end(), [&](const UnitName& other) {
      return other.factor == unit.factor;
    });
    if (first->name != unit.name) continue;
    known += (known.empty() ? "" : ", ") + std::string(unit.name);
  }
  return "known units: " + known;
}

Error UnknownUnit(std::string_view text, std::string_view unit, std::span<const UnitName> units) {
  for (const AmbiguousUnit& ambiguous : kAmbiguousUnits) {
    if (ambiguous.name != unit) continue;
    return BadInput("", fmt::format("\"{}\": the unit \"{}\" can be read in two ways", text, unit),
                    fmt::format("write {}", ambiguous.write));
  }
  return BadInput("", fmt::format("\"{}\" has the unknown unit \"{}\"", text, unit),
                  KnownUnits(units));
}

// TFLOPS, TFLOPs, tflops, TFLOP and TFLOP/s are one unit: nothing else is meant by any of them.
std::string AsFlopRate(std::string_view unit) {
  std::string name;
  for (const char letter : unit) {
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  }
  for (const std::string_view ending : {"FLOP/S", "FLOPS", "FLOP"}) {
    if (!name.ends_with(ending)) continue;
    name.resize(name.size() - ending.size());
    return name + "FLOP/s";
  }
  return std::string(unit);
}

std::string AsItIs(std::string_view unit) { return std::string(unit); }

Result<double> ParseWithUnit(std::string_view text, std::span<const UnitName> units,
                             std::string_view example,
                             std::string (*normal)(std::string_view) = &AsItIs) {
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
  const std::string name = normal(unit);
  for (const UnitName& candidate : units) {
    if (candidate.name != name) continue;
    const double value = number * candidate.factor;
    if (value > 9e18) return BadInput("", fmt::format("\"{}\" is too large", text), hint);
    return value;
  }
  return UnknownUnit(text, unit, units);
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
  HEDDLE_ASSIGN(const double value, ParseWithUnit(text, kFlopRateUnits, "14 TFLOP/s", &AsFlopRate));
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
