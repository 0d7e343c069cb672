#include "report/heat_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

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
constexpr double kHead = 66, kNoteRow = 17, kMargin = 12;

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
  if (kind < 0) return kNone;
  const Colour& full = kColours[static_cast<size_t>(kind) % kColours.size()];
  const double part = 0.25 + 0.75 * std::clamp(strength, 0.0, 1.0);
  const auto mix = [&](int channel) {
    return static_cast<int>(std::lround(255 + part * (channel - 255)));
  };
  return {mix(full.red), mix(full.green), mix(full.blue)};
}

// Black or white, whichever is read more easily on it (by the luma of ITU-R BT.601).
std::string InkOn(const Colour& ground) {
  const double luma = 0.299 * ground.red + 0.587 * ground.green + 0.114 * ground.blue;
  return luma > 120 ? "#000" : "#fff";
}

std::string CellOf(const HeatCell& cell, double x, double y) {
  const Colour colour = Shade(cell.kind, cell.strength);
  std::string text = fmt::format(
      "<g><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "fill=\"#{:02x}{:02x}{:02x}\" stroke=\"#fff\"/>\n",
      Escaped(cell.detail), x, y, kCellWidth, kCellHeight, colour.red, colour.green, colour.blue);
  const std::string ink = fmt::format(" fill=\"{}\"", InkOn(colour));
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
  text += Text(left + width / 2, bottom + 28, "middle", map.x_label, " fill=\"#555\"");
  const double across = left - 38, down = (top + bottom) / 2;
  return text + fmt::format(
                    "<text transform=\"translate({:.1f} {:.1f}) rotate(-90)\" "
                    "text-anchor=\"middle\" fill=\"#555\">{}</text>\n",
                    across, down, Escaped(map.y_label));
}

std::string LegendOf(const HeatMap& map) {
  std::string text;
  double x = kMargin;
  const auto add = [&](int kind, const std::string& name) {
    const Colour colour = Shade(kind, 0.8);
    text += fmt::format(
        "<rect x=\"{:.1f}\" y=\"38\" width=\"14\" height=\"14\" fill=\"#{:02x}{:02x}{:02x}\"/>\n",
        x, colour.red, colour.green, colour.blue);
    text += Text(x + 20, 50, "start", name);
    x += 34 + 7.2 * static_cast<double>(name.size());
  };
  for (size_t k = 0; k < map.kinds.size(); ++k) add(static_cast<int>(k), map.kinds[k]);
  add(-1, map.none);
  return text;
}

}  // namespace

std::string SvgOf(const HeatMap& map) {
  const size_t across = std::min(map.columns, map.panels.size());
  const size_t down = (map.panels.size() + map.columns - 1) / map.columns;
  const double step_x = kLeft + kGap + kCellWidth * static_cast<double>(map.x.size());
  const double step_y = kTop + kBottom + kCellHeight * static_cast<double>(map.y.size());
  const double width = 2 * kMargin + step_x * static_cast<double>(across);
  const double notes = kHead + step_y * static_cast<double>(down);
  const double height = notes + kNoteRow * static_cast<double>(map.notes.size()) + kMargin;
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      width, height);
  text += Text(kMargin, 22, "start", map.title, " font-size=\"15\" font-weight=\"bold\"");
  text += LegendOf(map);
  for (size_t k = 0; k < map.panels.size(); ++k) {
    text +=
        PanelOf(map, map.panels[k], kMargin + kLeft + step_x * static_cast<double>(k % map.columns),
                kHead + kTop + step_y * static_cast<double>(k / map.columns));
  }
  for (size_t k = 0; k < map.notes.size(); ++k) {
    text += Text(kMargin, notes + kNoteRow * (static_cast<double>(k) + 0.6), "start", map.notes[k]);
  }
  return text + "</svg>\n";
}

std::string HtmlOf(const HeatMap& map) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{}</title>\n"
      "<style>body {{ margin: 1em; text-align: center }} svg {{ max-width: 100%; height: auto }}"
      "</style>\n{}</html>\n",
      Escaped(map.title), SvgOf(map));
}

}  // namespace heddle
