// LineChart: curves with bands around them, as SVG or as an HTML page; nothing to load from
// anywhere.
//
//   LineChart chart{.title = "quadratic", .x_label = "ticks", .y_label = "loss", .log_y = true};
//   chart.panels.push_back({"4 stages", {{"pd", x, y, low, high}}});
//   WriteFile("race.svg", SvgOf(chart));
//
// Panels stand side by side, three in a row, with one legend above them all. A name has the same
// colour and dashes in every panel: the eight colours of Okabe and Ito, which people with colour
// blindness tell apart, then the same ones dashed. Values that are not finite, and on a logarithmic
// axis those that are not positive, break the line. The text is deterministic.
#pragma once

#include <string>
#include <vector>

namespace heddle {

struct ChartSeries {
  std::string name;
  std::vector<double> x, y;       // as long as each other
  std::vector<double> low, high;  // the band; empty: none
};

struct ChartPanel {
  std::string title;
  std::vector<ChartSeries> series;
};

struct LineChart {
  std::string title;
  std::string x_label, y_label;
  bool log_y = false;
  std::vector<ChartPanel> panels;
};

std::string SvgOf(const LineChart& chart);
std::string HtmlOf(const LineChart& chart);

}  // namespace heddle
