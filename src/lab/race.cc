#include "lab/race.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <numeric>

#include "base/units.h"
#include "lab/methods.h"
#include "plan/two_threads.h"

namespace heddle {
namespace {

constexpr int kExtension = 4;        // step sizes added beyond an edge
constexpr int kMostExtensions = 16;  // a factor of 2^32 on either side

// Grid points are numbered in the finest steps that refining may need; the first grid has every
// 2^refine-th, from 0.
int CoarseStride(const RaceOptions& options) { return 1 << options.refine; }

double StepSize(const Objective& objective, const RaceOptions& options, int index) {
  const int stride = CoarseStride(options);
  const double below = static_cast<double>((options.step_sizes - 1) * stride - index) / stride;
  const double highest = 2 / objective.smoothness();
  if (options.powers_of_two) return std::exp2(std::floor(std::log2(highest)) - below);
  return highest * std::exp2(-0.5 * below);
}

double Sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::vector<double> LastLosses(const std::vector<Curve>& by_seed) {
  std::vector<double> losses;
  for (const Curve& curve : by_seed) losses.push_back(curve.last());
  return losses;
}

std::vector<double> TargetTicks(const RaceOptions& options, const std::vector<Curve>& by_seed) {
  std::vector<double> ticks;
  for (const Curve& curve : by_seed) {
    ticks.push_back(TicksToReach(options.trial, curve, *options.target));
  }
  return ticks;
}

// The geometric mean of values over base, seed by seed, as far as above `least`.
std::optional<Interval> MeanRatio(const std::vector<double>& values,
                                  const std::vector<double>& base, double least) {
  const std::optional<Paired> paired = ComparePaired(values, base, least);
  return paired ? std::optional<Interval>(paired->ratio) : std::nullopt;
}

// One entry while its step size is looked for.
struct Search {
  RaceEntry entry;
  const RaceOptions* options = nullptr;
  const Method* method = nullptr;
  const Schedule* schedule = nullptr;
  std::map<int, std::vector<Curve>> curves;  // by grid point, then seed it is tuned on
  std::vector<Curve> judged;                 // at the best, by seed
  int stride = 1;                            // between the points around the best

  // Lower is better: time to the target, if there is one, then the loss at the end.
  std::pair<double, double> Score(const std::vector<Curve>& by_seed) const {
    const double ticks = options->target ? Sum(TargetTicks(*options, by_seed)) : 0;
    return {ticks, Sum(LastLosses(by_seed))};
  }

  // The grid point with the best score; the first if all diverged.
  int Best() const {
    constexpr double kWorst = std::numeric_limits<double>::infinity();
    int best = curves.begin()->first;
    std::pair<double, double> lowest = {kWorst, kWorst};
    for (const auto& [index, by_seed] : curves) {
      const std::pair<double, double> score = Score(by_seed);
      if (score < lowest) {
        lowest = score;
        best = index;
      }
    }
    return best;
  }

  bool AtEdge() const {
    return Best() == curves.begin()->first || Best() == curves.rbegin()->first;
  }

  // No step size made a difference.
  bool Still() const {
    const double first = curves.begin()->second[0].last();
    return std::all_of(curves.begin(), curves.end(), [&](const auto& point) {
      return point.second[0].last() == first && std::isfinite(first);
    });
  }
};

struct Job {
  Search* search = nullptr;
  int index = 0;
  size_t seed = 0;         // judged ones first, then those to tune on
  Curve* curve = nullptr;  // to be filled
};

class RaceTrack {
 public:
  RaceTrack(const ObjectiveOf& objective_of, const RaceOptions& options)
      : objective_of_(objective_of),
        objective_(objective_of(options.first_seed)),
        options_(options),
        noises_(static_cast<size_t>(options.seeds + options.tune_seeds)) {}

  Result<Race> Run() {
    HEDDLE_RETURN_IF_ERROR(Prepare());
    std::vector<Job> jobs;
    const int stride = CoarseStride(options_);
    for (Search& search : searches_) {
      search.stride = stride;
      for (int k = 0; k < options_.step_sizes; ++k) AddJobs(search, k * stride, jobs);
    }
    for (int round = 0; !jobs.empty(); ++round) {
      RunJobs(jobs);
      jobs.clear();
      for (Search& search : searches_) {
        if (search.Still()) return NothingMoves(search);
        if (round == kMostExtensions && search.AtEdge()) return NoBest(search);
        AddNext(search, jobs);
      }
    }
    Judge();
    return Collect();
  }

 private:
  Status Prepare() {
    for (const int stages : options_.stages) {
      PipelineClock clock = options_.clock;
      clock.stages = stages;
      schedules_.push_back(MakeSchedule(clock, options_.trial.ticks));
    }
    for (const double noise : options_.noises) {
      for (const Schedule& schedule : schedules_) {
        for (const std::string& name : options_.methods) {
          Search search;
          search.options = &options_;
          HEDDLE_ASSIGN(search.method, FindMethod(name));
          search.schedule = &schedule;
          search.entry.noise = noise;
          search.entry.stages = schedule.clock.stages;
          search.entry.method = name;
          searches_.push_back(std::move(search));
        }
      }
    }
    const bool noisy = std::any_of(options_.noises.begin(), options_.noises.end(),
                                   [](double noise) { return noise > 0; });
    int64_t numbers = 0;
    for (const Schedule& schedule : schedules_) {
      numbers = std::max(numbers, NoiseNeeded(schedule.clock, options_.trial.ticks, objective_));
    }
    if (noisy) {
      ForEachOnThreads(noises_.size(), options_.threads,
                       [&](size_t k) { noises_[k] = Noise(options_.first_seed + k, numbers); });
    }
    PrepareDraws();
    return Ok();
  }

  // What randomized methods draw, once for all step sizes, if it is not too much to keep.
  void PrepareDraws() {
    constexpr int64_t kMostDraws = 20'000'000;  // 400 MB
    if (objective_.near() == nullptr || options_.trial.staleness) return;
    std::vector<std::pair<std::vector<NearDraws>*, const Search*>> wanted;
    int64_t count = 0;
    for (const Search& search : searches_) {
      if (!search.method->draws) continue;
      const auto [place, is_new] = draws_.try_emplace({search.schedule, *search.method->draws});
      if (!is_new) continue;
      wanted.emplace_back(&place->second, &search);
      count += search.schedule->updates * static_cast<int64_t>(noises_.size());
    }
    if (count > kMostDraws) return;
    for (const auto& entry : wanted) {
      const Search* search = entry.second;
      std::vector<std::optional<NearDraws>> made(noises_.size());
      ForEachOnThreads(made.size(), options_.threads, [&](size_t k) {
        made[k].emplace(*search->schedule, *search->method->draws, options_.first_seed + k);
      });
      for (std::optional<NearDraws>& one : made) entry.first->push_back(*std::move(one));
    }
  }

  const NearDraws* DrawsOf(const Search& search, size_t seed) const {
    if (!search.method->draws) return nullptr;
    const auto place = draws_.find({search.schedule, *search.method->draws});
    return place != draws_.end() && !place->second.empty() ? &place->second[seed] : nullptr;
  }

  void AddJobs(Search& search, int index, std::vector<Job>& jobs) {
    const auto judged = static_cast<size_t>(options_.seeds);
    const size_t first = options_.tune_seeds > 0 ? judged : 0;
    const size_t count = options_.tune_seeds > 0 ? noises_.size() - judged : judged;
    std::vector<Curve>& curves = search.curves[index];
    curves.resize(count);
    for (size_t k = 0; k < count; ++k) jobs.push_back({&search, index, first + k, &curves[k]});
    known_ += static_cast<int64_t>(count);
  }

  // Every method at its best, on the seeds that count.
  void Judge() {
    std::vector<Job> jobs;
    for (Search& search : searches_) {
      const int best = search.Best();
      if (options_.tune_seeds == 0) {
        search.judged = search.curves.at(best);
        continue;
      }
      search.judged.resize(static_cast<size_t>(options_.seeds));
      for (size_t k = 0; k < search.judged.size(); ++k) {
        jobs.push_back({&search, best, k, &search.judged[k]});
      }
    }
    known_ += static_cast<int64_t>(jobs.size());
    RunJobs(jobs);
  }

  // What to try next: further out if the best is at an edge, else closer to the best.
  void AddNext(Search& search, std::vector<Job>& jobs) {
    const int best = search.Best();
    if (search.AtEdge()) {
      const bool low = best == search.curves.begin()->first;
      for (int k = 1; k <= kExtension; ++k) {
        AddJobs(search, best + (low ? -k : k) * search.stride, jobs);
      }
    } else if (search.stride > 1) {
      search.stride /= 2;
      AddJobs(search, best - search.stride, jobs);
      AddJobs(search, best + search.stride, jobs);
    }
  }

  Trial TrialOf(const Search& search, int index, size_t seed) const {
    return {objective_of_(options_.first_seed + seed),
            *search.schedule,
            options_.trial,
            noises_[seed],
            search.entry.noise,
            StepSize(objective_, options_, index),
            options_.first_seed + seed,
            DrawsOf(search, seed)};
  }

  void RunJobs(const std::vector<Job>& jobs) {
    const std::thread::id caller = std::this_thread::get_id();
    ForEachOnThreads(jobs.size(), options_.threads, [&](size_t k) {
      const Job& job = jobs[k];
      *job.curve = job.search->method->run(TrialOf(*job.search, job.index, job.seed));
      ++done_;
      if (options_.progress && std::this_thread::get_id() == caller) {
        options_.progress(done_, known_);
      }
    });
  }

  static std::string NameOf(const RaceEntry& entry) {
    return fmt::format("{} on {} stages with noise {}", entry.method, entry.stages, entry.noise);
  }

  Error NothingMoves(const Search& search) const {
    return BadInput("--ticks",
                    fmt::format("{}: no update ends within {} ticks", NameOf(search.entry),
                                options_.trial.ticks),
                    "give it more time");
  }

  Error NoBest(const Search& search) const {
    return Infeasible(
        "race",
        fmt::format("{}: the best step size is still at the edge of {} … {}", NameOf(search.entry),
                    ExactNumber(StepSize(objective_, options_, search.curves.begin()->first)),
                    ExactNumber(StepSize(objective_, options_, search.curves.rbegin()->first))),
        "no optimum is reported at an edge; give more --ticks or less --noise");
  }

  Race Collect() const {
    Race race;
    race.lowest_step = StepSize(objective_, options_, 0);
    race.highest_step =
        StepSize(objective_, options_, (options_.step_sizes - 1) * CoarseStride(options_));
    std::vector<std::optional<Paired>> comparisons;
    for (const Search& search : searches_) {
      RaceEntry entry = search.entry;
      const int best = search.Best();
      const std::vector<Curve>& curves = search.judged;
      entry.step_size = StepSize(objective_, options_, best);
      entry.tried = static_cast<int>(search.curves.size());
      const std::vector<Curve>& tuned = search.curves.at(best);
      entry.tuned = Sum(LastLosses(tuned)) / static_cast<double>(tuned.size());
      if (search.method->rounds) entry.rounds = search.method->rounds(TrialOf(search, best, 0));
      std::vector<double> losses(curves.size());
      for (size_t point = 0; point < curves[0].losses.size(); ++point) {
        for (size_t k = 0; k < curves.size(); ++k) losses[k] = curves[k].losses[point];
        entry.curve.push_back(MeanInterval(losses));
      }
      entry.final = entry.curve.back();
      entry.left = Left(curves);
      entry.diverged = static_cast<int>(std::count_if(
          curves.begin(), curves.end(), [](const Curve& curve) { return curve.diverged; }));
      const size_t group = race.entries.size() / options_.methods.size();
      const Search& first = searches_[group * options_.methods.size()];
      comparisons.push_back(ComparePaired(entry.left, Left(first.judged), Rounding()));
      if (comparisons.back()) entry.against_first = comparisons.back()->ratio;
      if (&search == &first) comparisons.back() = std::nullopt;  // nothing to judge
      Compare(curves, first.judged, entry);
      race.entries.push_back(std::move(entry));
    }
    const std::vector<Standing> verdicts = JudgeAll(comparisons);
    for (size_t k = 0; k < verdicts.size(); ++k) race.entries[k].verdict = verdicts[k];
    return race;
  }

  // Of what all curves have, or none.
  static std::optional<Interval> MeanOf(const std::vector<Curve>& curves,
                                        std::optional<double> Curve::*figure) {
    std::vector<double> values;
    for (const Curve& curve : curves) {
      if (!(curve.*figure)) return std::nullopt;
      values.push_back(*(curve.*figure));
    }
    return MeanInterval(values);
  }

  double Rounding() const { return 1e-13 * std::abs(objective_.lowest()); }

  // Above the lowest at the end, by seed.
  std::vector<double> Left(const std::vector<Curve>& curves) const {
    std::vector<double> left = LastLosses(curves);
    for (size_t k = 0; k < left.size(); ++k)
      left[k] -= objective_of_(options_.first_seed + k).lowest();
    return left;
  }

  // What is known at the end only, and the times to the target.
  void Compare(const std::vector<Curve>& curves, const std::vector<Curve>& first,
               RaceEntry& entry) const {
    entry.held_out = MeanOf(curves, &Curve::held_out);
    entry.staleness = MeanOf(curves, &Curve::staleness);
    if (!options_.target) return;
    const std::vector<double> ticks = TargetTicks(options_, curves);
    entry.reached = static_cast<int>(
        std::count_if(ticks.begin(), ticks.end(), [](double tick) { return std::isfinite(tick); }));
    if (entry.reached < options_.seeds) return;
    entry.ticks_to_target = MeanInterval(ticks);
    entry.ticks_against_first = MeanRatio(ticks, TargetTicks(options_, first), 0);
  }

  const ObjectiveOf& objective_of_;
  const Objective& objective_;
  const RaceOptions& options_;
  std::vector<Noise> noises_;  // by seed, judged ones first
  std::deque<Schedule> schedules_;
  std::deque<Search> searches_;
  std::map<std::pair<const Schedule*, DelayMode>, std::vector<NearDraws>> draws_;  // by seed
  std::atomic<int64_t> done_{0};
  int64_t known_ = 0;
};

Status CheckRange(const std::string& flag, double value, double low, double high) {
  if (value >= low && value <= high) return Ok();
  return BadInput(flag, fmt::format("{} is out of range", ExactNumber(value)),
                  fmt::format("expected {} to {}", ExactNumber(low), ExactNumber(high)));
}

Status CheckOptions(const Objective& objective, const RaceOptions& options) {
  constexpr double kMostEvents = 2e7;
  constexpr double kMostNumbers = 2.5e8;  // of noise, 1 GB
  constexpr double kMostTicks = 1e7;
  const auto dimension = static_cast<double>(objective.dimension());
  const auto ticks = static_cast<double>(options.trial.ticks);
  const double most_stages = std::min(256.0, static_cast<double>(objective.most_stages()));
  HEDDLE_RETURN_IF_ERROR(CheckRange("--seeds", options.seeds, 2, 1000));
  HEDDLE_RETURN_IF_ERROR(CheckRange("--tune-seeds", options.tune_seeds, 0, 1000));
  HEDDLE_RETURN_IF_ERROR(CheckRange("--step-sizes", options.step_sizes, 3, 200));
  HEDDLE_RETURN_IF_ERROR(CheckRange("--refine", options.refine, 0, 8));
  HEDDLE_RETURN_IF_ERROR(CheckRange("--ticks", ticks, 2, kMostTicks));
  HEDDLE_RETURN_IF_ERROR(CheckRange("--points", options.trial.points, 1, ticks));
  HEDDLE_RETURN_IF_ERROR(
      CheckRange("--every", static_cast<double>(options.trial.every), 1, kMostTicks));
  HEDDLE_RETURN_IF_ERROR(
      CheckRange("--backward", static_cast<double>(options.clock.backward), 1, 1000));
  HEDDLE_RETURN_IF_ERROR(
      CheckRange("--latency", static_cast<double>(options.clock.latency), 0, 1000));
  HEDDLE_RETURN_IF_ERROR(CheckRange(
      "--average-ticks", static_cast<double>(options.trial.average_ticks), 0, kMostTicks));
  if (options.target) {
    constexpr double kLargest = std::numeric_limits<double>::max();
    HEDDLE_RETURN_IF_ERROR(CheckRange("--target", *options.target, objective.lowest(), kLargest));
  }
  for (const double noise : options.noises) {
    HEDDLE_RETURN_IF_ERROR(CheckRange("--noise", noise, 0, 1e6));
  }
  double events = 0;
  int most = 1;
  for (const int stages : options.stages) {
    HEDDLE_RETURN_IF_ERROR(CheckRange("--stages", stages, 1, most_stages));
    events += ticks * stages;
    most = std::max(most, stages);
  }
  if (options.trial.microbatches != 0) {
    const bool versions = std::find(options.methods.begin(), options.methods.end(), "2bw") !=
                          options.methods.end();  // two of them are enough for such batches only
    HEDDLE_RETURN_IF_ERROR(CheckRange("--microbatches",
                                      static_cast<double>(options.trial.microbatches),
                                      versions ? most : 1, 1e6));
  }
  const bool noisy = std::any_of(options.noises.begin(), options.noises.end(),
                                 [](double noise) { return noise > 0; });
  if (events > kMostEvents ||
      (noisy && ticks / 2 * dimension * (options.seeds + options.tune_seeds) > kMostNumbers)) {
    return BadInput("--ticks", fmt::format("{} ticks are too many to keep in memory", ticks),
                    "fewer ticks, stages or seeds");
  }
  return Ok();
}

}  // namespace

Result<Race> RunRace(const ObjectiveOf& objective_of, const RaceOptions& options) {
  HEDDLE_RETURN_IF_ERROR(CheckOptions(objective_of(options.first_seed), options));
  return RaceTrack(objective_of, options).Run();
}

Result<Race> RunRace(const Objective& objective, const RaceOptions& options) {
  const ObjectiveOf same = [&](uint64_t) -> const Objective& { return objective; };
  return RunRace(same, options);
}

}  // namespace heddle
