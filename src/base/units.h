// Units: quantities that only add to their own kind, and the text people write them in.
//
//   Bytes size = ParseBytes("16 GiB").value();
//   Seconds t = size / ParseBandwidth("10 Gbit/s").value();
//   ToText(t)  ->  "13.7 s"
//
// Parsing demands a unit and refuses negative, infinite and not-a-number values.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace heddle {

template <class Tag, class Number>
struct Quantity {
  Number value{};

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity operator+(Quantity other) const { return {value + other.value}; }
  constexpr Quantity operator-(Quantity other) const { return {value - other.value}; }
  constexpr Quantity operator*(Number factor) const { return {value * factor}; }
  constexpr Quantity operator/(Number divisor) const { return {value / divisor}; }
  constexpr Quantity& operator+=(Quantity other) {
    value += other.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value -= other.value;
    return *this;
  }
};

using Seconds = Quantity<struct SecondsTag, double>;
using Bytes = Quantity<struct BytesTag, int64_t>;
using Flops = Quantity<struct FlopsTag, double>;          // a number of operations
using FlopRate = Quantity<struct FlopRateTag, double>;    // operations per second
using Bandwidth = Quantity<struct BandwidthTag, double>;  // bytes per second

constexpr Seconds operator/(Bytes bytes, Bandwidth bandwidth) {
  return {static_cast<double>(bytes.value) / bandwidth.value};
}
constexpr Seconds operator/(Flops flops, FlopRate rate) { return {flops.value / rate.value}; }

// The error's `what` names the text found; the caller adds `where`.
Result<Bytes> ParseBytes(std::string_view text);          // "16 GiB", "512 MB", "100 B"
Result<Bandwidth> ParseBandwidth(std::string_view text);  // "900 GB/s", "10.4 Gbit/s"
Result<Seconds> ParseSeconds(std::string_view text);      // "20 us", "1.5 ms"
Result<FlopRate> ParseFlopRate(std::string_view text);    // "14 TFLOP/s"

// Three significant digits in the largest unit that fits, for people.
std::string ToText(Seconds seconds);
std::string ToText(Bytes bytes);
std::string ToText(Bandwidth bandwidth);
std::string ToText(FlopRate rate);
std::string ToText(Flops flops);

// Shortest decimal that reads back as the same double.
std::string ExactNumber(double value);

}  // namespace heddle
