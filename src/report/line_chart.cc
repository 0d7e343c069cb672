#include "report/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace heddle {
namespace {

// Okabe & Ito 2008, the yellow left out: it is faint on white.
constexpr std::array<const char*, 7> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                 "#E69F00", "#56B4E9", "#000000"};
constexpr std::array<const char*, 3> kDashes = {"", "6 3", "2 2"};

constexpr double kPanelWidth = 360, kPanelHeight = 270;
constexpr double kLeft = 62, kRight = 14, kTop = 30, kBottom = 44;  // around a panel's axes
constexpr double kHead = 34, kLegendRow = 18, kLegendColumn = 130;
constexpr size_t kColumns = 3;

std::string Escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else
      escaped += c;
  }
  return escaped;
}

std::string Text(double x, double y, const std::string& anchor, const std::string& text,
                 const std::string& more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                     anchor, more, Escaped(text));
}

std::string TickLabel(double value) { return value == 0 ? "0" : fmt::format("{:.6g}", value); }

// One axis: values to positions, and where its ticks are.
struct Axis {
  double low = 0, high = 1;
  double from = 0, to = 1;
  bool log = false;

  double Scaled(double value) const { return log ? std::log10(value) : value; }
  double At(double value) const {
    return from + (to - from) * (Scaled(value) - Scaled(low)) / (Scaled(high) - Scaled(low));
  }
  std::vector<double> Ticks() const;
};

std::vector<double> Axis::Ticks() const {
  std::vector<double> ticks;
  if (log) {
    const double first = std::ceil(std::log10(low) - 1e-9),
                 last = std::floor(std::log10(high) + 1e-9);
    const double step = std::max(1.0, std::ceil((last - first) / 6));
    for (double power = first; power <= last; power += step) ticks.push_back(std::pow(10, power));
    if (ticks.size() >= 2) return ticks;
    return {low, std::sqrt(low * high), high};
  }
  const double raw = (high - low) / 4;
  const double unit = std::pow(10, std::floor(std::log10(raw)));
  const double step = raw / unit < 1.5 ? unit : raw / unit < 3.5 ? 2 * unit : 5 * unit;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k) {
    ticks.push_back(k * step);
  }
  return ticks;
}

class Drawing {
 public:
  explicit Drawing(const LineChart& chart) : chart_(chart) {
    for (const ChartPanel& panel : chart.panels) {
      for (const ChartSeries& series : panel.series) {
        if (std::find(names_.begin(), names_.end(), series.name) == names_.end()) {
          names_.push_back(series.name);
        }
      }
    }
  }

  std::string Svg() const {
    const size_t columns = std::max<size_t>(1, std::min(kColumns, chart_.panels.size()));
    const size_t rows = (chart_.panels.size() + columns - 1) / columns;
    const double width = std::max(kPanelWidth * static_cast<double>(columns), 420.0);
    const auto per_row =
        static_cast<size_t>(std::max(1.0, std::floor((width - 20) / kLegendColumn)));
    const size_t legend_rows = (names_.size() + per_row - 1) / per_row;
    const double head = kHead + kLegendRow * static_cast<double>(legend_rows);
    const double height = head + kPanelHeight * static_cast<double>(rows);
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n"
        "<title>{2}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        width, height, Escaped(chart_.title));
    svg += Text(width / 2, 20, "middle", chart_.title, " font-size=\"15\" font-weight=\"bold\"");
    for (size_t k = 0; k < names_.size(); ++k) {
      const double x = 16 + kLegendColumn * static_cast<double>(k % per_row);
      const double y = kHead + 4 + kLegendRow * static_cast<double>(k / per_row);
      svg += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"{}/>\n", x,
                         y, x + 26, y, Stroke(k));
      svg += Text(x + 32, y + 4, "start", names_[k]);
    }
    for (size_t k = 0; k < chart_.panels.size(); ++k) {
      svg += Panel(chart_.panels[k], kPanelWidth * static_cast<double>(k % columns),
                   head + kPanelHeight * static_cast<double>(k / columns));
    }
    return svg + "</svg>\n";
  }

 private:
  bool Drawable(double value) const { return std::isfinite(value) && (!chart_.log_y || value > 0); }

  static std::string Stroke(size_t name) {
    const std::string dash = kDashes[name / kColours.size() % kDashes.size()];
    return fmt::format(" fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\"{}",
                       kColours[name % kColours.size()],
                       dash.empty() ? "" : " stroke-dasharray=\"" + dash + "\"");
  }

  // Of everything drawn in the panel; bands count too.
  Axis YAxis(const ChartPanel& panel, double top, double bottom) const {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    for (const ChartSeries& series : panel.series) {
      for (const auto* values : {&series.y, &series.high, &series.low}) {
        for (const double value : *values) {
          if (!Drawable(value)) continue;
          if (values == &series.low && chart_.log_y) continue;  // may go far below the line
          low = std::min(low, value);
          high = std::max(high, value);
        }
      }
    }
    if (!(low <= high)) low = high = 1;
    if (chart_.log_y) return {low / 1.3, high * 1.3, bottom, top, true};
    const double margin = high > low ? 0.05 * (high - low) : 1;
    return {low - margin, high + margin, bottom, top, false};
  }

  static Axis XAxis(const ChartPanel& panel, double left, double right) {
    double high = 0;
    for (const ChartSeries& series : panel.series) {
      for (const double value : series.x) high = std::max(high, value);
    }
    return {0, high > 0 ? high : 1, left, right, false};
  }

  std::string Panel(const ChartPanel& panel, double x, double y) const {
    const double left = x + kLeft, right = x + kPanelWidth - kRight;
    const double top = y + kTop, bottom = y + kPanelHeight - kBottom;
    const Axis across = XAxis(panel, left, right), up = YAxis(panel, top, bottom);
    std::string svg = Text((left + right) / 2, top - 8, "middle", panel.title);
    for (const double tick : across.Ticks()) {
      svg += Text(across.At(tick), bottom + 16, "middle", TickLabel(tick));
    }
    for (const double tick : up.Ticks()) {
      svg += fmt::format(
          "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
          "stroke=\"#ddd\"/>\n",
          left, up.At(tick), right, up.At(tick));
      svg += Text(left - 6, up.At(tick) + 4, "end", TickLabel(tick));
    }
    svg += Text((left + right) / 2, bottom + 34, "middle", chart_.x_label);
    svg +=
        Text(x + 14, (top + bottom) / 2, "middle", chart_.y_label,
             fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", x + 14, (top + bottom) / 2));
    for (const ChartSeries& series : panel.series) svg += Band(series, across, up);
    for (const ChartSeries& series : panel.series) svg += Line(series, across, up);
    return svg + fmt::format(
                     "<path d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\" fill=\"none\" "
                     "stroke=\"#222\"/>\n",
                     left, top, bottom, right);
  }

  size_t Number(const std::string& name) const {
    return static_cast<size_t>(std::find(names_.begin(), names_.end(), name) - names_.begin());
  }

  // Stretches without a break, each a polygon along the high and back along the low.
  std::string Band(const ChartSeries& series, const Axis& across, const Axis& up) const {
    std::string svg, there, back;
    const auto close = [&] {
      if (!there.empty()) {
        svg += fmt::format("<polygon points=\"{}{}\" fill=\"{}\" fill-opacity=\"0.15\"/>\n", there,
                           back, kColours[Number(series.name) % kColours.size()]);
      }
      there.clear();
      back.clear();
    };
    for (size_t k = 0; k < series.low.size(); ++k) {
      if (!Drawable(series.y[k]) || !Drawable(series.high[k])) {
        close();
        continue;
      }
      const double low = Drawable(series.low[k]) ? std::max(series.low[k], up.low) : up.low;
      there += fmt::format("{:.1f},{:.1f} ", across.At(series.x[k]), up.At(series.high[k]));
      back = fmt::format("{:.1f},{:.1f} ", across.At(series.x[k]), up.At(low)) + back;
    }
    close();
    return svg;
  }

  std::string Line(const ChartSeries& series, const Axis& across, const Axis& up) const {
    std::string path;
    bool drawing = false;
    for (size_t k = 0; k < series.y.size(); ++k) {
      const bool drawable = Drawable(series.y[k]);
      if (drawable) {
        path += fmt::format("{}{:.1f} {:.1f}", drawing ? "L" : "M", across.At(series.x[k]),
                            up.At(series.y[k]));
      }
      drawing = drawable;
    }
    return fmt::format("<path d=\"{}\"{}><title>{}</title></path>\n", path,
                       Stroke(Number(series.name)), Escaped(series.name));
  }

  const LineChart& chart_;
  std::vector<std::string> names_;  // in order of appearance
};

}  // namespace

std::string SvgOf(const LineChart& chart) { return Drawing(chart).Svg(); }

std::string HtmlOf(const LineChart& chart) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{}</title>\n"
      "<style>body {{ margin: 1em; text-align: center }} svg {{ max-width: 100%; height: auto }}"
      "</style>\n{}</html>\n",
      Escaped(chart.title), SvgOf(chart));
}

}  // namespace heddle
