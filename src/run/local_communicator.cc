#include "run/local_communicator.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "program/check/untagged.h"
#include "run/member_blocks.h"
#include "run/rank_order_sum.h"

namespace heddle {

struct LocalExchange::Flag : Ticket {
  explicit Flag(LocalExchange* e) : exchange(e) {}
  void Wait() override {
    std::unique_lock lock(exchange->mutex_);
    exchange->changed_.wait(lock, [this] { return done || exchange->abandoned_; });
    if (!done) throw PeerLost("another device failed");
  }
  LocalExchange* exchange;
  bool done = false;
};

namespace {

void Copy(const Payload& from, const Payload& to) {
  HEDDLE_CHECK(from.bytes == to.bytes);
  if (from.bytes > 0) std::memcpy(to.data, from.data, from.bytes);
}

void Sum(DType dtype, const std::vector<const Payload*>& payloads, std::byte* to) {
  std::vector<const std::byte*> parts;
  for (const Payload* payload : payloads) {
    HEDDLE_CHECK(payload->bytes == payloads[0]->bytes);
    parts.push_back(payload->data);
  }
  SumInRankOrder(dtype, parts, payloads[0]->bytes, to);
}

}  // namespace

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(LocalExchange& exchange, int32_t device)
      : exchange_(exchange), device_(device) {}
  TicketPtr Send(int32_t peer, int32_t tag, Payload payload) override {
    return exchange_.Post(device_, peer, tag, std::move(payload), true);
  }
  TicketPtr Receive(int32_t peer, int32_t tag, Payload payload) override {
    return exchange_.Post(peer, device_, tag, std::move(payload), false);
  }
  TicketPtr Collective(CollectiveCall call) override {
    return exchange_.PostCollective(device_, std::move(call));
  }

 private:
  LocalExchange& exchange_;
  int32_t device_;
};

LocalExchange::LocalExchange(const Program& program)
    : LocalExchange(GroupsOf(program), NeedsTags(program) ? Matching::kByTag : Matching::kInOrder) {
}

std::vector<std::vector<int32_t>> LocalExchange::GroupsOf(const Program& program) {
  std::vector<std::vector<int32_t>> groups;
  for (const Group& group : program.groups) groups.push_back(group.devices);
  return groups;
}

std::unique_ptr<Communicator> LocalExchange::ForDevice(int32_t device) {
  return std::make_unique<LocalCommunicator>(*this, device);
}

void LocalExchange::Abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
}

bool LocalExchange::abandoned() const {
  const std::lock_guard lock(mutex_);
  return abandoned_;
}

TicketPtr LocalExchange::Post(int32_t from, int32_t to, int32_t tag, Payload payload, bool sends) {
  auto flag = std::make_shared<Flag>(this);
  const std::lock_guard lock(mutex_);
  const Message mine{tag, std::move(payload), flag};
  const std::optional<Message> other =
      lanes_[{from, to, matching_ == Matching::kByTag ? tag : 0}].Post(sends, mine);
  if (!other) return flag;
  HEDDLE_CHECK(other->tag == tag);  // in order: NeedsTags has proven it
  Copy(sends ? mine.payload : other->payload, sends ? other->payload : mine.payload);
  flag->done = other->flag->done = true;
  changed_.notify_all();
  return flag;
}

TicketPtr LocalExchange::PostCollective(int32_t device, CollectiveCall call) {
  auto flag = std::make_shared<Flag>(this);
  const auto& members = groups_[static_cast<size_t>(call.group)];
  const auto rank =
      static_cast<size_t>(std::find(members.begin(), members.end(), device) - members.begin());
  HEDDLE_CHECK(rank < members.size());
  const std::lock_guard lock(mutex_);
  GroupMeeting<Call>& meeting = meetings_[static_cast<size_t>(call.group)];
  meeting.Post(rank, {rank, std::move(call), flag});
  if (!meeting.complete()) return flag;
  std::vector<Call> calls = meeting.front();
  meeting.Pop();
  std::sort(calls.begin(), calls.end(),
            [](const Call& one, const Call& other) { return one.rank < other.rank; });
  Perform(calls);
  for (Call& done : calls) done.flag->done = true;
  changed_.notify_all();
  return flag;
}

// Move by move, as processes would. Padding is not copied: there is no message to fill.
void LocalExchange::ExchangeBlocks(const std::vector<Call>& calls) {
  std::vector<std::vector<std::byte>> scratch(calls.size());
  std::vector<MemberBlocks> members;
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    members.emplace_back(calls[rank].call, rank, scratch[rank]);
  }
  for (const BlockMove& move : members[0].moves()) {
    if (move.bytes > 0) {
      std::memcpy(members[move.to].Target(move), members[move.from].Source(move), move.bytes);
    }
    members[move.to].Arrived(move);
  }
  for (MemberBlocks& member : members) member.Finish();
}

void LocalExchange::Perform(std::vector<Call>& calls) {
  const size_t members = calls.size();
  const CollectiveCall& first = calls[0].call;
  switch (first.kind) {
    case CollectiveKind::kAllReduce:
      for (size_t b = 0; b < first.in.size(); ++b) {
        std::vector<const Payload*> parts;
        for (const Call& call : calls) parts.push_back(&call.call.in[b]);
        std::vector<std::byte> sum(first.in[b].bytes);
        Sum(first.dtype, parts, sum.data());
        for (const Payload* part : parts) {
          if (!sum.empty()) std::memcpy(part->data, sum.data(), sum.size());
        }
      }
      break;
    case CollectiveKind::kBroadcast:
      for (const Call& call : calls) {
        for (size_t b = 0; b < first.in.size(); ++b) {
          const Payload& source = calls[static_cast<size_t>(first.root)].call.in[b];
          if (call.call.in[b].data != source.data) Copy(source, call.call.in[b]);
        }
      }
      break;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kReduceScatter:
      ExchangeBlocks(calls);
      break;
    case CollectiveKind::kAllToAll:
      for (size_t to = 0; to < members; ++to) {
        for (size_t from = 0; from < members; ++from) {
          Copy(calls[from].call.in[to], calls[to].call.out[from]);
        }
      }
      break;
  }
}

}  // namespace heddle
