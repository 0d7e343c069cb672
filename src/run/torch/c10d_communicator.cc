#define USE_C10D_GLOO
#include "run/torch/c10d_communicator.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <condition_variable>
#include <csignal>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "base/check.h"
#include "run/rank_order_sum.h"

namespace heddle {
namespace {

using Gloo = c10d::ProcessGroupGloo;

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
      work_->wait();
    } catch (const std::exception& error) {
      throw PeerLost(error.what());
    }
    done_ = true;
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
  std::vector<at::Tensor> memory_;
  bool done_ = false;
};

// A collective that a group's thread performs.
class JobTicket final : public Ticket {
 public:
  void Wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
    if (!error_.empty()) throw PeerLost(error_);
  }
  void Finish(std::string error) {
    const std::lock_guard lock(mutex_);
    done_ = true;
    error_ = std::move(error);
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::string error_;
};

// One group's process group and the thread that runs its collectives one after the other.
class GroupRunner {
 public:
  GroupRunner(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
              const c10::intrusive_ptr<Gloo::Options>& options, bool native)
      : rank_(static_cast<size_t>(rank)),
        size_(static_cast<size_t>(size)),
        native_(native),
        gloo_(c10::make_intrusive<Gloo>(store, rank, size, options)),
        thread_([this] { Loop(); }) {}

  ~GroupRunner() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }

  TicketPtr Post(CollectiveCall call) {
    auto ticket = std::make_shared<JobTicket>();
    const std::lock_guard lock(mutex_);
    jobs_.push_back({std::move(call), ticket});
    changed_.notify_all();
    return ticket;
  }

 private:
  struct Job {
    CollectiveCall call;
    std::shared_ptr<JobTicket> ticket;
  };

  void Loop() {
    while (true) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      std::string error;
      try {
        Perform(job.call);
      } catch (const std::exception& caught) {
        error = caught.what();
        if (error.empty()) error = "a collective failed";
      }
      job.call = {};
      job.ticket->Finish(std::move(error));
    }
  }

  // Sends block r of `in` to member r; returns what came, one block after the other.
  at::Tensor Exchange(at::Tensor in, std::vector<int64_t> sent, std::vector<int64_t> received) {
    at::Tensor out = Bytes1d(std::accumulate(received.begin(), received.end(), int64_t{0}));
    gloo_->alltoall_base(out, in, received, sent)->wait();
    return out;
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

  static std::vector<int64_t> SizesOf(const std::vector<Payload>& blocks) {
    std::vector<int64_t> sizes;
    for (const Payload& block : blocks) sizes.push_back(static_cast<int64_t>(block.bytes));
    return sizes;
  }

  // The sum of `size_` blocks that lie one after the other, in the first of them.
  at::Tensor SumOf(const at::Tensor& blocks, DType dtype) const {
    const int64_t bytes = blocks.numel() / static_cast<int64_t>(size_);
    std::vector<const std::byte*> parts;
    for (size_t r = 0; r < size_; ++r) {
      parts.push_back(DataOf(blocks) + static_cast<int64_t>(r) * bytes);
    }
    SumInRankOrder(dtype, parts, static_cast<size_t>(bytes), DataOf(blocks));
    return blocks.narrow(0, 0, bytes);
  }

  void AllReduce(const CollectiveCall& call) {
    at::Tensor packed = Pack(call.in);
    const int64_t element = SizeOf(call.dtype);
    const int64_t count = packed.numel() / element;
    if (count == 0) return;
    if (native_) {
      std::vector<at::Tensor> typed = {
          packed.view(call.dtype == DType::kF64 ? at::kDouble : at::kFloat)};
      gloo_->allreduce(typed)->wait();
      return Unpack(packed, call.in);
    }
    const auto members = static_cast<int64_t>(size_);
    std::vector<int64_t> shards;
    for (int64_t r = 0; r < members; ++r) {
      shards.push_back(((r + 1) * count / members - r * count / members) * element);
    }
    const std::vector<int64_t> mine(size_, shards[rank_]);
    const at::Tensor sum = SumOf(Exchange(packed, shards, mine), call.dtype);
    Unpack(Exchange(sum.repeat({members}), mine, shards), call.in);
  }

  void Perform(const CollectiveCall& call) {
    if (size_ == 1 && call.out.empty()) return;
    switch (call.kind) {
      case CollectiveKind::kAllReduce:
        return AllReduce(call);
      case CollectiveKind::kBroadcast: {
        std::vector<at::Tensor> packed = {Pack(call.in)};
        if (packed[0].numel() == 0) return;
        c10d::BroadcastOptions options;
        options.rootRank = call.root;
        gloo_->broadcast(packed, options)->wait();
        return Unpack(packed[0], call.in);
      }
      case CollectiveKind::kAllGather: {
        const std::vector<int64_t> mine(size_, static_cast<int64_t>(call.in[0].bytes));
        const at::Tensor copies = Wrap(call.in[0]).repeat({static_cast<int64_t>(size_)});
        return Unpack(Exchange(copies, mine, SizesOf(call.out)), call.out);
      }
      case CollectiveKind::kReduceScatter: {
        const std::vector<int64_t> mine(size_, static_cast<int64_t>(call.out[0].bytes));
        const at::Tensor parts = Exchange(Pack(call.in), SizesOf(call.in), mine);
        return Unpack(SumOf(parts, call.dtype), call.out);
      }
      case CollectiveKind::kAllToAll:
        return Unpack(Exchange(Pack(call.in), SizesOf(call.in), SizesOf(call.out)), call.out);
    }
  }

  size_t rank_, size_;
  bool native_;
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
    const auto gloo_options = Gloo::Options::create(options.timeout);
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
      throw PeerLost(error.what());
    }
  }

  c10::intrusive_ptr<Gloo> everyone_;
  std::vector<std::unique_ptr<GroupRunner>> groups_;
};

class StoreServer final : public Rendezvous {
 public:
  explicit StoreServer(uint16_t port) {
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = true;
    options.waitWorkers = false;
    store_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }
  uint16_t port() const override { return store_->getPort(); }

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

// Every device must be of the same version and plan. All look at all, so that none waits for one
// that has gone.
Status CompareIdentities(const C10dOptions& options, c10d::Store& store) {
  const auto key = [](int32_t device) { return fmt::format("identity{}", device); };
  const auto identity = [&](int32_t device) {
    const std::vector<uint8_t> bytes = store.get(key(device));
    return std::string(bytes.begin(), bytes.end());
  };
  const std::string& mine = options.identity;
  store.set(key(options.device), std::vector<uint8_t>(mine.begin(), mine.end()));
  const std::string first = identity(0);
  for (int32_t device = 1; device < options.devices; ++device) {
    const std::string other = identity(device);
    if (other == first) continue;
    return Error{ErrorKind::kRunFailed, fmt::format("device {}", device),
                 fmt::format("is \"{}\", but device 0 is \"{}\"", other, first),
                 "give all devices the same heddle, plan and options"};
  }
  return Ok();
}

}  // namespace

Result<std::unique_ptr<Communicator>> ConnectC10d(const C10dOptions& options) {
  const std::string where = fmt::format("{}:{}", options.address, options.port);
  std::signal(SIGPIPE, SIG_IGN);  // Gloo writes to peers that may be gone; it sees the error
  try {
    c10d::TCPStoreOptions store_options;
    store_options.port = options.port;
    store_options.waitWorkers = false;
    store_options.timeout = options.meet_within;
    const auto store = c10::make_intrusive<c10d::TCPStore>(options.address, store_options);
    HEDDLE_RETURN_IF_ERROR(CompareIdentities(options, *store));
    return std::unique_ptr<Communicator>(std::make_unique<C10dCommunicator>(options, store));
  } catch (const std::exception& error) {
    return Error{ErrorKind::kRunFailed, where,
                 fmt::format("device {} cannot reach the others: {}", options.device, error.what()),
                 "is the address right, the port open, and have all devices started?"};
  }
}

Result<std::unique_ptr<Rendezvous>> HostRendezvous(uint16_t port) {
  try {
    return std::unique_ptr<Rendezvous>(std::make_unique<StoreServer>(port));
  } catch (const std::exception& error) {
    return Error{ErrorKind::kRunFailed, fmt::format("port {}", port),
                 fmt::format("cannot be listened on: {}", error.what()),
                 "choose another with --port, or leave it out"};
  }
}

}  // namespace heddle
