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

// A message of a pair by its tag, and which of that tag it is in the list.
using MessageName = std::pair<int32_t, int64_t>;

struct Listed {
  MessageName name;
  size_t place;  // in the list
};

// The messages of one list, by peer.
struct ListMessages {
  std::map<int32_t, std::vector<Listed>> sends, receives;
};

ListMessages MessagesOf(const std::vector<Instruction>& list) {
  ListMessages messages;
  std::map<std::pair<int32_t, int32_t>, int64_t> sent, received;
  for (size_t k = 0; k < list.size(); ++k) {
    const Instruction& in = list[k];
    if (in.code == OpCode::kSend) {
      messages.sends[in.target].push_back({{in.tag, sent[{in.target, in.tag}]++}, k});
    } else if (in.code == OpCode::kRecv) {
      messages.receives[in.target].push_back({{in.tag, received[{in.target, in.tag}]++}, k});
    }
  }
  return messages;
}

// Places of the receives in the order of the sends; nothing where that is their own order, or where
// the two lists do not have the same messages, as where one end is a section ahead.
std::optional<std::vector<size_t>> PlacesAsSent(const std::vector<Listed>& receives,
                                                const std::vector<Listed>& sends) {
  const auto same = [](const Listed& a, const Listed& b) { return a.name == b.name; };
  if (std::equal(receives.begin(), receives.end(), sends.begin(), sends.end(), same)) return {};
  std::map<MessageName, size_t> places;
  for (const Listed& receive : receives) places[receive.name] = receive.place;
  if (sends.size() != receives.size()) return {};
  std::vector<size_t> order;
  for (const Listed& send : sends) {
    const auto found = places.find(send.name);
    if (found == places.end()) return {};
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
  for (int s = 0; s < kSectionCount; ++s) {
    const auto section = static_cast<Section>(s);
    std::vector<ListMessages> messages;
    for (const DeviceProgram& device : program.devices) {
      messages.push_back(MessagesOf(device.list(section)));
    }
    for (size_t d = 0; d < program.devices.size(); ++d) {
      DeviceReceives receives(program, program.devices[d], section);
      for (const auto& [peer, received] : messages[d].receives) {
        const auto& sent = messages[static_cast<size_t>(peer)].sends[static_cast<int32_t>(d)];
        if (const auto order = PlacesAsSent(received, sent)) receives.Follow(*order);
      }
      if (receives.changed()) {
        program.devices[d].sections[static_cast<size_t>(s)] = receives.Take();
      }
    }
  }
}

}  // namespace heddle
