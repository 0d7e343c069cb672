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
  kTanh,               //
  kTanhBackward,       // (dy, y) -> dx
  kDropout,            // x or dy -> the same with some elements zero, chosen by counter
  // Images: [samples, channels, height, width].
  kConv2d,            // (x, w) -> y
  kConv2dInput,       // (dy, w) -> dx
  kConv2dWeight,      // (dy, x) -> dw
  kMaxPool,           // x -> y, where each maximum was
  kMaxPoolInput,      // (dy, where) -> dx
  kAveragePool,       // x -> y
  kAveragePoolInput,  // dy -> dx
  kMean,              // over all positions: [b, c, h, w] -> [b, c]
  kMeanInput,         // dy -> dx
  kConcat,            // of channels
  kSlice,             // of channels: a part of what was joined
  // Batch normalisation in steps, so that each contraction over samples is an op of its own.
  kBatchMean,       // x -> mean
  kBatchVariance,   // (x, mean) -> variance
  kBatchNorm,       // (x, mean, variance, scale, shift) -> y
  kBatchNormSums,   // (dy, x, mean, variance) -> sums of dy, and of dy times the normalised x
  kBatchNormInput,  // (dy, x, mean, variance, scale, sums) -> dx
  // Tokens: [samples, positions, features].
  kClassToken,             // (image features [b, h, y, x], token) -> [b, 1 + y x, h]
  kClassTokenInput,        // dy -> gradient of the features
  kClassTokenWeight,       // dy -> gradient of the token
  kSelectFirst,            // x -> its first position
  kSelectFirstInput,       // dy -> dx
  kCrossAttention,         // (q, packed k, v) -> o, logsumexp
  kCrossAttentionQuery,    // (do, q, kv, o, logsumexp) -> dq
  kCrossAttentionContext,  // (do, q, kv, o, logsumexp) -> dkv
  // Mixture of experts. A token's slot is expert * capacity + place, or -1 - expert if there was no
  // room for it.
  kSoftmax,           //
  kSoftmaxBackward,   // (dy, y) -> dx
  kRoute,             // probabilities -> that of the expert chosen (0 without room), slot
  kRouteInput,        // (d chosen, slot) -> d probabilities
  kDispatch,          // (x, slot) -> tokens by expert and place
  kDispatchInput,     // (dy, slot) -> dx
  kCombine,           // (y by expert and place, slot, chosen) -> [b, s, h]
  kCombineInput,      // (dy, slot, chosen) -> gradient by expert and place
  kCombineWeight,     // (dy, y by expert and place, slot) -> d chosen
  kBalanceLoss,       // (probabilities, slot) -> loss / N that rewards an even use of the experts
  kBalanceLossInput,  // slot -> d probabilities
  kSquareSum,         // g -> part of the squared norm of all gradients
  // Updates. With clipping the squared norm of all gradients is one more input, the last.
  kSgd,       // (w, g) -> w
  kMomentum,  // (w, g, m) -> w, m
  kAdam,      // (w, g, m, v) -> w, m, v
  kOpaque,    // a profiled layer: only times and bytes are known
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
  // The input whose memory the first output takes when nobody reads it afterwards; -1: none.
  int8_t in_place = -1;
  bool adds = false;  // to a sum that is there, without a temporary
};

const OpKindInfo& InfoOf(OpKind kind);

}  // namespace heddle
