#include "lab/problems.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/file.h"
#include "base/philox.h"
#include "base/text.h"
#include "lab/language_model.h"
#include "lab/linear_model.h"
#include "lab/made_data.h"
#include "lab/quadratic.h"
#include "plan/two_threads.h"
#include "run/data/libsvm_data.h"

namespace heddle {
namespace {

constexpr double kShift = 0.01;
constexpr double kDecay = 1e-4;
constexpr int64_t kMostDimensions = 4096;  // of a linear model: Newton's method solves d × d

using Objectives = Result<std::unique_ptr<Objective>>;

// Microbatches of rows where the options want them.
std::unique_ptr<Objective> MakeLinear(LinearKind kind, SampleMatrix samples,
                                      std::vector<double> labels, double decay,
                                      const ObjectiveOptions& options,
                                      std::optional<LinearConstants> constants = std::nullopt) {
  if (options.batch == 0) {
    return std::make_unique<LinearModel>(kind, std::move(samples), std::move(labels), decay,
                                         options.start, constants);
  }
  return std::make_unique<MinibatchModel>(kind, std::move(samples), std::move(labels), decay,
                                          options.start,
                                          MinibatchRule{options.batch, options.order}, constants);
}

Status CheckBatch(const ObjectiveOptions& options, int64_t rows) {
  if (options.batch >= 0 && options.batch <= rows) return Ok();
  return BadInput("--batch", fmt::format("{} of {} rows", options.batch, rows),
                  fmt::format("expected 1 to {}", rows));
}

// The number of made rows, `by_default` unless given.
Result<int64_t> RowsOf(const ObjectiveOptions& options, int64_t columns, int64_t least,
                       int64_t by_default) {
  constexpr int64_t kMostNumbers = 1 << 26;
  const int64_t rows = options.rows > 0 ? options.rows : by_default;
  if (rows < least || rows > kMostNumbers / columns) {
    return BadInput("--rows", fmt::format("{} is out of range", rows),
                    fmt::format("expected {} to {}", least, kMostNumbers / columns));
  }
  HEDDLE_RETURN_IF_ERROR(CheckBatch(options, rows));
  return rows;
}

template <QuadraticStart start>
Objectives MakeQuadratic(const ObjectiveOptions& options) {
  const int64_t dimension = options.dimension > 0 ? options.dimension : 512;
  return std::unique_ptr<Objective>(std::make_unique<Quadratic>(dimension, kShift, start));
}

Objectives MakeLeastSquares(const ObjectiveOptions& options) {
  constexpr double kLabelNoise = 0.1;
  const int64_t dimension = options.dimension > 0 ? options.dimension : 128;
  HEDDLE_ASSIGN(const int64_t rows, RowsOf(options, dimension, 1, 2 * dimension));
  MadeRows data = NormalRows(rows, dimension, options.data_seed);
  const RandomStream errors(options.data_seed, "lab.labels");
  for (size_t r = 0; r < data.scores.size(); ++r) data.scores[r] += kLabelNoise * errors.Normal(r);
  return MakeLinear(LinearKind::kLeastSquares, std::move(data.samples), std::move(data.scores), 0,
                    options);
}

Objectives MakeChainRows(const ObjectiveOptions& options) {
  const int64_t dimension = options.dimension > 0 ? options.dimension : 512;
  HEDDLE_ASSIGN(const int64_t rows, RowsOf(options, dimension, dimension, dimension * 75 / 64));
  MadeRows data = ChainRows(rows, dimension, kShift, options.data_seed);
  const LinearConstants constants{Quadratic(dimension, kShift).smoothness(), 0};
  return MakeLinear(LinearKind::kLeastSquares, std::move(data.samples), std::move(data.scores), 0,
                    options, constants);
}

Objectives MakeLogistic(const ObjectiveOptions& options) {
  constexpr double kSharpness = 3;
  if (!options.data.empty()) {
    HEDDLE_ASSIGN(const std::string text, ReadFile(options.data));
    return LogisticOfLibsvm(text, options.data, options);
  }
  const int64_t dimension = options.dimension > 0 ? options.dimension : 64;
  HEDDLE_ASSIGN(const int64_t rows, RowsOf(options, dimension, 1, 8 * dimension));
  MadeRows data = NormalRows(rows, dimension, options.data_seed);
  const RandomStream coins(options.data_seed, "lab.labels");
  const double sharpness = options.sharpness > 0 ? options.sharpness : kSharpness;
  for (size_t r = 0; r < data.scores.size(); ++r) {
    const double chance = 1 / (1 + std::exp(-sharpness * data.scores[r]));
    data.scores[r] = coins.Uniform(r) < chance ? 1 : -1;
  }
  return MakeLinear(LinearKind::kLogistic, std::move(data.samples), std::move(data.scores), kDecay,
                    options);
}

Objectives MakeLanguageModel(const ObjectiveOptions& options) {
  constexpr int64_t kMadeLength = 200000;
  if (options.data.empty()) {
    return LanguageModelOf(MadeText(kMadeLength), "made text", options.network);
  }
  HEDDLE_ASSIGN(const std::string text, ReadFile(options.data));
  return LanguageModelOf(text, options.data, options.network);
}

// The larger of the two labels is +1.
Result<std::vector<double>> SignsOf(const LibsvmRows& rows, const std::string& where) {
  const double first = rows.labels[0];
  const auto other = std::find_if(rows.labels.begin(), rows.labels.end(),
                                  [&](double label) { return label != first; });
  if (other == rows.labels.end()) {
    return BadInput(where, "all labels are the same", "expected two different labels");
  }
  std::vector<double> signs;
  for (size_t r = 0; r < rows.rows(); ++r) {
    const double label = rows.labels[r];
    if (label != first && label != *other) {
      return BadInput(fmt::format("{}: line {}", where, rows.lines[r]),
                      fmt::format("a third label, {}", label), "expected two different labels");
    }
    signs.push_back(label == std::max(first, *other) ? 1 : -1);
  }
  return signs;
}

// One of a network's sizes, and what it may be.
struct Size {
  const char* flag;
  int64_t NetworkShape::*field;
  int64_t low, high, multiple;
};

constexpr Size kSizes[] = {{"--layers", &NetworkShape::layers, 1, 64, 1},
                           {"--hidden", &NetworkShape::hidden, 8, 256, NetworkShape::kHead},
                           {"--context", &NetworkShape::context, 1, 256, 1},
                           {"--samples", &NetworkShape::samples, 1, 256, 1}};

Status CheckNetwork(const NetworkShape& network) {
  for (const Size& size : kSizes) {
    const int64_t value = network.*size.field;
    if (value >= size.low && value <= size.high && value % size.multiple == 0) continue;
    const std::string multiple =
        size.multiple > 1 ? fmt::format(", a multiple of {}", size.multiple) : "";
    return BadInput(size.flag, fmt::format("{} is not possible", value),
                    fmt::format("expected {} to {}{}", size.low, size.high, multiple));
  }
  return Ok();
}

Status CheckLinear(const std::string& name, const ObjectiveOptions& options) {
  const std::pair<const char*, bool> given[] = {{"--rows", options.rows != 0},
                                                {"--batch", options.batch != 0},
                                                {"--start", options.start != LinearStart::kNormal},
                                                {"--order", options.order != RowOrder::kCyclic},
                                                {"--sharpness", options.sharpness != 0}};
  for (const auto& [flag, is_given] : given) {
    if (is_given && !IsLinear(name)) {
      return BadInput(flag, "\"" + name + "\" has no rows",
                      "only logistic, least-squares and chain-rows do");
    }
  }
  if (options.rows != 0 && !options.data.empty()) {
    return BadInput("--rows", "the rows are those of --data", "leave it out");
  }
  if (options.sharpness != 0 && (name != "logistic" || !options.data.empty())) {
    return BadInput("--sharpness", "only the made labels of logistic have one", "leave it out");
  }
  return Ok();
}

// Options that the objective would not read are mistakes.
Status CheckFits(const std::string& name, const ObjectiveOptions& options) {
  if (!options.data.empty() && name != "logistic" && name != "lm") {
    return BadInput("--data", "\"" + name + "\" reads no data", "only logistic and lm do");
  }
  for (const Size& size : kSizes) {
    if (name != "lm" && options.network.*size.field != NetworkShape{}.*size.field) {
      return BadInput(size.flag, "\"" + name + "\" is no network", "only lm is");
    }
  }
  if (options.dimension != 0 && name == "lm") {
    return BadInput("--dimension", "a network's sizes say how many parameters it has",
                    "see --layers and --hidden");
  }
  return CheckLinear(name, options);
}

struct Maker {
  Problem problem;
  Objectives (*make)(const ObjectiveOptions&);
};

const std::vector<Maker>& Makers() {
  static const std::vector<Maker> makers = {
      {{"quadratic", "tridiagonal (2, -1) + 0.01 I"}, &MakeQuadratic<QuadraticStart::kNormal>},
      {{"quadratic-load", "the same under an even load, from rest"},
       &MakeQuadratic<QuadraticStart::kAtRest>},
      {{"least-squares", "random least squares"}, &MakeLeastSquares},
      {{"chain-rows", "least squares on rows, with the chain's Hessian"}, &MakeChainRows},
      {{"logistic", "logistic regression, made data or a libsvm file"}, &MakeLogistic},
      {{"lm", "a character transformer, on made text or a file"}, &MakeLanguageModel},
  };
  return makers;
}

}  // namespace

const std::vector<Problem>& Problems() {
  static const std::vector<Problem> problems = [] {
    std::vector<Problem> list;
    for (const Maker& maker : Makers()) list.push_back(maker.problem);
    return list;
  }();
  return problems;
}

Objectives MakeProblem(const std::string& name, const ObjectiveOptions& options) {
  if (options.dimension < 0 || options.dimension > kMostDimensions ||
      (options.dimension > 0 && !options.data.empty())) {
    return BadInput("--dimension", fmt::format("{} is not possible here", options.dimension),
                    fmt::format("expected 1 to {}, and no --data", kMostDimensions));
  }
  std::vector<std::string> names;
  for (const Maker& maker : Makers()) {
    names.push_back(maker.problem.name);
    if (maker.problem.name != name) continue;
    HEDDLE_RETURN_IF_ERROR(CheckFits(name, options));
    return maker.make(options);
  }
  return BadInput("--objective", "\"" + name + "\" is unknown", SuggestName(name, names));
}

bool IsLinear(const std::string& name) {
  return name == "logistic" || name == "least-squares" || name == "chain-rows";
}

Result<DataBySeed> DataBySeed::Make(const std::string& name, const ObjectiveOptions& options,
                                    uint64_t first, int count, int threads) {
  std::vector<std::optional<Objectives>> made(static_cast<size_t>(count));
  ForEachOnThreads(made.size(), threads, [&](size_t k) {
    ObjectiveOptions own = options;
    own.data_seed = first + k;
    made[k] = MakeProblem(name, own);
  });
  DataBySeed data;
  data.first_ = first;
  for (std::optional<Objectives>& one : made) {
    HEDDLE_ASSIGN(std::unique_ptr<Objective> objective, *std::move(one));
    data.objectives_.push_back(std::move(objective));
  }
  return data;
}

Objectives LanguageModelOf(std::string_view text, const std::string& where,
                           const NetworkShape& network) {
  HEDDLE_RETURN_IF_ERROR(CheckNetwork(network));
  HEDDLE_ASSIGN(TextSource source, TextSource::Of(text, where, network.context + 1));
  return std::unique_ptr<Objective>(std::make_unique<LanguageModel>(std::move(source), network));
}

Objectives LogisticOfLibsvm(std::string_view text, const std::string& where,
                            const ObjectiveOptions& options) {
  HEDDLE_ASSIGN(const LibsvmRows rows, ParseLibsvm(text, where));
  int64_t dimension = 0;
  std::vector<SampleMatrix::Entry> entries;
  for (size_t r = 0; r < rows.rows(); ++r) {
    for (size_t k = rows.begins[r]; k < rows.begins[r + 1]; ++k) {
      const int64_t column = rows.index[k] - rows.least_index;
      if (column >= kMostDimensions) {
        return BadInput(fmt::format("{}: line {}", where, rows.lines[r]),
                        fmt::format("feature {} is too large for the lab", rows.index[k]),
                        fmt::format("expected at most {} features", kMostDimensions));
      }
      dimension = std::max(dimension, column + 1);
      entries.push_back({static_cast<int32_t>(r), static_cast<int32_t>(column), rows.value[k]});
    }
  }
  if (dimension == 0) return BadInput(where, "no features, only labels", "expected index:value");
  HEDDLE_ASSIGN(std::vector<double> signs, SignsOf(rows, where));
  const auto count = static_cast<int64_t>(rows.rows());
  HEDDLE_RETURN_IF_ERROR(CheckBatch(options, count));
  return MakeLinear(LinearKind::kLogistic,
                    SampleMatrix::Sparse(count, dimension, std::move(entries)), std::move(signs),
                    kDecay, options);
}

}  // namespace heddle
