// WrappedExecutor: does what another executor does. Those that add something to it override that.
#pragma once

#include "run/executor.h"

namespace heddle {

class WrappedExecutor : public Executor {
 public:
  explicit WrappedExecutor(Executor& inner) : inner_(inner) {}

  void Compute(const Instruction& compute, int64_t i) override { inner_.Compute(compute, i); }
  Payload Outgoing(const BufferRef& ref, int64_t i) override { return inner_.Outgoing(ref, i); }
  Payload Incoming(const BufferRef& ref, int64_t i) override { return inner_.Incoming(ref, i); }
  Payload InPlace(const BufferRef& ref, int64_t i) override { return inner_.InPlace(ref, i); }
  ExchangeBlocks Exchange(const Instruction& collective, int64_t i) override {
    return inner_.Exchange(collective, i);
  }
  void Free(const BufferRef& ref, int64_t i) override { inner_.Free(ref, i); }
  void Alias(const BufferRef& name, const BufferRef& buffer, int64_t i) override {
    inner_.Alias(name, buffer, i);
  }
  DType dtype() const override { return inner_.dtype(); }

 private:
  Executor& inner_;
};

}  // namespace heddle
