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

// Bytes of tensors that were made in one scope, wherever and whenever they are freed: a thread that
// communicates may keep one for longer than the device that made it, and its account, are there.
class MemoryAccount {
 public:
  // What tensors are counted in. Goes with the last of the account and its tensors.
  class Counts {
   public:
    void Hold() { ++holders_; }
    void Release() {
      if (--holders_ == 0) delete this;
    }
    void Add(int64_t bytes);

   private:
    friend MemoryAccount;
    std::atomic<int64_t> live_{0}, peak_{0}, holders_{1};
  };

  MemoryAccount() : counts_(new Counts) {}
  ~MemoryAccount() { counts_->Release(); }
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  int64_t live() const { return counts_->live_; }
  int64_t peak() const { return counts_->peak_; }
  void ResetPeak() { counts_->peak_ = counts_->live_.load(); }
  Counts* counts() const { return counts_; }

 private:
  Counts* counts_;
};

// Counts what this thread allocates while it exists. The account must outlive the scope.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryAccount* account);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryAccount::Counts* outer_;
};

// Makes libtorch allocate through this. Tensors made before are freed as they were made.
void InstallTensorMemory();

}  // namespace heddle
