#include "spp/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace heddle {
namespace {

constexpr double kTie = 0.005;
constexpr double kAlike = 0.001;  // of our time and SimGrid's
constexpr double kNone = std::numeric_limits<double>::infinity();

// How to rank: by our simulator or by SimGrid. Infinite: no plan fits.
using Clock = double SppResult::*;

double SecondsOf(const SppCell& cell, const std::string& planner, Clock clock) {
  const auto found = cell.results.find(planner);
  return found == cell.results.end() ? kNone : found->second.*clock;
}

// The fastest baseline.
std::string BestOther(const SppCell& cell, Clock clock) {
  return *std::min_element(Baselines().begin(), Baselines().end(),
                           [&](const std::string& a, const std::string& b) {
                             return SecondsOf(cell, a, clock) < SecondsOf(cell, b, clock);
                           });
}

std::string PlanOf(const SppCell& cell, const std::string& planner) {
  const auto found = cell.results.find(planner);
  return found == cell.results.end() ? "-" : found->second.plan;
}

std::string Ms(double seconds) {
  return std::isinf(seconds) ? "-" : fmt::format("{:.1f}", 1e3 * seconds);
}

struct Score {
  int wins = 0, ties = 0, losses = 0, none = 0;
  double logs = 0, best = 0, worst = kNone;
  std::string best_case;

  void Add(const std::string& name, double ours, double theirs) {
    if (std::isinf(theirs)) {
      ++none;
      return;
    }
    const double ratio = theirs / ours;
    ++(ratio > 1 + kTie ? wins : ratio < 1 - kTie ? losses : ties);
    logs += std::log(ratio);
    worst = std::min(worst, ratio);
    if (ratio <= best) return;
    best = ratio;
    best_case = name;
  }

  void Print(const std::string& name) const {
    fmt::print("| {} | {} | {} | {} | {} | {:.2f}x | {:.2f}x | {:.2f}x |\n", name, wins, ties,
               losses, none, std::exp(logs / std::max(1, wins + ties + losses)), best, worst);
  }
};

void PrintSummary(const std::vector<SppCell>& cells, Clock clock) {
  fmt::print(
      "| against | wins | ties | losses | no plan of theirs | geometric mean | best for us | "
      "worst for us |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const std::string& name : Baselines()) {
    Score score;
    for (const SppCell& cell : cells) {
      score.Add(cell.name, SecondsOf(cell, kOurs, clock), SecondsOf(cell, name, clock));
    }
    score.Print(name);
  }
  Score alone, together;
  for (const SppCell& cell : cells) {
    const double ours = SecondsOf(cell, kOurs, clock);
    const double theirs = SecondsOf(cell, BestOther(cell, clock), clock);
    alone.Add(cell.name, ours, theirs);
    together.Add(cell.name, std::min(ours, theirs), theirs);
  }
  alone.Print("the best of them");
  together.Print("the best of them, their plans as candidates");
  fmt::print("\nThe best case against all of them together: {} ({:.2f}x).\n", alone.best_case,
             alone.best);
}

// Everyone who beats ours in a case, the worst first.
void PrintLosses(const std::vector<SppCell>& cells, Clock clock) {
  struct Loss {
    double ratio;
    const SppCell* cell;
    std::string who;
  };
  std::vector<Loss> losses;
  for (const SppCell& cell : cells) {
    for (const std::string& who : Baselines()) {
      const double ratio = SecondsOf(cell, who, clock) / SecondsOf(cell, kOurs, clock);
      if (ratio < 1 - kTie) losses.push_back({ratio, &cell, who});
    }
  }
  std::sort(losses.begin(), losses.end(),
            [](const Loss& a, const Loss& b) { return a.ratio < b.ratio; });
  fmt::print(
      "| model | devices | cluster | M | their time / ours | who | their stages | our stages |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
  for (const Loss& loss : losses) {
    fmt::print("| {} | {:.3f} | {} | {} | {} |\n", loss.cell->name, loss.ratio, loss.who,
               PlanOf(*loss.cell, loss.who), PlanOf(*loss.cell, kOurs));
  }
}

void PrintBounds(const std::vector<SppCell>& cells) {
  const auto mean = [&](const std::function<bool(const SppCell&)>& counts,
                        const std::function<double(const SppCell&)>& value) {
    double sum = 0, number = 0;
    for (const SppCell& cell : cells) {
      if (!counts(cell)) continue;
      sum += value(cell);
      ++number;
    }
    return sum / number;
  };
  const auto planned = [](const SppCell& cell) { return cell.results.contains(kOurs); };
  const auto gap = [](const SppCell& cell) {
    return 100 * (cell.results.at(kOurs).seconds / cell.order_bound - 1);
  };
  const auto bound = [](const SppCell& cell) {
    return cell.bound / cell.results.at(kOurs).seconds;
  };
  const auto planning = [](const SppCell& cell) { return cell.results.at(kOurs).planning; };
  fmt::print(
      "| M | mean distance from the order bound | bound for any plan / ours, mean |\n"
      "| --- | --- | --- |\n");
  for (const int64_t m : {4, 8, 16, 32, 64}) {
    const auto counts = [&](const SppCell& cell) {
      return planned(cell) && cell.microbatches == m;
    };
    if (std::none_of(cells.begin(), cells.end(), counts)) continue;
    fmt::print("| {} | {:.1f}% | {:.2f} |\n", m, mean(counts, gap), mean(counts, bound));
  }
  fmt::print("| all | {:.1f}% | {:.2f} |\n", mean(planned, gap), mean(planned, bound));
  const auto slowest =
      std::max_element(cells.begin(), cells.end(), [&](const SppCell& a, const SppCell& b) {
        return (planned(a) ? planning(a) : 0) < (planned(b) ? planning(b) : 0);
      });
  fmt::print("\nPlanning took {:.2f} s on average, at most {:.2f} s ({}).\n",
             mean(planned, planning), planning(*slowest), slowest->name);
}

// SimGrid's time over ours, of all plans of all planners.
void PrintDeviation(const std::vector<SppCell>& cells) {
  std::vector<double> ratios;
  double sum = 0, largest = 0;
  std::string where;
  for (const SppCell& cell : cells) {
    for (const auto& [name, result] : cell.results) {
      const double ratio = result.simgrid / result.seconds;
      ratios.push_back(ratio);
      sum += std::abs(ratio - 1);
      if (std::abs(ratio - 1) <= largest) continue;
      largest = std::abs(ratio - 1);
      where = fmt::format("{}, {}: {:.3f}", cell.name, name, ratio);
    }
  }
  std::sort(ratios.begin(), ratios.end());
  const auto quantile = [&](double part) {
    return ratios[static_cast<size_t>(part * static_cast<double>(ratios.size() - 1))];
  };
  const auto within = [&](double limit) {
    const auto count = std::count_if(ratios.begin(), ratios.end(),
                                     [&](double r) { return std::abs(r - 1) <= limit; });
    return 100 * static_cast<double>(count) / static_cast<double>(ratios.size());
  };
  fmt::print(
      "SimGrid's time over ours, {} plans: mean distance from one {:.2f}%, largest {:.1f}% ({}); "
      "quantiles 1% {:.3f}, 10% {:.3f}, 50% {:.3f}, 90% {:.3f}, 99% {:.3f}; within 0.1%: {:.0f}%, "
      "within 1%: {:.0f}%, within 5%: {:.0f}% of the plans.\n",
      ratios.size(), 100 * sum / static_cast<double>(ratios.size()), 100 * largest, where,
      quantile(0.01), quantile(0.1), quantile(0.5), quantile(0.9), quantile(0.99), within(1e-3),
      within(0.01), within(0.05));
}

void PrintCells(const std::vector<SppCell>& cells) {
  fmt::print(
      "| model | devices | cluster | M | ours | its stages | with candidates | order bound | bound "
      "| planned, s |");
  for (const std::string& name : Baselines()) fmt::print(" {} |", name);
  fmt::print("\n|");
  for (size_t k = 0; k < 10 + Baselines().size(); ++k) fmt::print(" --- |");
  fmt::print("\n");
  for (const SppCell& cell : cells) {
    const auto time = [&](const std::string& planner) {
      const auto found = cell.results.find(planner);
      if (found == cell.results.end()) return std::string("-");
      const SppResult& result = found->second;
      const bool differs = std::abs(result.simgrid / result.seconds - 1) > kAlike;
      return differs && result.simgrid > 0 ? Ms(result.seconds) + " / " + Ms(result.simgrid)
                                           : Ms(result.seconds);
    };
    const auto ours = cell.results.find(kOurs);
    const bool planned = ours != cell.results.end();
    const double together =
        std::min(SecondsOf(cell, kOurs, &SppResult::seconds),
                 SecondsOf(cell, BestOther(cell, &SppResult::seconds), &SppResult::seconds));
    fmt::print("| {} | {} | {} | {} | {} | {} | {} |", cell.name, time(kOurs), PlanOf(cell, kOurs),
               Ms(together), planned ? Ms(cell.order_bound) : "-", planned ? Ms(cell.bound) : "-",
               planned ? fmt::format("{:.2f}", ours->second.planning) : "-");
    for (const std::string& name : Baselines()) fmt::print(" {} |", time(name));
    fmt::print("\n");
  }
}

}  // namespace

void PrintSppTable(const std::vector<SppCell>& cells) {
  std::vector<SppCell> both;
  std::copy_if(cells.begin(), cells.end(), std::back_inserter(both), [](const SppCell& cell) {
    return std::all_of(cell.results.begin(), cell.results.end(),
                       [](const auto& item) { return item.second.simgrid > 0; });
  });
  fmt::print("## By our simulator\n\n{} cells. A ratio is their time over ours.\n\n", cells.size());
  PrintSummary(cells, &SppResult::seconds);
  fmt::print("\n### Bounds\n\n");
  PrintBounds(cells);
  fmt::print("\n### Losses of ours alone\n\n");
  PrintLosses(cells, &SppResult::seconds);
  if (!both.empty()) {
    fmt::print("\n## By SimGrid\n\nThe same plans, {} cells.\n\n", both.size());
    PrintSummary(both, &SppResult::simgrid);
    fmt::print("\n");
    PrintDeviation(both);
    fmt::print("\n### Losses of ours alone\n\n");
    PrintLosses(both, &SppResult::simgrid);
  }
  fmt::print(
      "\n## All cells\n\nMilliseconds by our simulator; where SimGrid's differ by more than 0.1%, "
      "both: ours / SimGrid's.\n\n");
  PrintCells(cells);
}

}  // namespace heddle
