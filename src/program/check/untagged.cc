#include "program/check/untagged.h"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "program/check/check_parts.h"
#include "program/walk.h"

namespace heddle {
namespace {

// A post of one end, and what names the message: its tag, and which of that tag it is.
struct Post {
  Step step;
  size_t index;
  int32_t tag;
  int64_t number;

  bool same_message(const Post& other) const { return tag == other.tag && number == other.number; }
};

struct Ends {
  std::vector<Post> sends, receives;
};

// By sender and receiver.
std::map<std::pair<int32_t, int32_t>, Ends> PostsOf(const Program& program,
                                                    const std::vector<Step>& steps) {
  std::map<std::pair<int32_t, int32_t>, Ends> pairs;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    const auto device = static_cast<int32_t>(d);
    std::map<std::pair<MessageLane, bool>, int64_t> numbers;
    for (const Step& step : steps) {
      const auto& list = program.devices[d].list(step.section);
      for (size_t k = 0; k < list.size(); ++k) {
        const bool sends = list[k].code == OpCode::kSend;
        if (!sends && list[k].code != OpCode::kRecv) continue;
        const MessageLane lane = LaneOf(device, list[k]);
        Ends& ends = pairs[{lane.from, lane.to}];
        (sends ? ends.sends : ends.receives)
            .push_back({step, k, lane.tag, numbers[{lane, sends}]++});
      }
    }
  }
  return pairs;
}

}  // namespace

std::optional<std::string> NeedsTags(const Program& program) {
  for (const auto& [pair, ends] : PostsOf(program, StepsToCheck(program))) {
    for (size_t k = 0; k < std::min(ends.sends.size(), ends.receives.size()); ++k) {
      const Post& send = ends.sends[k];
      const Post& receive = ends.receives[k];
      if (send.same_message(receive)) continue;
      return fmt::format("{} would meet {}", PlaceOf(program, pair.first, send.step, send.index),
                         PlaceOf(program, pair.second, receive.step, receive.index));
    }
  }
  return std::nullopt;
}

}  // namespace heddle
