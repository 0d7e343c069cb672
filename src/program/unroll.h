// Unroll: the order in which a device meets the instructions of prologue, body and epilogue, and
// the absolute names its buffers then have. Shared by checker, simulator and runtime.
//
//   for (const Step& step : UnrolledSteps(program, 3))
//     for (const Instruction& in : device.list(step.section)) … KeyOf(ref, step.i)
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "program/program.h"

namespace heddle {

struct Step {
  Section section;
  int64_t i;  // the repetition; in the epilogue, their number
};

std::vector<Step> UnrolledSteps(const Program& program, int64_t repetitions);

// A buffer's name with the repetition filled in.
struct BufferKey {
  static constexpr int64_t kNone = INT64_MIN;
  int32_t tensor = -1;
  int32_t form = -1;
  int32_t replica = -1;
  int64_t microbatch = kNone;
  int64_t version = kNone;

  bool operator==(const BufferKey&) const = default;
};

BufferKey KeyOf(const BufferRef& ref, int64_t i);

// A name for messages: the key as it stands, with nothing relative in it.
BufferRef RefOf(const BufferKey& key);

// The repetition of the body, counted from the Program's first update, that an instruction's
// microbatch belongs to; the present one where it has none.
int64_t BodyOf(const Program& program, const Instruction& in, int64_t i);

// A training step is one update of every weight: a body has one, or as many as its header says,
// which its microbatches belong to in their order.
int64_t StepsPerBody(const Program& program);
int64_t StepOf(const Program& program, const Instruction& in, int64_t i);

// Training steps of prologue and epilogue together: a run with n repetitions makes so many more.
int64_t StepsOutsideBody(const Program& program);

// Whether any operand of the body depends on the repetition.
bool IsRelative(const Program& program);

}  // namespace heddle

// Not noexcept: libstdc++ then keeps the hash beside the key, and chains are walked without hashing
// again (a third of the checker's time).
template <>
struct std::hash<heddle::BufferKey> {
  size_t operator()(const heddle::BufferKey& key) const {
    uint64_t h = 0;
    const auto mix = [&h](uint64_t value) {
      h = (h ^ value) * 0x9e3779b97f4a7c15ULL;
      h ^= h >> 29;
    };
    mix(static_cast<uint32_t>(key.tensor));
    mix(static_cast<uint64_t>(key.microbatch));
    mix(static_cast<uint64_t>(key.version));
    mix((static_cast<uint64_t>(static_cast<uint32_t>(key.form)) << 32) |
        static_cast<uint32_t>(key.replica));
    return h;
  }
};
