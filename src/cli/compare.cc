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
#include "choose/survey.h"
#include "cli/command.h"
#include "report/text_table.h"

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
  bool as_one_device = false;  // trains as one device would
  std::string reason;          // unless it has a plan

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
  for (const Estimate::Memory& memory : plan.estimate.memory) {
    row.peak_bytes = std::max(row.peak_bytes, memory.peak_bytes);
  }
  return row;
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
      entry["reason"] = row.reason;
      json["rows"].push_back(std::move(entry));
    }
    terminal.PrintJson(json);
    return;
  }
  TextTable table({{"strategy"},
                   {"iteration", Align::kRight},
                   {"samples/s", Align::kRight},
                   {"slower", Align::kRight},
                   {"peak memory", Align::kRight},
                   {"devices", Align::kRight},
                   {"microbatches", Align::kRight},
                   {"planned in", Align::kRight}});
  for (const Row& row : rows) {
    if (!row.ok()) {
      const bool none = row.status == SurveyStatus::kInfeasible;
      const std::string status = none ? "no plan" : std::string(NameOf(row.status));
      table.AddRow({row.strategy, status, "", "", "", "", "", ""});
      continue;
    }
    table.AddRow({row.strategy, ToText(Seconds{row.iteration_seconds}),
                  fmt::format("{:.0f}", static_cast<double>(batch) / row.iteration_seconds),
                  fmt::format("{:.2f}x", row.iteration_seconds / rows[0].iteration_seconds),
                  ToText(Bytes{row.peak_bytes}), std::to_string(row.devices),
                  std::to_string(row.microbatches), ToText(Seconds{row.planning_seconds})});
  }
  terminal.Print(table.Print(terminal.style()));
  for (const Row& row : rows) {
    const bool failed = row.status == SurveyStatus::kFailed;
    if (!row.ok()) {
      terminal.Print(
          fmt::format("\n{}: {}{}\n", row.strategy, failed ? "failed: " : "", row.reason));
    }
  }
  terminal.Print(
      "\nTimes are simulated, for one batch. async reads old weights and local averages replicas "
      "that saw a batch each,\nso that a batch may achieve less with them.\n");
  if (const std::string advice = Advice(rows); !advice.empty()) {
    terminal.Print("\n" + advice + "\n");
  }
}

struct Flags {
  PlanFlags plan;
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
    fstat(STDOUT_FILENO, &out);
    fstat(STDERR_FILENO, &err);
    const bool same = out.st_dev == err.st_dev && out.st_ino == err.st_ino;
    constexpr double kWorthALine = 1;  // seconds
    constexpr double kNever = std::numeric_limits<double>::infinity();
    patience_ = isatty(STDERR_FILENO) != 0 ? 0 : (same ? kNever : kWorthALine);
  }

  void Starts(const Planner& planner) const {
    terminal_.Progress(fmt::format("planning {} …", planner.name));
  }

  void Ends(const Surveyed& one) {
    waiting_.push_back(LineOf(RowOf(one)));
    if (SecondsSince(start_) < patience_) return;
    terminal_.EndProgress();
    for (const std::string& line : waiting_) std::fprintf(stderr, "%s\n", line.c_str());
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
  HEDDLE_ASSIGN(const PlanInputs inputs, LoadInputs(flags.plan));
  RowWatch watch(terminal);
  Survey survey(*inputs.planning, std::move(planners), deadline);
  std::vector<Row> rows;
  for (const Surveyed& one :
       survey.Run({[&](const Planner& planner) { watch.Starts(planner); },
                   [&](const Surveyed& surveyed) { watch.Ends(surveyed); }})) {
    rows.push_back(RowOf(one));
  }
  terminal.EndProgress();
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    if (a.ok() != b.ok()) return a.ok();
    return a.iteration_seconds < b.iteration_seconds;
  });
  PrintRows(rows, inputs.planning->options.batch, terminal);
  return Verdict(rows);
}

}  // namespace

void AddCompareCommand(Commands& commands) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = commands.Add(
      "compare", "Plan with every strategy and compare",
      "heddle compare --model 'gpt?layers=24' --cluster examples/clusters/mixed4.toml");
  flags->plan.AddTo(command);
  command
      ->add_option("--strategies", flags->strategies,
                   "Only these, separated by commas (see heddle plan --help for their names)")
      ->delimiter(',');
  command
      ->add_option("--budget", flags->budget,
                   "Seconds for all of the planning; what is not done by then is \"not finished\"")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
