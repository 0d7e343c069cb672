#include "model/op_kind.h"

#include <array>

namespace heddle {
namespace {

constexpr uint8_t kFirst = 1;
constexpr uint8_t kSecond = 2;

// Flops per point are counts of the textbook formulas (a GELU is a cubic, a tanh and products);
// they matter little, since everything but einsum and attention is bound by memory.
// Attention: q k^T and p v are 2 flops each per (query, key, feature); its backward has five such
// products (one recomputes p); cross-attention's is in two ops that both recompute p.
constexpr std::array<OpKindInfo, kOpKindCount> kInfos = {{
    {"einsum", Linearity::kMultilinear, kFirst | kSecond, 2, true, -1, true},
    {"bias_add", Linearity::kAdditive, kFirst | kSecond, 1, false, 0},
    {"add", Linearity::kAdditive, kFirst | kSecond, 1, false, 0},
    {"reduce_sum", Linearity::kMultilinear, kFirst, 1, false},
    {"gelu", Linearity::kNone, 0, 10, false},
    {"gelu_backward", Linearity::kMultilinear, kFirst, 16, false, 0},
    {"relu", Linearity::kNone, 0, 1, false, 0},
    {"relu_backward", Linearity::kMultilinear, kFirst, 1, false, 0},
    {"layer_norm", Linearity::kNone, 0, 8, false},
    {"layer_norm_input", Linearity::kMultilinear, kFirst, 12, false},
    {"layer_norm_scale", Linearity::kMultilinear, kFirst, 4, false},
    {"attention", Linearity::kNone, 0, 4, true},
    {"attention_input", Linearity::kMultilinear, kFirst, 10, true},
    {"embedding", Linearity::kMultilinear, kSecond, 0, false},
    {"embedding_weight", Linearity::kMultilinear, kFirst, 1, false},
    {"cross_entropy", Linearity::kNone, 0, 4, false},
    {"cross_entropy_input", Linearity::kNone, 0, 4, false, 0},
    {"tanh", Linearity::kNone, 0, 6, false, 0},
    {"tanh_backward", Linearity::kMultilinear, kFirst, 3, false, 0},
    {"dropout", Linearity::kMultilinear, kFirst, 12, false, 0},
    {"conv2d", Linearity::kMultilinear, kFirst | kSecond, 2, true},
    {"conv2d_input", Linearity::kMultilinear, kFirst | kSecond, 2, true},
    {"conv2d_weight", Linearity::kMultilinear, kFirst | kSecond, 2, true},
    {"max_pool", Linearity::kNone, 0, 1, false},
    {"max_pool_input", Linearity::kMultilinear, kFirst, 1, false},
    {"average_pool", Linearity::kMultilinear, kFirst, 1, false},
    {"average_pool_input", Linearity::kMultilinear, kFirst, 1, false},
    {"mean", Linearity::kMultilinear, kFirst, 1, false},
    {"mean_input", Linearity::kMultilinear, kFirst, 1, false},
    {"concat", Linearity::kAdditive, 0xff, 0, false},
    {"slice", Linearity::kMultilinear, kFirst, 0, false},
    {"batch_mean", Linearity::kMultilinear, kFirst, 1, false},
    {"batch_variance", Linearity::kNone, 0, 3, false},
    {"batch_norm", Linearity::kNone, 0, 4, false},
    {"batch_norm_sums", Linearity::kMultilinear, kFirst, 4, false},
    {"batch_norm_input", Linearity::kNone, 0, 6, false},
    {"class_token", Linearity::kAdditive, kFirst | kSecond, 0, false},
    {"class_token_input", Linearity::kMultilinear, kFirst, 0, false},
    {"class_token_weight", Linearity::kMultilinear, kFirst, 1, false},
    {"select_first", Linearity::kMultilinear, kFirst, 0, false},
    {"select_first_input", Linearity::kMultilinear, kFirst, 0, false},
    {"cross_attention", Linearity::kNone, 0, 4, true},
    {"cross_attention_query", Linearity::kMultilinear, kFirst, 6, true},
    {"cross_attention_context", Linearity::kMultilinear, kFirst, 8, true},
    {"softmax", Linearity::kNone, 0, 4, false},
    {"softmax_backward", Linearity::kMultilinear, kFirst, 4, false},
    {"route", Linearity::kNone, 0, 2, false},
    {"route_input", Linearity::kMultilinear, kFirst, 0, false},
    {"dispatch", Linearity::kMultilinear, kFirst, 0, false},
    {"dispatch_input", Linearity::kMultilinear, kFirst, 0, false},
    {"combine", Linearity::kMultilinear, kFirst, 1, false},
    {"combine_input", Linearity::kMultilinear, kFirst, 1, false},
    {"combine_weight", Linearity::kMultilinear, kFirst | kSecond, 2, false},
    {"balance_loss", Linearity::kNone, 0, 1, false},
    {"balance_loss_input", Linearity::kNone, 0, 1, false},
    {"square_sum", Linearity::kNone, 0, 2, false},
    {"sgd", Linearity::kNone, 0, 2, false},
    {"momentum", Linearity::kNone, 0, 4, false},
    {"adam", Linearity::kNone, 0, 12, false},
    {"opaque", Linearity::kNone, 0, 0, false},
}};

}  // namespace

const OpKindInfo& InfoOf(OpKind kind) { return kInfos[static_cast<size_t>(kind)]; }

}  // namespace heddle
