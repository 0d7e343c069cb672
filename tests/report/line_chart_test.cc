#include "report/line_chart.h"

#include <gtest/gtest.h>

#include <limits>

namespace heddle {
namespace {

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

LineChart TwoPanels() {
  LineChart chart;
  chart.title = "a < b & c";
  chart.x_label = "ticks";
  chart.y_label = "loss";
  chart.log_y = true;
  const ChartSeries pd{"pd", {10, 20, 30}, {100, 10, 1}, {90, 9, 0.5}, {110, 11, 2}};
  const ChartSeries local{"local", {10, 20, 30}, {100, 50, 20}, {}, {}};
  chart.panels = {{"2 stages", {pd, local}}, {"4 stages", {local}}};
  return chart;
}

TEST(LineChartTest, HasTitlesLegendAxesLinesAndBands) {
  const std::string svg = SvgOf(TwoPanels());
  EXPECT_EQ(Count(svg, "<svg "), 1U);
  EXPECT_EQ(Count(svg, "</svg>"), 1U);
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  EXPECT_EQ(svg.find("a < b"), std::string::npos);
  for (const char* text : {">2 stages<", ">4 stages<"}) EXPECT_EQ(Count(svg, text), 1U) << text;
  EXPECT_EQ(Count(svg, ">ticks<"), 2U);
  EXPECT_EQ(Count(svg, ">loss<"), 2U);
  EXPECT_EQ(Count(svg, "<polygon"), 1U);
  EXPECT_EQ(Count(svg, "<path d=\"M"), 3U + 2U);  // curves, and each panel's axes
  // One colour for a name: legend and two panels.
  EXPECT_EQ(Count(svg, "stroke=\"#0072B2\""), 2U);
  EXPECT_EQ(Count(svg, "stroke=\"#D55E00\""), 3U);
}

// On a logarithmic axis equal factors are equal distances: 100, 10, 1 lie on a straight line.
TEST(LineChartTest, LogarithmicAxis) {
  LineChart chart = TwoPanels();
  chart.panels = {{"", {{"pd", {200, 400, 600}, {100, 10, 1}, {}, {}}}}};
  const std::string svg = SvgOf(chart);
  double x[3], y[3];
  const size_t at = svg.find("<path d=\"M");
  ASSERT_EQ(std::sscanf(svg.c_str() + at, "<path d=\"M%lf %lfL%lf %lfL%lf %lf", &x[0], &y[0], &x[1],
                        &y[1], &x[2], &y[2]),
            6);
  EXPECT_NEAR(x[1] - x[0], x[2] - x[1], 0.2);
  EXPECT_NEAR(y[1] - y[0], y[2] - y[1], 0.2);
  EXPECT_GT(y[2], y[0] + 50);
  for (const char* label : {">1<", ">10<"}) EXPECT_EQ(Count(svg, label), 1U) << label;
}

TEST(LineChartTest, WhatCannotBeDrawnBreaksTheLine) {
  const double infinity = std::numeric_limits<double>::infinity();
  LineChart chart = TwoPanels();
  chart.panels = {{"", {{"pd", {1, 2, 3, 4}, {1, -1, 2, infinity}, {1, 1, 1, 1}, {2, 2, 3, 4}}}}};
  const std::string svg = SvgOf(chart);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  const size_t at = svg.find("<path d=\"M");
  EXPECT_EQ(Count(svg.substr(at, svg.find('"', at + 10) - at), "M"), 2U);
}

TEST(LineChartTest, EmptyAndFlatChartsAreDrawn) {
  EXPECT_EQ(Count(SvgOf({}), "<svg "), 1U);
  LineChart flat{"flat", "x", "y", false, {{"", {{"a", {1, 2}, {3, 3}, {}, {}}}}}};
  EXPECT_EQ(SvgOf(flat).find("nan"), std::string::npos);
}

TEST(LineChartTest, MoreNamesThanColoursAreDashed) {
  LineChart chart = TwoPanels();
  for (int k = 0; k < 9; ++k) {
    chart.panels[0].series.push_back({"m" + std::to_string(k), {1, 2}, {1, 2}, {}, {}});
  }
  EXPECT_GT(Count(SvgOf(chart), "stroke-dasharray"), 0U);
}

TEST(LineChartTest, HtmlHoldsTheSvgAndLoadsNothing) {
  const std::string html = HtmlOf(TwoPanels());
  EXPECT_EQ(html.find("<!doctype html>"), 0U);
  EXPECT_NE(html.find(SvgOf(TwoPanels())), std::string::npos);
  EXPECT_EQ(html.find("src="), std::string::npos);
  EXPECT_EQ(html.find("href="), std::string::npos);
}

}  // namespace
}  // namespace heddle
