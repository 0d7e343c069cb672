#include "run/share/steady_part.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace heddle {
namespace {

constexpr size_t kRuns = 10;       // that a job's steps are cut into
constexpr size_t kFewest = 4;      // steps of which anything is said
constexpr size_t kWarmUpPart = 4;  // at most a quarter
constexpr double kExact = 0.02;    // what two measurements may differ by whatever their intervals

double SecondsOf(int64_t from, int64_t until) { return static_cast<double>(until - from) * 1e-9; }

std::vector<double> StepsOf(const StepEnds& ends, const SteadyPart::Steps& steps) {
  std::vector<double> seconds;
  for (size_t k = steps.first + 1; k <= steps.last; ++k) {
    seconds.push_back(SecondsOf(ends[k - 1], ends[k]));
  }
  return seconds;
}

// All of them but the warm-up.
SteadyPart::Steps WarmSteps(const StepEnds& ends) {
  if (ends.empty()) return {};
  const SteadyPart::Steps all{0, ends.size() - 1};
  return {WarmUpOf(StepsOf(ends, all)), all.last};
}

double MeanOf(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Without one of `runs` equal runs of them.
double MeanWithout(std::span<const double> values, size_t run, size_t runs) {
  const size_t begin = run * values.size() / runs, end = (run + 1) * values.size() / runs;
  double sum = 0;
  for (size_t k = 0; k < values.size(); ++k) sum += k >= begin && k < end ? 0 : values[k];
  return sum / static_cast<double>(values.size() - (end - begin));
}

using Series = std::span<const std::vector<double>>;
using Means = std::vector<double>;

Means MeansOf(Series series) {
  Means means;
  for (const std::vector<double>& values : series) means.push_back(MeanOf(values));
  return means;
}

// A figure that is a function of mean step times, alone and shared.
class Jackknife {
 public:
  using Figure = std::function<double(const Means& alone, const Means& shared)>;

  Jackknife(const SteadyPart& part, Figure figure)
      : alone_(part.alone),
        shared_(part.shared),
        alone_means_(MeansOf(alone_)),
        shared_means_(MeansOf(shared_)),
        figure_(std::move(figure)) {}

  Interval Estimate() {
    LeaveOut(RunsOf(shared_), [&](size_t run, size_t runs) {
      Means means;
      for (const std::vector<double>& values : shared_) {
        means.push_back(MeanWithout(values, run, runs));
      }
      return figure_(alone_means_, means);
    });
    for (size_t job = 0; job < alone_.size(); ++job) {
      LeaveOut(RunsOf(alone_.subspan(job, 1)), [&](size_t run, size_t runs) {
        Means means = alone_means_;
        means[job] = MeanWithout(alone_[job], run, runs);
        return figure_(means, shared_means_);
      });
    }
    const double mean = figure_(alone_means_, shared_means_);
    if (variance_ <= 0) return {mean, mean, mean};
    const auto freedom = static_cast<int>(std::max(1.0, variance_ * variance_ / by_freedom_));
    const double reach = StudentQuantile(freedom) * std::sqrt(variance_);
    return {mean, mean - reach, mean + reach};
  }

 private:
  static size_t RunsOf(Series series) {
    size_t runs = kRuns;
    for (const std::vector<double>& values : series) runs = std::min(runs, values.size());
    return runs;
  }

  void LeaveOut(size_t runs, const std::function<double(size_t, size_t)>& without) {
    std::vector<double> figures;
    for (size_t run = 0; run < runs; ++run) figures.push_back(without(run, runs));
    const double mean = MeanOf(figures);
    double squares = 0;
    for (const double figure : figures) squares += (figure - mean) * (figure - mean);
    const auto count = static_cast<double>(runs);
    const double variance = squares * (count - 1) / count;
    variance_ += variance;
    by_freedom_ += variance * variance / (count - 1);
  }

  Series alone_, shared_;
  Means alone_means_, shared_means_;
  Figure figure_;
  double variance_ = 0, by_freedom_ = 0;
};

// What of the interval is possible; nothing if none is.
std::optional<Interval> Within(const Interval& interval, double low, double high) {
  if (interval.low > high * (1 + kExact) || interval.high < low * (1 - kExact)) return std::nullopt;
  const auto cut = [&](double value) { return std::clamp(value, low, high); };
  return Interval{cut(interval.mean), cut(interval.low), cut(interval.high)};
}

double SlowestOf(const Means& means) { return *std::max_element(means.begin(), means.end()); }

}  // namespace

size_t WarmUpOf(std::span<const double> steps) {
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t first = 0; first <= steps.size() / kWarmUpPart && first < steps.size(); ++first) {
    const std::span<const double> rest = steps.subspan(first);
    const double mean = MeanOf(rest);
    double squares = 0;
    for (const double step : rest) squares += (step - mean) * (step - mean);
    const auto count = static_cast<double>(rest.size());
    const double error = squares / (count * count);
    if (error >= least) continue;
    least = error;
    best = first;
  }
  return best;
}

int64_t SteadyPart::turns() const {
  size_t fewest = shared.empty() ? 0 : std::numeric_limits<size_t>::max();
  for (const auto* jobs : {&alone, &shared}) {
    for (const std::vector<double>& steps : *jobs) fewest = std::min(fewest, steps.size());
  }
  return static_cast<int64_t>(fewest);
}

SteadyPart SteadyPartOf(std::span<const StepEnds> alone, std::span<const StepEnds> shared) {
  SteadyPart part;
  for (const StepEnds& ends : alone) {
    part.alone_steps.push_back(WarmSteps(ends));
    part.alone.push_back(StepsOf(ends, part.alone_steps.back()));
  }
  int64_t from = 0, until = std::numeric_limits<int64_t>::max();
  for (const StepEnds& ends : shared) {
    if (ends.empty()) {
      part.shared.resize(shared.size());
      part.shared_steps.resize(shared.size());
      return part;
    }
    from = std::max(from, ends[WarmSteps(ends).first]);
    until = std::min(until, ends.back());
  }
  for (const StepEnds& ends : shared) {
    const auto first = std::lower_bound(ends.begin(), ends.end(), from);
    const auto last = std::upper_bound(first, ends.end(), until);
    SteadyPart::Steps steps;
    if (last - first > 1) {
      steps = {static_cast<size_t>(first - ends.begin()),
               static_cast<size_t>(last - ends.begin()) - 1};
    }
    part.shared_steps.push_back(steps);
    part.shared.push_back(StepsOf(ends, steps));
  }
  return part;
}

SteadyFigures FiguresOf(const SteadyPart& part, double limit) {
  SteadyFigures figures;
  figures.slowdown.resize(part.shared.size());
  if (part.turns() < static_cast<int64_t>(kFewest)) return figures;
  figures.period = Jackknife(part, [](const Means&, const Means& shared) {
                     return SlowestOf(shared);
                   }).Estimate();
  if (part.alone.size() != part.shared.size()) return figures;
  if (part.shared.size() == 1) {  // nobody was there to share with
    figures.gain = figures.slowdown[0] = Interval{1, 1, 1};
    return figures;
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Interval gain = Jackknife(part, [](const Means& alone, const Means& shared) {
                          double sum = 0;
                          for (size_t k = 0; k < alone.size(); ++k) sum += alone[k] / shared[k];
                          return sum;
                        }).Estimate();
  figures.gain = Within(gain, 0, limit);
  figures.impossible = !figures.gain;
  for (size_t job = 0; job < part.shared.size(); ++job) {
    const Interval slowdown = Jackknife(part, [job](const Means& alone, const Means& shared) {
                                return shared[job] / alone[job];
                              }).Estimate();
    figures.slowdown[job] = Within(slowdown, 1, kInfinity);
    figures.impossible = figures.impossible || !figures.slowdown[job];
  }
  if (figures.impossible) figures.gain.reset();
  return figures;
}

}  // namespace heddle
