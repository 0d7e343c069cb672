// ProgramMutants: every single change of a communication, an update or a scale.
//
//   ForEachMutant(program, [&](const std::string& what, const Program& mutant) { … });
//
// Of one device: a communication, an update or a move left out, done twice, exchanged with the next
// one, aimed at another peer, group, segment, buffer or microbatch. Of all devices that take part:
// a collective or a message left out, a collective done twice, or without one of its buffers. Of a
// segment: another scale, an update op left out or done twice.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "program/text/program_text.h"
#include "program/unroll.h"
#include "program/walk.h"

namespace heddle {

class ProgramMutants {
 public:
  using Visit = std::function<void(const std::string& what, const Program& mutant)>;

  ProgramMutants(const Program& program, Visit visit)
      : program_(program), visit_(std::move(visit)) {}

  void Run() {
    for (size_t d = 0; d < program_.devices.size(); ++d) {
      for (size_t s = 0; s < kSectionCount; ++s) {
        for (size_t k = 0; k < program_.devices[d].sections[s].size(); ++k) At(d, s, k);
      }
    }
    for (size_t s = 0; s < kSectionCount; ++s) Together(s);
    for (size_t s = 0; s < program_.segments.size(); ++s) OfSegment(s);
  }

 private:
  using List = std::vector<Instruction>;

  bool Matters(const Instruction& in) const {
    if (in.code == OpCode::kCompute) {
      const SegmentPhase phase = program_.segment(in.target).phase;
      return phase == SegmentPhase::kUpdate || phase == SegmentPhase::kOther;
    }
    return Communicates(in.code);
  }

  void Change(size_t d, size_t s, const std::string& what,
              const std::function<void(DeviceProgram&, List&)>& change) const {
    Program mutant = program_;
    change(mutant.devices[d], mutant.devices[d].sections[s]);
    visit_(what, mutant);
  }

  // The mutants of one instruction of one device.
  void At(size_t d, size_t s, size_t k) const {
    const List& list = program_.devices[d].sections[s];
    const Instruction& in = list[k];
    if (!Matters(in)) return;
    const std::string here = "device " + std::to_string(d) + ", " +
                             std::string(NameOf(static_cast<Section>(s))) + ", " +
                             PrintInstruction(program_, program_.devices[d], in);
    const auto place = static_cast<std::ptrdiff_t>(k);
    Change(d, s, here + " left out", [&](DeviceProgram&, List& l) { l.erase(l.begin() + place); });
    Change(d, s, here + " twice", [&](DeviceProgram&, List& l) {
      const Instruction copy = l[k];
      l.insert(l.begin() + place, copy);
    });
    const auto next = std::find_if(list.begin() + place + 1, list.end(),
                                   [&](const Instruction& other) { return Matters(other); });
    if (next != list.end()) {
      const auto other = static_cast<size_t>(next - list.begin());
      Change(d, s, here + " exchanged with the next",
             [&](DeviceProgram&, List& l) { std::swap(l[k], l[other]); });
    }
    Aim(d, s, k, here);
  }

  void Aim(size_t d, size_t s, size_t k, const std::string& here) const {
    const Instruction& in = program_.devices[d].sections[s][k];
    const auto retarget = [&](int32_t target) {
      if (target == in.target) return;
      Change(d, s, here + " aimed at " + std::to_string(target),
             [&](DeviceProgram&, List& l) { l[k].target = target; });
    };
    if (in.code == OpCode::kCollective) {
      for (size_t g = 0; g < program_.groups.size(); ++g) retarget(static_cast<int32_t>(g));
    } else if (in.code == OpCode::kCompute) {
      for (size_t other = 0; other < program_.segments.size(); ++other) {
        if (program_.segments[other].phase == program_.segment(in.target).phase) {
          retarget(static_cast<int32_t>(other));
        }
      }
    } else {
      for (size_t other = 0; other < program_.devices.size(); ++other) {
        retarget(static_cast<int32_t>(other));
      }
    }
    if (in.code == OpCode::kCompute) return OtherIndices(d, s, k, here);
    OtherBuffers(d, s, k, here);
  }

  void OtherIndices(size_t d, size_t s, size_t k, const std::string& here) const {
    const Instruction& in = program_.devices[d].sections[s][k];
    const auto& ports = program_.segment(in.target).ports;
    const bool adds = std::any_of(ports.begin(), ports.end(),
                                  [](const Port& port) { return port.use == PortUse::kAdd; });
    if (adds) {
      Change(d, s, here + " accumulating otherwise",
             [&](DeviceProgram&, List& l) { l[k].accumulate = !l[k].accumulate; });
    }
    for (const int32_t by : {-1, 1}) {
      if (in.replica >= 0 && in.replica + by >= 0) {
        Change(d, s, here + " of another replica",
               [&](DeviceProgram&, List& l) { l[k].replica += by; });
      }
      if (in.version.present()) {
        Change(d, s, here + " of another version",
               [&](DeviceProgram&, List& l) { l[k].version.offset += by; });
      }
    }
  }

  // Each operand becomes the next one of the device that has its shape and role.
  void OtherBuffers(size_t d, size_t s, size_t k, const std::string& here) const {
    const DeviceProgram& device = program_.devices[d];
    const Instruction& in = device.sections[s][k];
    for (int32_t o = 0; o < in.operand_count + in.output_count; ++o) {
      const auto at = static_cast<size_t>(in.first_operand + o);
      const ProgramTensor& mine = program_.tensor(device.operands[at].tensor);
      const auto other =
          std::find_if(device.operands.begin(), device.operands.end(), [&](const BufferRef& ref) {
            const ProgramTensor& tensor = program_.tensor(ref.tensor);
            return ref != device.operands[at] && tensor.shape == mine.shape &&
                   tensor.role == mine.role;
          });
      if (other == device.operands.end()) continue;
      const bool same = static_cast<Section>(s) == Section::kPrologue &&
                        KeyOf(*other, 0) == KeyOf(device.operands[at], 0);
      if (same) continue;  // in other words
      const BufferRef taken = *other;
      Change(d, s, here + " with another buffer",
             [&](DeviceProgram& changed, List&) { changed.operands[at] = taken; });
    }
  }

  // What several devices do together: the n-th collective of a group, the n-th message of a lane.
  void Together(size_t s) const {
    for (size_t g = 0; g < program_.groups.size(); ++g) {
      const int32_t first = program_.groups[g].devices[0];
      const auto count = Posted(static_cast<size_t>(first), s, g).size();
      for (size_t n = 0; n < count; ++n) Collective(s, g, n);
    }
    for (size_t d = 0; d < program_.devices.size(); ++d) {
      const List& list = program_.devices[d].sections[s];
      for (size_t k = 0; k < list.size(); ++k) {
        if (list[k].code == OpCode::kSend) Message(d, s, k);
      }
    }
  }

  std::vector<size_t> Posted(size_t d, size_t s, size_t g) const {
    std::vector<size_t> places;
    const List& list = program_.devices[d].sections[s];
    for (size_t k = 0; k < list.size(); ++k) {
      const bool one = list[k].code == OpCode::kCollective;
      if (one && list[k].target == static_cast<int32_t>(g)) places.push_back(k);
    }
    return places;
  }

  void Collective(size_t s, size_t g, size_t n) const {
    const std::string here =
        "collective " + std::to_string(n) + " of group " + program_.groups[g].name;
    const auto all = [&](const std::string& what,
                         const std::function<void(DeviceProgram&, List&, size_t)>& change) {
      Program mutant = program_;
      for (const int32_t member : program_.groups[g].devices) {
        const auto d = static_cast<size_t>(member);
        change(mutant.devices[d], mutant.devices[d].sections[s], Posted(d, s, g)[n]);
      }
      visit_(here + what, mutant);
    };
    all(" left out by all", [](DeviceProgram&, List& l, size_t k) {
      l.erase(l.begin() + static_cast<std::ptrdiff_t>(k));
    });
    all(" twice", [](DeviceProgram&, List& l, size_t k) {
      const Instruction copy = l[k];
      l.insert(l.begin() + static_cast<std::ptrdiff_t>(k), copy);
    });
    const auto first = static_cast<size_t>(program_.groups[g].devices[0]);
    const Instruction& in = program_.devices[first].sections[s][Posted(first, s, g)[n]];
    for (int32_t o = 0; o < in.operand_count && in.operand_count > 1; ++o) {
      all(" without buffer " + std::to_string(o), [o](DeviceProgram& d, List& l, size_t k) {
        std::vector<BufferRef> rest;
        for (int32_t other = 0; other < l[k].operand_count; ++other) {
          if (other == o) continue;
          rest.push_back(d.operands[static_cast<size_t>(l[k].first_operand + other)]);
        }
        l[k].first_operand = static_cast<int32_t>(d.operands.size());
        --l[k].operand_count;
        d.operands.insert(d.operands.end(), rest.begin(), rest.end());
      });
    }
  }

  // Both ends, so that messages still match.
  void Message(size_t d, size_t s, size_t k) const {
    const DeviceProgram& device = program_.devices[d];
    const Instruction& send = device.sections[s][k];
    const auto nth = std::count_if(
        device.sections[s].begin(), device.sections[s].begin() + static_cast<std::ptrdiff_t>(k),
        [&](const Instruction& in) {
          return in.code == OpCode::kSend && in.target == send.target && in.tag == send.tag;
        });
    Program mutant = program_;
    List& from = mutant.devices[d].sections[s];
    List& to = mutant.devices[static_cast<size_t>(send.target)].sections[s];
    std::ptrdiff_t seen = 0;
    const auto met = std::find_if(to.begin(), to.end(), [&](const Instruction& in) {
      const bool other_end =
          in.code == OpCode::kRecv && in.tag == send.tag && in.target == static_cast<int32_t>(d);
      return other_end && seen++ == nth;
    });
    if (met == to.end()) return;
    to.erase(met);
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(k));
    visit_("device " + std::to_string(d) + ", " + PrintInstruction(program_, device, send) +
               " and its receive left out",
           mutant);
  }

  void OfSegment(size_t s) const {
    const Segment& segment = program_.segments[s];
    const auto change = [&](const std::string& what, const std::function<void(Segment&)>& changed) {
      Program mutant = program_;
      changed(mutant.segments[s]);
      visit_("segment " + segment.name + what, mutant);
    };
    const bool moves = segment.phase == SegmentPhase::kOther && segment.ops.empty();
    if (moves) {
      for (const double factor : {0.5, 2.0}) {
        change(" with another scale", [&](Segment& one) { one.scale *= factor; });
      }
    }
    if (segment.phase != SegmentPhase::kUpdate &&
        !(!moves && segment.phase == SegmentPhase::kOther)) {
      return;
    }
    for (size_t k = 0; k < segment.ops.size(); ++k) {
      const auto at = static_cast<std::ptrdiff_t>(k);
      const std::string name = ": op " + program_.NameOf(segment.ops[k]);
      change(name + " left out", [&](Segment& one) { one.ops.erase(one.ops.begin() + at); });
      change(name + " twice", [&](Segment& one) {
        const SegmentOp copy = one.ops[k];
        one.ops.insert(one.ops.begin() + at, copy);
      });
    }
  }

  const Program& program_;
  Visit visit_;
};

inline void ForEachMutant(const Program& program, ProgramMutants::Visit visit) {
  ProgramMutants(program, std::move(visit)).Run();
}

}  // namespace heddle
