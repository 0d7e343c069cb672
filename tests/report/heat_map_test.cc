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
                        {{{.kind = 0, .strength = 1, .lines = {"pd", "1.4"}, .detail = "a < b"},
                          {.kind = -1, .strength = 0, .lines = {"P?L"}, .detail = "x"}}}});
  map.panels.push_back({"noise 1",
                        {{{.kind = 1, .strength = 0, .lines = {"local"}, .detail = "y"},
                          {.kind = 1, .strength = 1, .lines = {"local"}, .detail = "z"}}}});
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

TEST(HeatMapTest, APageLoadsNothing) {
  const std::string html = HtmlOf(Two());
  EXPECT_NE(html.find("<!doctype html>"), std::string::npos);
  EXPECT_EQ(html.find("src="), std::string::npos);
  EXPECT_EQ(Count(html, "http"), 1U);  // the name of the SVG format
}

}  // namespace
}  // namespace heddle
