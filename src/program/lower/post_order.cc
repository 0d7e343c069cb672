#include "program/lower/post_order.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "program/unroll.h"
#include "program/walk.h"

namespace heddle {
namespace {

// A message by its tag, and which of that tag it is in the list.
using MessageName = std::pair<int32_t, int64_t>;

// The messages of one list to or from `peer`, by place in the list.
std::vector<std::pair<MessageName, size_t>> MessagesWith(const std::vector<Instruction>& list,
                                                         OpCode code, int32_t peer) {
  std::vector<std::pair<MessageName, size_t>> messages;
  std::map<int32_t, int64_t> numbers;
  for (size_t k = 0; k < list.size(); ++k) {
    if (list[k].code != code || list[k].target != peer) continue;
    messages.push_back({{list[k].tag, numbers[list[k].tag]++}, k});
  }
  return messages;
}

// Places of the receives from `peer` in the order of its sends; nothing where the two lists do not
// have the same messages, as where one end is a section ahead.
std::optional<std::vector<size_t>> ReceivesAsSent(const std::vector<Instruction>& receiver,
                                                  const std::vector<Instruction>& sender,
                                                  int32_t device, int32_t peer) {
  const auto receives = MessagesWith(receiver, OpCode::kRecv, peer);
  const auto sends = MessagesWith(sender, OpCode::kSend, device);
  std::map<MessageName, size_t> places(receives.begin(), receives.end());
  if (sends.size() != receives.size()) return std::nullopt;
  std::vector<size_t> order;
  for (const auto& [name, place] : sends) {
    const auto found = places.find(name);
    if (found == places.end()) return std::nullopt;
    order.push_back(found->second);
  }
  return order;
}

class DeviceReceives {
 public:
  DeviceReceives(const Program& program, const DeviceProgram& device, Section section)
      : p_(program), d_(device), list_(device.list(section)), places_(list_.size()) {
    for (size_t k = 0; k < list_.size(); ++k) places_[k] = {k, true, k};
  }

  // Each no later than those that are sent after it.
  void Follow(const std::vector<size_t>& order) {
    if (std::is_sorted(order.begin(), order.end())) return;
    size_t latest = list_.size();
    std::vector<size_t> places(order.size());
    for (size_t k = order.size(); k-- > 0;) {
      latest = std::min(latest, order[k]);
      if (!CanMove(order[k], latest)) return;
      places[k] = latest;
    }
    for (size_t k = 0; k < order.size(); ++k) places_[order[k]] = {places[k], false, rank_++};
    changed_ = true;
  }

  bool changed() const { return changed_; }

  std::vector<Instruction> Take() const {
    std::vector<size_t> order(list_.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return places_[a] < places_[b]; });
    std::vector<Instruction> list;
    for (const size_t k : order) list.push_back(list_[k]);
    return list;
  }

 private:
  // Where it goes: before the instruction at `at`; receives first, in the order of their ranks.
  struct Place {
    size_t at;
    bool stays;
    size_t rank;

    auto operator<=>(const Place&) const = default;
  };

  // Whether nothing between the two places uses the buffer.
  bool CanMove(size_t from, size_t to) const {
    const BufferKey key = KeyOf(UseOf(p_, d_, list_[from], 0).ref, 0);
    for (size_t k = to; k < from; ++k) {
      for (int32_t use = 0; use < UseCount(p_, list_[k]); ++use) {
        const bool receives = list_[k].code == OpCode::kRecv;  // another part of it, perhaps
        if (!receives && KeyOf(UseOf(p_, d_, list_[k], use).ref, 0) == key) return false;
      }
    }
    return true;
  }

  const Program& p_;
  const DeviceProgram& d_;
  const std::vector<Instruction>& list_;
  std::vector<Place> places_;
  size_t rank_ = 0;
  bool changed_ = false;
};

}  // namespace

void OrderReceives(Program& program) {
  for (size_t d = 0; d < program.devices.size(); ++d) {
    for (int s = 0; s < kSectionCount; ++s) {
      const auto section = static_cast<Section>(s);
      std::vector<Instruction>& list = program.devices[d].sections[static_cast<size_t>(s)];
      DeviceReceives receives(program, program.devices[d], section);
      std::map<int32_t, bool> peers;
      for (const Instruction& in : list) {
        if (in.code == OpCode::kRecv) peers[in.target] = true;
      }
      for (const auto& [peer, is_one] : peers) {
        const auto& sender = program.devices[static_cast<size_t>(peer)].list(section);
        const auto order = ReceivesAsSent(list, sender, static_cast<int32_t>(d), peer);
        if (order) receives.Follow(*order);
      }
      if (receives.changed()) list = receives.Take();
    }
  }
}

}  // namespace heddle
