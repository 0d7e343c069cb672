#include "model/op_kind.h"

#include <array>

namespace heddle {
namespace {

constexpr uint8_t kFirst = 1;
constexpr uint8_t kSecond = 2;

// Flops per point are counts of the textbook formulas (a GELU is a cubic, a tanh and products);
// they matter little, since everything but einsum and attention is bound by memory.
// Attention: q k^T and p v are 2 flops each per (query, key, feature); its backward has five such
// products (one recomputes p).
constexpr std::array<OpKindInfo, kOpKindCount> kInfos = {{
    {"einsum", Linearity::kMultilinear, kFirst | kSecond, 2, true},
    {"bias_add", Linearity::kAdditive, kFirst | kSecond, 1, false},
    {"add", Linearity::kAdditive, kFirst | kSecond, 1, false},
    {"reduce_sum", Linearity::kMultilinear, kFirst, 1, false},
    {"gelu", Linearity::kNone, 0, 10, false},
    {"gelu_backward", Linearity::kMultilinear, kFirst, 16, false},
    {"relu", Linearity::kNone, 0, 1, false},
    {"relu_backward", Linearity::kMultilinear, kFirst, 1, false},
    {"layer_norm", Linearity::kNone, 0, 8, false},
    {"layer_norm_input", Linearity::kMultilinear, kFirst, 12, false},
    {"layer_norm_scale", Linearity::kMultilinear, kFirst, 4, false},
    {"attention", Linearity::kNone, 0, 4, true},
    {"attention_input", Linearity::kMultilinear, kFirst, 10, true},
    {"embedding", Linearity::kMultilinear, kSecond, 0, false},
    {"embedding_weight", Linearity::kMultilinear, kFirst, 1, false},
    {"cross_entropy", Linearity::kNone, 0, 4, false},
    {"cross_entropy_input", Linearity::kNone, 0, 4, false},
    {"sgd", Linearity::kNone, 0, 2, false},
    {"adam", Linearity::kNone, 0, 12, false},
    {"opaque", Linearity::kNone, 0, 0, false},
}};

}  // namespace

const OpKindInfo& InfoOf(OpKind kind) { return kInfos[static_cast<size_t>(kind)]; }

}  // namespace heddle
