// HeatMap: tables of coloured cells, as SVG or as an HTML page; nothing to load from anywhere.
//
//   HeatMap map;
//   map.x = {"2", "4"};                           and the other names
//   map.kinds = {"pd", "local", "flush"};
//   map.panels.push_back({"noise 0.5", {{{.kinds = {1}, .strength = 0.8, .lines = {"local"}},
//   …}}}); WriteFile("map.svg", SvgOf(map));
//
// Panels have the same axes and stand side by side, `columns` in a row. A cell's colour is that of
// its kind, the stronger the fuller; of two kinds it has half of each, pale; grey for none. The
// text of a cell says all that its colour does. Titles and notes are broken to fit the width. On a
// dark page the ground is dark and the cells stay as they are. The text is deterministic.
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct HeatCell {
  std::vector<int> kinds;          // of HeatMap::kinds; none: grey
  double strength = 0;             // 0 … 1, of a cell with one kind
  std::vector<std::string> lines;  // two at most; the first is the larger
  std::string detail;              // shown under the pointer
};

struct HeatPanel {
  std::string title;
  std::vector<std::vector<HeatCell>> cells;  // by y, then x
};

struct HeatMap {
  std::string title;
  std::string x_label, y_label;
  std::vector<std::string> x, y;
  std::vector<std::string> kinds;
  std::string two;   // what a cell of two kinds means; empty: there are none
  std::string none;  // what grey means
  size_t columns = 4;
  std::vector<HeatPanel> panels;
  std::vector<std::string> notes;  // below, a paragraph each
};

std::string SvgOf(const HeatMap& map);
std::string HtmlOf(const HeatMap& map);

}  // namespace heddle
