// OpKind: what an op computes, and how it behaves under sharding.
//
// An op's axes are written as letters, like an einsum: "bsk,kn->bsn". One declaration gives the
// shapes, the work and the sharding rules:
//   * a letter in an output's axes is parallel there: shard it and that output is sharded too;
//   * a letter missing from an output is contracted: shard it and that output is a partial sum;
//   * an upper-case letter is blocked: it cannot be sharded (the axis LayerNorm normalises over).
// 'b' is always the sample axis. After '|' comes the work when it is not the product of all
// letters once: attention over S positions is "bSCaD->bSaD,baS|bSSaD".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace heddle {

enum class OpKind : uint8_t {
  kEinsum,             // two operands, contracted over the letters missing from the output
  kBiasAdd,            // second operand broadcast along the letters it lacks
  kAdd,                // residual
  kReduceSum,          // gradient of a broadcast operand
  kGelu,               //
  kGeluBackward,       // (dy, x) -> dx
  kRelu,               //
  kReluBackward,       // (dy, y) -> dx
  kLayerNorm,          // (x, scale, shift) -> y, mean, rstd
  kLayerNormInput,     // (dy, x, scale, mean, rstd) -> dx
  kLayerNormScale,     // (dy, x, mean, rstd) -> gradient of scale
  kAttention,          // packed q, k, v -> o, logsumexp
  kAttentionInput,     // (do, qkv, o, logsumexp) -> dqkv
  kEmbedding,          // (tokens, table) -> rows of the table
  kEmbeddingWeight,    // (dy, tokens) -> gradient of the table
  kCrossEntropy,       // (logits, targets) -> loss / N, logsumexp
  kCrossEntropyInput,  // (logits, targets, logsumexp) -> dlogits / N
  kSgd,                // (w, g) -> w
  kAdam,               // (w, g, m, v) -> w, m, v
  kOpaque,             // a profiled layer: only times and bytes are known
};

inline constexpr int kOpKindCount = static_cast<int>(OpKind::kOpaque) + 1;

enum class Linearity : uint8_t {
  kNone,         // a partial sum must be completed before this op
  kAdditive,     // f(x + x', y + y') = f(x, y) + f(x', y'): partial sums in all operands at once
  kMultilinear,  // linear in each operand of `linear_in` while the others are whole
};

struct OpKindInfo {
  std::string_view name;
  Linearity linearity;
  uint8_t linear_in;       // bit i: linear in input i
  double flops_per_point;  // times the product of the work letters' extents
  bool matrix;             // runs at the matrix rate; others are bound by memory
};

const OpKindInfo& InfoOf(OpKind kind);

}  // namespace heddle
