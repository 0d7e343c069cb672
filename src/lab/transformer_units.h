// The units of a small transformer, each with its forward and its backward.
//
//   embedding    x = E[symbol] + P[position]
//   attention    x += Wo · attention(norm(x) · Wqkv), causal, heads of 8
//   mlp          x += W2 · relu(norm(x) · W1), four times as wide inside
//   head         scores = norm(x) · W
//
// norm divides by the root of the mean square; there are no biases. Between two units there is one
// matrix, the stream: tokens × hidden. A forward changes it in place and saves what its backward
// needs; a backward turns the gradient by what the forward left into that by what it found. A
// backward multiplies by the weights it is given, which need not be those of the forward.
//
//   const UnitKind& kind = KindOf(NetworkUnit::kMlp);
//   kind.forward({shape, weights, symbols, stream, saved, scratch, nullptr});
//   kind.backward({shape, weights, symbols, stream, saved, scratch, gradient});
#pragma once

#include <cstdint>

namespace heddle {

struct NetworkShape {
  int64_t alphabet = 2;
  int64_t layers = 4;    // attention and mlp each
  int64_t hidden = 16;   // a multiple of 8
  int64_t context = 16;  // symbols a sample has
  int64_t samples = 4;   // of a microbatch
  int64_t tokens() const { return samples * context; }
  int64_t heads() const { return hidden / kHead; }
  static constexpr int64_t kHead = 8;
};

struct UnitCall {
  const NetworkShape& shape;
  const double* weights;
  const uint8_t* symbols;  // by token: what is read
  double* stream;
  double* saved;
  double* scratch;   // ScratchNeeded
  double* gradient;  // backward: by the weights; may be null
};

enum class NetworkUnit : uint8_t { kEmbedding, kAttention, kMlp, kHead };

struct UnitKind {
  int64_t (*weights)(const NetworkShape&);
  int64_t (*saved)(const NetworkShape&);
  void (*forward)(const UnitCall&);
  void (*backward)(const UnitCall&);
  // Standard deviation of a weight at the start.
  double (*spread)(const NetworkShape&, int64_t index);
};
const UnitKind& KindOf(NetworkUnit unit);

// Of any unit's forward or backward.
int64_t ScratchNeeded(const NetworkShape& shape);

// Turns what the head saved from scores into their gradients by the mean loss over the tokens.
// Returns that loss. `targets` are the symbols to be predicted, by token.
double TurnScores(const NetworkShape& shape, const uint8_t* targets, double* saved);

}  // namespace heddle
