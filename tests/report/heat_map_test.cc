#include "report/heat_map.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace heddle {
namespace {

HeatMap Two() {
  HeatMap map;
  map.title = "who & where";
  map.x_label = "stages";
  map.y_label = "rows";
  map.x = {"2", "4"};
  map.y = {"0.1"};
  map.kinds = {"pd", "local"};
  map.none = "open";
  map.columns = 2;
  map.notes = {"a note"};
  map.panels.push_back({"noise 0",
                        {{{.kinds = {0}, .strength = 1, .lines = {"pd", "1.4"}, .detail = "a < b"},
                          {.kinds = {}, .strength = 0, .lines = {"P?L"}, .detail = "x"}}}});
  map.panels.push_back({"noise 1",
                        {{{.kinds = {1}, .strength = 0, .lines = {"local"}, .detail = "y"},
                          {.kinds = {1}, .strength = 1, .lines = {"local"}, .detail = "z"}}}});
  return map;
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(HeatMapTest, EveryCellIsDrawnWithItsText) {
  const std::string svg = SvgOf(Two());
  EXPECT_EQ(Count(svg, "<g><title>"), 4U);
  EXPECT_EQ(Count(svg, "</g>"), 4U);
  EXPECT_EQ(Count(svg, ">local<"), 3U);  // two cells and the legend
  for (const char* part : {"who &amp; where", "a &lt; b", ">1.4<", "noise 1", "a note", ">P?L<",
                           "fill=\"#0072b2\"", "fill=\"#e69f00\"", "fill=\"#e4e4e4\""}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  // The weaker a cell, the paler.
  EXPECT_NE(svg.find("fill=\"#f9e7bf\""), std::string::npos);
}

// Nothing told apart among three is grey; two of them show whom it lies between.
TEST(HeatMapTest, ACellOfTwoKindsHasHalfOfEach) {
  HeatMap map = Two();
  map.two = "either";
  map.panels[0].cells[0][1].kinds = {0, 1};
  const std::string svg = SvgOf(map);
  // Halves of 46 beside each other, the second where the first ends, both pale.
  EXPECT_NE(svg.find("<rect x=\"156.0\" y=\"90.0\" width=\"46.0\" height=\"36.0\" "
                     "fill=\"#bfdcec\"/>\n<rect x=\"202.0\" y=\"90.0\" width=\"46.0\" "
                     "height=\"36.0\" fill=\"#f9e7bf\"/>"),
            std::string::npos)
      << svg;
  EXPECT_NE(svg.find(">either<"), std::string::npos);
  EXPECT_EQ(SvgOf(Two()).find(">either<"), std::string::npos);
}

// A small map is wide enough for what stands above and below it, which is broken where it ends.
TEST(HeatMapTest, LongTextIsBroken) {
  HeatMap map = Two();
  map.x = {"2"};
  map.columns = 1;
  for (HeatPanel& panel : map.panels) panel.cells[0].resize(1);
  const std::string before = SvgOf(map);
  map.title = map.notes[0] = std::string(34, 'w') + " " + std::string(34, 'w');
  map.kinds[1] = std::string(60, 'k');
  const std::string svg = SvgOf(map);
  EXPECT_EQ(Count(svg, ">" + std::string(34, 'w') + "<"), 4U);  // two lines each
  const auto height = [](const std::string& text) {
    return std::stod(text.substr(text.find("height=\"") + 8));
  };
  EXPECT_EQ(height(svg) - height(before),
            20 + 17 + 40);  // title, note, legend: a row each, and two
}

// Labels have no ink of their own, so that they can be read on a dark page too.
TEST(HeatMapTest, LabelsFollowThePage) {
  const std::string svg = SvgOf(Two());
  EXPECT_NE(svg.find("@media (prefers-color-scheme: dark)"), std::string::npos);
  for (size_t at = svg.find("<text"); at != std::string::npos; at = svg.find("<text", at + 1)) {
    EXPECT_EQ(svg.substr(at, svg.find('>', at) - at).find("fill="), std::string::npos);
  }
}

TEST(HeatMapTest, APageLoadsNothing) {
  const std::string html = HtmlOf(Two());
  EXPECT_NE(html.find("<!doctype html>"), std::string::npos);
  EXPECT_EQ(html.find("src="), std::string::npos);
  EXPECT_EQ(Count(html, "http"), 1U);  // the name of the SVG format
}

}  // namespace
}  // namespace heddle
