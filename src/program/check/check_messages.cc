#include <fmt/format.h>

#include <map>
#include <tuple>

#include "program/check/check_parts.h"
#include "program/text/program_text.h"

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

// Messages from one device to another with one tag keep their order.
struct Lane {
  std::vector<Posted> sends;
  std::vector<Posted> recvs;
};

void CheckLane(const Program& program, const Lane& lane, Verdict& verdict) {
  const size_t pairs = std::min(lane.sends.size(), lane.recvs.size());
  for (size_t k = 0; k < pairs; ++k) {
    BufferKey sent = OperandKey(program, lane.sends[k], 0);
    const BufferKey received = OperandKey(program, lane.recvs[k], 0);
    sent.form = received.form;  // each end may keep it under a form of its own
    const bool same = sent == received && OperandRef(program, lane.sends[k], 0).slice ==
                                              OperandRef(program, lane.recvs[k], 0).slice;
    if (same) continue;
    verdict.Add(
        {FindingKind::kMessageMismatch, lane.sends[k].device,
         fmt::format("{} meets {}", Place(program, lane.sends[k]), Place(program, lane.recvs[k]))});
    return;
  }
  if (lane.sends.size() > pairs) {
    const Posted& lonely = lane.sends[pairs];
    verdict.Add(
        {FindingKind::kUnmatchedSend, lonely.device, Place(program, lonely) + " has no receive"});
  }
  if (lane.recvs.size() > pairs) {
    const Posted& lonely = lane.recvs[pairs];
    verdict.Add(
        {FindingKind::kUnmatchedRecv, lonely.device, Place(program, lonely) + " has no send"});
  }
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

void CheckGroup(const Program& program, const Group& group,
                const std::map<int32_t, std::vector<Posted>>& posts, Verdict& verdict) {
  const std::vector<Posted> none;
  const auto of = [&](int32_t device) -> const std::vector<Posted>& {
    const auto found = posts.find(device);
    return found == posts.end() ? none : found->second;
  };
  for (const auto& [device, list] : posts) {
    if (std::find(group.devices.begin(), group.devices.end(), device) != group.devices.end()) {
      continue;
    }
    verdict.Add(
        {FindingKind::kCollectiveDisagrees, device,
         fmt::format("{}: the device is not in group {}", Place(program, list[0]), group.name)});
  }
  const std::vector<Posted>& first = of(group.devices[0]);
  for (const int32_t device : group.devices) {
    const std::vector<Posted>& other = of(device);
    for (size_t k = 0; k < std::min(first.size(), other.size()); ++k) {
      const std::string difference = Difference(program, first[k], other[k]);
      if (difference.empty()) continue;
      verdict.Add({FindingKind::kCollectiveDisagrees, device,
                   fmt::format("{} meets {}: they disagree on the {}", Place(program, first[k]),
                               Place(program, other[k]), difference)});
      return;
    }
    if (first.size() == other.size()) continue;
    const std::vector<Posted>& longer = first.size() > other.size() ? first : other;
    const int32_t absent = first.size() > other.size() ? device : group.devices[0];
    verdict.Add({FindingKind::kCollectiveDisagrees, absent,
                 fmt::format("{}: device {} of group {} does not take part",
                             Place(program, longer[std::min(first.size(), other.size())]), absent,
                             group.name)});
    return;
  }
}

}  // namespace

void CheckMessages(const Program& program, const std::vector<Step>& steps, Verdict& verdict) {
  std::map<std::tuple<int32_t, int32_t, int32_t>, Lane> lanes;
  std::vector<std::map<int32_t, std::vector<Posted>>> collectives(program.groups.size());
  for (size_t d = 0; d < program.devices.size(); ++d) {
    const auto device = static_cast<int32_t>(d);
    for (const Step& step : steps) {
      const auto& list = program.devices[d].list(step.section);
      for (size_t k = 0; k < list.size(); ++k) {
        const Instruction& in = list[k];
        const Posted posted{device, step, k, &in};
        if (in.code == OpCode::kSend) lanes[{device, in.target, in.tag}].sends.push_back(posted);
        if (in.code == OpCode::kRecv) lanes[{in.target, device, in.tag}].recvs.push_back(posted);
        if (in.code == OpCode::kCollective) {
          collectives[static_cast<size_t>(in.target)][device].push_back(posted);
        }
      }
    }
  }
  for (const auto& item : lanes) CheckLane(program, item.second, verdict);
  for (size_t g = 0; g < collectives.size(); ++g) {
    CheckGroup(program, program.groups[g], collectives[g], verdict);
  }
}

}  // namespace heddle
