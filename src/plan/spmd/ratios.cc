#include "plan/spmd/ratios.h"

#include <fmt/format.h>

#include <ClpSimplex.hpp>
#include <CoinError.hpp>
#include <CoinPackedMatrix.hpp>
#include <algorithm>
#include <map>
#include <numeric>

namespace heddle {
namespace {

// a + sum over groups of b[g] * ratio of group g at the device's place.
struct Line {
  double fixed = 0;
  std::array<double, kRatioGroups> slope{};
  auto operator<=>(const Line&) const = default;
};

using Stage = std::vector<Line>;  // by device

// What the program asks of the ratios of one axis.
class Demands {
 public:
  Demands(SpmdProblem& problem, const SpmdPlan& plan, size_t axis)
      : problem_(problem), axis_(axis), stage_(problem.mesh().size()) {
    for (const SpmdStep& step : plan.steps) {
      if (!step.converts()) {
        AddOp(problem.graph().op(step.op), step.rule);
      } else if (ExchangeOf(step.from, step.to)) {
        EndStage();
        AddExchange(step);
      }
    }
    EndStage();
  }

  // Each different stage once, with the number of times it occurs.
  const std::map<Stage, int>& stages() const { return stages_; }
  // Seconds of all padded exchanges of parts, by group, per unit of the largest ratio.
  const std::array<double, kRatioGroups>& exchanges() const { return exchanges_; }

 private:
  void AddOp(const Op& op, const OpRule& rule) {
    const auto key = std::tuple(op.kind, SignatureOf(problem_.graph(), op, op.extents), rule);
    const auto [found, fresh] = lines_.try_emplace(key);
    if (fresh) found->second = LinesOf(op, rule);
    for (size_t place = 0; place < stage_.size(); ++place) {
      stage_[place].fixed += found->second[place].fixed;
      for (size_t g = 0; g < kRatioGroups; ++g) {
        stage_[place].slope[g] += found->second[place].slope[g];
      }
    }
    busy_ = true;
  }

  // Through the time of its present part and of none, which is one launch.
  Stage LinesOf(const Op& op, const OpRule& rule) {
    const std::vector<double> seconds = problem_.DeviceSeconds(op, rule);
    Stage lines(seconds.size());
    for (size_t place = 0; place < seconds.size(); ++place) {
      lines[place].fixed = seconds[place];
      if (rule[axis_].letter == 0) continue;
      const auto group = static_cast<size_t>(rule[axis_].ratios);
      const DeviceId device = problem_.mesh().device(place);
      const double launch = problem_.cluster().type_of(device).launch_overhead.value;
      const double ratio = RatioAt(place, group);
      if (ratio <= 0 || seconds[place] <= launch) continue;
      lines[place].fixed = launch;
      lines[place].slope[group] = (seconds[place] - launch) / ratio;
    }
    FillIdle(op, rule, lines);
    return lines;
  }

  // A device without work now would take per unit what another of its type takes.
  void FillIdle(const Op& op, const OpRule& rule, Stage& lines) const {
    if (rule[axis_].letter == 0) return;
    const auto group = static_cast<size_t>(rule[axis_].ratios);
    const double flops = FlopsOf(op, op.extents).value;
    double work = 0;  // slope times rate, of one that has work
    const auto rate = [&](size_t place) {
      return problem_.cluster().type_of(problem_.mesh().device(place)).rate(DType::kF32).value;
    };
    for (size_t place = 0; place < lines.size(); ++place) {
      work = std::max(work, lines[place].slope[group] * rate(place));
    }
    if (work == 0) work = flops;
    for (size_t place = 0; place < lines.size(); ++place) {
      if (lines[place].slope[group] == 0) lines[place].slope[group] = work / rate(place);
    }
  }

  double RatioAt(size_t place, size_t group) const {
    const size_t width = problem_.mesh().places(1);
    return problem_.mesh().ratios[axis_][group][axis_ == 0 ? place / width : place % width];
  }

  void AddExchange(const SpmdStep& step) {
    if (step.algorithm == CollectiveAlgorithm::kGrouped) return;
    ConversionTable& table = problem_.facts(step.tensor.value).conversions();
    const double seconds =
        table.Direct(table.space().IndexOf(step.from), table.space().IndexOf(step.to)).seconds;
    for (const Layout& layout : {step.from, step.to}) {
      if (layout[axis_].kind != ShardKind::kSharded) continue;
      const auto group = static_cast<size_t>(layout[axis_].ratios);
      const std::vector<double>& ratios = problem_.mesh().ratios[axis_][group];
      exchanges_[group] += seconds / *std::max_element(ratios.begin(), ratios.end());
    }
  }

  void EndStage() {
    if (busy_) ++stages_[stage_];
    stage_.assign(stage_.size(), {});
    busy_ = false;
  }

  SpmdProblem& problem_;
  size_t axis_;
  Stage stage_;
  bool busy_ = false;
  std::map<Stage, int> stages_;
  std::array<double, kRatioGroups> exchanges_{};
  std::map<std::tuple<OpKind, std::string, OpRule>, Stage> lines_;
};

// Columns: the ratios of each group, the largest ratio of each group, the stages' times.
class RatioProgram {
 public:
  RatioProgram(SpmdProblem& problem, const Demands& demands, size_t axis)
      : problem_(problem), axis_(axis), places_(problem.mesh().places(axis)) {
    const size_t columns = kRatioGroups * (places_ + 1) + demands.stages().size();
    matrix_.setDimensions(0, static_cast<int>(columns));
    objective_.assign(columns, 0);
    for (int g = 0; g < kRatioGroups; ++g) {
      // The least of weights makes ratios even that do not matter.
      constexpr double kIndifferent = 1e-9;
      const double seconds = demands.exchanges()[static_cast<size_t>(g)];
      objective_[static_cast<size_t>(Largest(g))] = seconds + kIndifferent;
      AddGroup(g);
    }
    size_t column = kRatioGroups * (places_ + 1);
    for (const auto& [stage, count] : demands.stages()) {
      objective_[column] = count;
      AddStage(stage, static_cast<int>(column++));
    }
  }

  void AddMemory(const SpmdEstimate& estimate) {
    for (size_t place = 0; place < estimate.peak.size(); ++place) {
      Row row;
      auto fixed = static_cast<double>(estimate.peak[place].value);
      for (int g = 0; g < kRatioGroups; ++g) {
        const double ratio =
            problem_.mesh().ratios[axis_][static_cast<size_t>(g)][AxisPlace(place)];
        const double part = estimate.peak_parts[place][axis_][static_cast<size_t>(g)];
        if (ratio <= 0) continue;
        fixed -= part;
        row.Add(Ratio(g, AxisPlace(place)), part / ratio);
      }
      const DeviceId device = problem_.mesh().device(place);
      const auto room = static_cast<double>(problem_.cluster().type_of(device).memory.value);
      AddRow(row, -COIN_DBL_MAX, room - fixed);
    }
  }

  Result<AxisRatios> Solve() {
    ClpSimplex model;
    model.setLogLevel(0);
    const std::vector<double> zeros(objective_.size(), 0),
        unbounded(objective_.size(), COIN_DBL_MAX);
    model.loadProblem(matrix_, zeros.data(), unbounded.data(), objective_.data(), least_.data(),
                      most_.data());
    model.initialSolve();
    if (!model.isProvenOptimal()) {
      return Infeasible("ratios", fmt::format("no ratios make the program fit (solver status {})",
                                              model.status()));
    }
    AxisRatios ratios;
    const double* solution = model.primalColumnSolution();
    for (int g = 0; g < kRatioGroups; ++g) {
      std::vector<double>& group = ratios[static_cast<size_t>(g)];
      for (size_t i = 0; i < places_; ++i) group.push_back(std::max(0.0, solution[Ratio(g, i)]));
      const double sum = std::accumulate(group.begin(), group.end(), 0.0);
      for (double& ratio : group) ratio /= sum;
    }
    return ratios;
  }

 private:
  struct Row {
    std::vector<int> columns;
    std::vector<double> values;
    void Add(int column, double value) {
      columns.push_back(column);
      values.push_back(value);
    }
  };
  void AddRow(const Row& row, double least, double most) {
    matrix_.appendRow(static_cast<int>(row.columns.size()), row.columns.data(), row.values.data());
    least_.push_back(least);
    most_.push_back(most);
  }

  int Ratio(int group, size_t place) const {
    return group * static_cast<int>(places_) + static_cast<int>(place);
  }
  int Largest(int group) const { return kRatioGroups * static_cast<int>(places_) + group; }
  size_t AxisPlace(size_t number) const {
    const size_t width = problem_.mesh().places(1);
    return axis_ == 0 ? number / width : number % width;
  }

  void AddGroup(int g) {
    Row sum;
    for (size_t i = 0; i < places_; ++i) {
      sum.Add(Ratio(g, i), 1);
      Row largest;
      largest.Add(Largest(g), 1);
      largest.Add(Ratio(g, i), -1);
      AddRow(largest, 0, COIN_DBL_MAX);
    }
    AddRow(sum, 1, 1);
  }

  // Devices at one place that take the same need one row.
  void AddStage(const Stage& stage, int column) {
    std::map<std::pair<size_t, Line>, bool> seen;
    for (size_t place = 0; place < stage.size(); ++place) {
      if (!seen.try_emplace({AxisPlace(place), stage[place]}, true).second) continue;
      Row row;
      row.Add(column, 1);
      for (int g = 0; g < kRatioGroups; ++g) {
        const double slope = stage[place].slope[static_cast<size_t>(g)];
        if (slope > 0) row.Add(Ratio(g, AxisPlace(place)), -slope);
      }
      AddRow(row, stage[place].fixed, COIN_DBL_MAX);
    }
  }

  SpmdProblem& problem_;
  size_t axis_;
  size_t places_;
  CoinPackedMatrix matrix_{false, 0, 0};  // by rows
  std::vector<double> objective_, least_, most_;
};

}  // namespace

void SetRatios(const Cluster& cluster, DType dtype, RatioStart start, SpmdMesh& mesh) {
  const size_t width = mesh.places(1);
  for (size_t axis = 0; axis < kMeshAxes; ++axis) {
    const std::vector<double> even(mesh.places(axis), 1.0 / static_cast<double>(mesh.places(axis)));
    std::vector<double> ratios(mesh.places(axis), 0);
    double sum = 0;
    for (size_t number = 0; number < mesh.size(); ++number) {
      const DeviceTypeSpec& type = cluster.type_of(mesh.device(number));
      const double weight = start == RatioStart::kMemory ? static_cast<double>(type.memory.value)
                                                         : type.rate(dtype).value;
      ratios[axis == 0 ? number / width : number % width] += weight;
      sum += weight;
    }
    for (double& ratio : ratios) ratio /= sum;
    if (start == RatioStart::kEven) ratios = even;
    mesh.ratios[axis] = {ratios, start == RatioStart::kSamples ? even : ratios};
  }
}

Result<AxisRatios> FitRatios(SpmdProblem& problem, const SpmdPlan& plan,
                             const SpmdEstimate& estimate, size_t axis) {
  try {
    RatioProgram program(problem, Demands(problem, plan, axis), axis);
    program.AddMemory(estimate);
    return program.Solve();
  } catch (const CoinError& error) {
    return Error{ErrorKind::kInternal, "ratios",
                 fmt::format("the solver failed in {}: {}", error.methodName(), error.message()),
                 ""};
  }
}

}  // namespace heddle
