// FiniteWatch: which tensor was the first to hold something that is no number, and in which step.
//
//   FiniteWatch watch(FiniteWatch::Manner::kNote);
//   executor.SetFiniteWatch(&watch);      // which calls watch.Bad(step, tensor)
//   …
//   watch.first()->tensor
//
// Tensors come in the order of the graph, where an op stands behind what it reads: of those that
// are bad in one step, the one with the smallest number was bad first.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <stdexcept>

#include "model/graph.h"

namespace heddle {

struct NotFinite {
  int64_t step = 0;  // of the run, counted from 0
  int32_t tensor = -1;

  auto operator<=>(const NotFinite&) const = default;
};

class FiniteWatch {
 public:
  enum class Manner : uint8_t {
    kNote,        // losses, gradients and messages are looked at
    kThrow,       // the same, and the first that is bad ends the work
    kEverything,  // every tensor is
  };

  // Thrown.
  class Found : public std::runtime_error {
   public:
    explicit Found(const NotFinite& what) : std::runtime_error("not finite"), what_(what) {}
    const NotFinite& not_finite() const { return what_; }

   private:
    NotFinite what_;
  };

  explicit FiniteWatch(Manner manner) : manner_(manner) {}

  // Whether a bad value there would be the first: others need not be looked at.
  bool Asks(int64_t step, TensorId tensor) const {
    return !first_ || NotFinite{step, tensor.value} < *first_;
  }
  // There is one.
  void Bad(int64_t step, TensorId tensor) {
    if (!Asks(step, tensor)) return;
    first_ = NotFinite{step, tensor.value};
    if (manner_ == Manner::kThrow) throw Found(*first_);
  }

  const std::optional<NotFinite>& first() const { return first_; }
  bool everything() const { return manner_ == Manner::kEverything; }

 private:
  Manner manner_;
  std::optional<NotFinite> first_;
};

}  // namespace heddle
