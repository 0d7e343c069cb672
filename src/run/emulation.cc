#include "run/emulation.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "run/collective_sizes.h"
#include "run/compute_pace.h"
#include "run/rank_messages.h"
#include "run/wrapped_executor.h"

namespace heddle {

// Done when the modelled network says so.
struct Emulation::Flow : Ticket {
  explicit Flow(Emulation* e) : emulation(e) {}
  void Wait() override {
    std::unique_lock lock(emulation->mutex_);
    while (!done) emulation->clock_.Wait(emulation->done_, lock, Clock::kNever);
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
      : WrappedExecutor(inner), emulation_(emulation), device_(device), pace_(emulation.clock()) {
    prctl(PR_SET_TIMERSLACK, 1);
  }

  void Compute(const Instruction& compute, int64_t i) override {
    const double dilation = emulation_.dilation();
    if (dilation <= 0) return WrappedExecutor::Compute(compute, i);
    const Clock::Time start = pace_.Begin();
    WrappedExecutor::Compute(compute, i);
    const double seconds = emulation_.ModelledSeconds(device_, compute.target) * dilation;
    ++emulation_.deadlines_;
    if (!pace_.End(start, seconds)) ++emulation_.missed_;
  }

 private:
  Emulation& emulation_;
  int32_t device_;
  ComputePace pace_;
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
    const size_t members = emulation_.model_.groups[static_cast<size_t>(call.group)].size();
    emulation_.SleepForMessage(device_, BytesMovedBy(call, members));
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

Emulation::Emulation(EmulationModel model, Clock& clock) : model_(std::move(model)), clock_(clock) {
  for (const std::vector<int32_t>& group : model_.groups) {
    groups_.push_back({GroupMeeting<Arrived>(group.size())});
  }
  thread_ = clock_.Start([this] { Loop(); });
}

Emulation::~Emulation() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    clock_.NotifyAll(started_);
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
  epoch_ = clock_.Now();
  dilation_ = dilation;
}

double Emulation::Now() const { return base_ + SecondsIn(clock_.Now() - epoch_) / dilation_; }

Bytes Emulation::Scaled(double bytes) const { return {std::llround(bytes * model_.byte_scale)}; }

void Emulation::SleepForMessage(int32_t device, double bytes) const {
  const double seconds =
      model_.message_seconds[static_cast<size_t>(device)] * bytes * model_.byte_scale;
  if (seconds <= 0) return;
  clock_.SleepFor(InNanoseconds(seconds * dilation_));
}

// Lets everything happen that was due before `now`.
void Emulation::CatchUp(double now) {
  bool any = false;
  for (double next = model_.network->NextTime(); next <= now; next = model_.network->NextTime()) {
    std::vector<int32_t> finished;
    model_.network->Advance(next, finished);
    for (const int32_t id : finished) {
      for (const FlowPtr& flow : in_flight_.at(id)) flow->done = true;
      in_flight_.erase(id);
      any = true;
      for (size_t group = 0; group < groups_.size(); ++group) {
        if (groups_[group].running != id) continue;
        groups_[group].running = -1;
        StartNext(static_cast<int32_t>(group), next);
      }
    }
  }
  if (any) clock_.NotifyAll(done_);
}

// Sleeps until the network has something to say.
void Emulation::Loop() {
  prctl(PR_SET_TIMERSLACK, 1);
  std::unique_lock lock(mutex_);
  while (!ends_) {
    const double next =
        devices_only() ? std::numeric_limits<double>::infinity() : model_.network->NextTime();
    if (dilation_ <= 0 || std::isinf(next)) {
      clock_.Wait(started_, lock, Clock::kNever);
      continue;
    }
    // A nanosecond later rather than before it: it would have to sleep again.
    const Clock::Duration wait = InNanoseconds((next - base_) * dilation_);
    clock_.Wait(started_, lock, epoch_ + wait + std::chrono::nanoseconds(1));
    if (!ends_) CatchUp(Now());
  }
}

Emulation::FlowPtr Emulation::PostMessage(int32_t from, int32_t to, int32_t tag, size_t bytes,
                                          bool sends) {
  auto mine = std::make_shared<Flow>(this);
  const std::lock_guard lock(mutex_);
  const std::optional<FlowPtr> other = lanes_[{from, to, tag}].Post(sends, mine);
  if (!other) return mine;
  const double now = Now();
  CatchUp(now);
  const int32_t id = next_id_++;
  in_flight_[id] = {mine, *other};
  model_.network->StartMessage(id, from, to, Scaled(static_cast<double>(bytes)), now);
  clock_.NotifyAll(started_);
  return mine;
}

Emulation::FlowPtr Emulation::PostCollective(int32_t device, const CollectiveCall& call) {
  auto mine = std::make_shared<Flow>(this);
  std::vector<Bytes> blocks;
  for (const Payload& block : call.in) {
    blocks.push_back(Scaled(static_cast<double>(block.bytes)));
  }
  const std::lock_guard lock(mutex_);
  const std::vector<int32_t>& members = model_.groups[static_cast<size_t>(call.group)];
  const auto member =
      static_cast<size_t>(std::find(members.begin(), members.end(), device) - members.begin());
  HEDDLE_CHECK(member < members.size());
  GroupQueue& queue = groups_[static_cast<size_t>(call.group)];
  queue.meeting.Post(member, {member, mine, std::move(blocks)});
  if (!queue.meeting.complete()) return mine;
  std::vector<Arrived> all = queue.meeting.front();
  queue.meeting.Pop();
  std::sort(all.begin(), all.end(),
            [](const Arrived& one, const Arrived& other) { return one.member < other.member; });
  WaitingCollective collective{call.kind, call.algorithm, {}, {}};
  std::vector<std::vector<Bytes>> all_blocks;
  for (Arrived& arrived : all) {
    all_blocks.push_back(std::move(arrived.blocks));
    collective.members.push_back(std::move(arrived.flow));
  }
  collective.sizes = CollectiveSizes(call.kind, all_blocks);
  queue.waiting.push_back(std::move(collective));
  const double now = Now();
  CatchUp(now);
  StartNext(call.group, now);
  clock_.NotifyAll(started_);
  return mine;
}

// Collectives of one group run one after the other, as program.md says.
void Emulation::StartNext(int32_t group, double now) {
  GroupQueue& queue = groups_[static_cast<size_t>(group)];
  if (queue.running >= 0 || queue.waiting.empty()) return;
  const WaitingCollective next = std::move(queue.waiting.front());
  queue.waiting.pop_front();
  queue.running = next_id_++;
  in_flight_[queue.running] = next.members;
  model_.network->StartCollective(queue.running, next.kind, next.algorithm, group, next.sizes, now);
}

}  // namespace heddle
