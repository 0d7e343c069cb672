#include "report/job_gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "report/text_width.h"
#include "report/time_axis.h"

namespace heddle {
namespace {

constexpr int kLeastColumns = 10;
constexpr std::string_view kUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::string_view kLower = "abcdefghijklmnopqrstuvwxyz";
constexpr std::array<std::string_view, 6> kColours = {"34", "33", "32", "35", "36", "31"};

struct Row {
  std::string label;
  int32_t lane = 0;
  bool network = false;
  std::vector<int32_t> cells;  // the job; -1: idle
};

std::vector<Row> RowsOf(const Timeline& timeline, int max_devices) {
  std::vector<Row> rows;
  for (size_t l = 0; l < timeline.lanes.size(); ++l) {
    const Lane& lane = timeline.lanes[l];
    const bool network = lane.kind == LaneKind::kNetwork;
    if (static_cast<int>(rows.size()) >= 2 * max_devices) break;
    rows.push_back(
        {network ? "  net" : WithoutControls(lane.device), static_cast<int32_t>(l), network, {}});
  }
  return rows;
}

void Fill(const JobTimeline& jobs, const JobGanttOptions& options, int columns, Row& row) {
  row.cells.assign(static_cast<size_t>(columns), -1);
  for (size_t e = 0; e < jobs.timeline.events.size(); ++e) {
    const TimelineEvent& event = jobs.timeline.events[e];
    if (event.lane != row.lane) continue;
    const Seconds from = std::clamp(event.start - options.start, Seconds{}, options.span);
    const Seconds to = std::clamp(event.end - options.start, Seconds{}, options.span);
    const int first = ColumnOf(from, options.span, columns);
    const int last = ColumnOf(to, options.span, columns);
    std::fill(row.cells.begin() + first, row.cells.begin() + last, jobs.job_of[e]);
  }
}

std::string Bar(const Row& row, bool colour) {
  std::string bar;
  for (size_t c = 0; c < row.cells.size();) {
    size_t end = c + 1;
    while (end < row.cells.size() && row.cells[end] == row.cells[c]) ++end;
    const auto job = static_cast<size_t>(row.cells[c]);
    std::string run;
    for (size_t k = c; k < end; ++k) {
      run += row.cells[c] < 0 ? std::string("·")
                              : std::string(1, (row.network ? kLower : kUpper)[job % 26]);
    }
    const bool painted = colour && row.cells[c] >= 0;
    bar += Painted(painted ? kColours[job % kColours.size()] : "", run);
    c = end;
  }
  return bar;
}

std::string Legend(const JobTimeline& jobs, const JobGanttOptions& options) {
  std::string plain;
  for (size_t j = 0; j < jobs.jobs.size(); ++j) {
    plain +=
        fmt::format("{}{}: {}", j > 0 ? ", " : "", kUpper[j % 26], WithoutControls(jobs.jobs[j]));
  }
  plain += "; small letters: communicating; · idle";
  return Wrapped(plain, options.width);
}

}  // namespace

std::string DrawJobGantt(const JobTimeline& jobs, const JobGanttOptions& options) {
  HEDDLE_CHECK(options.span.value > 0);
  std::vector<Row> rows = RowsOf(jobs.timeline, options.max_devices);
  int label_width = 0;
  for (Row& row : rows) {
    row.label = Fitted(row.label, std::max(5, options.width / 4));
    label_width = std::max(label_width, DisplayWidth(row.label));
  }
  const int columns = std::max(kLeastColumns, options.width - label_width - 3);
  std::string out;
  for (Row& row : rows) {
    Fill(jobs, options, columns, row);
    out += PaddedRight(row.label, label_width) + " │" + Bar(row, options.colour) + "│\n";
  }
  const TimeAxis axis = MakeTimeAxis(options.span, columns);
  out += PaddedRight("", label_width) + " └" + axis.Rule() + "┘\n";
  out += PaddedLeft(axis.unit, label_width) + "  " + axis.Labels() + "\n";
  const size_t hidden = jobs.timeline.lanes.size() / 2 - rows.size() / 2;
  if (hidden > 0) out += fmt::format("{} more devices are not drawn\n", hidden);
  return out + Legend(jobs, options);
}

}  // namespace heddle
