#include "report/lab/race_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/units.h"
#include "report/text_width.h"

namespace heddle {
LineChart RaceChart(const RaceSubject& subject, const RaceOptions& options, const Race& race) {
  LineChart chart;
  chart.title = fmt::format("{}: loss against simulated time, {} seeds, 95% intervals",
                            subject.name, options.seeds);
  chart.x_label = "ticks";
  chart.y_label = subject.lowest == 0 ? "loss" : "loss above the lowest";
  chart.log_y = true;
  for (size_t k = 0; k < race.entries.size(); ++k) {
    const RaceEntry& entry = race.entries[k];
    if (k % options.methods.size() == 0) {
      const std::string noise =
          options.noises.size() == 1 ? "" : fmt::format(", noise {}", entry.noise);
      chart.panels.push_back({fmt::format("{} stages{}", entry.stages, noise), {}});
    }
    ChartSeries series;
    series.name = entry.method;
    for (size_t point = 0; point < entry.curve.size(); ++point) {
      const Interval& loss = entry.curve[point];
      series.x.push_back(static_cast<double>(PointTick(options.trial, static_cast<int>(point))));
      series.y.push_back(loss.mean - subject.lowest);
      series.low.push_back(loss.low - subject.lowest);
      series.high.push_back(loss.high - subject.lowest);
    }
    chart.panels.back().series.push_back(std::move(series));
  }
  return chart;
}

namespace {

std::string Number(double value) { return fmt::format("{:.4g}", value); }

// "1.2 [1.1, 1.3]", or what to say if there is none.
std::string IntervalText(const std::optional<Interval>& interval, const std::string& none) {
  if (!interval) return none;
  return fmt::format("{:.3g} [{:.3g}, {:.3g}]", interval->mean, interval->low, interval->high);
}

// What stands where there is no ratio: who diverged.
std::string WithoutRatio(const RaceEntry& entry, const RaceEntry& first,
                         const RaceOptions& options) {
  if (entry.diverged > 0) return fmt::format("{} of {} diverged", entry.diverged, options.seeds);
  return first.diverged > 0 ? first.method + " diverged" : "";
}

// A column that some races have, and what stands in it.
struct Extra {
  std::string title;
  std::function<std::string(const RaceEntry&)> cell;
  int spare = 0;  // as of a Column
};

std::vector<Extra> ExtrasOf(const RaceSubject& subject, const RaceOptions& options,
                            const Race& race) {
  std::vector<Extra> extras;
  if (subject.lowest != 0) {
    extras.push_back(
        {"above lowest",
         [&](const RaceEntry& entry) { return Number(entry.final.mean - subject.lowest); }, 1});
  }
  if (race.entries[0].held_out) {
    extras.push_back(
        {"held out", [](const RaceEntry& entry) { return IntervalText(entry.held_out, ""); }});
  }
  const bool stale = std::any_of(race.entries.begin(), race.entries.end(),
                                 [](const RaceEntry& entry) { return entry.staleness; });
  if (stale) {
    extras.push_back(
        {"‖x - z‖²", [](const RaceEntry& entry) { return IntervalText(entry.staleness, ""); }});
  }
  if (!options.target) return extras;
  extras.push_back({"ticks to " + Number(*options.target), [&](const RaceEntry& entry) {
                      return IntervalText(
                          entry.ticks_to_target,
                          fmt::format("{} of {} seeds", entry.reached, options.seeds));
                    }});
  extras.push_back({"against " + options.methods[0], [](const RaceEntry& entry) {
                      return IntervalText(entry.ticks_against_first, "");
                    }});
  return extras;
}

// Best first: by time to the target if there is one, then by loss.
bool Before(const RaceEntry& a, const RaceEntry& b) {
  if (a.ticks_to_target.has_value() != b.ticks_to_target.has_value()) {
    return a.ticks_to_target.has_value();
  }
  if (a.ticks_to_target && a.ticks_to_target->mean != b.ticks_to_target->mean) {
    return a.ticks_to_target->mean < b.ticks_to_target->mean;
  }
  return a.final.mean < b.final.mean;
}

std::string HeadingOf(const RaceSubject& subject, const RaceOptions& options) {
  const std::string constants =
      subject.has_constants ? fmt::format(" · L {} · lowest loss {}", Number(subject.smoothness),
                                          Number(subject.lowest))
                            : "";
  return fmt::format("{} · {} parameters{} · {} ticks · {} seeds\n\n", subject.name,
                     subject.dimension, constants, options.trial.ticks, options.seeds);
}

// What a step size that was good on other seeds has done, and what follows from it.
std::string DivergedText(const RaceOptions& options, const Race& race) {
  const bool any = std::any_of(race.entries.begin(), race.entries.end(),
                               [](const RaceEntry& entry) { return entry.diverged > 0; });
  if (!any) return "";
  return fmt::format(
      " diverged: on so many of the seeds it is judged on, the loss of the method grew beyond a "
      "million times the first (inf) at the step size that was best on the {} it was chosen on. "
      "That is not a loss to compare, so there is no ratio and the verdict stays open: choose on "
      "more seeds (--tune-seeds).",
      options.tune_seeds > 0 ? options.tune_seeds : options.seeds);
}

std::string LegendOf(const RaceSubject& subject, const RaceOptions& options, const Race& race) {
  const std::string compared =
      subject.has_constants ? "what is left above the lowest loss" : "the loss";
  const std::string grid = options.powers_of_two ? "a factor 2" : "a factor √2";
  const std::string tuned = options.tune_seeds > 0
                                ? fmt::format(", chosen on {} other seed{}", options.tune_seeds,
                                              options.tune_seeds == 1 ? "" : "s")
                                : ", chosen on the same seeds";
  std::string text = fmt::format(
      "\nEach method at its best step size, from {} {} apart, more beyond an edge, then {} "
      "halvings "
      "around the best{}. low and high: 95% t-interval over the seeds. against {}: {}, divided "
      "seed by seed; below 1 is better.",
      options.step_sizes, grid, options.refine, tuned, options.methods[0], compared);
  if (options.seeds >= kVerdictSeeds) {
    text +=
        " verdict: a tie within 5%, ahead or behind with at most 5% of these false in this table "
        "(Benjamini and Hochberg), else open.";
  } else {
    text += fmt::format(" A verdict takes {} seeds.", kVerdictSeeds);
  }
  if (options.target) {
    text += fmt::format(
        " The best step size is the one that comes down to {} first; the last column divides "
        "ticks.",
        Number(*options.target));
  }
  return text + DivergedText(options, race);
}

// Ticks are the abstraction's: what its updates would take on the plan's devices.
std::string WorkText(const UpdateWork& work, int stages) {
  return fmt::format(
      "\n‖x - z‖²: how far the weights that a gradient was taken at are from those it changes, "
      "mean "
      "over updates. Executed on this plan's devices, an update of one block takes PipeDream {} of "
      "their time (a stage's forward and backward), and a randomized method {} (all forwards, and "
      "back to the block): {:.2f} times as much, {:.2f} S. Ticks count both alike.",
      ToText(Seconds{work.pipedream}), ToText(Seconds{work.randomized}), work.ratio(),
      work.ratio() / stages);
}

}  // namespace

std::string RaceText(const RaceSubject& subject, const RaceOptions& options, const Race& race,
                     const TableStyle& style) {
  std::vector<Column> columns = {{"noise", Align::kRight},
                                 {"stages", Align::kRight},
                                 {"method"},
                                 {"step size", Align::kRight, 1},
                                 {"loss", Align::kRight},
                                 {"low", Align::kRight, 2},
                                 {"high", Align::kRight, 2},
                                 {"against " + options.methods[0], Align::kRight}};
  if (options.seeds >= kVerdictSeeds) columns.push_back({"verdict"});
  const std::vector<Extra> extras = ExtrasOf(subject, options, race);
  for (const Extra& extra : extras) columns.push_back({extra.title, Align::kRight, extra.spare});
  TextTable table(columns);
  for (size_t begin = 0; begin < race.entries.size(); begin += options.methods.size()) {
    std::vector<RaceEntry> group(
        race.entries.begin() + static_cast<ptrdiff_t>(begin),
        race.entries.begin() + static_cast<ptrdiff_t>(begin + options.methods.size()));
    const RaceEntry first = group.front();
    std::stable_sort(group.begin(), group.end(), Before);
    if (begin > 0) table.AddRule();
    for (const RaceEntry& entry : group) {
      std::vector<std::string> cells = {
          Number(entry.noise),
          std::to_string(entry.stages),
          entry.method,
          Number(entry.step_size),
          Number(entry.final.mean),
          Number(entry.final.low),
          Number(entry.final.high),
          IntervalText(entry.against_first, WithoutRatio(entry, first, options))};
      if (options.seeds >= kVerdictSeeds) {
        cells.push_back(entry.method == options.methods[0] ? "" : ToText(entry.verdict));
      }
      for (const Extra& extra : extras) cells.push_back(extra.cell(entry));
      table.AddRow(std::move(cells));
    }
  }
  std::string text = HeadingOf(subject, options) + table.Print(style) +
                     Wrapped(LegendOf(subject, options, race), style.width);
  if (subject.work) {
    text += Wrapped(WorkText(*subject.work, options.stages[0]), style.width);
  }
  return text;
}

}  // namespace heddle
