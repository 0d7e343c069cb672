// Executor: the tensors of one device. It speaks in the Program's terms: run this segment, give me
// the memory of that buffer. The worker loop (worker.h) decides when.
#pragma once

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "program/unroll.h"
#include "run/communicator.h"

namespace heddle {

// A collective's memory on one member, in blocks as in CollectiveCall.
struct ExchangeBlocks {
  std::vector<Payload> in, out;
};

class Executor {
 public:
  virtual ~Executor() = default;

  // Runs the segment of a compute instruction. `i` is the repetition of the body, which is also the
  // number of the optimizer step for synchronous Programs.
  virtual void Compute(const Instruction& compute, int64_t i) = 0;

  // Memory to send (contiguous; a copy where the slice is not), to receive into (a new part of the
  // buffer), and to reduce in place.
  virtual Payload Outgoing(const BufferRef& ref, int64_t i) = 0;
  virtual Payload Incoming(const BufferRef& ref, int64_t i) = 0;
  virtual Payload InPlace(const BufferRef& ref, int64_t i) = 0;

  // Of an all-gather, reduce-scatter or all-to-all of one buffer; makes the output.
  virtual ExchangeBlocks Exchange(const Instruction& collective, int64_t i) = 0;

  virtual void Free(const BufferRef& ref, int64_t i) = 0;
  virtual void Alias(const BufferRef& name, const BufferRef& buffer, int64_t i) = 0;

  // The type in which floating-point buffers are kept.
  virtual DType dtype() const = 0;
};

}  // namespace heddle
