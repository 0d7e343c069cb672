#include "run/emulation.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "run/collective_sizes.h"
#include "run/rank_messages.h"
#include "run/sleep_until.h"
#include "run/wrapped_executor.h"

namespace heddle {

// Done when the modelled network says so.
struct Emulation::Flow : Ticket {
  explicit Flow(Emulation* e) : emulation(e) {}
  void Wait() override {
    std::unique_lock lock(emulation->mutex_);
    emulation->done_.wait(lock, [this] { return done; });
  }
  Emulation* emulation;
  bool done = false;
};

namespace {

// The real message and the modelled one.
class BothTickets final : public Ticket {
 public:
  BothTickets(TicketPtr real, TicketPtr modelled)
      : real_(std::move(real)), modelled_(std::move(modelled)) {}
  void Wait() override {
    real_->Wait();
    modelled_->Wait();
  }

 private:
  TicketPtr real_, modelled_;
};

}  // namespace

class PacedExecutor final : public WrappedExecutor {
 public:
  PacedExecutor(Emulation& emulation, int32_t device, Executor& inner)
      : WrappedExecutor(inner), emulation_(emulation), device_(device) {
    prctl(PR_SET_TIMERSLACK, 1);
  }

  void Compute(const Instruction& compute, int64_t i) override {
    const double dilation = emulation_.dilation();
    if (dilation <= 0) return WrappedExecutor::Compute(compute, i);
    // What begins right after the last deadline begins at it: oversleeping does not add up.
    constexpr std::chrono::milliseconds kRightAfter{1};
    auto start = Emulation::Clock::now();
    if (start - deadline_ < kRightAfter) start = deadline_;
    WrappedExecutor::Compute(compute, i);
    const double seconds = emulation_.ModelledSeconds(device_, compute.target) * dilation;
    deadline_ = start + std::chrono::nanoseconds(std::llround(seconds * 1e9));
    ++emulation_.deadlines_;
    if (Emulation::Clock::now() > deadline_) {
      ++emulation_.missed_;
      deadline_ = Emulation::Clock::now();
    } else {
      SleepUntil(deadline_);
    }
  }

 private:
  Emulation& emulation_;
  int32_t device_;
  Emulation::Clock::time_point deadline_{};
};

class PacedCommunicator final : public Communicator {
 public:
  PacedCommunicator(Emulation& emulation, int32_t device, Communicator& inner)
      : emulation_(emulation), device_(device), inner_(inner) {}

  TicketPtr Send(int32_t peer, int32_t tag, Payload payload) override {
    const size_t bytes = payload.bytes;
    TicketPtr real = inner_.Send(peer, tag, std::move(payload));
    if (!Paced(tag)) return real;
    auto modelled = emulation_.PostMessage(device_, peer, tag, bytes, true);
    emulation_.SleepForMessage(device_, static_cast<double>(bytes));
    return Both(std::move(real), std::move(modelled));
  }
  TicketPtr Receive(int32_t peer, int32_t tag, Payload payload) override {
    const size_t bytes = payload.bytes;
    TicketPtr real = inner_.Receive(peer, tag, std::move(payload));
    if (!Paced(tag)) return real;
    auto modelled = emulation_.PostMessage(peer, device_, tag, bytes, false);
    emulation_.SleepForMessage(device_, static_cast<double>(bytes));
    return Both(std::move(real), std::move(modelled));
  }
  TicketPtr Collective(CollectiveCall call) override {
    if (!Paced(0)) return inner_.Collective(std::move(call));
    const size_t members = emulation_.group_sizes_[static_cast<size_t>(call.group)];
    const bool gathers = call.kind == CollectiveKind::kAllGather;
    double bytes = 0;  // of all that is divided
    for (const Payload& block : gathers ? call.out : call.in) {
      bytes += static_cast<double>(block.bytes);
    }
    if (call.kind == CollectiveKind::kAllToAll) bytes *= static_cast<double>(members);
    emulation_.SleepForMessage(device_, BytesMoved(call.kind, members, bytes));
    TicketPtr modelled = emulation_.PostCollective(device_, call);
    return Both(inner_.Collective(std::move(call)), std::move(modelled));
  }

 private:
  bool Paced(int32_t tag) const {
    return tag < kFirstControlTag && emulation_.dilation() > 0 && !emulation_.devices_only();
  }
  static TicketPtr Both(TicketPtr real, TicketPtr modelled) {
    return std::make_shared<BothTickets>(std::move(real), std::move(modelled));
  }

  Emulation& emulation_;
  int32_t device_;
  Communicator& inner_;
};

Emulation::Emulation(std::vector<std::vector<double>> segment_seconds,
                     std::vector<double> message_seconds, std::vector<size_t> group_sizes,
                     std::unique_ptr<NetworkModel> network, double byte_scale)
    : seconds_(std::move(segment_seconds)),
      message_seconds_(std::move(message_seconds)),
      group_sizes_(std::move(group_sizes)),
      network_(std::move(network)),
      byte_scale_(byte_scale),
      thread_([this] { Loop(); }) {}

Emulation::~Emulation() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    started_.notify_all();
  }
  thread_.join();
}

std::unique_ptr<Executor> Emulation::Pace(int32_t device, Executor& executor) {
  return std::make_unique<PacedExecutor>(*this, device, executor);
}

std::unique_ptr<Communicator> Emulation::Pace(int32_t device, Communicator& communicator) {
  return std::make_unique<PacedCommunicator>(*this, device, communicator);
}

void Emulation::SetDilation(double dilation) {
  const std::lock_guard lock(mutex_);
  if (dilation_ > 0) base_ = Now();
  epoch_ = Clock::now();
  dilation_ = dilation;
}

double Emulation::Now() const {
  return base_ + std::chrono::duration<double>(Clock::now() - epoch_).count() / dilation_;
}

Bytes Emulation::Scaled(double bytes) const { return {std::llround(bytes * byte_scale_)}; }

void Emulation::SleepForMessage(int32_t device, double bytes) const {
  const double seconds = message_seconds_[static_cast<size_t>(device)] * bytes * byte_scale_;
  if (seconds <= 0) return;
  SleepUntil(Clock::now() + std::chrono::nanoseconds(std::llround(seconds * dilation_ * 1e9)));
}

// Lets everything happen that was due before `now`.
void Emulation::CatchUp(double now) {
  bool any = false;
  for (double next = network_->NextTime(); next <= now; next = network_->NextTime()) {
    std::vector<int32_t> finished;
    network_->Advance(next, finished);
    for (const int32_t id : finished) {
      for (const FlowPtr& flow : in_flight_.at(id)) flow->done = true;
      in_flight_.erase(id);
      any = true;
      for (auto& [group, queue] : groups_) {
        if (queue.running != id) continue;
        queue.running = -1;
        StartNext(group, next);
      }
    }
  }
  if (any) done_.notify_all();
}

// Sleeps until the network has something to say.
void Emulation::Loop() {
  prctl(PR_SET_TIMERSLACK, 1);
  std::unique_lock lock(mutex_);
  while (!ends_) {
    const double next =
        devices_only() ? std::numeric_limits<double>::infinity() : network_->NextTime();
    if (dilation_ <= 0 || std::isinf(next)) {
      started_.wait(lock);
      continue;
    }
    const double wait = (next - base_) * dilation_;
    started_.wait_until(lock, epoch_ + std::chrono::nanoseconds(std::llround(wait * 1e9)));
    if (!ends_) CatchUp(Now());
  }
}

Emulation::FlowPtr Emulation::PostMessage(int32_t from, int32_t to, int32_t tag, size_t bytes,
                                          bool sends) {
  auto mine = std::make_shared<Flow>(this);
  const std::lock_guard lock(mutex_);
  Lane& lane = lanes_[{from, to, tag}];
  (sends ? lane.sends : lane.receives).push_back(mine);
  if (lane.sends.empty() || lane.receives.empty()) return mine;
  const double now = Now();
  CatchUp(now);
  const int32_t id = next_id_++;
  in_flight_[id] = {lane.sends.front(), lane.receives.front()};
  lane.sends.pop_front();
  lane.receives.pop_front();
  network_->StartMessage(id, from, to, Scaled(static_cast<double>(bytes)), now);
  started_.notify_all();
  return mine;
}

Emulation::FlowPtr Emulation::PostCollective(int32_t device, const CollectiveCall& call) {
  auto mine = std::make_shared<Flow>(this);
  std::vector<Bytes> blocks;
  for (const Payload& block : call.in) {
    blocks.push_back(Scaled(static_cast<double>(block.bytes)));
  }
  const std::lock_guard lock(mutex_);
  GroupQueue& queue = groups_[call.group];
  queue.arriving[device].push_back({mine, std::move(blocks)});
  const auto has_come = [](const auto& member) { return !member.second.empty(); };
  const auto here =
      static_cast<size_t>(std::count_if(queue.arriving.begin(), queue.arriving.end(), has_come));
  if (here < group_sizes_[static_cast<size_t>(call.group)]) return mine;
  WaitingCollective collective{call.kind, call.algorithm, {}, {}};
  std::vector<std::vector<Bytes>> all_blocks;
  for (auto& member : queue.arriving) {
    Arriving& arrived = member.second.front();
    all_blocks.push_back(std::move(arrived.blocks));
    collective.members.push_back(arrived.flow);
    member.second.pop_front();
  }
  collective.sizes = CollectiveSizes(call.kind, all_blocks);
  queue.waiting.push_back(std::move(collective));
  const double now = Now();
  CatchUp(now);
  StartNext(call.group, now);
  started_.notify_all();
  return mine;
}

// Collectives of one group run one after the other, as program.md says.
void Emulation::StartNext(int32_t group, double now) {
  GroupQueue& queue = groups_[group];
  if (queue.running >= 0 || queue.waiting.empty()) return;
  const WaitingCollective next = std::move(queue.waiting.front());
  queue.waiting.pop_front();
  queue.running = next_id_++;
  in_flight_[queue.running] = next.members;
  network_->StartCollective(queue.running, next.kind, next.algorithm, group, next.sizes, now);
}

}  // namespace heddle
