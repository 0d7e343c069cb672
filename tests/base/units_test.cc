#include "base/units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace heddle {
namespace {

using testing::HasSubstr;

template <class T>
std::string ErrorOf(const Result<T>& result) {
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : result.error().ToString();
}

TEST(UnitsTest, Bytes) {
  EXPECT_EQ(ParseBytes("16 GiB").value().value, 16LL << 30);
  EXPECT_EQ(ParseBytes("512 MB").value().value, 512'000'000);
  EXPECT_EQ(ParseBytes("100B").value().value, 100);
  EXPECT_EQ(ParseBytes("  1.5 KiB ").value().value, 1536);
  EXPECT_EQ(ParseBytes("0 B").value().value, 0);
  EXPECT_EQ(ParseBytes("1e3 kB").value().value, 1'000'000);
}

TEST(UnitsTest, BandwidthInBytesOrBits) {
  EXPECT_DOUBLE_EQ(ParseBandwidth("900 GB/s").value().value, 900e9);
  EXPECT_DOUBLE_EQ(ParseBandwidth("10.4 Gbit/s").value().value, 1.3e9);
  EXPECT_DOUBLE_EQ(ParseBandwidth("8 bit/s").value().value, 1);
}

TEST(UnitsTest, SecondsAndFlops) {
  EXPECT_DOUBLE_EQ(ParseSeconds("20 us").value().value, 20e-6);
  EXPECT_DOUBLE_EQ(ParseSeconds("1.5 ms").value().value, 1.5e-3);
  EXPECT_DOUBLE_EQ(ParseSeconds("2 min").value().value, 120);
  EXPECT_DOUBLE_EQ(ParseFlopRate("14 TFLOP/s").value().value, 14e12);
}

TEST(UnitsTest, AsPeopleWriteThem) {
  for (const char* text :
       {"10 Gbit/s", "10 Gb/s", "10Gbps", "10 Gbits/s", "1.25 GB/s", "1.25GBps"}) {
    EXPECT_DOUBLE_EQ(ParseBandwidth(text).value().value, 1.25e9) << text;
  }
  EXPECT_DOUBLE_EQ(ParseBandwidth("100 Mbps").value().value, 12.5e6);
  EXPECT_DOUBLE_EQ(ParseBandwidth("1 GiBps").value().value, 1073741824.0);
  for (const char* text : {"14 TFLOP/s", "14 TFLOPS", "14 TFLOPs", "14TFLOP", "14 tflops",
                           "14 TFlop/s", "14000 GFLOPS"}) {
    EXPECT_DOUBLE_EQ(ParseFlopRate(text).value().value, 14e12) << text;
  }
  for (const char* text : {"20 us", "20us", "20 usec", "20 \u00b5s", "20 \u03bcs"}) {
    EXPECT_DOUBLE_EQ(ParseSeconds(text).value().value, 20e-6) << text;
  }
  EXPECT_EQ(ParseBytes("24GB").value().value, 24'000'000'000);
  EXPECT_EQ(ParseBytes("16GiB").value().value, 16LL << 30);
}

TEST(UnitsTest, WhatCanBeReadInTwoWaysIsRefused) {
  EXPECT_EQ(
      ErrorOf(ParseBytes("16 G")),
      "\"16 G\": the unit \"G\" can be read in two ways\n  hint: write GB (10^9 bytes) or GiB "
      "(2^30)");
  for (const char* text : {"16 gb", "16 Gb", "16 M", "16 KB"}) {
    EXPECT_THAT(ErrorOf(ParseBytes(text)), HasSubstr("two ways")) << text;
  }
  for (const char* text : {"10 gbps", "10 gb/s", "10 mbps"}) {
    EXPECT_THAT(ErrorOf(ParseBandwidth(text)), HasSubstr("two ways")) << text;
  }
  EXPECT_THAT(ErrorOf(ParseFlopRate("14 T")), HasSubstr("T"));
}

TEST(UnitsTest, TheUnitIsMandatory) {
  EXPECT_EQ(ErrorOf(ParseBytes("16")),
            "\"16\" has no unit\n  hint: write a number and a unit, e.g. \"16 GiB\"");
  EXPECT_THAT(
      ErrorOf(ParseSeconds("20 parsec")),
      HasSubstr("\"20 parsec\" has the unknown unit \"parsec\"\n  hint: known units: s, ms"));
  EXPECT_THAT(ErrorOf(ParseBandwidth("10 GB")), HasSubstr("unknown unit \"GB\""));
  EXPECT_THAT(ErrorOf(ParseBytes("16 gib")), HasSubstr("unknown unit"));
}

TEST(UnitsTest, OnlyFiniteNumbersThatAreNotNegative) {
  EXPECT_THAT(ErrorOf(ParseBytes("-1 GiB")), HasSubstr("is negative"));
  for (const char* text : {"nan s", "inf s", "s", "", "+1 s", "1e999 s", "one s", "."}) {
    EXPECT_THAT(ErrorOf(ParseSeconds(text)), HasSubstr("does not start with a finite number"))
        << text;
  }
  EXPECT_THAT(ErrorOf(ParseBytes("1e300 TiB")), HasSubstr("too large"));
  EXPECT_THAT(ErrorOf(ParseBytes("9e6 TiB")), HasSubstr("too large"));
}

TEST(UnitsTest, QuantitiesAddAndDivide) {
  const Seconds time = Bytes{10'000'000} / ParseBandwidth("10 MB/s").value();
  EXPECT_DOUBLE_EQ(time.value, 1);
  EXPECT_DOUBLE_EQ((Flops{2e12} / ParseFlopRate("1 TFLOP/s").value()).value, 2);
  EXPECT_EQ(Bytes{3} + Bytes{4} * 2 - Bytes{1}, Bytes{10});
  EXPECT_LT(Seconds{1}, Seconds{1.5});
}

TEST(UnitsTest, ThreeDigitsForPeople) {
  EXPECT_EQ(ToText(Seconds{13.7}), "13.7 s");
  EXPECT_EQ(ToText(Seconds{0.0205}), "20.5 ms");
  EXPECT_EQ(ToText(Seconds{2e-6}), "2.00 us");
  EXPECT_EQ(ToText(Seconds{0}), "0 s");
  EXPECT_EQ(ToText(Seconds{125}), "125 s");
  EXPECT_EQ(ToText(Seconds{99312.4}), "99,312 s");
  EXPECT_EQ(ToText(Bytes{1010 << 20}), "1,010 MiB");
  EXPECT_EQ(ToText(Bytes{5LL << 40}), "5.00 TiB");
  EXPECT_EQ(ToText(FlopRate{1.5e15}), "1,500 TFLOP/s");
  EXPECT_EQ(ToText(Bytes{1023}), "1023 B");
  EXPECT_EQ(ToText(Bytes{16LL << 30}), "16.0 GiB");
  EXPECT_EQ(ToText(Bandwidth{1.3e9}), "1.30 GB/s");
  EXPECT_EQ(ToText(FlopRate{14e12}), "14.0 TFLOP/s");
  EXPECT_EQ(ToText(Flops{2.5e9}), "2.50 GFLOP");
}

RC_GTEST_PROP(UnitsProperty, ExactNumbersReadBack, ()) {
  const double value = *rc::gen::arbitrary<double>() * std::pow(10.0, *rc::gen::inRange(-30, 30));
  RC_PRE(std::isfinite(value));
  const std::string text = ExactNumber(value);
  double read = std::numeric_limits<double>::quiet_NaN();
  std::from_chars(text.data(), text.data() + text.size(), read);
  RC_ASSERT(read == value);
}

RC_GTEST_PROP(UnitsProperty, BytesReadBack, ()) {
  const auto bytes = *rc::gen::inRange<int64_t>(0, 1LL << 53);
  RC_ASSERT(ParseBytes(std::to_string(bytes) + " B").value().value == bytes);
}

}  // namespace
}  // namespace heddle
