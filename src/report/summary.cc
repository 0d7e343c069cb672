#include "report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/text.h"
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

std::string Heading(const Plan& plan, const Cluster& cluster) {
  std::string text = plan.strategy;
  if (!plan.order_name.empty() && plan.order_name != plan.strategy) {
    text += fmt::format(" ({})", plan.order_name);
  }
  text += fmt::format(": {} on {} of {} devices, batch {}", plan.request.model,
                      GroupDigits(plan.devices_used()), GroupDigits(cluster.device_count()),
                      GroupDigits(plan.request.batch));
  if (plan.microbatches > 1) {
    text += fmt::format(" in {} microbatches", GroupDigits(plan.microbatches));
  }
  return text + fmt::format(", {}", NameOf(plan.request.dtype));
}

std::string SearchSentence(const SearchReport& search) {
  if (search.candidates == 0) return "";
  return fmt::format("The search simulated {} plan{} in {}.", GroupDigits(search.candidates),
                     search.candidates == 1 ? "" : "s", ToText(Seconds{search.planning_seconds}));
}

std::string CertificateSentence(const SearchCertificate& certificate) {
  const std::string cost = ToText(Seconds{certificate.cost_seconds});
  const std::string nearness =
      certificate.gap() < 1e-6
          ? fmt::format(
                "At these ratios no program on this mesh that fits costs less than this one, {}",
                cost)
          : fmt::format(
                "This program costs {}; at these ratios none on this mesh that fits costs "
                "less than {}, {:.2g}% below",
                cost, ToText(Seconds{certificate.bound_seconds}),
                100 * (1 - certificate.bound_seconds / certificate.cost_seconds));
  return nearness + fmt::format(
                        " (A*, {} states), counting every op and exchange one after the other for "
                        "one microbatch; what is simulated overlaps, and may lie below.",
                        GroupDigits(certificate.expanded));
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

std::string WithMicrobatchesGiven(const Plan& plan) {
  if (!plan.request.microbatches) return "";
  return " with " + Counted(plan.microbatches, "microbatch", "microbatches");
}

std::string BoundsSentence(const Plan& plan, Seconds iteration) {
  const Estimate& estimate = plan.estimate;
  std::string text = "An iteration takes " + ToText(iteration);
  if (estimate.iteration_seconds > 0 &&
      std::abs(iteration.value / estimate.iteration_seconds - 1) > 0.005) {
    text += fmt::format(" (the plan says {})", ToText(Seconds{estimate.iteration_seconds}));
  }
  const auto add = [&](const std::string& what, double bound) {
    if (bound <= 0) return;
    text += fmt::format("; no {} can beat {}", what, ToText(Seconds{bound})) +
            Distance(iteration.value, bound);
  };
  add("order of this partition", estimate.schedule_bound_seconds);
  add("plan of this family" + WithMicrobatchesGiven(plan), estimate.lower_bound_seconds);
  return text + ".";
}

std::string GuaranteeSentence(const Estimate& estimate) {
  if (estimate.guaranteed_seconds <= 0) return "";
  std::string text =
      fmt::format("Guaranteed before the search: the list order of this partition takes at most {}",
                  ToText(Seconds{estimate.guaranteed_seconds}));
  if (estimate.schedule_bound_seconds > 0) {
    text += fmt::format("; proven after it: no order takes less than {}",
                        ToText(Seconds{estimate.schedule_bound_seconds}));
  }
  return text + ".";
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

std::string VerdictText(const Plan& plan, const Simulation& simulation, const Cluster& cluster,
                        const Throughput& throughput, const TableStyle& style) {
  const auto paragraph = [&](const std::string& text) {
    return text.empty() ? "" : Wrapped(WithoutControls(text), style.width, 2);
  };
  std::string out = paragraph(Heading(plan, cluster)) + "\n";
  out += paragraph(BottleneckSentence(simulation, cluster));
  out += paragraph(BoundsSentence(plan, simulation.iteration));
  out += paragraph(GuaranteeSentence(plan.estimate));
  out += paragraph(MemorySentence(plan.estimate));
  out += paragraph(ThroughputText(throughput) + ".");
  if (!simulation.steady) {
    out += paragraph(
        fmt::format("The period was still changing after {} repetitions.", simulation.repetitions));
  }
  return out;
}

std::string SearchText(const SearchReport& search, const TableStyle& style, bool all) {
  const auto paragraph = [&](const std::string& text) {
    return text.empty() ? "" : Wrapped(WithoutControls(text), style.width, 2);
  };
  std::string out = paragraph(SearchSentence(search));
  if (search.certificate) out += paragraph(CertificateSentence(*search.certificate));
  for (const std::string& note : search.notes) out += paragraph("- " + note);
  if (search.tried.size() > 1) out += "\n" + TriedText(search.tried, style, all);
  return out;
}

}  // namespace heddle
