#include "report/gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "report/text_width.h"
#include "report/time_axis.h"

namespace heddle {
namespace {

constexpr int kLeastColumns = 10;
constexpr std::string_view kDigits =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kIdle = "·";
constexpr std::string_view kIdleColour = "90";

struct KindStyle {
  std::string_view name;
  std::string_view fill;
  std::string_view colour;
  int digit_from;  // columns an event needs to show its microbatch; 0: never does
};

// By EventKind.
constexpr std::array<KindStyle, kEventKindCount> kKinds = {{
    {"forward", "░", "34", 1},
    {"backward", "▓", "32", 2},
    {"weight gradients", "▒", "36", 2},
    {"update", "█", "33", 0},
    {"other", "#", "36", 0},
    {"transfer", "─", "35", 2},
    {"collective", "═", "35", 0},
}};

const KindStyle& StyleOf(EventKind kind) { return kKinds[static_cast<size_t>(kind)]; }

struct Window {
  Seconds start{std::numeric_limits<double>::infinity()};
  Seconds end{-std::numeric_limits<double>::infinity()};
  int last = 0;  // repetition

  bool empty() const { return start > end; }
  Seconds span() const { return end - start; }
};

bool IsCompute(const Timeline& timeline, const TimelineEvent& event) {
  return timeline.lanes[static_cast<size_t>(event.lane)].kind == LaneKind::kCompute;
}

// From the first thing the repetitions compute to the end of the last thing they do. What the
// network carries may have begun during the repetition before, so it opens only the first one.
Window WindowOf(const Timeline& timeline, const GanttOptions& options) {
  Window window;
  for (const TimelineEvent& event : timeline.events) {
    const int after = event.repetition - options.repetition;
    if (after < 0 || after >= options.repetitions) continue;
    window.end = std::max(window.end, event.end);
    window.last = std::max(window.last, event.repetition);
    if (event.repetition == 0 || IsCompute(timeline, event)) {
      window.start = std::min(window.start, event.start);
    }
  }
  return window;
}

// The devices to draw, in the order of their lanes; of too many only the first and the last.
struct Choice {
  std::vector<std::string> devices;
  size_t head = 0;    // how many of them come before the hidden ones
  size_t hidden = 0;  // how many are left out
};

Choice ChooseDevices(const Timeline& timeline, const GanttOptions& options) {
  Choice choice;
  std::set<std::string> known;
  for (const Lane& lane : timeline.lanes) {
    if (known.insert(lane.device).second) choice.devices.push_back(lane.device);
  }
  const size_t lines = options.show_network ? 2 : 1;
  const auto most = static_cast<size_t>(std::max(1, options.max_rows));
  choice.head = choice.devices.size();
  if (choice.devices.size() * lines <= most) return choice;
  const size_t shown = std::max<size_t>(1, most * 3 / 4 / lines);
  const size_t tail = shown / 3;
  choice.head = shown - tail;
  choice.hidden = choice.devices.size() - shown;
  const auto first_hidden = choice.devices.begin() + static_cast<std::ptrdiff_t>(choice.head);
  choice.devices.erase(first_hidden, first_hidden + static_cast<std::ptrdiff_t>(choice.hidden));
  return choice;
}

// One line of the chart: of each column the event it shows, an index into Timeline::events.
struct Row {
  std::string label;
  bool network = false;
  std::vector<int32_t> cells;  // -1: idle
};

class Chart {
 public:
  Chart(const Timeline& timeline, const GanttOptions& options, Window window)
      : timeline_(timeline),
        options_(options),
        window_(window),
        choice_(ChooseDevices(timeline, options)) {
    MakeRows();
    FillRows();
  }

  std::string Print() {
    const TimeAxis axis = MakeTimeAxis(window_.span(), columns_);
    const size_t lines = options_.show_network ? 2 : 1;
    std::string out = Title();
    for (size_t d = 0; d <= choice_.devices.size(); ++d) {
      if (choice_.hidden > 0 && d == choice_.head) out += HiddenLine();
      if (d == choice_.devices.size()) break;
      for (size_t r = d * lines; r < (d + 1) * lines; ++r) {
        out += PaddedRight(rows_[r].label, label_width_) + " │" + Bar(rows_[r]) + "│\n";
      }
    }
    out += PaddedRight("", label_width_) + " └" + axis.Rule() + "┘\n";
    out += PaddedLeft(axis.unit, label_width_) + "  " + axis.Labels() + "\n";
    return out + Legend();
  }

 private:
  void MakeRows() {
    std::map<std::string, int> first_row;
    for (const std::string& device : choice_.devices) {
      first_row[device] = static_cast<int>(rows_.size());
      rows_.push_back({WithoutControls(device), false, {}});
      if (options_.show_network) rows_.push_back({"  net", true, {}});
    }
    for (const Lane& lane : timeline_.lanes) {
      const auto row = first_row.find(lane.device);
      const bool network = lane.kind == LaneKind::kNetwork;
      const bool shown = row != first_row.end() && (!network || options_.show_network);
      row_of_lane_.push_back(shown ? row->second + (network ? 1 : 0) : -1);
    }
    for (Row& row : rows_) {
      row.label = Fitted(row.label, std::max(5, options_.width / 4));
      label_width_ = std::max(label_width_, DisplayWidth(row.label));
    }
    columns_ = std::max(kLeastColumns, options_.width - label_width_ - 3);
    for (Row& row : rows_) row.cells.assign(static_cast<size_t>(columns_), -1);
  }

  void FillRows() {
    std::vector<int32_t> short_ones;
    for (size_t e = 0; e < timeline_.events.size(); ++e) {
      const TimelineEvent& event = timeline_.events[e];
      const int row = row_of_lane_[static_cast<size_t>(event.lane)];
      if (row < 0 || !IsInside(event)) continue;
      auto& cells = rows_[static_cast<size_t>(row)].cells;
      const int first = ColumnOf(event.start - window_.start, window_.span(), columns_);
      const int last = ColumnOf(event.end - window_.start, window_.span(), columns_);
      std::fill(cells.begin() + first, cells.begin() + last, static_cast<int32_t>(e));
      if (first < last) most_microbatch_ = std::max(most_microbatch_, event.microbatch);
      if (first == last) short_ones.push_back(static_cast<int32_t>(e));
    }
    for (const int32_t e : short_ones) ShowShort(e);
  }

  // Of the repetitions shown, or at work during their time.
  bool IsInside(const TimelineEvent& event) const {
    if (event.repetition >= options_.repetition && event.repetition <= window_.last) return true;
    return event.end > window_.start && event.start < window_.end;
  }

  // Gives an event too short for a column one nevertheless, where the header says so.
  void ShowShort(int32_t e) {
    const TimelineEvent& event = timeline_.events[static_cast<size_t>(e)];
    Row& row = rows_[static_cast<size_t>(row_of_lane_[static_cast<size_t>(event.lane)])];
    if (!row.network && event.kind != EventKind::kUpdate) return;
    const Seconds middle = (event.start + event.end) / 2 - window_.start;
    if (middle.value < 0 || middle > window_.span()) return;
    const double exact = middle.value / window_.span().value * columns_;
    const int at = std::min(columns_ - 1, static_cast<int>(exact));
    int32_t& cell = row.cells[static_cast<size_t>(at)];
    const bool lone = (at == 0 || row.cells[static_cast<size_t>(at) - 1] != cell) &&
                      (at + 1 == columns_ || row.cells[static_cast<size_t>(at) + 1] != cell);
    if (cell < 0 || (!row.network && !lone)) cell = e;
  }

  std::string HiddenLine() const {
    const std::string note = fmt::format("{} more devices", choice_.hidden);
    return PaddedLeft("⋮", label_width_) + " │ " + Fitted(note, columns_) + "\n";
  }

  std::string Title() const {
    std::string text = timeline_.source.empty() ? "" : WithoutControls(timeline_.source) + ", ";
    text += fmt::format("repetition{} {}", window_.last > options_.repetition ? "s" : "",
                        options_.repetition);
    if (window_.last > options_.repetition) text += fmt::format(" to {}", window_.last);
    text += ": " + ToText(window_.span());
    if (window_.start.value > 0) text += ", from " + ToText(window_.start);
    return Wrapped(text, options_.width);
  }

  std::string Bar(const Row& row) {
    std::string bar;
    for (size_t c = 0; c < row.cells.size();) {
      size_t end = c + 1;
      while (end < row.cells.size() && row.cells[end] == row.cells[c]) ++end;
      bar += Run(row.cells[c], static_cast<int>(end - c));
      c = end;
    }
    return bar;
  }

  // Neighbouring columns that show the same event.
  std::string Run(int32_t e, int length) {
    std::string run;
    if (e < 0) {
      any_idle_ = true;
      for (int i = 0; i < length; ++i) run += kIdle;
      return Painted(options_.colour ? kIdleColour : "", run);
    }
    const TimelineEvent& event = timeline_.events[static_cast<size_t>(e)];
    const KindStyle& style = StyleOf(event.kind);
    seen_[static_cast<size_t>(event.kind)] = true;
    if (style.digit_from > 0 && length >= style.digit_from && event.microbatch >= 0) {
      seen_digit_[static_cast<size_t>(event.kind)] = true;
      run += Digit(event.microbatch);
      --length;
    }
    for (int i = 0; i < length; ++i) run += style.fill;
    return Painted(options_.colour ? style.colour : "", run);
  }

  // One character. Where they do not suffice for all, the last decimal digit.
  char Digit(int32_t microbatch) const {
    const auto base = Wraps() ? size_t{10} : kDigits.size();
    return kDigits[static_cast<size_t>(microbatch) % base];
  }
  bool Wraps() const { return most_microbatch_ >= static_cast<int32_t>(kDigits.size()); }

  // Names what the picture shows, and nothing else.
  std::string Legend() const {
    std::vector<std::string> entries;
    std::vector<std::string_view> colours;
    for (size_t k = 0; k < kKinds.size(); ++k) {
      if (!seen_[k]) continue;
      const std::string_view digit = seen_digit_[k] ? "0" : "";
      entries.push_back(fmt::format("{}{} {}", digit, kKinds[k].fill, kKinds[k].name));
      colours.push_back(kKinds[k].colour);
    }
    if (any_idle_) entries.push_back(fmt::format("{} idle", kIdle));
    if (Wraps()) {
      entries.emplace_back("digit: the microbatch's last");
    } else if (most_microbatch_ >= 36) {
      entries.emplace_back("a-z: microbatches 10-35, A-Z: 36-61");
    } else if (most_microbatch_ >= 10) {
      entries.push_back(
          fmt::format("a-{}: microbatches 10-{}", Digit(most_microbatch_), most_microbatch_));
    }
    std::string out;
    int column = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      const int needed = DisplayWidth(entries[i]);
      if (column > 0 && column + 2 + needed > options_.width) {
        out += "\n";
        column = 0;
      }
      if (column > 0) out += "  ";
      column += (column > 0 ? 2 : 0) + needed;
      const bool painted = options_.colour && i < colours.size();
      out += Painted(painted ? colours[i] : "", entries[i]);
    }
    return out + "\n";
  }

  const Timeline& timeline_;
  const GanttOptions& options_;
  const Window window_;
  const Choice choice_;
  std::vector<Row> rows_;
  std::vector<int> row_of_lane_;  // -1: not shown
  int label_width_ = 0;
  int columns_ = 0;
  int32_t most_microbatch_ = -1;
  // What was drawn so far, for the legend.
  std::array<bool, kKinds.size()> seen_{};
  std::array<bool, kKinds.size()> seen_digit_{};
  bool any_idle_ = false;
};

}  // namespace

std::string DrawGantt(const Timeline& timeline, const GanttOptions& options) {
  if (timeline.events.empty()) return "the timeline is empty\n";
  const Window window = WindowOf(timeline, options);
  if (!window.empty() && window.span().value > 0) return Chart(timeline, options, window).Print();
  int last = 0;
  for (const TimelineEvent& event : timeline.events) last = std::max(last, event.repetition);
  return fmt::format("nothing is computed in repetition {}; the timeline has 0 to {}\n",
                     options.repetition, last);
}

}  // namespace heddle
