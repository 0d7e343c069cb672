#include "cli/plan_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/spmd_text.h"
#include "report/text_table.h"

namespace heddle {
namespace {

// "a:0 a:1 … (8)" for long lists.
std::string Devices(const std::vector<std::string>& names) {
  constexpr size_t kMost = 4;
  if (names.size() <= kMost) return Join(names, " ");
  return fmt::format("{} … {} ({})", names.front(), names.back(), names.size());
}

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
  std::vector<std::string> runs;
  for (const LayerRun& run : stage.chunks) {
    const std::string& first = graph.layers()[static_cast<size_t>(run.first)];
    const std::string& last = graph.layers()[static_cast<size_t>(run.last)];
    runs.push_back(run.first == run.last ? first : first + " … " + last);
  }
  return Join(runs, ", ");
}

std::string Counted(int64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
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
  return bound > 0 ? fmt::format("{:.1f}% away", (seconds / bound - 1) * 100) : "";
}

TextTable StageTable(const Plan& plan, const Graph& graph) {
  TextTable table(
      {{"stage"}, {"layers"}, {"devices"}, {"shares"}, {"memory", Align::kRight}, {"order"}});
  constexpr size_t kMostRows = 24;
  for (size_t p = 0; p < plan.pipelines.size(); ++p) {
    const auto& stages = plan.pipelines[p].stages;
    for (size_t s = 0; s < stages.size(); ++s) {
      if (s == kMostRows) {
        table.AddRow({"…", fmt::format("{} more stages", stages.size() - s), "", "", "", ""});
        break;
      }
      const StagePlan& stage = stages[s];
      std::string order = PrintOrder(stage.order);
      constexpr size_t kLongest = 36;
      if (order.size() > kLongest) order = order.substr(0, kLongest) + "…";
      table.AddRow({plan.pipelines.size() > 1 ? fmt::format("{}.{}", p, s) : std::to_string(s),
                    Layers(stage, graph) + (stage.recompute ? " (recomputed)" : ""),
                    Devices(stage.devices), Shares(stage.shares),
                    fmt::format("{:.0f}%", LargestFill(plan.estimate, stage.devices) * 100),
                    order});
    }
  }
  return table;
}

}  // namespace

std::string PlanText(const Plan& plan, const Graph& graph, const TableStyle& style) {
  std::string out =
      fmt::format("{} of {} · batch {} in {} · {} · {} · {}\n\n", plan.strategy, plan.model,
                  plan.batch, Counted(plan.microbatches, "microbatch", "microbatches"),
                  Counted(plan.devices_used(), "device", "devices"), NameOf(plan.dtype),
                  NameOf(plan.optimizer));
  out += plan.spmd ? SpmdText(plan, graph, style) : StageTable(plan, graph).Print(style);
  const Estimate& estimate = plan.estimate;
  out +=
      fmt::format("\niteration   {}   (simulated)\n", ToText(Seconds{estimate.iteration_seconds}));
  out += fmt::format("bounds      {} for any order of this partition ({}), {} for any plan ({})\n",
                     ToText(Seconds{estimate.schedule_bound_seconds}),
                     Away(estimate.iteration_seconds, estimate.schedule_bound_seconds),
                     ToText(Seconds{estimate.lower_bound_seconds}),
                     Away(estimate.iteration_seconds, estimate.lower_bound_seconds));
  out +=
      fmt::format("planned in  {}, {} simulated\n", ToText(Seconds{plan.search.planning_seconds}),
                  Counted(plan.search.candidates, "candidate", "candidates"));
  for (const std::string& note : plan.search.notes) out += "note        " + note + "\n";
  for (size_t k = 1; k < plan.search.tried.size(); ++k) {
    const TriedPlan& tried = plan.search.tried[k];
    out +=
        fmt::format("{}   {}, {}{}\n", k == 1 ? "runner-up" : "         ", tried.how,
                    ToText(Seconds{tried.iteration_seconds}), tried.fits() ? "" : ", does not fit");
  }
  return out;
}

}  // namespace heddle
