#include "run/torch/rounding.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "run/rank_order_sum.h"
#include "run/torch/torch_executor.h"

namespace heddle {
namespace {

constexpr int64_t kStarts = 1 << 16;  // where a run of signs may begin

// Kernels that sum nothing are off by a few units, too: exp, tanh, a product and its sum in one.
constexpr double kLeastTerms = 16;

// A half keeps 11 bits, down to its smallest, and is rounded twice: on its way and as a sum. That
// is a bound, not chance: an eighth of it, of which verify allows kRoundingFactor times.
constexpr Rounding::Error kHalf = {0x1p-11 / 8, 0x1p-24 / kHalfScale / 8};

double PointsOf(const Op& op, const std::string& letters) {
  double points = 1;
  for (const char letter : letters) points *= static_cast<double>(op.extents[op.IndexOf(letter)]);
  return points;
}

// Per element of its smallest output.
double TermsOf(const Op& op) {
  double least = PointsOf(op, op.work);
  for (const Operand& output : op.outputs) least = std::min(least, PointsOf(op, output.letters));
  return PointsOf(op, op.work) / std::max(least, 1.0);
}

int64_t MostElements(const Graph& graph) {
  int64_t most = 1;
  for (const Tensor& tensor : graph.tensors()) most = std::max(most, tensor.elements());
  return most;
}

at::Tensor Signs(const RandomStream& stream, int64_t count, DType dtype) {
  at::Tensor signs = at::empty({count}, at::kDouble);
  double* to = signs.data_ptr<double>();
  constexpr int64_t kBits = 32, kPerBlock = 4 * kBits;
  for (int64_t k = 0; k < count; k += kPerBlock) {
    const std::array<uint32_t, 4> words = stream.Words(static_cast<uint64_t>(k / kPerBlock));
    for (int64_t bit = 0; bit < std::min(kPerBlock, count - k); ++bit) {
      const uint32_t word = words[static_cast<size_t>(bit / kBits)];
      to[k + bit] = (word >> (bit % kBits) & 1U) != 0 ? 1 : -1;
    }
  }
  return signs.to(ScalarOf(dtype));
}

}  // namespace

double UnitRoundoff(DType dtype) {
  const bool twice = dtype == DType::kF64;
  return (twice ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon()) /
         2;
}

Rounding::Rounding(const Graph& graph, const TrainOptions& train, const Options& options)
    : graph_(graph),
      halves_(options.halves),
      unit_(UnitRoundoff(train.dtype)),
      stream_(train.seed, "rounding." + std::to_string(options.draw)),
      signs_(Signs(stream_, MostElements(graph) + kStarts, train.dtype)) {}

Rounding::Error Rounding::Of(const Op& op) const {
  Error error{std::sqrt(std::max(TermsOf(op), kLeastTerms)) * unit_, 0};
  const bool travels =
      op.phase != Phase::kUpdate &&
      std::any_of(op.outputs.begin(), op.outputs.end(), [&](const Operand& output) {
        return graph_.tensor(output.tensor).role == Role::kWeightGradient;
      });
  if (halves_ && travels) {
    error.relative += kHalf.relative;
    error.absolute = kHalf.absolute;
  }
  return error;
}

at::Tensor Rounding::NextSigns(const at::Tensor& like) {
  const auto start = static_cast<int64_t>(stream_.Below(taken_++, kStarts));
  return signs_.narrow(0, start, like.numel()).view(like.sizes());
}

at::Tensor Rounding::Disturbed(const at::Tensor& x, const Error& error) {
  if (!x.is_floating_point()) return x;
  at::Tensor disturbed = x.clone();
  Disturb(disturbed, error);
  return disturbed;
}

void Rounding::Disturb(at::Tensor& x, const Error& error) {
  if (!x.is_floating_point()) return;
  const at::Tensor signs = NextSigns(x);
  x.addcmul_(x, signs, error.relative);
  if (error.absolute > 0) x.add_(signs, error.absolute);
}

}  // namespace heddle
