#include "report/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "report/text_width.h"

namespace heddle {
namespace {

struct Colour {
  int red, green, blue;
};

// Okabe & Ito 2008.
constexpr std::array<Colour, 4> kColours = {
    {{0x00, 0x72, 0xB2}, {0xE6, 0x9F, 0x00}, {0x00, 0x9E, 0x73}, {0xCC, 0x79, 0xA7}}};
constexpr Colour kNone = {0xE4, 0xE4, 0xE4};

constexpr double kCellWidth = 92, kCellHeight = 36;
constexpr double kLeft = 52, kGap = 18, kTop = 30, kBottom = 40;  // around a panel's cells
constexpr double kTitleRow = 20, kRow = 17, kMargin = 12;
// Of a letter, rather more than it takes: fonts differ.
constexpr double kTitleLetter = 9.5, kLetter = 6.8;

// Labels and ground follow the page; cells have colours and inks of their own.
constexpr const char* kStyle =
    "<style>text { fill: #222 } .dim { fill: #555 } .ground { fill: #fff } .line { stroke: #fff }\n"
    "@media (prefers-color-scheme: dark) { text { fill: #ddd } .dim { fill: #aaa }\n"
    ".ground { fill: #1b1b1b } .line { stroke: #1b1b1b } }\n"
    ".on-light { fill: #000 } .on-full { fill: #fff }</style>\n";

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Text(double x, double y, const std::string& anchor, const std::string& text,
                 const std::string& more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, Escaped(text));
}

// Between white and the kind's own.
Colour Shade(int kind, double strength) {
  const Colour& full = kColours[static_cast<size_t>(kind) % kColours.size()];
  const double part = 0.25 + 0.75 * std::clamp(strength, 0.0, 1.0);
  const auto mix = [&](int channel) {
    return static_cast<int>(std::lround(255 + part * (channel - 255)));
  };
  return {mix(full.red), mix(full.green), mix(full.blue)};
}

// Black or white, whichever is read more easily on it (by the luma of ITU-R BT.601).
const char* InkOn(const Colour& ground) {
  const double luma = 0.299 * ground.red + 0.587 * ground.green + 0.114 * ground.blue;
  return luma > 120 ? "on-light" : "on-full";
}

std::string Filled(double x, double y, double width, double height, const Colour& colour) {
  return fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "fill=\"#{:02x}{:02x}{:02x}\"/>\n",
      x, y, width, height, colour.red, colour.green, colour.blue);
}

// The colours of a cell or of its example in the legend, side by side.
std::vector<Colour> ColoursOf(const std::vector<int>& kinds, double strength) {
  if (kinds.empty()) return {kNone};
  std::vector<Colour> colours;
  for (const int kind : kinds) colours.push_back(Shade(kind, kinds.size() > 1 ? 0 : strength));
  return colours;
}

std::string Stripes(double x, double y, double width, double height,
                    const std::vector<Colour>& colours) {
  std::string text;
  const double each = width / static_cast<double>(colours.size());
  for (size_t k = 0; k < colours.size(); ++k) {
    text += Filled(x + each * static_cast<double>(k), y, each, height, colours[k]);
  }
  return text;
}

std::string CellOf(const HeatCell& cell, double x, double y) {
  const std::vector<Colour> colours = ColoursOf(cell.kinds, cell.strength);
  std::string text =
      fmt::format("<g><title>{}</title>", Escaped(cell.detail)) +
      Stripes(x, y, kCellWidth, kCellHeight, colours) +
      fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"none\" "
          "class=\"line\"/>\n",
          x, y, kCellWidth, kCellHeight);
  const std::string ink = fmt::format(" class=\"{}\"", InkOn(colours[0]));
  const double middle = x + kCellWidth / 2;
  if (!cell.lines.empty()) {
    text += Text(middle, y + (cell.lines.size() > 1 ? 15 : 22), "middle", cell.lines[0],
                 ink + " font-weight=\"bold\"");
  }
  if (cell.lines.size() > 1) {
    text += Text(middle, y + 29, "middle", cell.lines[1], ink + " font-size=\"9.5\"");
  }
  return text + "</g>\n";
}

std::string PanelOf(const HeatMap& map, const HeatPanel& panel, double left, double top) {
  const double width = kCellWidth * static_cast<double>(map.x.size());
  std::string text =
      Text(left + width / 2, top - 8, "middle", panel.title, " font-weight=\"bold\"");
  for (size_t row = 0; row < panel.cells.size(); ++row) {
    const double y = top + kCellHeight * static_cast<double>(row);
    text += Text(left - 6, y + 22, "end", map.y[row]);
    for (size_t column = 0; column < panel.cells[row].size(); ++column) {
      text += CellOf(panel.cells[row][column], left + kCellWidth * static_cast<double>(column), y);
    }
  }
  const double bottom = top + kCellHeight * static_cast<double>(map.y.size());
  for (size_t column = 0; column < map.x.size(); ++column) {
    text += Text(left + kCellWidth * (static_cast<double>(column) + 0.5), bottom + 14, "middle",
                 map.x[column]);
  }
  text += Text(left + width / 2, bottom + 28, "middle", map.x_label, " class=\"dim\"");
  const double across = left - 38, down = (top + bottom) / 2;
  return text + fmt::format(
                    "<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\" "
                    "text-anchor=\"middle\" class=\"dim\">{}</text>\n",
                    across, down, Escaped(map.y_label));
}

// Lines of at most so many points, from the height on, which it leaves at the end.
std::string Paragraph(const std::string& text, double width, double letter, double row,
                      const std::string& more, double& y) {
  std::string drawn;
  std::string lines = Wrapped(text, static_cast<int>(width / letter));
  lines.pop_back();  // the last line's end
  for (const std::string_view line : SplitAt(lines, '\n')) {
    y += row;
    drawn += Text(kMargin, y, "start", std::string(line), more);
  }
  return drawn;
}

// What the colours mean, as many to a row as fit.
std::string LegendOf(const HeatMap& map, double width, double& y) {
  constexpr double kStrength = 0.8, kSample = 14;
  struct Sample {
    std::vector<int> kinds;
    std::string name;
  };
  std::vector<Sample> samples;
  for (size_t k = 0; k < map.kinds.size(); ++k) {
    samples.push_back({{static_cast<int>(k)}, map.kinds[k]});
  }
  if (!map.two.empty()) samples.push_back({{0, 1}, map.two});
  samples.push_back({{}, map.none});
  std::string text;
  double x = kMargin;
  y += kTitleRow;
  for (const Sample& sample : samples) {
    const double wide = 20 + kLetter * DisplayWidth(sample.name);
    if (x > kMargin && x + wide > kMargin + width) {
      x = kMargin;
      y += kTitleRow;
    }
    text += Stripes(x, y - 12, kSample, kSample, ColoursOf(sample.kinds, kStrength));
    text += Text(x + 20, y, "start", sample.name);
    x += wide + 14;
  }
  return text;
}

}  // namespace

std::string SvgOf(const HeatMap& map) {
  constexpr double kLeast = 420;  // for what stands above and below a small map
  const size_t across = std::min(map.columns, map.panels.size());
  const double step_x = kLeft + kGap + kCellWidth * static_cast<double>(map.x.size());
  const double step_y = kTop + kBottom + kCellHeight * static_cast<double>(map.y.size());
  const double inner = std::max(kLeast, step_x * static_cast<double>(across));
  double y = 2;
  std::string text = Paragraph(map.title, inner, kTitleLetter, kTitleRow,
                               " font-size=\"15\" font-weight=\"bold\"", y);
  y += 6;
  text += LegendOf(map, inner, y);
  y += kMargin;
  for (size_t k = 0; k < map.panels.size(); ++k) {
    text +=
        PanelOf(map, map.panels[k], kMargin + kLeft + step_x * static_cast<double>(k % map.columns),
                y + kTop + step_y * static_cast<double>(k / map.columns));
  }
  y += step_y * static_cast<double>((map.panels.size() + map.columns - 1) / map.columns);
  for (const std::string& note : map.notes) text += Paragraph(note, inner, kLetter, kRow, "", y);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
             "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n",
             inner + 2 * kMargin, y + kMargin) +
         kStyle + "<rect width=\"100%\" height=\"100%\" class=\"ground\"/>\n" + text + "</svg>\n";
}

std::string HtmlOf(const HeatMap& map) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{}</title>\n"
      "<style>:root {{ color-scheme: light dark }} body {{ margin: 1em; text-align: center }} "
      "svg {{ max-width: 100%; height: auto }}</style>\n{}</html>\n",
      Escaped(map.title), SvgOf(map));
}

}  // namespace heddle
