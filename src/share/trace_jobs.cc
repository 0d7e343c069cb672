#include "share/trace_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/file.h"

namespace heddle {
namespace {

constexpr double kMillisecond = 1e-3;
constexpr size_t kMostJobs = 1 << 20;

// A column, the names it goes by, what its numbers may be.
struct ColumnRule {
  std::string_view name, alias;
  bool required;
  double least, most;
  bool whole = false;
};
enum Field : uint8_t { kArrival, kDevices, kIterations, kCompute, kNetwork, kInput, kAlone, kName };
constexpr ColumnRule kColumns[] = {
    {"submit_time", "arrival_ms", true, 0, 1e15},
    {"num_gpu", "devices", true, 1, 1 << 20, true},
    {"iterations", "steps", true, 1, 1e12, true},
    {"resource_time_1", "compute_ms", true, 0, 1e12},
    {"resource_time_2", "communication_ms", true, 0, 1e12},
    {"resource_time_0", "input_ms", false, 0, 1e12},
    {"iteration_time", "iteration_ms", false, 0, 1e12},
    {"job_id", "name", false, 0, 0},
};
constexpr size_t kFieldCount = std::size(kColumns);
static_assert(kFieldCount == kName + 1);

std::vector<std::string_view> CellsOf(std::string_view line) {
  std::vector<std::string_view> cells;
  if (line.ends_with('\r')) line.remove_suffix(1);
  for (size_t begin = 0;;) {
    const size_t comma = line.find(',', begin);
    cells.push_back(line.substr(begin, comma - begin));
    if (comma == std::string_view::npos) return cells;
    begin = comma + 1;
  }
}

// Where each field stands in a line; npos: it does not.
using Places = std::array<size_t, kFieldCount>;

Result<Places> PlacesOf(std::string_view header, const std::string& file) {
  const std::vector<std::string_view> cells = CellsOf(header);
  Places places;
  for (size_t f = 0; f < kFieldCount; ++f) {
    const ColumnRule& rule = kColumns[f];
    const auto found = std::find_if(cells.begin(), cells.end(), [&](std::string_view cell) {
      return cell == rule.name || cell == rule.alias;
    });
    places[f] =
        found == cells.end() ? std::string::npos : static_cast<size_t>(found - cells.begin());
    if (found == cells.end() && rule.required) {
      return BadInput(fmt::format("{}:1", file), fmt::format("no column \"{}\"", rule.name),
                      fmt::format("the first line names the columns; this one may be called {} "
                                  "as well",
                                  rule.alias));
    }
  }
  return places;
}

Result<double> NumberIn(std::string_view cell, const ColumnRule& rule, const std::string& where) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool number = error == std::errc() && end == cell.data() + cell.size();
  const bool fits = number && value >= rule.least && value <= rule.most &&
                    (!rule.whole || value == std::floor(value));
  if (fits) return value;
  return BadInput(where, fmt::format("{}: found \"{}\"", rule.name, cell),
                  fmt::format("expected a {}number from {:g} to {:g}", rule.whole ? "whole " : "",
                              rule.least, rule.most));
}

Result<TraceJob> ReadJob(std::string_view line, const Places& places, int number,
                         const std::string& file) {
  const std::string where = fmt::format("{}:{}", file, number);
  const std::vector<std::string_view> cells = CellsOf(line);
  std::array<double, kFieldCount> values{};
  for (size_t f = 0; f < kName; ++f) {
    if (places[f] == std::string::npos) continue;
    if (places[f] >= cells.size()) {
      return BadInput(where, fmt::format("{} values, none for {}", cells.size(), kColumns[f].name),
                      "every line has the columns of the first");
    }
    HEDDLE_ASSIGN(values[f], NumberIn(cells[places[f]], kColumns[f], where));
  }
  TraceJob job;
  job.line = number;
  const size_t name = places[kName];
  job.name = name < cells.size() ? std::string(cells[name]) : fmt::format("line {}", number);
  job.arrival = values[kArrival] * kMillisecond;
  job.devices = static_cast<int>(values[kDevices]);
  job.iterations = values[kIterations];
  job.needs = {values[kCompute] * kMillisecond, values[kNetwork] * kMillisecond,
               values[kInput] * kMillisecond};
  // Input may be read ahead; gradients are not sent before they are computed.
  job.alone = std::max({values[kAlone] * kMillisecond, job.needs[0] + job.needs[1], job.needs[2]});
  if (job.alone > 0) return job;
  return BadInput(where, "an iteration takes no time",
                  fmt::format("give {} or another time", kColumns[kCompute].name));
}

}  // namespace

Result<std::vector<TraceJob>> ParseTrace(const std::string& text, const std::string& file) {
  std::string_view rest = text;
  Places places;
  std::vector<TraceJob> jobs;
  for (int number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (number == 1) {
      HEDDLE_ASSIGN(places, PlacesOf(line, file));
      continue;
    }
    if (line.empty() || line == "\r") continue;
    HEDDLE_ASSIGN(TraceJob job, ReadJob(line, places, number, file));
    jobs.push_back(std::move(job));
    if (jobs.size() > kMostJobs) {
      return BadInput(file, "too many jobs", fmt::format("expected at most {}", kMostJobs));
    }
  }
  if (jobs.empty()) {
    return BadInput(file, "has no jobs", "expected a line of column names, then one line per job");
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const TraceJob& a, const TraceJob& b) { return a.arrival < b.arrival; });
  return jobs;
}

Result<std::vector<TraceJob>> LoadTrace(const std::string& path) {
  HEDDLE_ASSIGN(const std::string text, ReadFile(path, kMostTextBytes));
  return ParseTrace(text, path);
}

}  // namespace heddle
