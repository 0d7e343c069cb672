#include "report/plan/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/text.h"
#include "report/device_table.h"
#include "report/plan/spmd_names.h"
#include "report/plan/spmd_text.h"
#include "report/summary.h"
#include "report/terminal_text.h"
#include "report/text_width.h"

namespace heddle {
namespace {

std::string Shares(const std::vector<double>& shares) {
  if (shares.size() < 2) return "";
  const bool even =
      std::all_of(shares.begin(), shares.end(), [&](double share) { return share == shares[0]; });
  if (even) return "even";
  std::vector<std::string> parts;
  for (size_t k = 0; k < std::min<size_t>(shares.size(), 4); ++k) {
    parts.push_back(fmt::format("{:.2f}", shares[k]));
  }
  return Join(parts, ":") + (shares.size() > 4 ? ":…" : "");
}

std::string Layers(const StagePlan& stage, const Graph& graph) {
  constexpr size_t kMostRuns = 3;
  std::vector<std::string> runs;
  for (const LayerRun& run : stage.chunks) {
    if (runs.size() == kMostRuns) break;
    runs.push_back(
        LayersText(graph, static_cast<size_t>(run.first), static_cast<size_t>(run.last) + 1));
  }
  if (stage.chunks.size() > kMostRuns)
    runs.push_back(fmt::format("… ({} runs)", stage.chunks.size()));
  return Join(runs, ", ") + (stage.recompute ? " (recomputed)" : "");
}

// Microbatches numbered as this pipeline sees them.
WorkOrder Renumbered(WorkOrder order) {
  std::map<int32_t, int32_t> numbers;
  for (const WorkItem& item : order) numbers.emplace(item.microbatch, 0);
  int32_t next = 0;
  for (auto& [microbatch, number] : numbers) number = next++;
  for (WorkItem& item : order) item.microbatch = numbers[item.microbatch];
  return order;
}

// As many of its words as are read at a glance.
std::string OrderText(const WorkOrder& order) {
  constexpr size_t kLongest = 36;
  std::string text;
  const std::string whole = PrintOrder(Renumbered(order));
  for (const std::string_view word : SplitWords(whole)) {
    if (text.size() + 1 + word.size() > kLongest) return text + " …";
    text += (text.empty() ? "" : " ") + std::string(word);
  }
  return text;
}

double LargestFill(const Estimate& estimate, const std::vector<std::string>& devices) {
  double fill = 0;
  for (const Estimate::Memory& memory : estimate.memory) {
    const bool mine = std::find(devices.begin(), devices.end(), memory.device) != devices.end();
    if (!mine || memory.capacity_bytes == 0) continue;
    fill = std::max(
        fill, static_cast<double>(memory.peak_bytes) / static_cast<double>(memory.capacity_bytes));
  }
  return fill;
}

std::string Away(double seconds, double bound) {
  const double away = bound > 0 ? (seconds / bound - 1) * 100 : 0;
  constexpr double kFar = 100;  // decimals no longer matter
  return bound > 0 ? fmt::format("{:.{}f}% away", away, away < kFar ? 1 : 0) : "";
}

// A stage, or the same stage of several pipelines that treat it alike.
struct StageRow {
  std::vector<std::string> names, devices;
  std::array<std::string, 4> cells;  // layers, shares, memory, order
};

// "2 x 4": rows that divide samples, or the weights of a layer where there is one row.
std::string MeshText(const StageBody& body) {
  const auto& mesh = body.program.mesh;
  return fmt::format("{} x {}", mesh.size(), mesh[0].size());
}

std::vector<StageRow> StageRows(const Plan& plan, const Graph& graph) {
  std::vector<StageRow> rows;
  std::map<std::pair<size_t, std::array<std::string, 4>>, size_t> known;  // by stage and cells
  for (size_t p = 0; p < plan.pipelines.size(); ++p) {
    const auto& stages = plan.pipelines[p].stages;
    for (size_t s = 0; s < stages.size(); ++s) {
      const StagePlan& stage = stages[s];
      const std::array<std::string, 4> cells = {
          Layers(stage, graph), stage.body ? MeshText(*stage.body) : Shares(stage.shares),
          fmt::format("{:.0f}%", LargestFill(plan.estimate, stage.devices) * 100),
          OrderText(stage.order)};
      const auto [at, is_new] = known.try_emplace({s, cells}, rows.size());
      if (is_new) rows.push_back({{}, {}, cells});
      StageRow& row = rows[at->second];
      row.names.push_back(plan.pipelines.size() > 1 ? fmt::format("{}.{}", p, s)
                                                    : std::to_string(s));
      row.devices.insert(row.devices.end(), stage.devices.begin(), stage.devices.end());
    }
  }
  return rows;
}

TextTable StageTable(const Plan& plan, const Graph& graph) {
  const std::vector<StageRow> rows = StageRows(plan, graph);
  const bool shares = std::any_of(rows.begin(), rows.end(),
                                  [](const StageRow& row) { return !row.cells[1].empty(); });
  TextTable table({{"stage"},
                   {"layers"},
                   {"devices"},
                   {plan.has_bodies() ? "mesh" : "shares", Align::kLeft, shares ? 1 : 3},
                   {"memory", Align::kRight},
                   {"order", Align::kLeft, 2}});
  constexpr size_t kMostRows = 16;
  constexpr size_t kLastRows = 4;
  const size_t hidden = rows.size() <= kMostRows ? 0 : rows.size() - kMostRows + 1;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (hidden > 0 && r == kMostRows - 1 - kLastRows) {
      table.AddRow({"…", fmt::format("{} more stages", hidden)}, Tone::kFaint);
      r += hidden;
    }
    const auto& [layers, parts, memory, order] = rows[r].cells;
    table.AddRow(
        {FoldedNames(rows[r].names), layers, FoldedNames(rows[r].devices), parts, memory, order});
  }
  return table;
}

// "throughput  41 samples/s …", continued under its second word.
std::string Entry(const char* title, const std::string& text, const TableStyle& style) {
  return FittedLines(fmt::format("{:<12}{}\n", title, WithoutControls(text)), style.width);
}

}  // namespace

std::string PlanText(const Plan& plan, const Graph& graph, const Throughput& throughput,
                     const TableStyle& style) {
  std::string out =
      Wrapped(fmt::format("{} of {} · batch {} in {} · {} · {} · {}", plan.strategy,
                          WithoutControls(plan.request.model), GroupDigits(plan.request.batch),
                          Counted(plan.microbatches, "microbatch", "microbatches"),
                          Counted(plan.devices_used(), "device", "devices"),
                          NameOf(plan.request.dtype), NameOf(plan.request.optimizer)),
              style.width);
  out += "\n" + (plan.spmd ? SpmdText(plan, graph, style) : StageTable(plan, graph).Print(style));
  const Estimate& estimate = plan.estimate;
  const double seconds = estimate.iteration_seconds;
  out += "\n" + Entry("iteration", ToText(Seconds{seconds}) + "   (simulated)", style);
  out += Entry("throughput", ThroughputText(throughput), style);
  out +=
      Entry("bounds",
            fmt::format("{} for any order of this partition ({}), {} for any plan{} ({})",
                        ToText(Seconds{estimate.schedule_bound_seconds}),
                        Away(seconds, estimate.schedule_bound_seconds),
                        ToText(Seconds{estimate.lower_bound_seconds}), WithMicrobatchesGiven(plan),
                        Away(seconds, estimate.lower_bound_seconds)),
            style);
  out += Entry("planned in",
               fmt::format("{}, {} simulated", ToText(Seconds{plan.search.planning_seconds}),
                           Counted(plan.search.candidates, "candidate", "candidates")),
               style);
  if (const auto& certificate = plan.search.certificate) {
    out +=
        Entry("program",
              fmt::format("costs {}, at least {:.4g}% of it is unavoidable on this mesh at these "
                          "ratios, without overlap",
                          ToText(Seconds{certificate->cost_seconds}),
                          100 * certificate->bound_seconds / certificate->cost_seconds),
              style);
  }
  for (const std::string& note : plan.search.notes) out += Entry("note", note, style);
  constexpr size_t kMostTried = 5;
  for (size_t k = 1; k < std::min(plan.search.tried.size(), kMostTried); ++k) {
    const TriedPlan& tried = plan.search.tried[k];
    out += Entry(k == 1 ? "runner-up" : "",
                 fmt::format("{}, {}{}", tried.how, ToText(Seconds{tried.iteration_seconds}),
                             tried.fits() ? "" : ", does not fit"),
                 style);
  }
  return out;
}

}  // namespace heddle
