#include "lab/transformer_units.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "lab/small_matrix.h"

namespace heddle {
namespace {

using Shape = NetworkShape;
constexpr int64_t kHead = NetworkShape::kHead;
constexpr int64_t kWider = 4;  // of an mlp

// Pieces of one array, one after the other.
class Pieces {
 public:
  explicit Pieces(double* begin) : next_(begin) {}
  double* Take(int64_t size) {
    double* piece = next_;
    next_ += size;
    return piece;
  }

 private:
  double* next_;
};

// c (rows × columns) = a (rows × inner) · b (inner × columns), all dense.
void Product(int64_t rows, int64_t inner, int64_t columns, const double* a, const double* b,
             double* c) {
  Multiply({rows, inner, columns}, {a, inner, 1}, b, columns, c, columns);
}

// What a linear map's backward does: gradient (inputs × outputs) = inputᵀ · change, and
// back = change · weightsᵀ.
struct LinearMap {
  int64_t tokens, inputs, outputs;

  void Forward(const double* input, const double* weights, double* output) const {
    Product(tokens, inputs, outputs, input, weights, output);
  }
  void Backward(const double* input, const double* weights, const double* change, double* gradient,
                double* transposed, double* back) const {
    if (gradient != nullptr) {
      Multiply({inputs, tokens, outputs}, {input, 1, inputs}, change, outputs, gradient, outputs);
    }
    Transpose(inputs, outputs, weights, outputs, transposed);
    Product(tokens, outputs, inputs, change, transposed, back);
  }
};

// y = x / sqrt(mean x²); inverse: what x was multiplied by, for each token.
void Norm(const Shape& shape, const double* x, double* y, double* inverse) {
  constexpr double kLeast = 1e-5;
  const int64_t hidden = shape.hidden;
  for (int64_t t = 0; t < shape.tokens(); ++t, x += hidden, y += hidden) {
    double squares = 0;
    for (int64_t k = 0; k < hidden; ++k) squares += x[k] * x[k];
    inverse[t] = 1 / std::sqrt(squares / static_cast<double>(hidden) + kLeast);
    for (int64_t k = 0; k < hidden; ++k) y[k] = x[k] * inverse[t];
  }
}

// stream += gradient by x, given that by y.
void AddNormBackward(const Shape& shape, const double* y, const double* inverse,
                     const double* change, double* stream) {
  const int64_t hidden = shape.hidden;
  for (int64_t t = 0; t < shape.tokens(); ++t) {
    double along = 0;
    for (int64_t k = 0; k < hidden; ++k) along += y[k] * change[k];
    along /= static_cast<double>(hidden);
    for (int64_t k = 0; k < hidden; ++k) stream[k] += inverse[t] * (change[k] - along * y[k]);
    y += hidden, change += hidden, stream += hidden;
  }
}

void AddTo(double* sum, const double* values, int64_t size) {
  for (int64_t k = 0; k < size; ++k) sum[k] += values[k];
}

// ------------------------------------------------------------------------------- embedding

int64_t EmbeddingWeights(const Shape& shape) {
  return (shape.alphabet + shape.context) * shape.hidden;
}
int64_t NothingSaved(const Shape&) { return 0; }

void EmbeddingForward(const UnitCall& call) {
  const Shape& shape = call.shape;
  const double* positions = call.weights + shape.alphabet * shape.hidden;
  for (int64_t t = 0; t < shape.tokens(); ++t) {
    const double* symbol = call.weights + call.symbols[t] * shape.hidden;
    const double* position = positions + t % shape.context * shape.hidden;
    double* out = call.stream + t * shape.hidden;
    for (int64_t k = 0; k < shape.hidden; ++k) out[k] = symbol[k] + position[k];
  }
}

void EmbeddingBackward(const UnitCall& call) {
  if (call.gradient == nullptr) return;
  const Shape& shape = call.shape;
  std::fill_n(call.gradient, EmbeddingWeights(shape), 0.0);
  double* positions = call.gradient + shape.alphabet * shape.hidden;
  for (int64_t t = 0; t < shape.tokens(); ++t) {
    const double* change = call.stream + t * shape.hidden;
    AddTo(call.gradient + call.symbols[t] * shape.hidden, change, shape.hidden);
    AddTo(positions + t % shape.context * shape.hidden, change, shape.hidden);
  }
}

double EmbeddingSpread(const Shape&, int64_t) { return 0.5; }

// ------------------------------------------------------------------------------- attention

struct AttentionSaved {
  double *y, *inverse, *qkv, *chances, *mixed;
  AttentionSaved(const Shape& shape, double* saved) {
    Pieces pieces(saved);
    const int64_t size = shape.tokens() * shape.hidden;
    y = pieces.Take(size);
    inverse = pieces.Take(shape.tokens());
    qkv = pieces.Take(3 * size);
    mixed = pieces.Take(size);
    chances = pieces.Take(shape.tokens() * shape.heads() * shape.context);
  }
};

int64_t AttentionWeights(const Shape& shape) { return 4 * shape.hidden * shape.hidden; }
int64_t AttentionSavedSize(const Shape& shape) {
  return shape.tokens() * (5 * shape.hidden + 1 + shape.heads() * shape.context);
}

// Where a head of a sample has its part.
struct HeadPlace {
  int64_t qkv, mixed, chances;
  HeadPlace(const Shape& shape, int64_t sample, int64_t head)
      : qkv(sample * shape.context * 3 * shape.hidden + head * kHead),
        mixed(sample * shape.context * shape.hidden + head * kHead),
        chances((sample * shape.heads() + head) * shape.context * shape.context) {}
};

// Row t: softmax over 0 … t, zero beyond.
void CausalSoftmax(int64_t context, double scale, double* scores) {
  for (int64_t t = 0; t < context; ++t, scores += context) {
    const double most = *std::max_element(scores, scores + t + 1);
    double sum = 0;
    for (int64_t k = 0; k <= t; ++k) sum += scores[k] = std::exp(scale * (scores[k] - most));
    for (int64_t k = 0; k <= t; ++k) scores[k] /= sum;
    std::fill(scores + t + 1, scores + context, 0.0);
  }
}

constexpr double kScale = 0.35355339059327376;  // 1 / √kHead

void AttentionForward(const UnitCall& call) {
  const Shape& shape = call.shape;
  const int64_t hidden = shape.hidden, context = shape.context, wide = 3 * hidden;
  const AttentionSaved saved(shape, call.saved);
  Pieces scratch(call.scratch);
  double* keys = scratch.Take(kHead * context);  // transposed
  Norm(shape, call.stream, saved.y, saved.inverse);
  LinearMap{shape.tokens(), hidden, wide}.Forward(saved.y, call.weights, saved.qkv);
  for (int64_t sample = 0; sample < shape.samples; ++sample) {
    for (int64_t head = 0; head < shape.heads(); ++head) {
      const HeadPlace place(shape, sample, head);
      const double* q = saved.qkv + place.qkv;
      double* chances = saved.chances + place.chances;
      Transpose(context, kHead, q + hidden, wide, keys);
      Multiply({context, kHead, context}, {q, wide, 1}, keys, context, chances, context);
      CausalSoftmax(context, kScale, chances);
      Multiply({context, context, kHead}, {chances, context, 1}, q + 2 * hidden, wide,
               saved.mixed + place.mixed, hidden);
    }
  }
  double* out = scratch.Take(shape.tokens() * hidden);
  LinearMap{shape.tokens(), hidden, hidden}.Forward(saved.mixed, call.weights + wide * hidden, out);
  AddTo(call.stream, out, shape.tokens() * hidden);
}

// change: by the scores, in place of by the chances.
void SoftmaxBackward(int64_t context, const double* chances, double* change) {
  for (int64_t t = 0; t < context; ++t, chances += context, change += context) {
    double along = 0;
    for (int64_t k = 0; k < context; ++k) along += chances[k] * change[k];
    for (int64_t k = 0; k < context; ++k) change[k] = kScale * chances[k] * (change[k] - along);
  }
}

// d_qkv of one head, given d_mixed. Scratch: values' transpose and context × context.
void HeadBackward(const Shape& shape, const double* q, const double* chances, const double* d_mixed,
                  double* d_q, double* scratch) {
  const int64_t hidden = shape.hidden, context = shape.context, wide = 3 * hidden;
  double* values = scratch;
  double* change = scratch + kHead * context;
  Transpose(context, kHead, q + 2 * hidden, wide, values);
  Multiply({context, kHead, context}, {d_mixed, hidden, 1}, values, context, change, context);
  SoftmaxBackward(context, chances, change);
  Multiply({context, context, kHead}, {change, context, 1}, q + hidden, wide, d_q, wide);
  Multiply({context, context, kHead}, {change, 1, context}, q, wide, d_q + hidden, wide);
  Multiply({context, context, kHead}, {chances, 1, context}, d_mixed, hidden, d_q + 2 * hidden,
           wide);
}

void AttentionBackward(const UnitCall& call) {
  const Shape& shape = call.shape;
  const int64_t hidden = shape.hidden, wide = 3 * hidden, size = shape.tokens() * hidden;
  const AttentionSaved saved(shape, call.saved);
  Pieces scratch(call.scratch);
  double* d_mixed = scratch.Take(size);
  double* d_qkv = scratch.Take(3 * size);
  double* transposed = scratch.Take(wide * hidden);
  double* inside = scratch.Take((kHead + shape.context) * shape.context);
  double* out_gradient = call.gradient == nullptr ? nullptr : call.gradient + wide * hidden;
  LinearMap{shape.tokens(), hidden, hidden}.Backward(
      saved.mixed, call.weights + wide * hidden, call.stream, out_gradient, transposed, d_mixed);
  for (int64_t sample = 0; sample < shape.samples; ++sample) {
    for (int64_t head = 0; head < shape.heads(); ++head) {
      const HeadPlace place(shape, sample, head);
      HeadBackward(shape, saved.qkv + place.qkv, saved.chances + place.chances,
                   d_mixed + place.mixed, d_qkv + place.qkv, inside);
    }
  }
  double* d_y = d_mixed;  // no longer needed
  LinearMap{shape.tokens(), hidden, wide}.Backward(saved.y, call.weights, d_qkv, call.gradient,
                                                   transposed, d_y);
  AddNormBackward(shape, saved.y, saved.inverse, d_y, call.stream);
}

// What goes into the stream is small at first, the smaller the more units add to it.
double IntoStream(const Shape& shape, int64_t inputs) {
  return 1 / std::sqrt(static_cast<double>(inputs * 2 * shape.layers));
}

double AttentionSpread(const Shape& shape, int64_t index) {
  return index < 3 * shape.hidden * shape.hidden ? 1 / std::sqrt(static_cast<double>(shape.hidden))
                                                 : IntoStream(shape, shape.hidden);
}

// ------------------------------------------------------------------------------------- mlp

struct MlpSaved {
  double *y, *inverse, *inner;
  MlpSaved(const Shape& shape, double* saved) {
    Pieces pieces(saved);
    y = pieces.Take(shape.tokens() * shape.hidden);
    inverse = pieces.Take(shape.tokens());
    inner = pieces.Take(shape.tokens() * kWider * shape.hidden);
  }
};

int64_t MlpWeights(const Shape& shape) { return 2 * kWider * shape.hidden * shape.hidden; }
int64_t MlpSavedSize(const Shape& shape) {
  return shape.tokens() * ((1 + kWider) * shape.hidden + 1);
}

void MlpForward(const UnitCall& call) {
  const Shape& shape = call.shape;
  const int64_t hidden = shape.hidden, wide = kWider * hidden;
  const MlpSaved saved(shape, call.saved);
  Norm(shape, call.stream, saved.y, saved.inverse);
  LinearMap{shape.tokens(), hidden, wide}.Forward(saved.y, call.weights, saved.inner);
  for (int64_t k = 0; k < shape.tokens() * wide; ++k) {
    saved.inner[k] = std::max(saved.inner[k], 0.0);
  }
  double* out = call.scratch;
  LinearMap{shape.tokens(), wide, hidden}.Forward(saved.inner, call.weights + hidden * wide, out);
  AddTo(call.stream, out, shape.tokens() * hidden);
}

void MlpBackward(const UnitCall& call) {
  const Shape& shape = call.shape;
  const int64_t hidden = shape.hidden, wide = kWider * hidden, tokens = shape.tokens();
  const MlpSaved saved(shape, call.saved);
  Pieces scratch(call.scratch);
  double* d_inner = scratch.Take(tokens * wide);
  double* d_y = scratch.Take(tokens * hidden);
  double* transposed = scratch.Take(hidden * wide);
  double* out_gradient = call.gradient == nullptr ? nullptr : call.gradient + hidden * wide;
  LinearMap{tokens, wide, hidden}.Backward(saved.inner, call.weights + hidden * wide, call.stream,
                                           out_gradient, transposed, d_inner);
  for (int64_t k = 0; k < tokens * wide; ++k) d_inner[k] = saved.inner[k] > 0 ? d_inner[k] : 0;
  LinearMap{tokens, hidden, wide}.Backward(saved.y, call.weights, d_inner, call.gradient,
                                           transposed, d_y);
  AddNormBackward(shape, saved.y, saved.inverse, d_y, call.stream);
}

double MlpSpread(const Shape& shape, int64_t index) {
  const int64_t hidden = shape.hidden;
  return index < kWider * hidden * hidden ? std::sqrt(2 / static_cast<double>(hidden))
                                          : IntoStream(shape, kWider * hidden);
}

// ------------------------------------------------------------------------------------ head

struct HeadSaved {
  double *scores, *y, *inverse;
  HeadSaved(const Shape& shape, double* saved) {
    Pieces pieces(saved);
    scores = pieces.Take(shape.tokens() * shape.alphabet);
    y = pieces.Take(shape.tokens() * shape.hidden);
    inverse = pieces.Take(shape.tokens());
  }
};

int64_t HeadWeights(const Shape& shape) { return shape.hidden * shape.alphabet; }
int64_t HeadSavedSize(const Shape& shape) {
  return shape.tokens() * (shape.alphabet + shape.hidden + 1);
}

void HeadForward(const UnitCall& call) {
  const Shape& shape = call.shape;
  const HeadSaved saved(shape, call.saved);
  Norm(shape, call.stream, saved.y, saved.inverse);
  LinearMap{shape.tokens(), shape.hidden, shape.alphabet}.Forward(saved.y, call.weights,
                                                                  saved.scores);
}

void HeadBackward(const UnitCall& call) {
  const Shape& shape = call.shape;
  const HeadSaved saved(shape, call.saved);
  Pieces scratch(call.scratch);
  double* d_y = scratch.Take(shape.tokens() * shape.hidden);
  double* transposed = scratch.Take(shape.hidden * shape.alphabet);
  LinearMap{shape.tokens(), shape.hidden, shape.alphabet}.Backward(
      saved.y, call.weights, saved.scores, call.gradient, transposed, d_y);
  std::fill_n(call.stream, shape.tokens() * shape.hidden, 0.0);
  AddNormBackward(shape, saved.y, saved.inverse, d_y, call.stream);
}

// Scores near zero: the first loss is close to that of a uniform guess.
double HeadSpread(const Shape& shape, int64_t) {
  return 0.2 / std::sqrt(static_cast<double>(shape.hidden));
}

}  // namespace

const UnitKind& KindOf(NetworkUnit unit) {
  static constexpr std::array<UnitKind, 4> kinds = {{
      {EmbeddingWeights, NothingSaved, EmbeddingForward, EmbeddingBackward, EmbeddingSpread},
      {AttentionWeights, AttentionSavedSize, AttentionForward, AttentionBackward, AttentionSpread},
      {MlpWeights, MlpSavedSize, MlpForward, MlpBackward, MlpSpread},
      {HeadWeights, HeadSavedSize, HeadForward, HeadBackward, HeadSpread},
  }};
  return kinds[static_cast<size_t>(unit)];
}

int64_t ScratchNeeded(const Shape& shape) {
  const int64_t hidden = shape.hidden, tokens = shape.tokens();
  const int64_t attention =
      4 * tokens * hidden + 3 * hidden * hidden + (kHead + shape.context) * shape.context;
  const int64_t mlp = (kWider + 1) * tokens * hidden + kWider * hidden * hidden;
  const int64_t head = tokens * hidden + hidden * shape.alphabet;
  return std::max({attention, mlp, head});
}

double TurnScores(const Shape& shape, const uint8_t* targets, double* saved) {
  const int64_t tokens = shape.tokens(), alphabet = shape.alphabet;
  double* scores = HeadSaved(shape, saved).scores;
  double loss = 0;
  for (int64_t t = 0; t < tokens; ++t, scores += alphabet) {
    const double most = *std::max_element(scores, scores + alphabet);
    const double wanted = scores[targets[t]];
    double sum = 0;
    for (int64_t k = 0; k < alphabet; ++k) sum += scores[k] = std::exp(scores[k] - most);
    loss += std::log(sum) + most - wanted;
    const double share = 1 / (sum * static_cast<double>(tokens));
    for (int64_t k = 0; k < alphabet; ++k) scores[k] *= share;
    scores[targets[t]] -= 1 / static_cast<double>(tokens);
  }
  return loss / static_cast<double>(tokens);
}

}  // namespace heddle
