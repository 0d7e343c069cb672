#include "run/gradient_noise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "run/updated_parameters.h"

namespace heddle {
namespace {

constexpr size_t kStretches = 10;
constexpr double kStudent = 2.2622;  // of nine degrees of freedom, 95%

struct Sums {
  double shared = 0, square = 0;
  double ratio() const { return square / shared - 1; }
};

template <class T>
std::vector<double> Numbers(const Payload& payload) {
  const T* values = reinterpret_cast<const T*>(payload.data);
  return std::vector<double>(values, values + payload.bytes / sizeof(T));
}

double Product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

// The spread of a mean from what is left without each stretch: the jackknife's standard error.
double JackknifeError(const std::vector<double>& without) {
  double mean = 0, squares = 0;
  for (const double value : without) mean += value / static_cast<double>(without.size());
  for (const double value : without) squares += (value - mean) * (value - mean);
  const auto count = static_cast<double>(without.size());
  return std::sqrt((count - 1) / count * squares);
}

// Whether a port of an update is the gradient of a parameter it writes, and which.
bool IsGradient(const Program& program, const Port& port) {
  return port.use == PortUse::kConsume && program.tensor(port.tensor).role == Role::kWeightGradient;
}

}  // namespace

std::optional<NoiseEstimate> EstimateNoise(const std::vector<GradientPair>& pairs) {
  if (pairs.size() < 2 * kStretches) return std::nullopt;
  std::vector<Sums> stretches(kStretches);
  Sums all;
  for (size_t k = 0; k < pairs.size(); ++k) {
    Sums& stretch = stretches[k * kStretches / pairs.size()];
    stretch.shared += pairs[k].shared;
    stretch.square += pairs[k].square;
    all.shared += pairs[k].shared;
    all.square += pairs[k].square;
  }
  std::vector<double> shared, logarithms;
  for (const Sums& stretch : stretches) {
    const Sums rest{all.shared - stretch.shared, all.square - stretch.square};
    shared.push_back(rest.shared * kStretches / (kStretches - 1));
    // The logarithm of ‖g‖²/‖∇f‖², which is 0 without noise.
    logarithms.push_back(rest.shared > 0 ? std::log(rest.square / rest.shared)
                                         : std::numeric_limits<double>::infinity());
  }
  NoiseEstimate estimate;
  estimate.pairs = static_cast<int64_t>(pairs.size());
  const bool certain = all.shared - kStudent * JackknifeError(shared) > 0;
  const double infinity = std::numeric_limits<double>::infinity();
  if (!certain) {
    // All that is known is that the gradient is at most so large.
    const double most = all.shared + kStudent * JackknifeError(shared);
    estimate.low = most > 0 ? std::max(0.0, all.square / most - 1) : infinity;
    estimate.ratio = all.shared > 0 ? std::max(estimate.low, all.ratio()) : infinity;
    estimate.high = infinity;
    return estimate;
  }
  const double middle = std::log(all.square / all.shared);
  const double reach = kStudent * JackknifeError(logarithms);
  estimate.ratio = std::max(0.0, all.ratio());
  estimate.low = std::max(0.0, std::expm1(middle - reach));
  estimate.high = std::max(0.0, std::expm1(middle + reach));
  return estimate;
}

NoiseMeter::NoiseMeter(const Program& program, int32_t device, Executor& inner)
    : WrappedExecutor(inner), program_(program) {
  for (int32_t lower = 0; lower < device; ++lower) {
    const std::unordered_set<int32_t> updated = UpdatedParameters(program, lower);
    others_.insert(updated.begin(), updated.end());
  }
}

void NoiseMeter::Compute(const Instruction& compute, int64_t i) {
  const Segment& segment = program_.segment(compute.target);
  if (segment.phase == SegmentPhase::kUpdate) {
    // An update whose parameters others count as well is left to them.
    const bool counted =
        std::any_of(segment.ports.begin(), segment.ports.end(), [&](const Port& p) {
          return p.use != PortUse::kRead && program_.tensor(p.tensor).role == Role::kParameter &&
                 !others_.contains(p.tensor);
        });
    for (const Port& port : segment.ports) {
      if (counted && IsGradient(program_, port)) See(BufferOf(port, compute), i);
    }
  }
  WrappedExecutor::Compute(compute, i);
}

void NoiseMeter::See(const BufferRef& ref, int64_t i) {
  const Payload payload = Outgoing(ref, i);
  std::vector<double> gradient =
      dtype() == DType::kF64 ? Numbers<double>(payload) : Numbers<float>(payload);
  Seen& seen = seen_[{ref.tensor, ref.replica}];
  if (seen.updates > 0 && seen.gradient.size() == gradient.size()) {
    if (pairs_.size() < seen.updates) pairs_.resize(seen.updates);
    GradientPair& pair = pairs_[seen.updates - 1];
    pair.shared += Product(gradient, seen.gradient);
    pair.square += (Product(gradient, gradient) + Product(seen.gradient, seen.gradient)) / 2;
  }
  seen.gradient = std::move(gradient);
  ++seen.updates;
}

std::optional<NoiseEstimate> GatherNoise(const NoiseMeter& meter, RankMessages& messages) {
  std::vector<GradientPair> sums;
  for (const ByteString& bytes : messages.ToFirst(ToBytes(meter.pairs()))) {
    const auto pairs = FromBytes<GradientPair>(bytes);
    if (pairs.size() > sums.size()) sums.resize(pairs.size());
    for (size_t k = 0; k < pairs.size(); ++k) {
      sums[k].shared += pairs[k].shared;
      sums[k].square += pairs[k].square;
    }
  }
  return EstimateNoise(sums);
}

double RowsPerParameter(const Graph& graph, const DataSource& data) {
  int64_t parameters = 0;
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role == Role::kParameter) parameters += tensor.elements();
  }
  return parameters == 0
             ? 0
             : static_cast<double>(data.train_samples()) / static_cast<double>(parameters);
}

}  // namespace heddle
