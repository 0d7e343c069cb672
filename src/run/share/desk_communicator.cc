#include "run/share/desk_communicator.h"

#include <sys/prctl.h>

#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "run/collective_sizes.h"
#include "run/rank_messages.h"

namespace heddle {

// Moved really, and arrived on the emulated network if there is one.
class DeskCommunicator::FlowTicket final : public Ticket {
 public:
  FlowTicket(DeskCommunicator& owner, int64_t number, std::shared_ptr<LateTicket> moved)
      : owner_(owner), number_(number), moved_(std::move(moved)) {}

  void Wait() override {
    moved_->Wait();
    const Seat& seat = owner_.seat_;
    if (!seat.desk->paced || arrived_) return;
    const Result<int64_t> end = seat.desk->desk.AwaitEnd(seat.board, seat.job, seat.rank, number_);
    if (!end.ok()) throw PeerLost(end.error().ToString());
    arrived_ = true;
    owner_.arrived_(end.value());
  }

 private:
  DeskCommunicator& owner_;
  int64_t number_;
  std::shared_ptr<LateTicket> moved_;
  bool arrived_ = false;
};

DeskCommunicator::DeskCommunicator(const Seat& seat, Communicator& inner,
                                   std::function<void(int64_t)> arrived)
    : seat_(seat),
      inner_(inner),
      arrived_(std::move(arrived)),
      starter_([this] { StartGranted(); }),
      finisher_([this] { FinishStarted(); }) {}

DeskCommunicator::~DeskCommunicator() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  starter_.join();
  finisher_.join();
}

TicketPtr DeskCommunicator::Send(int32_t peer, int32_t tag, Payload payload) {
  if (tag >= kFirstControlTag) return inner_.Send(peer, tag, std::move(payload));
  FlowPost post = Prepare();
  post.channel = tag;
  post.ends = 2;
  post.device[0] = seat_.desk->device[static_cast<size_t>(seat_.rank)];
  post.device[1] = seat_.desk->device[static_cast<size_t>(peer)];
  post.blocks = 1;
  post.bytes[0] = seat_.desk->Scaled(payload.bytes);
  const auto bytes = static_cast<double>(payload.bytes);
  return Post(post, bytes, [this, peer, tag, payload = std::move(payload)] {
    return inner_.Send(peer, tag, payload);
  });
}

TicketPtr DeskCommunicator::Receive(int32_t peer, int32_t tag, Payload payload) {
  if (tag >= kFirstControlTag) return inner_.Receive(peer, tag, std::move(payload));
  FlowPost post = Prepare();
  post.channel = tag;
  post.ends = 2;
  post.device[0] = seat_.desk->device[static_cast<size_t>(peer)];
  post.device[1] = seat_.desk->device[static_cast<size_t>(seat_.rank)];
  const auto bytes = static_cast<double>(payload.bytes);
  return Post(post, bytes, [this, peer, tag, payload = std::move(payload)] {
    return inner_.Receive(peer, tag, payload);
  });
}

TicketPtr DeskCommunicator::Collective(CollectiveCall call) {
  const std::vector<int32_t>& members = seat_.desk->groups[static_cast<size_t>(call.group)];
  HEDDLE_CHECK(members.size() <= kMostSharedDevices);
  FlowPost post = Prepare();
  post.kind = static_cast<int32_t>(call.kind);
  post.algorithm = static_cast<int32_t>(call.algorithm);
  post.channel = call.group;
  for (const int32_t rank : members) {
    post.device[static_cast<size_t>(post.ends++)] = seat_.desk->device[static_cast<size_t>(rank)];
  }
  // An all-reduce may have more buffers than a post has room for: they are one.
  const bool in_place =
      call.kind == CollectiveKind::kAllReduce || call.kind == CollectiveKind::kBroadcast;
  HEDDLE_CHECK(in_place || call.in.size() <= kMostSharedDevices);
  for (const Payload& block : call.in) {
    post.blocks = in_place ? 1 : post.blocks + 1;
    post.bytes[static_cast<size_t>(post.blocks - 1)] += seat_.desk->Scaled(block.bytes);
  }
  const double moved = BytesMovedBy(call, members.size());
  auto shared = std::make_shared<CollectiveCall>(std::move(call));
  return Post(post, moved, [this, shared] { return inner_.Collective(std::move(*shared)); });
}

FlowPost DeskCommunicator::Prepare() const {
  FlowPost post;
  post.job = seat_.job;
  post.rank = seat_.rank;
  return post;
}

TicketPtr DeskCommunicator::Post(FlowPost post, double bytes, std::function<TicketPtr()> start) {
  SpendOwnTime(bytes);
  auto moved = std::make_shared<LateTicket>();
  post.number = posted_++;
  {
    const std::lock_guard lock(mutex_);
    if (!gave_up_.empty()) throw PeerLost(gave_up_);
    items_[post.number] = {std::move(start), moved};
  }
  post.time = seat_.board.Now();
  seat_.desk->desk.Post(post);
  return std::make_shared<FlowTicket>(*this, post.number, std::move(moved));
}

// What moving its bytes takes of the device itself.
void DeskCommunicator::SpendOwnTime(double bytes) const {
  if (!seat_.desk->paced || seat_.desk->own_seconds <= 0) return;
  const double seconds = seat_.desk->own_seconds * bytes * seat_.desk->byte_scale;
  seat_.board.clock().SleepFor(InNanoseconds(seconds * seat_.pace.dilation));
}

void DeskCommunicator::StartGranted() {
  prctl(PR_SET_TIMERSLACK, 1);
  constexpr int64_t kPatience = 20'000'000;
  for (int64_t k = 0;;) {
    if (const auto number = seat_.desk->desk.AwaitGrant(seat_.job, seat_.rank, k, kPatience)) {
      ++k;
      if (!Start(*number)) return GiveUp("was granted what it did not ask for");
      continue;
    }
    if (seat_.board.state(seat_.job) == JobState::kDead) return GiveUp(seat_.board.why(seat_.job));
    const std::lock_guard lock(mutex_);
    if (ends_) return;
  }
}

// False if there is no such communication.
bool DeskCommunicator::Start(int64_t number) {
  std::unique_lock lock(mutex_);
  const auto found = items_.find(number);
  if (found == items_.end()) return false;
  Item item = std::move(found->second);
  items_.erase(found);
  lock.unlock();
  Started started{number, nullptr, item.moved};
  if (std::string error = ErrorOf([&] { started.real = item.start(); }); !error.empty()) {
    item.moved->Finish(std::move(error));
    return true;
  }
  lock.lock();
  started_.push_back(std::move(started));
  changed_.notify_all();
  return true;
}

// All of them are under way: it does not matter which is waited for first.
void DeskCommunicator::FinishStarted() {
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ends_ || !started_.empty(); });
    if (started_.empty()) return;
    const Started item = std::move(started_.front());
    started_.pop_front();
    lock.unlock();
    Finish(item);
  }
}

void DeskCommunicator::Finish(const Started& item) {
  std::string error = ErrorOf([&] { item.real->Wait(); });
  if (seat_.desk->paced) {
    constexpr int64_t kNoMatter = 1'000'000;  // what follows begins at the modelled end
    const int64_t end = seat_.desk->desk.EndOf(seat_.job, seat_.rank, item.number);
    ++deadlines_;
    missed_ += end != 0 && seat_.board.Now() - end > kNoMatter ? 1 : 0;
  } else {
    FlowPost post = Prepare();
    post.number = item.number;
    post.performed = 1;
    seat_.desk->desk.Post(post);
  }
  item.moved->Finish(std::move(error));
}

void DeskCommunicator::GiveUp(const std::string& why) {
  const std::lock_guard lock(mutex_);
  gave_up_ = why.empty() ? "was struck from the share" : why;
  for (auto& [number, item] : items_) item.moved->Finish(gave_up_);
  items_.clear();
}

}  // namespace heddle
