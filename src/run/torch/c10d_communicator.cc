#define USE_C10D_GLOO
#include "run/torch/c10d_communicator.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/check.h"
#include "run/late_ticket.h"
#include "run/member_blocks.h"
#include "run/rank_order_sum.h"
#include "run/torch/c10d_store.h"

namespace heddle {
namespace {

using Gloo = c10d::ProcessGroupGloo;

// A peer may compute for as long as it likes: those who watch it say when it is lost.
constexpr std::chrono::hours kForever{24 * 365};

// Without the library's own stack.
std::string FirstLine(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find('\n'));
}

at::Tensor Bytes1d(int64_t count) { return at::empty({count}, at::kByte); }

std::byte* DataOf(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.data_ptr()); }

// The payload's memory as a tensor, which keeps it alive.
at::Tensor Wrap(const Payload& payload) {
  return at::from_blob(
      payload.data, {static_cast<int64_t>(payload.bytes)}, [owner = payload.owner](void*) {},
      at::kByte);
}

class DoneTicket final : public Ticket {
 public:
  void Wait() override {}
};

// A message.
class WorkTicket final : public Ticket {
 public:
  WorkTicket(c10::intrusive_ptr<c10d::Work> work, std::vector<at::Tensor> memory)
      : work_(std::move(work)), memory_(std::move(memory)) {}
  void Wait() override {
    if (done_) return;
    try {
      work_->wait(kForever);
    } catch (const std::exception& error) {
      throw PeerLost(FirstLine(error));
    }
    done_ = true;
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<at::Tensor> memory_;
  bool done_ = false;
};

// One group's process group and the thread that runs its collectives one after the other.
class GroupRunner final : private PeerLink {
 public:
  GroupRunner(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
              const c10::intrusive_ptr<Gloo::Options>& options, bool native)
      : rank_(static_cast<size_t>(rank)),
        size_(static_cast<size_t>(size)),
        native_(native),
        gloo_(c10::make_intrusive<Gloo>(store, rank, size, options)),
        thread_([this] { Loop(); }) {}

  ~GroupRunner() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  TicketPtr Post(CollectiveCall call) {
    auto ticket = std::make_shared<LateTicket>();
    const std::lock_guard lock(mutex_);
    jobs_.push_back({std::move(call), ticket});
    changed_.notify_all();
    return ticket;
  }

 private:
  struct Job {
    CollectiveCall call;
    std::shared_ptr<LateTicket> ticket;
  };

  void Loop() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      std::string error = ErrorOf([&] { Perform(job.call); });
      job.call = {};
      job.ticket->Finish(std::move(error));
    }
  }

  // Memory of one member's block, to send or to receive.
  struct Block {
    std::byte* data = nullptr;
    size_t bytes = 0;
  };

  // Sends out[r] to member r and receives in[r] from it. In rounds, each with one peer to send to
  // and one to receive from: all at once would compete, and the slowest would decide.
  void Exchange(const std::vector<Block>& out, const std::vector<Block>& in) {
    HEDDLE_CHECK(out[rank_].bytes == in[rank_].bytes);
    if (out[rank_].data != in[rank_].data && out[rank_].bytes > 0) {
      std::memcpy(in[rank_].data, out[rank_].data, out[rank_].bytes);
    }
    for (size_t round = 1; round < size_; ++round) {
      const size_t to = (rank_ + round) % size_, from = (rank_ + size_ - round) % size_;
      const auto receives = Start(in[from], [&](std::vector<at::Tensor>& memory) {
        return gloo_->recv(memory, static_cast<int>(from), 0);
      });
      const auto sends = Start(out[to], [&](std::vector<at::Tensor>& memory) {
        return gloo_->send(memory, static_cast<int>(to), 0);
      });
      if (receives) receives->wait(kForever);
      if (sends) sends->wait(kForever);
    }
  }

  TicketPtr Send(size_t rank, std::byte* data, size_t bytes) override {
    return Ticketed(data, bytes, [&](std::vector<at::Tensor>& memory) {
      return gloo_->send(memory, static_cast<int>(rank), 0);
    });
  }
  TicketPtr Receive(size_t rank, std::byte* data, size_t bytes) override {
    return Ticketed(data, bytes, [&](std::vector<at::Tensor>& memory) {
      return gloo_->recv(memory, static_cast<int>(rank), 0);
    });
  }
  template <class Post>
  static TicketPtr Ticketed(std::byte* data, size_t bytes, const Post& post) {
    std::vector<at::Tensor> memory = {
        at::from_blob(data, {static_cast<int64_t>(bytes)}, at::kByte)};
    auto work = post(memory);
    return std::make_shared<WorkTicket>(std::move(work), std::move(memory));
  }

  // Both ends know when there is nothing to send.
  template <class Post>
  static c10::intrusive_ptr<c10d::Work> Start(const Block& block, const Post& post) {
    if (block.bytes == 0) return {};
    std::vector<at::Tensor> memory = {
        at::from_blob(block.data, {static_cast<int64_t>(block.bytes)}, at::kByte)};
    return post(memory);
  }

  static std::vector<Block> BlocksOf(const std::vector<Payload>& payloads) {
    std::vector<Block> blocks;
    for (const Payload& payload : payloads) blocks.push_back({payload.data, payload.bytes});
    return blocks;
  }

  // `count` blocks of one size, one after the other.
  static std::vector<Block> BlocksIn(const at::Tensor& memory, size_t count, size_t bytes) {
    std::vector<Block> blocks;
    for (size_t r = 0; r < count; ++r) blocks.push_back({DataOf(memory) + r * bytes, bytes});
    return blocks;
  }

  static at::Tensor Pack(const std::vector<Payload>& blocks) {
    size_t bytes = 0;
    for (const Payload& block : blocks) bytes += block.bytes;
    at::Tensor packed = Bytes1d(static_cast<int64_t>(bytes));
    std::byte* to = DataOf(packed);
    for (const Payload& block : blocks) {
      if (block.bytes > 0) std::memcpy(to, block.data, block.bytes);
      to += block.bytes;
    }
    return packed;
  }

  static void Unpack(const at::Tensor& packed, const std::vector<Payload>& blocks) {
    const std::byte* from = DataOf(packed);
    for (const Payload& block : blocks) {
      if (block.bytes > 0) std::memcpy(block.data, from, block.bytes);
      from += block.bytes;
    }
  }

  // The sum of the blocks, in the first of them.
  static void Sum(const std::vector<Block>& blocks, DType dtype) {
    std::vector<const std::byte*> parts;
    for (const Block& block : blocks) parts.push_back(block.data);
    SumInRankOrder(dtype, parts, blocks[0].bytes, blocks[0].data);
  }

  void AllReduceNatively(const CollectiveCall& call) {
    at::Tensor packed = Pack(call.in);
    if (packed.numel() == 0) return;
    std::vector<at::Tensor> typed = {packed.view(call.dtype == DType::kF64   ? at::kDouble
                                                 : call.dtype == DType::kF16 ? at::kHalf
                                                                             : at::kFloat)};
    gloo_->allreduce(typed)->wait();
    Unpack(packed, call.in);
  }

  // The tensors seen as one go in windows, so that memory is small and used again: fresh pages
  // cost more than the copies.
  void AllReduce(const CollectiveCall& call) {
    size_t total = 0;
    for (const Payload& payload : call.in) total += payload.bytes;
    const size_t element = static_cast<size_t>(SizeOf(call.dtype));
    for (size_t offset = 0; offset < total; offset += kWindowBytes) {
      const size_t bytes = std::min(total - offset, kWindowBytes);
      Resize(window_, bytes);
      CopyPart(call.in, offset, bytes, [&](std::byte* tensor, size_t at, size_t count) {
        std::memcpy(DataOf(window_) + at, tensor, count);
      });
      std::vector<Block> shards;
      for (size_t r = 0; r < size_; ++r) {
        const size_t count = bytes / element;
        const size_t first = r * count / size_ * element, last = (r + 1) * count / size_ * element;
        shards.push_back({DataOf(window_) + first, last - first});
      }
      Resize(parts_, size_ * shards[rank_].bytes);
      const std::vector<Block> parts = BlocksIn(parts_, size_, shards[rank_].bytes);
      Exchange(shards, parts);
      Sum(parts, call.dtype);
      Exchange(std::vector<Block>(size_, parts[0]), shards);
      CopyPart(call.in, offset, bytes, [&](std::byte* tensor, size_t at, size_t count) {
        std::memcpy(tensor, DataOf(window_) + at, count);
      });
    }
  }

  static void Resize(at::Tensor& tensor, size_t bytes) {
    if (!tensor.defined()) tensor = Bytes1d(0);
    tensor.resize_({static_cast<int64_t>(bytes)});  // keeps its memory when it shrinks
  }

  // Of the tensors seen as one: calls copy(where in a tensor, where in the part, bytes).
  template <class Copy>
  static void CopyPart(const std::vector<Payload>& tensors, size_t offset, size_t bytes,
                       const Copy& copy) {
    size_t start = 0;
    for (const Payload& tensor : tensors) {
      const size_t end = start + tensor.bytes;
      const size_t from = std::max(start, offset), to = std::min(end, offset + bytes);
      if (from < to) copy(tensor.data + (from - start), from - offset, to - from);
      start = end;
    }
  }

  void Perform(const CollectiveCall& call) {
    if (size_ == 1 && call.out.empty()) return;
    switch (call.kind) {
      case CollectiveKind::kAllReduce:
        return native_ ? AllReduceNatively(call) : AllReduce(call);
      case CollectiveKind::kBroadcast: {
        std::vector<at::Tensor> packed = {Pack(call.in)};
        if (packed[0].numel() == 0) return;
        c10d::BroadcastOptions options;
        options.rootRank = call.root;
        gloo_->broadcast(packed, options)->wait();
        return Unpack(packed[0], call.in);
      }
      case CollectiveKind::kAllGather:
      case CollectiveKind::kReduceScatter:
        return ExchangeBlocksWith(*this, call, rank_, scratch_);
      case CollectiveKind::kAllToAll:
        return Exchange(BlocksOf(call.in), BlocksOf(call.out));
    }
  }

  static constexpr size_t kWindowBytes = size_t{4} << 20;

  size_t rank_, size_;
  bool native_;
  at::Tensor window_, parts_;  // memory that is used again
  std::vector<std::byte> scratch_;
  c10::intrusive_ptr<Gloo> gloo_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the rest
};

class C10dCommunicator final : public Communicator {
 public:
  C10dCommunicator(const C10dOptions& options, const c10::intrusive_ptr<c10d::Store>& store) {
    // The library's own reductions know no limit but this.
    const auto gloo_options =
        Gloo::Options::create(options.native_all_reduce ? kForever : options.timeout);
    gloo_options->devices.push_back(Gloo::createDeviceForHostname(options.interface_address));
    gloo_options->threads = 2;
    everyone_ = c10::make_intrusive<Gloo>(c10::make_intrusive<c10d::PrefixStore>("all", store),
                                          options.device, options.devices, gloo_options);
    for (size_t g = 0; g < options.groups.size(); ++g) {
      const std::vector<int32_t>& members = options.groups[g];
      const auto me = std::find(members.begin(), members.end(), options.device);
      groups_.push_back(nullptr);
      if (me == members.end()) continue;
      groups_.back() = std::make_unique<GroupRunner>(
          c10::make_intrusive<c10d::PrefixStore>(fmt::format("group{}", g), store),
          static_cast<int>(me - members.begin()), static_cast<int>(members.size()), gloo_options,
          options.native_all_reduce);
    }
  }

  TicketPtr Send(int32_t peer, int32_t tag, Payload payload) override {
    return PostMessage(payload, [&](std::vector<at::Tensor>& memory) {
      return everyone_->send(memory, peer, tag);
    });
  }
  TicketPtr Receive(int32_t peer, int32_t tag, Payload payload) override {
    return PostMessage(payload, [&](std::vector<at::Tensor>& memory) {
      return everyone_->recv(memory, peer, tag);
    });
  }
  TicketPtr Collective(CollectiveCall call) override {
    const auto group = static_cast<size_t>(call.group);
    HEDDLE_CHECK(group < groups_.size() && groups_[group] != nullptr);
    return groups_[group]->Post(std::move(call));
  }

 private:
  // Both ends know when there is nothing to send.
  template <class Post>
  TicketPtr PostMessage(const Payload& payload, const Post& post) {
    if (payload.bytes == 0) return std::make_shared<DoneTicket>();
    std::vector<at::Tensor> memory = {Wrap(payload)};
    try {
      auto work = post(memory);
      return std::make_shared<WorkTicket>(std::move(work), std::move(memory));
    } catch (const std::exception& error) {
      throw PeerLost(FirstLine(error));
    }
  }

  c10::intrusive_ptr<Gloo> everyone_;
  std::vector<std::unique_ptr<GroupRunner>> groups_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> ConnectC10d(const C10dOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);  // Gloo writes to peers that may be gone; it sees the error
  try {
    const auto store = c10::make_intrusive<C10dStore>(options.store, options.timeout);
    return std::unique_ptr<Communicator>(std::make_unique<C10dCommunicator>(options, store));
  } catch (const std::exception& error) {
    return Error{ErrorKind::kRunFailed, fmt::format("device {}", options.device),
                 fmt::format("cannot reach the others from {}: {}", options.interface_address,
                             FirstLine(error)),
                 "can hosts reach each other on their ephemeral ports?"};
  }
}

}  // namespace heddle
