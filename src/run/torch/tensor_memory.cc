#include "run/torch/tensor_memory.h"

#include <c10/core/CPUAllocator.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

namespace heddle {
namespace {

constexpr size_t kAlignment = 64;

thread_local MemoryAccount::Counts* current_account = nullptr;

// Stands before the tensor's memory, in one alignment's width.
struct Header {
  size_t bytes;  // of the tensor
  MemoryAccount::Counts* account;
};
static_assert(sizeof(Header) <= kAlignment);

// Freed blocks by size. Sharing one list among threads is cheap: a step makes hundreds of tensors,
// not millions.
class FreeBlocks {
 public:
  void* Take(size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(bytes);
    if (found == blocks_.end() || found->second.empty()) return nullptr;
    void* block = found->second.back();
    found->second.pop_back();
    kept_ -= bytes;
    return block;
  }

  // False: there is enough already.
  bool Keep(size_t bytes, void* block) {
    constexpr size_t kMost = size_t{1} << 30;
    const std::lock_guard lock(mutex_);
    if (kept_ + bytes > kMost) return false;
    blocks_[bytes].push_back(block);
    kept_ += bytes;
    return true;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<size_t, std::vector<void*>> blocks_;
  size_t kept_ = 0;
};

FreeBlocks& Blocks() {
  static FreeBlocks* blocks = new FreeBlocks;  // tensors may be freed after main
  return *blocks;
}

void Free(void* data) {
  if (data == nullptr) return;
  void* block = static_cast<std::byte*>(data) - kAlignment;
  const Header header = *static_cast<Header*>(block);
  if (header.account != nullptr) {
    header.account->Add(-static_cast<int64_t>(header.bytes));
    header.account->Release();
  }
  if (!Blocks().Keep(header.bytes, block)) std::free(block);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) const override {
    const auto device = c10::Device(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &Free, device};
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* block = Blocks().Take(rounded);
    if (block == nullptr) block = std::aligned_alloc(kAlignment, rounded + kAlignment);
    if (block == nullptr) throw std::bad_alloc();
    new (block) Header{rounded, current_account};
    if (current_account != nullptr) {
      current_account->Hold();
      current_account->Add(static_cast<int64_t>(rounded));
    }
    void* data = static_cast<std::byte*>(block) + kAlignment;
    return {data, data, &Free, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
};

}  // namespace

void MemoryAccount::Counts::Add(int64_t bytes) {
  const int64_t now = live_ += bytes;
  int64_t peak = peak_;
  while (now > peak && !peak_.compare_exchange_weak(peak, now)) {
  }
}

MemoryScope::MemoryScope(MemoryAccount* account) : outer_(current_account) {
  current_account = account == nullptr ? nullptr : account->counts();
}

MemoryScope::~MemoryScope() { current_account = outer_; }

void InstallTensorMemory() {
  static CountingAllocator* allocator = new CountingAllocator;
  constexpr uint8_t kPriority = 255;
  c10::SetCPUAllocator(allocator, kPriority);
}

}  // namespace heddle
