// TensorMemory: where tensors live. Counts the bytes of each device's tensors, and keeps what they
// free for those of the same size to come, since a training step allocates the same sizes again and
// again.
//
//   InstallTensorMemory();                  once, before the first tensor
//   MemoryAccount account;
//   const MemoryScope scope(&account);      this thread's tensors are counted there
//   … account.peak()
#pragma once

#include <atomic>
#include <cstdint>

namespace heddle {

// Bytes of tensors that were made in one scope, wherever they are freed.
class MemoryAccount {
 public:
  void Add(int64_t bytes);
  int64_t live() const { return live_; }
  int64_t peak() const { return peak_; }
  void ResetPeak() { peak_ = live_.load(); }

 private:
  std::atomic<int64_t> live_{0};
  std::atomic<int64_t> peak_{0};
};

// Counts what this thread allocates while it exists. The account must outlive all its tensors.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryAccount* account);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryAccount* outer_;
};

// Makes libtorch allocate through this. Tensors made before are freed as they were made.
void InstallTensorMemory();

}  // namespace heddle
