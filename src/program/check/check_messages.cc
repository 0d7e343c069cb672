#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "program/check/check_parts.h"
#include "program/text/program_text.h"
#include "program/walk.h"

namespace heddle {
namespace {

struct Posted {
  int32_t device;
  Step step;
  size_t index;
  const Instruction* in;
};

// The operands of an instruction with the repetition filled in.
BufferKey OperandKey(const Program& program, const Posted& posted, int32_t k) {
  const DeviceProgram& device = program.devices[static_cast<size_t>(posted.device)];
  return KeyOf(device.operands[static_cast<size_t>(posted.in->first_operand + k)], posted.step.i);
}

const BufferRef& OperandRef(const Program& program, const Posted& posted, int32_t k) {
  const DeviceProgram& device = program.devices[static_cast<size_t>(posted.device)];
  return device.operands[static_cast<size_t>(posted.in->first_operand + k)];
}

std::string Place(const Program& program, const Posted& posted) {
  return PlaceOf(program, posted.device, posted.step, posted.index);
}

void CheckMessage(const Program& program, const Posted& send, const Posted& recv,
                  Verdict& verdict) {
  BufferKey sent = OperandKey(program, send, 0);
  const BufferKey received = OperandKey(program, recv, 0);
  sent.form = received.form;  // each end may keep it under a form of its own
  const bool same =
      sent == received && OperandRef(program, send, 0).slice == OperandRef(program, recv, 0).slice;
  if (same) return;
  verdict.Add({FindingKind::kMessageMismatch, send.device,
               fmt::format("{} meets {}", Place(program, send), Place(program, recv))});
}

// Of what is left when all have posted: the first that nobody meets.
void CheckMet(const Program& program, const LaneMeeting<Posted>& lane, Verdict& verdict) {
  if (lane.waiting().empty()) return;
  const Posted& lonely = lane.waiting().front();
  verdict.Add({lane.sends() ? FindingKind::kUnmatchedSend : FindingKind::kUnmatchedRecv,
               lonely.device,
               Place(program, lonely) + (lane.sends() ? " has no receive" : " has no send")});
}

// The axis along which members have different parts of operand k; -1: they have the same.
int DividedAxis(const Program& program, const Instruction& in, int32_t k) {
  if (in.shape < 0) return -1;
  const CollectiveShape& shape = program.shapes[static_cast<size_t>(in.shape)];
  const bool output = k >= in.operand_count;
  if (in.kind == CollectiveKind::kAllToAll) return output ? shape.to.dim : shape.from.dim;
  return output == (in.kind == CollectiveKind::kReduceScatter) ? shape.from.dim : -1;
}

bool SameParts(const Program& program, const BufferRef& a, const BufferRef& b, int but_axis) {
  if (a.slice == b.slice) return true;
  const Slice left = program.SliceOf(a.tensor, a.slice);
  const Slice right = program.SliceOf(b.tensor, b.slice);
  for (size_t axis = 0; axis < left.size(); ++axis) {
    if (static_cast<int>(axis) != but_axis && left[axis] != right[axis]) return false;
  }
  return true;
}

// What all members must agree on.
std::string Difference(const Program& program, const Posted& a, const Posted& b) {
  if (a.in->kind != b.in->kind) return "kind";
  if (a.in->algorithm != b.in->algorithm) return "algorithm";
  if (a.in->half != b.in->half) return "type on the way";
  if (a.in->shape != b.in->shape) return "sizes";
  if (a.in->tag != b.in->tag) return "root";
  if (a.in->operand_count != b.in->operand_count || a.in->output_count != b.in->output_count) {
    return "number of buffers";
  }
  for (int32_t k = 0; k < a.in->operand_count + a.in->output_count; ++k) {
    const BufferKey left = OperandKey(program, a, k);
    const BufferKey right = OperandKey(program, b, k);
    if (left.tensor != right.tensor || left.microbatch != right.microbatch ||
        left.version != right.version) {
      return "buffer";
    }
    const bool flattened = a.in->shape >= 0 && DividedAxis(program, *a.in, 0) < 0 &&
                           DividedAxis(program, *a.in, a.in->operand_count) < 0;
    if (!flattened && !SameParts(program, OperandRef(program, a, k), OperandRef(program, b, k),
                                 DividedAxis(program, *a.in, k))) {
      return "part";
    }
  }
  return "";
}

// Whether the ends of one collective agree; they come in the order of devices, the group's.
bool CheckCollective(const Program& program, const std::vector<Posted>& ends, Verdict& verdict) {
  for (const Posted& end : ends) {
    const std::string difference = Difference(program, ends[0], end);
    if (difference.empty()) continue;
    verdict.Add({FindingKind::kCollectiveDisagrees, end.device,
                 fmt::format("{} meets {}: they disagree on the {}", Place(program, ends[0]),
                             Place(program, end), difference)});
    return false;
  }
  return true;
}

// What each member of a group posts meets what the others post, in their order.
void CheckGroup(const Program& program, const Group& group, GroupMeeting<Posted>& meeting,
                Verdict& verdict) {
  for (; meeting.complete(); meeting.Pop()) {
    if (!CheckCollective(program, meeting.front(), verdict)) return;
  }
  if (meeting.empty()) return;
  const std::vector<Posted>& came = meeting.front();
  const auto absent = std::find_if(group.devices.begin(), group.devices.end(), [&](int32_t device) {
    return std::none_of(came.begin(), came.end(),
                        [&](const Posted& posted) { return posted.device == device; });
  });
  if (!CheckCollective(program, came, verdict)) return;
  verdict.Add({FindingKind::kCollectiveDisagrees, *absent,
               fmt::format("{}: device {} of group {} does not take part", Place(program, came[0]),
                           *absent, group.name)});
}

// Everything that the devices post, by whom it meets.
struct Meetings {
  struct LaneState {
    LaneMeeting<Posted> meeting;
    bool wrong = false;  // one of its messages was reported
  };
  std::map<MessageLane, LaneState> lanes;
  std::vector<GroupMeeting<Posted>> groups;
  std::vector<std::set<int32_t>> strangers;  // by group: devices reported that are not in it
};

void PostMessage(const Program& program, const Posted& posted, Meetings& meetings,
                 Verdict& verdict) {
  Meetings::LaneState& lane = meetings.lanes[LaneOf(posted.device, *posted.in)];
  const bool sends = posted.in->code == OpCode::kSend;
  const std::optional<Posted> other = lane.meeting.Post(sends, posted);
  if (!other || lane.wrong) return;
  const size_t before = verdict.findings.size();
  CheckMessage(program, sends ? posted : *other, sends ? *other : posted, verdict);
  lane.wrong = verdict.findings.size() > before;
}

void PostCollective(const Program& program, const Posted& posted, Meetings& meetings,
                    Verdict& verdict) {
  const auto id = static_cast<size_t>(posted.in->target);
  const Group& group = program.groups[id];
  const size_t member = MemberOf(group, posted.device);
  if (member < group.devices.size()) {
    meetings.groups[id].Post(member, posted);
  } else if (meetings.strangers[id].insert(posted.device).second) {
    verdict.Add(
        {FindingKind::kCollectiveDisagrees, posted.device,
         fmt::format("{}: the device is not in group {}", Place(program, posted), group.name)});
  }
}

}  // namespace

void CheckMessages(const Program& program, const std::vector<Step>& steps, Verdict& verdict) {
  Meetings meetings;
  meetings.strangers.resize(program.groups.size());
  for (const Group& group : program.groups) meetings.groups.emplace_back(group.devices.size());
  for (size_t d = 0; d < program.devices.size(); ++d) {
    for (const Step& step : steps) {
      const auto& list = program.devices[d].list(step.section);
      for (size_t k = 0; k < list.size(); ++k) {
        if (!Communicates(list[k].code)) continue;
        const Posted posted{static_cast<int32_t>(d), step, k, &list[k]};
        const bool collective = list[k].code == OpCode::kCollective;
        (collective ? PostCollective : PostMessage)(program, posted, meetings, verdict);
      }
    }
  }
  for (const auto& [key, lane] : meetings.lanes) {
    if (!lane.wrong) CheckMet(program, lane.meeting, verdict);
  }
  for (size_t g = 0; g < meetings.groups.size(); ++g) {
    CheckGroup(program, program.groups[g], meetings.groups[g], verdict);
  }
}

}  // namespace heddle
