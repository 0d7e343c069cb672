// heddle compare: every strategy on the same model and cluster, one table.

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "base/json_field.h"
#include "base/text.h"
#include "choose/planners.h"
#include "cli/command.h"
#include "report/text_table.h"
#include "report/throughput.h"

namespace heddle {
namespace {

struct Row {
  std::string strategy;
  bool feasible = false;
  double iteration_seconds = 0;
  double planning_seconds = 0;
  int64_t peak_bytes = 0;
  int64_t microbatches = 0;
  int devices = 0;
  std::string reason;
  std::optional<Throughput> throughput;  // of one that is feasible
};

Row RowOf(const std::string& strategy, const Plan& plan) {
  Row row{strategy,
          true,
          plan.seconds_per_batch(),
          plan.search.planning_seconds,
          0,
          plan.microbatches,
          plan.devices_used(),
          "",
          {}};
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
  if (!row.feasible) return {row.strategy, "no plan"};
  const Throughput& rate = *row.throughput;
  std::vector<std::string> cells = {
      row.strategy, ToText(Seconds{row.iteration_seconds}),
      fmt::format("{:.2f}x", row.iteration_seconds / fastest.iteration_seconds),
      RateText(rate.tokens.value_or(rate.samples)), UtilizationText(rate.mfu)};
  if (hfu) cells.push_back(UtilizationText(rate.hfu));
  cells.insert(cells.end(), {ToText(Bytes{row.peak_bytes}), GroupDigits(row.devices),
                             RateText(static_cast<double>(batch) / row.iteration_seconds),
                             GroupDigits(row.microbatches), ToText(Seconds{row.planning_seconds})});
  return cells;
}

void PrintRows(const std::vector<Row>& rows, int64_t batch, const Terminal& terminal) {
  if (terminal.json) {
    Json json;
    json["schema"] = "heddle.compare/1";
    json["rows"] = Json::array();
    for (const Row& row : rows) {
      Json entry;
      entry["strategy"] = row.strategy;
      entry["feasible"] = row.feasible;
      entry["iteration_seconds"] = row.feasible ? Json(row.iteration_seconds) : Json();
      entry["planning_seconds"] = row.planning_seconds;
      entry["peak_bytes"] = row.feasible ? Json(row.peak_bytes) : Json();
      entry["devices_used"] = row.feasible ? Json(row.devices) : Json();
      entry["microbatches"] = row.feasible ? Json(row.microbatches) : Json();
      AddThroughput(row.throughput, entry);
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
    if (!row.feasible) terminal.Print(fmt::format("\n{}: {}\n", row.strategy, row.reason));
  }
  terminal.Print(
      "\nTimes are simulated, for one batch. async reads old weights and local averages "
      "replicas that saw a batch each, so that a batch may achieve less with them. MFU: model "
      "FLOPs over the peak of the devices used.\n");
}

Status Run(const PlanFlags& flags, const Terminal& terminal) {
  HEDDLE_ASSIGN(const PlanInputs inputs, LoadInputs(flags));
  std::vector<Row> rows;
  for (const Planner& planner : Planners()) {
    terminal.Progress(fmt::format("planning {} …", planner.name));
    const Result<Plan> plan = MakePlan(planner.name, *inputs.planning);
    if (plan.ok()) {
      rows.push_back(RowOf(planner.name, plan.value()));
      HEDDLE_ASSIGN(rows.back().throughput,
                    ThroughputOf(plan.value(), inputs.planning->graph, *inputs.cluster,
                                 Seconds{plan.value().estimate.iteration_seconds}));
      continue;
    }
    if (plan.error().kind != ErrorKind::kInfeasible) {
      terminal.EndProgress();
      return plan.error();
    }
    Row row;
    row.strategy = planner.name;
    row.reason = plan.error().what;
    rows.push_back(std::move(row));
  }
  terminal.EndProgress();
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    if (a.feasible != b.feasible) return a.feasible;
    return a.iteration_seconds < b.iteration_seconds;
  });
  PrintRows(rows, inputs.planning->options.batch, terminal);
  if (rows.front().feasible) return Ok();
  return Infeasible("compare", "no strategy fits in memory", rows.front().reason);
}

}  // namespace

void AddCompareCommand(Commands& commands) {
  auto flags = std::make_shared<PlanFlags>();
  CLI::App* command = commands.Add(
      "compare", "Plan with every strategy and compare",
      "heddle compare --model 'gpt?layers=24' --cluster examples/clusters/mixed4.toml");
  flags->AddTo(command);
  commands.OnRun(command, [flags](const Terminal& terminal) { return Run(*flags, terminal); });
}

}  // namespace heddle
