#include "program/check/check.h"

#include <fmt/format.h>

#include <array>

#include "program/check/check_parts.h"
#include "program/proof/proof.h"
#include "program/text/program_text.h"

namespace heddle {
namespace {

constexpr std::array<std::string_view, 18> kNames = {"unmatched send",
                                                     "unmatched receive",
                                                     "message mismatch",
                                                     "deadlock",
                                                     "read before write",
                                                     "use after free",
                                                     "stale version",
                                                     "overwrite",
                                                     "leak",
                                                     "layer missing",
                                                     "layer twice",
                                                     "update missing",
                                                     "collective disagrees",
                                                     "out of memory",
                                                     "bad segment",
                                                     "not whole",
                                                     "wrong gradient",
                                                     "wrong version"};

FindingKind KindOf(ProofFault fault) {
  switch (fault) {
    case ProofFault::kNotWhole:
      return FindingKind::kNotWhole;
    case ProofFault::kWrongGradient:
      return FindingKind::kWrongGradient;
    case ProofFault::kWrongVersion:
      return FindingKind::kWrongVersion;
  }
  return FindingKind::kNotWhole;
}

std::string FaultOf(const Program& program, const SegmentOp& segment_op, const Graph& graph) {
  const auto id = graph.FindOp(program.NameOf(segment_op));
  if (!id) return fmt::format("the model has no op {}", program.NameOf(segment_op));
  const Op& op = graph.op(*id);
  for (const auto& [letter, range] : program.ShardsOf(segment_op)) {
    const size_t at = op.IndexOf(letter);
    if (at != std::string::npos && range.end <= op.extents[at]) continue;
    return fmt::format("{} has no shard {}={}:{}", op.name, letter, range.begin, range.end);
  }
  return "";
}

}  // namespace

std::string_view NameOf(FindingKind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string PlaceOf(const Program& program, int32_t device, const Step& step, size_t index) {
  const DeviceProgram& d = program.devices[static_cast<size_t>(device)];
  return fmt::format("device {} ({}), {}{}, instruction {}: {}", device, d.name,
                     NameOf(step.section),
                     step.section == Section::kBody ? fmt::format(" {}", step.i) : "", index,
                     PrintInstruction(program, d, d.list(step.section)[index]));
}

void CheckSegments(const Program& program, const CheckOptions& options, Verdict& verdict) {
  if (options.graph != nullptr) {
    for (const Segment& segment : program.segments) {
      for (const SegmentOp& op : segment.ops) {
        const std::string fault = FaultOf(program, op, *options.graph);
        if (fault.empty()) continue;
        verdict.Add(
            {FindingKind::kBadSegment, -1, fmt::format("segment {}: {}", segment.name, fault)});
      }
    }
  }
  struct Needs {
    bool microbatch = false, replica = false, version = false;
  };
  std::vector<Needs> needs(program.segments.size());
  for (size_t s = 0; s < needs.size(); ++s) {
    for (const Port& port : program.segments[s].ports) {
      needs[s].microbatch |= port.per_microbatch;
      needs[s].replica |= port.per_replica;
      needs[s].version |= port.versioned;
    }
  }
  for (size_t d = 0; d < program.devices.size(); ++d) {
    for (int s = 0; s < kSectionCount; ++s) {
      const auto& list = program.devices[d].sections[static_cast<size_t>(s)];
      for (size_t k = 0; k < list.size(); ++k) {
        if (list[k].code != OpCode::kCompute) continue;
        const Needs& need = needs[static_cast<size_t>(list[k].target)];
        if ((!need.microbatch || list[k].microbatch.present()) &&
            (!need.replica || list[k].replica >= 0) &&
            (!need.version || list[k].version.present())) {
          continue;
        }
        verdict.Add({FindingKind::kBadSegment, static_cast<int32_t>(d),
                     PlaceOf(program, static_cast<int32_t>(d), {static_cast<Section>(s), 0}, k) +
                         " lacks an index (# ^ @) that the segment's ports need"});
      }
    }
  }
}

std::vector<Step> StepsToCheck(const Program& program) {
  return UnrolledSteps(program, IsRelative(program) ? 3 : 1);
}

Verdict CheckMemory(const Program& program, const std::vector<int32_t>& like) {
  Verdict verdict;
  verdict.memory.resize(program.devices.size());
  CheckBuffers(program, StepsToCheck(program), {}, like, verdict);
  return verdict;
}

Verdict CheckProgram(const Program& program, const CheckOptions& options) {
  const std::vector<Step> steps = StepsToCheck(program);
  Verdict verdict;
  verdict.memory.resize(program.devices.size());
  CheckSegments(program, options, verdict);
  if (!verdict.ok()) return verdict;  // the passes below rely on it
  CheckMessages(program, steps, verdict);
  CheckBuffers(program, steps, options, {}, verdict);
  if (verdict.ok()) CheckProgress(program, steps, verdict);
  CheckCoverage(program, steps, options, verdict);
  if (!verdict.ok() || !options.prove) return verdict;  // the proof relies on it
  Proof proof = ProveProgram(program, options.graph, steps);
  verdict.not_proven = std::move(proof.unknown);
  if (proof.finding) {
    verdict.Add(
        {KindOf(proof.finding->fault), proof.finding->device, std::move(proof.finding->message)});
  }
  return verdict;
}

}  // namespace heddle
