#include "report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "report/text_width.h"
#include "report/tried_plans.h"

namespace heddle {
namespace {

constexpr double kBusy = 0.5;         // a resource used less than this limits nothing by itself
constexpr double kSameTime = 0.0005;  // relative; closer than people care to know

std::string Percent(double share) { return fmt::format("{:.0f}%", 100 * share); }

double ShareOf(double part, double whole) { return whole > 0 ? part / whole : 0; }

// A device or wire, and the part of the period it is in use.
struct Use {
  double share = 0;
  bool is_wire = false;
  std::string name;
  Seconds seconds;
  double bytes = 0;
  Bandwidth bandwidth;
};

// All of them, the busiest first; of equals devices before wires, in the simulation's order.
std::vector<Use> UsesOf(const Simulation& simulation, const Cluster& cluster) {
  std::vector<Use> uses;
  const double period = simulation.iteration.value;
  for (const DeviceUse& device : simulation.devices) {
    uses.push_back({ShareOf(device.busy.value, period), false, device.device, device.busy, 0, {}});
  }
  for (const WireUse& use : simulation.wires) {
    const Wire& wire = cluster.wires()[static_cast<size_t>(use.wire.value)];
    const Seconds seconds{use.bytes / wire.bandwidth.value};
    uses.push_back(
        {ShareOf(seconds.value, period), true, wire.name, seconds, use.bytes, wire.bandwidth});
  }
  std::stable_sort(uses.begin(), uses.end(),
                   [](const Use& a, const Use& b) { return a.share > b.share; });
  return uses;
}

std::string InUse(const Use& use, Seconds period) {
  if (!use.is_wire) {
    return fmt::format("it computes {} of every {} ({})", ToText(use.seconds), ToText(period),
                       Percent(use.share));
  }
  return fmt::format("{} at {} take {} of every {} ({})",
                     ToText(Bytes{static_cast<int64_t>(std::llround(use.bytes))}),
                     ToText(use.bandwidth), ToText(use.seconds), ToText(period),
                     Percent(use.share));
}

std::string NounOf(const Use& use) { return (use.is_wire ? "wire " : "device ") + use.name; }

// " (7% away)"
std::string Distance(double seconds, double bound) {
  const double away = seconds / bound - 1;
  if (std::abs(away) <= kSameTime) return " (reached)";
  if (away < 0) return fmt::format(" (and yet this is {} faster)", Percent(-away));
  return fmt::format(" ({} away)", away < 0.01 ? "less than 1%" : Percent(away));
}

std::string LayersText(const StagePlan& stage) {
  std::string text;
  for (const LayerRun& run : stage.chunks) {
    if (!text.empty()) text += ",";
    text += run.first == run.last ? fmt::format("{}", run.first)
                                  : fmt::format("{}-{}", run.first, run.last);
  }
  return text;
}

struct Place {
  std::string stage;  // "2", or "1.2" with several pipelines
  std::string layers;
};

std::map<std::string, Place> PlacesOf(const Plan& plan) {
  std::map<std::string, Place> places;
  for (size_t p = 0; p < plan.pipelines.size(); ++p) {
    const auto& stages = plan.pipelines[p].stages;
    for (size_t s = 0; s < stages.size(); ++s) {
      const std::string name =
          plan.pipelines.size() == 1 ? fmt::format("{}", s) : fmt::format("{}.{}", p, s);
      for (const std::string& device : stages[s].devices) {
        places[device] = {name, LayersText(stages[s])};
      }
    }
  }
  return places;
}

std::string Heading(const Plan& plan, const Cluster& cluster) {
  std::string text = plan.strategy;
  if (!plan.order_name.empty() && plan.order_name != plan.strategy) {
    text += fmt::format(" ({})", plan.order_name);
  }
  text += fmt::format(": {} on {} of {} devices, batch {}", plan.model, plan.devices_used(),
                      cluster.device_count(), plan.batch);
  if (plan.microbatches > 1) text += fmt::format(" in {} microbatches", plan.microbatches);
  return text + fmt::format(", {}", NameOf(plan.dtype));
}

// A row for each device: what `place` says of it after its name, then how it is used.
TextTable DeviceRows(const Plan& plan, const Simulation& simulation, std::vector<Column> columns,
                     const std::function<std::vector<std::string>(const std::string&)>& place) {
  std::map<std::string, const Estimate::Memory*> memory;
  for (const Estimate::Memory& entry : plan.estimate.memory) memory[entry.device] = &entry;
  for (const char* title : {"busy", "idle", "sent", "received", "peak memory", "capacity"}) {
    columns.push_back({title, Align::kRight});
  }
  TextTable table(std::move(columns));
  for (const DeviceUse& use : simulation.devices) {
    std::vector<std::string> row = {use.device};
    for (std::string& cell : place(use.device)) row.push_back(std::move(cell));
    for (std::string cell :
         {ToText(use.busy), Percent(ShareOf(use.idle.value, simulation.iteration.value)),
          ToText(use.sent), ToText(use.received)}) {
      row.push_back(std::move(cell));
    }
    const auto entry = memory.find(use.device);
    Tone tone = Tone::kPlain;
    if (entry == memory.end()) {
      row.insert(row.end(), {"-", "-"});
    } else {
      const Estimate::Memory& m = *entry->second;
      row.push_back(ToText(Bytes{m.peak_bytes}));
      row.push_back(ToText(Bytes{m.capacity_bytes}));
      if (m.peak_bytes > m.capacity_bytes) tone = Tone::kBad;
    }
    table.AddRow(std::move(row), tone);
  }
  return table;
}

// The part of what an SPMD plan divides, by ratio vector.
std::vector<double> SharesOf(const SpmdPlan& spmd, size_t node, size_t place) {
  const size_t vectors = std::max(spmd.ratios[0].size(), spmd.ratios[1].size());
  std::vector<double> shares(vectors, 1);
  for (size_t k = 0; k < vectors; ++k) {
    if (k < spmd.ratios[0].size()) shares[k] *= spmd.ratios[0][k][node];
    if (k < spmd.ratios[1].size()) shares[k] *= spmd.ratios[1][k][place];
  }
  return shares;
}

// Under SPMD the columns stage and layers say instead which part a device has.
TextTable SpmdDeviceTable(const Plan& plan, const Simulation& simulation) {
  const SpmdPlan& spmd = *plan.spmd;
  std::map<std::string, std::vector<double>> shares;
  for (size_t node = 0; node < spmd.mesh.size(); ++node) {
    for (size_t place = 0; place < spmd.mesh[node].size(); ++place) {
      shares[spmd.mesh[node][place]] = SharesOf(spmd, node, place);
    }
  }
  std::vector<Column> columns = {{"device"}};
  for (size_t k = 0; k < shares.begin()->second.size(); ++k) {
    columns.push_back({k == 0 ? "share" : fmt::format("share '{}", k), Align::kRight});
  }
  return DeviceRows(plan, simulation, std::move(columns), [&](const std::string& device) {
    std::vector<std::string> cells;
    for (const double share : shares.at(device)) cells.push_back(fmt::format("{:.3f}", share));
    return cells;
  });
}

TextTable DeviceTable(const Plan& plan, const Simulation& simulation) {
  if (plan.spmd) return SpmdDeviceTable(plan, simulation);
  const std::map<std::string, Place> places = PlacesOf(plan);
  return DeviceRows(plan, simulation,
                    {{"device"}, {"stage", Align::kRight}, {"layers", Align::kRight}},
                    [&](const std::string& device) -> std::vector<std::string> {
                      const auto place = places.find(device);
                      if (place == places.end()) return {"-", "-"};
                      return {place->second.stage, place->second.layers};
                    });
}

std::string SearchSentence(const SearchReport& search) {
  if (search.candidates == 0) return "";
  return fmt::format("The search simulated {} plan{} in {}.", search.candidates,
                     search.candidates == 1 ? "" : "s", ToText(Seconds{search.planning_seconds}));
}

}  // namespace

std::string BottleneckSentence(const Simulation& simulation, const Cluster& cluster) {
  const std::vector<Use> uses = UsesOf(simulation, cluster);
  if (uses.empty() || simulation.iteration.value <= 0) return "Nothing takes time.";
  const Use& first = uses[0];
  std::string text;
  if (first.share < kBusy) {
    text = fmt::format(
        "No device and no wire is in use for half of the time: latency and waiting for each other "
        "are the limit. The most used is the {}: {}",
        NounOf(first), InUse(first, simulation.iteration));
  } else {
    text =
        fmt::format("The limit is the {}: {}", NounOf(first), InUse(first, simulation.iteration));
  }
  if (uses.size() > 1)
    text += fmt::format("; next is the {} ({})", NounOf(uses[1]), Percent(uses[1].share));
  text += ".";
  if (first.is_wire && first.share > 1 + kSameTime) {
    text += " The link model of this simulation lets transfers share a wire without delay.";
  }
  return text;
}

std::string BoundsSentence(const Estimate& estimate, Seconds iteration) {
  std::string text = "iteration " + ToText(iteration);
  if (estimate.iteration_seconds > 0 &&
      std::abs(iteration.value / estimate.iteration_seconds - 1) > 0.005) {
    text += fmt::format(" (the plan says {})", ToText(Seconds{estimate.iteration_seconds}));
  }
  const auto add = [&](std::string_view what, double bound) {
    if (bound <= 0) return;
    text += fmt::format("; no {} can beat {}", what, ToText(Seconds{bound})) +
            Distance(iteration.value, bound);
  };
  add("order of this partition", estimate.schedule_bound_seconds);
  add("plan of this family", estimate.lower_bound_seconds);
  return text;
}

std::string MemorySentence(const Estimate& estimate) {
  const auto fullness = [](const Estimate::Memory& m) {
    return ShareOf(static_cast<double>(m.peak_bytes), static_cast<double>(m.capacity_bytes));
  };
  const auto fullest =
      std::max_element(estimate.memory.begin(), estimate.memory.end(),
                       [&](const auto& a, const auto& b) { return fullness(a) < fullness(b); });
  if (fullest == estimate.memory.end()) return "";
  return fmt::format("{} {}: {} of {} ({}).",
                     fullest->peak_bytes > fullest->capacity_bytes ? "Memory does not suffice on"
                                                                   : "Memory is fullest on",
                     fullest->device, ToText(Bytes{fullest->peak_bytes}),
                     ToText(Bytes{fullest->capacity_bytes}), Percent(fullness(*fullest)));
}

std::string ExplainText(const Plan& plan, const Simulation& simulation, const Cluster& cluster,
                        const TableStyle& style) {
  const auto paragraph = [&](const std::string& text) {
    return text.empty() ? "" : Wrapped(WithoutControls(text), style.width, 2);
  };
  std::string out = paragraph(Heading(plan, cluster)) + "\n";
  out += DeviceTable(plan, simulation).Print(style) + "\n";
  out += paragraph(BottleneckSentence(simulation, cluster));
  out += paragraph(MemorySentence(plan.estimate));
  out += paragraph(BoundsSentence(plan.estimate, simulation.iteration));
  if (!simulation.steady) {
    out += paragraph(
        fmt::format("The period was still changing after {} repetitions.", simulation.repetitions));
  }
  out += paragraph(SearchSentence(plan.search));
  for (const std::string& note : plan.search.notes) out += paragraph("- " + note);
  if (plan.search.tried.size() > 1) out += "\n" + TriedText(plan.search.tried, style);
  return out;
}

}  // namespace heddle
