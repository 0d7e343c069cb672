#include "lab/language_model.h"

#include <algorithm>

#include "base/check.h"
#include "base/philox.h"

namespace heddle {
namespace {

// Windows that a loss is the mean of, rounded up to whole microbatches. The held-out loss is taken
// once, the other at every point of a curve.
constexpr int64_t kLossWindows = 128;
constexpr int64_t kHeldOutWindows = 512;

}  // namespace

LanguageModel::LanguageModel(TextSource text, NetworkShape shape)
    : text_(std::move(text)), shape_(shape) {
  shape_.alphabet = text_.alphabet;
  HEDDLE_CHECK(shape_.hidden % NetworkShape::kHead == 0 && shape_.layers >= 1);
  const auto size = static_cast<int64_t>(text_.symbols.size());
  HEDDLE_CHECK(std::min(text_.training, size - text_.training) > shape_.context);
  Place(NetworkUnit::kEmbedding);
  for (int64_t layer = 0; layer < shape_.layers; ++layer) {
    Place(NetworkUnit::kAttention);
    Place(NetworkUnit::kMlp);
  }
  Place(NetworkUnit::kHead);
}

void LanguageModel::Place(NetworkUnit unit) {
  const UnitKind& kind = KindOf(unit);
  units_.push_back({unit, {dimension_, dimension_ + kind.weights(shape_)}, saved_});
  dimension_ = units_.back().weights.end;
  saved_ += kind.saved(shape_);
}

double LanguageModel::smoothness() const {
  // There is no L. The largest step size of the first grid is one at which the default model
  // hardly learns.
  constexpr double kLargestStep = 2;
  return 2 / kLargestStep;
}

std::vector<Block> LanguageModel::Blocks(int stages) const {
  HEDDLE_CHECK(stages >= 1 && stages <= most_stages());
  std::vector<Block> blocks;
  for (const Block& share : SplitBlocks(most_stages(), stages)) {
    // Unit 0 is the embedding.
    blocks.push_back({units_[static_cast<size_t>(share.begin + 1)].weights.begin,
                      units_[static_cast<size_t>(share.end)].weights.end});
  }
  blocks.front().begin = 0;
  blocks.back().end = dimension_;
  return blocks;
}

std::vector<double> LanguageModel::Start(uint64_t seed) const {
  const RandomStream stream(seed, "lab.lm.start");
  std::vector<double> start(static_cast<size_t>(dimension_));
  for (const PlacedUnit& unit : units_) {
    for (int64_t k = unit.weights.begin; k < unit.weights.end; ++k) {
      start[static_cast<size_t>(k)] = stream.Normal(static_cast<uint64_t>(k)) *
                                      KindOf(unit.unit).spread(shape_, k - unit.weights.begin);
    }
  }
  return start;
}

Pass LanguageModel::MakePass() const {
  const auto stream = static_cast<size_t>(shape_.tokens() * shape_.hidden);
  Pass pass;
  pass.point.assign(static_cast<size_t>(dimension_), 0.0);
  pass.signal.assign(static_cast<size_t>(saved_), 0.0);
  pass.response.assign(stream, 0.0);
  pass.scratch.assign(static_cast<size_t>(ScratchNeeded(shape_)), 0.0);
  pass.symbols.assign(static_cast<size_t>(2 * shape_.tokens()), 0);
  return pass;
}

void LanguageModel::FillWindow(int64_t begin, int64_t sample, Pass& pass) const {
  const auto from = text_.symbols.begin() + begin;
  const auto to = pass.symbols.begin() + sample * shape_.context;
  std::copy(from, from + shape_.context, to);
  std::copy(from + 1, from + 1 + shape_.context, to + shape_.tokens());
}

void LanguageModel::Begin(Pass& pass) const {
  const RandomStream stream(pass.draw.seed, "lab.lm.windows");
  const auto places = static_cast<uint64_t>(text_.training - shape_.context);
  for (int64_t k = 0; k < shape_.samples; ++k) {
    const auto index = static_cast<uint64_t>(pass.draw.microbatch * shape_.samples + k);
    FillWindow(static_cast<int64_t>(stream.Below(index, places)), k, pass);
  }
}

UnitCall LanguageModel::CallOf(const PlacedUnit& unit, Pass& pass) const {
  return {shape_,
          pass.point.data() + unit.weights.begin,
          pass.symbols.data(),
          pass.response.data(),
          pass.signal.data() + unit.saved,
          pass.scratch.data(),
          nullptr};
}

void LanguageModel::Forward(const Block& block, const double* values, Pass& pass) const {
  std::copy(values, values + block.size(), pass.point.data() + block.begin);
  for (const PlacedUnit& unit : units_) {
    if (unit.weights.begin < block.begin || unit.weights.begin >= block.end) continue;
    HEDDLE_CHECK(unit.weights.end <= block.end);
    KindOf(unit.unit).forward(CallOf(unit, pass));
  }
}

void LanguageModel::Turn(Pass& pass) const {
  TurnScores(shape_, pass.symbols.data() + shape_.tokens(),
             pass.signal.data() + units_.back().saved);
  pass.returned = static_cast<int64_t>(units_.size());
}

void LanguageModel::Backward(const Block& block, Pass& pass, double* gradient) const {
  HEDDLE_CHECK(pass.returned > 0 &&
               units_[static_cast<size_t>(pass.returned - 1)].weights.end >= block.end);
  while (pass.returned > 0) {
    const PlacedUnit& unit = units_[static_cast<size_t>(pass.returned - 1)];
    if (unit.weights.begin < block.begin) break;
    UnitCall call = CallOf(unit, pass);
    if (unit.weights.end <= block.end) call.gradient = gradient + unit.weights.begin - block.begin;
    KindOf(unit.unit).backward(call);
    --pass.returned;
  }
}

void LanguageModel::Reread(const Block& block, const double* values, Pass& pass) const {
  std::copy(values, values + block.size(), pass.point.data() + block.begin);
}

double LanguageModel::ForwardAll(const double* x, Pass& pass) const {
  Forward({0, dimension_}, x, pass);
  return TurnScores(shape_, pass.symbols.data() + shape_.tokens(),
                    pass.signal.data() + units_.back().saved);
}

double LanguageModel::SampleLoss(const double* x, Pass& pass) const {
  Begin(pass);
  return ForwardAll(x, pass);
}

double LanguageModel::MeanLoss(const double* x, int64_t begin, int64_t end, int64_t count) const {
  Pass pass = MakePass();
  const int64_t rounds = (count + shape_.samples - 1) / shape_.samples;
  const int64_t windows = rounds * shape_.samples, places = end - begin - shape_.context;
  double sum = 0;
  for (int64_t window = 0; window < windows; ++window) {
    FillWindow(begin + places * window / windows, window % shape_.samples, pass);
    if (window % shape_.samples == shape_.samples - 1) sum += ForwardAll(x, pass);
  }
  return sum / static_cast<double>(rounds);
}

double LanguageModel::Loss(const double* x) const {
  return MeanLoss(x, 0, text_.training, kLossWindows);
}

std::optional<double> LanguageModel::HeldOutLoss(const double* x) const {
  return MeanLoss(x, text_.training, static_cast<int64_t>(text_.symbols.size()), kHeldOutWindows);
}

}  // namespace heddle
