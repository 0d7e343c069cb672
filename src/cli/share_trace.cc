#include "cli/share_trace.h"

#include <fmt/format.h>

#include <vector>

#include "base/json_field.h"
#include "share/trace_schedule.h"

namespace heddle {
namespace {

struct Row {
  TracePolicy policy;
  bool crossover;
  TraceOutcome outcome;
};

std::string Hours(double seconds) {
  constexpr double kHour = 3600;
  return seconds < kHour ? ToText(Seconds{seconds}) : fmt::format("{:.1f} h", seconds / kHour);
}

std::string Change(double before, double after) {
  return fmt::format("{:+.1f}%", 100 * (after / before - 1));
}

std::string TextOf(const std::vector<Row>& rows, const TableStyle& style) {
  TextTable table({{"policy"},
                   {"crossover"},
                   {"makespan", Align::kRight},
                   {"", Align::kRight},
                   {"mean completion", Align::kRight},
                   {"", Align::kRight},
                   {"99th percentile", Align::kRight},
                   {"", Align::kRight}});
  for (size_t k = 0; k < rows.size(); ++k) {
    const TraceOutcome& out = rows[k].outcome;
    // Against the row before, which is the same without crossover.
    const TraceOutcome& plain = rows[k - (rows[k].crossover ? 1 : 0)].outcome;
    const auto change = [&](double before, double after) {
      return rows[k].crossover ? Change(before, after) : std::string();
    };
    table.AddRow({std::string(NameOf(rows[k].policy)), rows[k].crossover ? "yes" : "no",
                  Hours(out.makespan), change(plain.makespan, out.makespan), Hours(out.mean),
                  change(plain.mean, out.mean), Hours(out.p99), change(plain.p99, out.p99)});
  }
  return table.Print(style);
}

Json JsonOf(const std::vector<Row>& rows, size_t jobs, int devices) {
  Json json;
  json["schema"] = "heddle.share-trace/1";
  json["jobs"] = jobs;
  json["devices"] = devices;
  json["schedules"] = Json::array();
  for (const Row& row : rows) {
    json["schedules"].push_back({{"policy", NameOf(row.policy)},
                                 {"crossover", row.crossover},
                                 {"makespan_seconds", row.outcome.makespan},
                                 {"mean_completion_seconds", row.outcome.mean},
                                 {"p99_completion_seconds", row.outcome.p99},
                                 {"device_seconds", row.outcome.device_seconds}});
  }
  return json;
}

}  // namespace

Status ShareTrace(const std::string& path, int devices, const Terminal& terminal) {
  HEDDLE_ASSIGN(const std::vector<TraceJob> jobs, LoadTrace(path));
  std::vector<Row> rows;
  for (const TracePolicy policy : {TracePolicy::kFifo, TracePolicy::kShortest}) {
    for (const bool crossover : {false, true}) {
      TraceOptions options;
      options.devices = devices;
      options.policy = policy;
      options.crossover = crossover;
      Result<TraceOutcome> outcome = ScheduleTrace(jobs, options);
      if (!outcome.ok()) {
        Error error = outcome.error();
        error.where = fmt::format("{}: {}", path, error.where);
        return error;
      }
      rows.push_back({policy, crossover, std::move(outcome).value()});
    }
  }
  if (terminal.json) {
    terminal.PrintJson(JsonOf(rows, jobs.size(), devices));
    return Ok();
  }
  terminal.Print(fmt::format("{} jobs on {} devices (modelled)\n\n", jobs.size(), devices) +
                 TextOf(rows, terminal.style()));
  return Ok();
}

}  // namespace heddle
