#include "report/tried_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/text_width.h"

namespace heddle {
namespace {

constexpr size_t kMostRows = 5;

double WaitOf(const TriedPlan& plan) {
  return std::max(0.0, plan.iteration_seconds - plan.compute_seconds);
}

// "b:0 12%"; of a plan that was too slow nobody asked.
std::string MemoryText(const TriedPlan& plan) {
  if (plan.capacity_bytes == 0) return "-";
  return fmt::format(
      "{} {:.0f}%", plan.fullest,
      100 * static_cast<double>(plan.peak_bytes) / static_cast<double>(plan.capacity_bytes));
}

// "computes 20.0 us longer", "waits as long"
std::string Compared(const char* verb, double seconds, double than) {
  const double more = seconds - than;
  if (std::abs(more) <= 1e-3 * than) return fmt::format("{} as long", verb);
  return fmt::format("{} {} {}", verb, ToText(Seconds{std::abs(more)}),
                     more > 0 ? "longer" : "less");
}

std::string RunnerUpSentence(const TriedPlan& taken, const TriedPlan& runner_up) {
  const std::string name = fmt::format("The runner-up ({})", runner_up.how);
  if (!runner_up.fits()) {
    return fmt::format("{} would take {}, but needs {} on {}, which has {}.", name,
                       ToText(Seconds{runner_up.iteration_seconds}),
                       ToText(Bytes{runner_up.peak_bytes}), runner_up.fullest,
                       ToText(Bytes{runner_up.capacity_bytes}));
  }
  const double longer = runner_up.iteration_seconds - taken.iteration_seconds;
  if (longer <= 1e-4 * taken.iteration_seconds) return name + " takes as long.";
  return fmt::format(
      "{} takes {} longer ({:.1f}%): its busiest device {}, and {} for exchanges "
      "and for others.",
      name, ToText(Seconds{longer}), 100 * longer / taken.iteration_seconds,
      Compared("computes", runner_up.compute_seconds, taken.compute_seconds),
      Compared("waits", WaitOf(runner_up), WaitOf(taken)));
}

}  // namespace

std::string TriedText(const std::vector<TriedPlan>& tried, const TableStyle& style, bool all) {
  TextTable table({{"tried"},
                   {"simulated", Align::kRight},
                   {"computes", Align::kRight, 1},
                   {"waits", Align::kRight, 1},
                   {"fullest memory", Align::kLeft, 2}});
  const size_t shown = all || tried.size() <= kMostRows + 1 ? tried.size() : kMostRows;
  for (size_t k = 0; k < shown; ++k) {
    const TriedPlan& plan = tried[k];
    table.AddRow(
        {plan.how, ToText(Seconds{plan.iteration_seconds}), ToText(Seconds{plan.compute_seconds}),
         ToText(Seconds{WaitOf(plan)}), MemoryText(plan)},
        plan.fits() ? Tone::kPlain : Tone::kBad);
  }
  if (shown < tried.size()) {
    table.AddRow({fmt::format("… {} slower ones", tried.size() - shown)}, Tone::kFaint);
  }
  return table.Print(style) + Wrapped(RunnerUpSentence(tried[0], tried[1]), style.width, 2);
}

}  // namespace heddle
