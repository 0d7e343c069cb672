#include "program/unroll.h"

#include <algorithm>

namespace heddle {

std::vector<Step> UnrolledSteps(const Program& program, int64_t repetitions) {
  std::vector<Step> steps;
  if (program.has_section(Section::kPrologue)) steps.push_back({Section::kPrologue, 0});
  for (int64_t i = 0; i < repetitions; ++i) steps.push_back({Section::kBody, i});
  if (program.has_section(Section::kEpilogue)) steps.push_back({Section::kEpilogue, repetitions});
  return steps;
}

BufferKey KeyOf(const BufferRef& ref, int64_t i) {
  BufferKey key{ref.tensor, ref.form, ref.replica};
  if (ref.microbatch.present()) key.microbatch = ref.microbatch.value(i);
  if (ref.version.present()) key.version = ref.version.value(i);
  return key;
}

BufferRef RefOf(const BufferKey& key) {
  BufferRef ref;
  ref.tensor = key.tensor;
  ref.form = key.form;
  ref.replica = key.replica;
  if (key.microbatch != BufferKey::kNone) {
    ref.microbatch = Index::At(static_cast<int32_t>(key.microbatch));
  }
  if (key.version != BufferKey::kNone) ref.version = Index::At(static_cast<int32_t>(key.version));
  return ref;
}

int64_t StepsPerBody(const Program& program) { return std::max(1, program.updates); }

int64_t StepOf(const Program& program, const Instruction& in, int64_t i) {
  const int64_t body = BodyOf(program, in, i), steps = StepsPerBody(program);
  if (steps == 1 || !in.microbatch.present()) return body * steps;
  const auto per_body = std::ssize(program.microbatch_rows);
  return body * steps + in.microbatch.value(i) % per_body * steps / per_body;
}

int64_t BodyOf(const Program& program, const Instruction& in, int64_t i) {
  if (!in.microbatch.present()) return i;
  const auto per_body = std::ssize(program.microbatch_rows);
  const int64_t m = in.microbatch.value(i);
  const bool repeated = !in.microbatch.relative() && m < per_body;
  return repeated ? i : m / per_body;
}

int64_t StepsOutsideBody(const Program& program) {
  const auto updates = [](const Program& p, const DeviceProgram& device, Section section) {
    return std::count_if(
        device.list(section).begin(), device.list(section).end(), [&](const Instruction& in) {
          return in.code == OpCode::kCompute && p.segment(in.target).phase == SegmentPhase::kUpdate;
        });
  };
  for (const DeviceProgram& device : program.devices) {
    const auto in_body = updates(program, device, Section::kBody);
    if (in_body == 0) continue;
    return (updates(program, device, Section::kPrologue) +
            updates(program, device, Section::kEpilogue)) /
           in_body;
  }
  return 0;
}

bool IsRelative(const Program& program) {
  // A version that no port takes up only counts.
  std::vector<bool> versioned;
  for (const Segment& segment : program.segments) {
    versioned.push_back(std::any_of(segment.ports.begin(), segment.ports.end(),
                                    [](const Port& port) { return port.versioned; }));
  }
  for (const DeviceProgram& device : program.devices) {
    for (const Instruction& in : device.list(Section::kBody)) {
      if (in.microbatch.relative()) return true;
      const bool takes = in.code == OpCode::kCompute && versioned[static_cast<size_t>(in.target)];
      if (takes && in.version.relative()) return true;
    }
    const bool any = std::any_of(
        device.operands.begin(), device.operands.end(),
        [](const BufferRef& ref) { return ref.microbatch.relative() || ref.version.relative(); });
    if (any) return true;
  }
  return false;
}

}  // namespace heddle
