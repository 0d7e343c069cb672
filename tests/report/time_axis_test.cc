#include "report/time_axis.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>

#include "report/text_width.h"

namespace heddle {
namespace {

std::string Drawn(Seconds span, int columns) {
  const TimeAxis axis = MakeTimeAxis(span, columns);
  return axis.Rule() + " " + axis.unit + "\n" + axis.Labels();
}

TEST(TimeAxisTest, TheExampleOfTheHeader) {
  const TimeAxis axis = MakeTimeAxis(Seconds{0.033}, 60);
  EXPECT_EQ(axis.unit, "ms");
  EXPECT_EQ(axis.ticks[1].column, 9);
  EXPECT_EQ(axis.ticks[1].label, "5");
}

TEST(TimeAxisTest, PicksUnitsAndRoundSteps) {
  EXPECT_EQ(Drawn(Seconds{0.04}, 40),
            "┬─────────┬─────────┬─────────┬───────── ms\n"
            "0         10        20        30");
  EXPECT_EQ(Drawn(Seconds{1.2}, 36),
            "┬──────────────┬──────────────┬───── s\n"
            "0              0.5            1.0");
  EXPECT_EQ(Drawn(Seconds{250e-6}, 30),
            "┬───────────┬───────────┬───── us\n"
            "0           100         200");
  EXPECT_EQ(Drawn(Seconds{8e-9}, 16),
            "┬─────────┬───── ns\n"
            "0         5");
  EXPECT_EQ(Drawn(Seconds{7200}, 40),
            "┬──────────┬──────────┬──────────┬────── s\n"
            "0          2000       4000       6000");
}

TEST(TimeAxisTest, ALabelWithoutRoomIsLeftOut) {
  EXPECT_EQ(Drawn(Seconds{3.01}, 30),
            "┬─────────┬─────────┬───────── s\n"
            "0         1         2");
  EXPECT_EQ(Drawn(Seconds{2010}, 20),
            "┬─────────┬───────── s\n"
            "0         1000");
}

TEST(TimeAxisTest, EqualTimesShareAColumnDespiteRounding) {
  for (int i = 1; i < 1000; ++i) {
    double sum = 0;
    for (int k = 0; k < i; ++k) sum += 0.1;
    EXPECT_EQ(ColumnOf(Seconds{sum}, Seconds{100}, 500),
              ColumnOf(Seconds{i * 0.1}, Seconds{100}, 500));
  }
}

RC_GTEST_PROP(TimeAxisTest, TicksHaveRoom, ()) {
  const double exponent = *rc::gen::inRange(-900, 600) / 100.0;
  const int columns = *rc::gen::inRange(10, 300);
  const TimeAxis axis = MakeTimeAxis(Seconds{std::pow(10, exponent)}, columns);
  RC_ASSERT(DisplayWidth(axis.Rule()) == columns);
  RC_ASSERT(DisplayWidth(axis.Labels()) <= columns + 1);
  RC_ASSERT(!axis.ticks.empty() && axis.ticks[0].column == 0);
  for (size_t i = 1; i < axis.ticks.size(); ++i) {
    const TimeAxis::Tick& before = axis.ticks[i - 1];
    RC_ASSERT(axis.ticks[i].column > before.column + DisplayWidth(before.label));
  }
}

}  // namespace
}  // namespace heddle
