// heddle compare: every strategy on the same model and cluster, one table.

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>

#include "base/json_field.h"
#include "base/text.h"
#include "choose/survey.h"
#include "cli/command.h"
#include "cli/value_check.h"
#include "program/plan/certificate_json.h"
#include "report/text_table.h"
#include "report/throughput.h"

namespace heddle {
namespace {

struct Row {
  std::string strategy;
  SurveyStatus status = SurveyStatus::kNotFinished;
  double iteration_seconds = 0;
  double planning_seconds = 0;
  int64_t peak_bytes = 0;
  int64_t microbatches = 0;
  int devices = 0;
  bool as_one_device = false;            // trains as one device would
  std::string reason;                    // unless it has a plan
  std::optional<Throughput> throughput;  // if it has one
  std::optional<SearchCertificate> certificate;

  bool ok() const { return status == SurveyStatus::kOk; }
};

Row RowOf(const Surveyed& surveyed) {
  Row row;
  row.strategy = surveyed.planner->name;
  row.status = surveyed.status;
  row.planning_seconds = surveyed.planning_seconds;
  if (surveyed.error) row.reason = surveyed.error->what;
  if (!surveyed.plan) return row;
  const Plan& plan = *surveyed.plan;
  row.iteration_seconds = plan.seconds_per_batch();
  row.microbatches = plan.microbatches;
  row.devices = plan.devices_used();
  row.as_one_device = plan.trains_as_one_device();
  row.certificate = plan.search.certificate;
  for (const Estimate::Memory& memory : plan.estimate.memory) {
    row.peak_bytes = std::max(row.peak_bytes, memory.peak_bytes);
  }
  return row;
}

// Tokens where the model has them, and HFU where a plan computes layers again.
std::vector<Column> ColumnsOf(const std::vector<Row>& rows) {
  const auto any = [&](auto says) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const Row& row) { return row.throughput && says(*row.throughput); });
  };
  const bool tokens = any([](const Throughput& one) { return one.tokens.has_value(); });
  std::vector<Column> columns = {{"strategy"},
                                 {"iteration", Align::kRight},
                                 {"slower", Align::kRight},
                                 {tokens ? "tokens/s/device" : "samples/s/device", Align::kRight},
                                 {"MFU", Align::kRight}};
  if (any([](const Throughput& one) { return one.computes_again(); })) {
    columns.push_back({"HFU", Align::kRight});
  }
  columns.insert(columns.end(), {{"peak memory", Align::kRight},
                                 {"devices", Align::kRight, 1},
                                 {"samples/s", Align::kRight, 3},
                                 {"microbatches", Align::kRight, 2},
                                 {"planned in", Align::kRight, 4}});
  return columns;
}

std::vector<std::string> CellsOf(const Row& row, const Row& fastest, int64_t batch, bool hfu) {
  if (!row.ok()) {
    const bool none = row.status == SurveyStatus::kInfeasible;
    return {row.strategy, none ? "no plan" : std::string(NameOf(row.status))};
  }
  const Throughput& rate = *row.throughput;
  std::vector<std::string> cells = {
      row.strategy, ToText(Seconds{row.iteration_seconds}),
      fmt::format("{:.2f}x", row.iteration_seconds / fastest.iteration_seconds),
      RateText(rate.tokens.value_or(rate.samples)), UtilizationText(rate.mfu)};
  if (hfu) cells.push_back(rate.computes_again() ? UtilizationText(rate.hfu) : "");
  cells.insert(cells.end(), {ToText(Bytes{row.peak_bytes}), GroupDigits(row.devices),
                             RateText(static_cast<double>(batch) / row.iteration_seconds),
                             GroupDigits(row.microbatches), ToText(Seconds{row.planning_seconds})});
  return cells;
}

// "Use pipeline: 2.50 s a batch; next zb-h1, 2.61 s." Of those that train as one device would, if
// there are any.
std::string Advice(const std::vector<Row>& sorted) {
  std::vector<const Row*> equal, any;
  for (const Row& row : sorted) {
    if (!row.ok()) continue;
    any.push_back(&row);
    if (row.as_one_device) equal.push_back(&row);
  }
  const std::vector<const Row*>& rows = equal.empty() ? any : equal;
  if (rows.empty()) return "";
  const auto text = [](const Row& row) { return ToText(Seconds{row.iteration_seconds}); };
  std::string advice = fmt::format("Use {}: {} a batch", rows[0]->strategy, text(*rows[0]));
  if (rows.size() > 1) advice += fmt::format("; next {}, {}", rows[1]->strategy, text(*rows[1]));
  return advice + ".";
}

void PrintRows(const std::vector<Row>& rows, int64_t batch, const Terminal& terminal) {
  if (terminal.json) {
    Json json;
    json["schema"] = "heddle.compare/1";
    json["rows"] = Json::array();
    for (const Row& row : rows) {
      Json entry;
      entry["strategy"] = row.strategy;
      entry["feasible"] = row.ok();
      entry["status"] = std::string(NameOf(row.status));
      entry["iteration_seconds"] = row.ok() ? Json(row.iteration_seconds) : Json();
      entry["planning_seconds"] = row.planning_seconds;
      entry["peak_bytes"] = row.ok() ? Json(row.peak_bytes) : Json();
      entry["devices_used"] = row.ok() ? Json(row.devices) : Json();
      entry["microbatches"] = row.ok() ? Json(row.microbatches) : Json();
      AddThroughput(row.throughput, entry);
      entry["certificate"] = CertificateToJson(row.certificate);
      entry["reason"] = row.reason;
      json["rows"].push_back(std::move(entry));
    }
    terminal.PrintJson(json);
    return;
  }
  const std::vector<Column> columns = ColumnsOf(rows);
  TextTable table(columns);
  for (const Row& row : rows) table.AddRow(CellsOf(row, rows[0], batch, columns[5].title == "HFU"));
  terminal.Print(table.Print(terminal.style()));
  for (const Row& row : rows) {
    const bool failed = row.status == SurveyStatus::kFailed;
    if (!row.ok()) {
      terminal.Print(
          fmt::format("\n{}: {}{}\n", row.strategy, failed ? "failed: " : "", row.reason));
    }
  }
  terminal.Print(
      "\nTimes are simulated, for one batch. async reads old weights and local averages "
      "replicas that saw a batch each, so that a batch may achieve less with them. MFU: model "
      "FLOPs over the peak of the devices used.\n");
  if (const std::string advice = Advice(rows); !advice.empty()) {
    terminal.Print("\n" + advice + "\n");
  }
}

struct Flags {
  PlanFlags plan{RequestSource::kCompare};
  std::vector<std::string> strategies;
  double budget = 60;
};

// Says each row on standard error as it comes, once there is something to wait for. Not into a file
// or pipe that is standard output, too: that gets the table.
class RowWatch {
 public:
  explicit RowWatch(const Terminal& terminal) : terminal_(terminal) {
    struct stat out {
    }, err{};
    fstat(fileno(terminal.out), &out);
    fstat(fileno(terminal.err), &err);
    const bool same = out.st_dev == err.st_dev && out.st_ino == err.st_ino;
    constexpr double kWorthALine = 1;  // seconds
    constexpr double kNever = std::numeric_limits<double>::infinity();
    patience_ = isatty(fileno(terminal.err)) != 0 ? 0 : (same ? kNever : kWorthALine);
  }

  void Starts(const Planner& planner) const {
    terminal_.Progress(fmt::format("planning {} …", planner.name));
  }

  void Ends(const Surveyed& one) {
    waiting_.push_back(LineOf(RowOf(one)));
    if (SecondsSince(start_) < patience_) return;
    terminal_.EndProgress();
    for (const std::string& line : waiting_) terminal_.PrintError(line + "\n");
    waiting_.clear();
  }

 private:
  static std::string LineOf(const Row& row) {
    const std::string found =
        row.ok() ? ToText(Seconds{row.iteration_seconds}) : std::string(NameOf(row.status));
    return fmt::format("{:<16} {:>12}   planned in {}", row.strategy, found,
                       ToText(Seconds{row.planning_seconds}));
  }
  static double SecondsSince(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const Terminal& terminal_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double patience_ = 0;
  std::vector<std::string> waiting_;
};

Result<std::vector<const Planner*>> WantedPlanners(const std::vector<std::string>& names) {
  if (names.empty()) return AllPlanners();
  std::vector<const Planner*> planners;
  for (const std::string& name : names) {
    HEDDLE_ASSIGN(const Planner* planner, FindPlanner(name));
    if (std::find(planners.begin(), planners.end(), planner) == planners.end()) {
      planners.push_back(planner);
    }
  }
  return planners;
}

// The rows are printed; this is what the exit code tells.
Status Verdict(const std::vector<Row>& rows) {
  const auto with = [&](SurveyStatus status) {
    return std::find_if(rows.begin(), rows.end(),
                        [&](const Row& row) { return row.status == status; });
  };
  if (const auto failed = with(SurveyStatus::kFailed); failed != rows.end()) {
    return Error{ErrorKind::kInternal, "compare",
                 fmt::format("{} failed: {}", failed->strategy, failed->reason),
                 "the other rows hold"};
  }
  if (rows.front().ok()) return Ok();
  if (with(SurveyStatus::kNotFinished) != rows.end()) {
    return Infeasible("compare", "no strategy has a plan in the time given",
                      "give more with --budget SECONDS");
  }
  return Infeasible("compare", "no strategy fits in memory", rows.front().reason);
}

Status Run(const Flags& flags, const Terminal& terminal) {
  const Deadline deadline = Deadline::In(flags.budget);
  HEDDLE_ASSIGN(std::vector<const Planner*> planners, WantedPlanners(flags.strategies));
  HEDDLE_ASSIGN(const PlanInputs inputs, LoadInputs(flags.plan, deadline));
  RowWatch watch(terminal);
  Survey survey(*inputs.planning, std::move(planners), deadline);
  std::vector<Row> rows;
  for (const Surveyed& one :
       survey.Run({[&](const Planner& planner) { watch.Starts(planner); },
                   [&](const Surveyed& surveyed) { watch.Ends(surveyed); }})) {
    rows.push_back(RowOf(one));
    if (!one.plan) continue;
    HEDDLE_ASSIGN(rows.back().throughput,
                  ThroughputOf(*one.plan, inputs.planning->graph, *inputs.cluster,
                               Seconds{one.plan->estimate.iteration_seconds}));
  }
  terminal.EndProgress();
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    if (a.ok() != b.ok()) return a.ok();
    return a.iteration_seconds < b.iteration_seconds;
  });
  PrintRows(rows, inputs.planning->request.batch, terminal);
  return Verdict(rows);
}

}  // namespace

void AddCompareCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  const Command command = commands.Add(
      "compare", "Plan with every strategy and compare",
      "heddle compare --model 'gpt?layers=24' --cluster examples/clusters/mixed4.toml");
  flags->plan.AddTo(command);
  command
      .AddOption("--strategies", flags->strategies,
                 "Only these, separated by commas (see heddle plan --help for their names)")
      .SplitAt(',');
  command
      .AddOption("--budget", flags->budget,
                 "Seconds for all of the planning; what is not done by then is \"not finished\"")
      .FromEnvironment("HEDDLE_BUDGET")
      .Check(Above(0))
      .ShowDefault();
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
