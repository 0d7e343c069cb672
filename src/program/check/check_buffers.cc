#include <fmt/format.h>

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <numeric>
#include <span>
#include <tuple>

#include "program/buffer_names.h"
#include "program/check/check_parts.h"
#include "program/text/program_text.h"

namespace heddle {
namespace {

// A part of a tensor: one of the Program's slices, the whole (-1), or a slice of our own.
struct Part {
  static constexpr int32_t kOwn = -2;
  int32_t tensor;
  int32_t slice;
  Slice own;
};

// Memory behind one or several names. Nearly always it has one part.
struct Storage {
  boost::container::small_vector<Part, 1> parts;  // disjoint
  Bytes bytes;
  int names = 1;
};

// Walks one device's list in order and keeps account of its buffers.
class BufferWalk {
 public:
  BufferWalk(const Program& program, bool relative, int32_t device, const CheckOptions& options,
             Verdict& verdict)
      : p_(program), relative_(relative), device_(device), options_(options), verdict_(verdict) {}

  void Run(const std::vector<Step>& steps) {
    const DeviceProgram& device = p_.devices[static_cast<size_t>(device_)];
    step_ = {Section::kPrologue, 0};
    for (const BufferRef& ref : device.holds) Write(ref, "the held buffer");
    held_ = live_;
    Bytes after_body{-1};
    for (const Step& step : steps) {
      step_ = step;
      const bool first_body = step.section == Section::kBody && step.i == 0;
      if (first_body && !relative_) at_start_ = buffers_;
      const auto& list = device.list(step.section);
      for (index_ = 0; index_ < list.size() && good_; ++index_) Visit(device, list[index_]);
      if (!good_) break;
      if (step.section != Section::kBody) continue;
      // A body that is always the same must leave what it found; another, no more than the
      // repetition before.
      if (!relative_) {
        CompareWithStart(device);
      } else if (after_body.value >= 0 && live_ > after_body) {
        Report(FindingKind::kLeak, fmt::format("device {} ({}): {} more after each repetition",
                                               device_, device.name, ToText(live_ - after_body)));
      }
      after_body = live_;
    }
    verdict_.memory[static_cast<size_t>(device_)] = {peak_, held_};
    if (good_ && !options_.capacity.empty() &&
        peak_ > options_.capacity[static_cast<size_t>(device_)]) {
      const Bytes capacity = options_.capacity[static_cast<size_t>(device_)];
      Report(FindingKind::kMemory,
             fmt::format("device {} ({}) needs {} and has {}: {} too much", device_, device.name,
                         ToText(peak_), ToText(capacity), ToText(peak_ - capacity)));
    }
  }

 private:
  // Data comes from the source, and the loss goes to the log: neither is kept on the device.
  bool Tracked(int32_t tensor) const {
    const Role role = p_.tensor(tensor).role;
    return role != Role::kInput && role != Role::kLoss;
  }

  void CompareWithStart(const DeviceProgram& device) {
    if (const BufferKey* left = FirstMissing(buffers_, at_start_)) {
      Report(FindingKind::kLeak,
             fmt::format("device {} ({}): {} is still live at the end of the body; was it not "
                         "freed?",
                         device_, device.name, PrintBuffer(p_, RefOf(*left))));
    } else if (const BufferKey* lost = FirstMissing(at_start_, buffers_)) {
      Report(FindingKind::kUseAfterFree,
             fmt::format("device {} ({}): the body frees {}, which its next repetition needs",
                         device_, device.name, PrintBuffer(p_, RefOf(*lost))));
    }
  }

  // The first buffer that is live among `these` and not among `those`, or null.
  static const BufferKey* FirstMissing(const BufferNames& these, const BufferNames& those) {
    const BufferKey* first = nullptr;
    for (const auto& [key, storage] : these.entries()) {
      if (storage == BufferNames::kFreed) continue;
      const size_t* other = those.Find(key);
      if (other != nullptr && *other != BufferNames::kFreed) continue;
      const bool earlier = first == nullptr || std::tie(key.tensor, key.microbatch) <
                                                   std::tie(first->tensor, first->microbatch);
      if (earlier) first = &key;
    }
    return first;
  }

  void Report(FindingKind kind, std::string message) {
    verdict_.Add({kind, device_, std::move(message)});
    good_ = false;
  }

  std::string Here(const BufferRef& ref) const {
    return fmt::format("{}: {}", PlaceOf(p_, device_, step_, index_), PrintBuffer(p_, ref));
  }

  Storage* Find(const BufferRef& ref) {
    const size_t* found = buffers_.Find(KeyOf(ref, step_.i));
    const bool live = found != nullptr && *found != BufferNames::kFreed;
    return live ? &storages_[*found] : nullptr;
  }

  void Grow(Bytes bytes) {
    constexpr Bytes kAbsurd{int64_t{1} << 61};  // sums stay far from overflow
    live_ += bytes;
    peak_ = std::max(peak_, live_);
    if (live_ < kAbsurd) return;
    Report(FindingKind::kMemory,
           fmt::format("device {} ({}) needs more than {}", device_,
                       p_.devices[static_cast<size_t>(device_)].name, ToText(kAbsurd)));
  }

  // A new buffer; it must not be live.
  void Write(const BufferRef& ref, std::string_view what = "") {
    if (!Tracked(ref.tensor)) return;
    size_t& storage = buffers_[KeyOf(ref, step_.i)];
    if (storage != BufferNames::kFreed) {
      Report(FindingKind::kOverwrite,
             what.empty() ? Here(ref) + " is written while still live; was it not freed?"
                          : fmt::format("{} {} of device {} is listed twice", what,
                                        PrintBuffer(p_, ref), device_));
      return;
    }
    storage = NewStorage();
    AddPart(storages_[storage], ref);
  }

  // A part of a buffer, which the first part creates.
  void WritePart(const BufferRef& ref) {
    if (!Tracked(ref.tensor)) return;
    Storage* storage = Find(ref);
    if (storage == nullptr) return Write(ref);
    const Slice slice = p_.SliceOf(ref.tensor, ref.slice);
    for (const Part& part : storage->parts) {
      if (!Overlap(SliceOf(part), slice)) continue;
      return Report(FindingKind::kOverwrite, Here(ref) + " is written while still live");
    }
    constexpr size_t kMostParts = 2048;  // each is compared with all others
    if (storage->parts.size() == kMostParts) {
      return Report(FindingKind::kBadSegment,
                    fmt::format("{} has more than {} parts", Here(ref), kMostParts));
    }
    AddPart(*storage, ref);
  }

  void AddPart(Storage& storage, const BufferRef& ref) {
    AddPart(storage, {ref.tensor, ref.slice, {}}, p_.BytesOf(ref.tensor, ref.slice));
  }

  void AddPart(Storage& storage, Part part, Bytes bytes) {
    storage.parts.push_back(std::move(part));
    storage.bytes += bytes;
    Grow(bytes);
  }

  Slice SliceOf(const Part& part) const {
    return part.slice == Part::kOwn ? part.own : p_.SliceOf(part.tensor, part.slice);
  }

  // True when the whole slice has been written.
  bool Covered(const Storage& storage, const Slice& slice) const {
    int64_t covered = 0;
    for (const Part& known : storage.parts) {
      const Slice part = SliceOf(known);
      int64_t common = 1;
      for (size_t axis = 0; axis < slice.size(); ++axis) {
        const int64_t begin = std::max(part[axis].begin, slice[axis].begin);
        const int64_t end = std::min(part[axis].end, slice[axis].end);
        common *= std::max<int64_t>(0, end - begin);
      }
      covered += common;
    }
    return covered == ElementsOf(slice);
  }

  void Read(const BufferRef& ref) {
    if (!Tracked(ref.tensor)) return;
    const Storage* storage = Find(ref);
    if (storage != nullptr) {
      if (storage->parts[0].slice == ref.slice) return;  // read as it was written: the usual case
      if (Covered(*storage, p_.SliceOf(ref.tensor, ref.slice))) return;
      return Report(FindingKind::kReadBeforeWrite, Here(ref) + " is not wholly written yet");
    }
    Missing(ref);
  }

  void Missing(const BufferRef& ref) {
    if (buffers_.Find(KeyOf(ref, step_.i)) == nullptr) {
      return Report(FindingKind::kReadBeforeWrite, Here(ref) + " is used before it is written");
    }
    if (ref.version.present()) {
      return Report(FindingKind::kStaleVersion, Here(ref) + " is a version that was freed before");
    }
    Report(FindingKind::kUseAfterFree, Here(ref) + " is used after it was freed");
  }

  void Free(const BufferRef& ref) {
    if (!Tracked(ref.tensor)) return;
    size_t* found = buffers_.Find(KeyOf(ref, step_.i));
    if (found == nullptr || *found == BufferNames::kFreed) return Missing(ref);
    Storage& storage = storages_[*found];
    if (--storage.names == 0) {
      live_ -= storage.bytes;
      storage.parts.clear();
      storage.bytes = {};
      storage.names = 1;
      spare_.push_back(*found);
    }
    *found = BufferNames::kFreed;
  }

  size_t NewStorage() {
    if (spare_.empty()) {
      storages_.emplace_back();
      return storages_.size() - 1;
    }
    const size_t id = spare_.back();
    spare_.pop_back();
    return id;
  }

  void Visit(const DeviceProgram& device, const Instruction& in) {
    const BufferRef* operands = device.operands.data() + in.first_operand;
    switch (in.code) {
      case OpCode::kCompute:
        return VisitCompute(in);
      case OpCode::kSend:
        return Read(operands[0]);
      case OpCode::kRecv:
        return WritePart(operands[0]);
      case OpCode::kCollective:
        return VisitCollective(in, operands);
      case OpCode::kWait:
        for (int32_t k = 0; k < in.operand_count && good_; ++k) {
          if (Tracked(operands[k].tensor) && Find(operands[k]) == nullptr) Missing(operands[k]);
        }
        return;
      case OpCode::kFree:
        for (int32_t k = 0; k < in.operand_count && good_; ++k) Free(operands[k]);
        return;
      case OpCode::kAlias: {
        if (Find(operands[1]) == nullptr) return Missing(operands[1]);
        if (Find(operands[0]) != nullptr) {
          return Report(FindingKind::kOverwrite, Here(operands[0]) + " is live already");
        }
        const size_t id = *buffers_.Find(KeyOf(operands[1], step_.i));
        ++storages_[id].names;
        buffers_[KeyOf(operands[0], step_.i)] = id;
        return;
      }
    }
  }

  // Operands of a collective mean whatever part of them is here.
  void VisitCollective(const Instruction& in, const BufferRef* operands) {
    const auto& members = p_.group(in.target).devices;
    const auto rank =
        static_cast<size_t>(std::find(members.begin(), members.end(), device_) - members.begin());
    if (rank == members.size()) return;  // CheckMessages reports it
    const bool receives =
        in.kind == CollectiveKind::kBroadcast && rank != static_cast<size_t>(in.tag);
    for (int32_t k = 0; k < in.operand_count && good_; ++k) {
      const Storage* storage = Find(operands[k]);
      if (storage != nullptr || !Tracked(operands[k].tensor)) {
        if (k == 0 && in.shape >= 0) CheckPart(in, operands[k], storage, rank);
      } else if (receives) {
        Write(operands[k]);  // a broadcast creates the buffer where it is not
      } else {
        Missing(operands[k]);
      }
    }
    if (good_ && in.shape >= 0) CheckSizes(in, operands);
    const bool flattened = in.shape >= 0 && p_.shapes[static_cast<size_t>(in.shape)].from.dim < 0;
    int64_t offset = 0;  // of the output among all of them
    for (int32_t k = 0; k < in.output_count && good_; ++k) {
      const BufferRef& ref = operands[in.operand_count + k];
      WriteDivided(in, ref, rank, offset);
      if (flattened) offset += ElementsOf(p_.SliceOf(ref.tensor, -1));
    }
  }

  // The sizes divide every tensor along their axis, or all of them flattened.
  void CheckSizes(const Instruction& in, const BufferRef* operands) {
    const CollectiveShape& shape = p_.shapes[static_cast<size_t>(in.shape)];
    const Division& out = in.kind == CollectiveKind::kAllToAll ? shape.to : shape.from;
    const bool scatters = in.kind == CollectiveKind::kReduceScatter;
    const bool gathers = in.kind == CollectiveKind::kAllGather;
    CheckDivision(shape.from, {operands, static_cast<size_t>(in.operand_count)}, scatters);
    CheckDivision(out, {operands + in.operand_count, static_cast<size_t>(in.output_count)},
                  gathers);
    for (int32_t k = 0; k < std::min(in.operand_count, in.output_count) && good_; ++k) {
      CheckOtherAxes(shape.from, out, operands[k], operands[in.operand_count + k]);
    }
  }

  // Along the axes that are not divided the parts before and after are the same; along one that is
  // divided only before, or only after, the other part has all that is divided.
  void CheckOtherAxes(const Division& from, const Division& to, const BufferRef& input,
                      const BufferRef& output) {
    if (from.dim < 0 || to.dim < 0) return;
    const Slice before = p_.SliceOf(input.tensor, input.slice);
    const Slice after = p_.SliceOf(output.tensor, output.slice);
    const auto sum = [](const Division& division) {
      return std::accumulate(division.sizes.begin(), division.sizes.end(), int64_t{0});
    };
    for (size_t axis = 0; axis < std::min(before.size(), after.size()); ++axis) {
      const bool is_from = axis == static_cast<size_t>(from.dim);
      const bool is_to = axis == static_cast<size_t>(to.dim);
      bool fits = before[axis] == after[axis];
      if (is_from && is_to) fits = sum(from) == sum(to);
      if (is_from && !is_to) fits = after[axis].size() == sum(from);
      if (is_to && !is_from) fits = before[axis].size() == sum(to);
      if (fits) continue;
      return Report(FindingKind::kCollectiveDisagrees,
                    fmt::format("{} and {} do not fit along axis {}", Here(input),
                                p_.tensor(output.tensor).name, axis));
    }
  }

  // `whole`: these buffers have all that is divided, not a member's part of it.
  void CheckDivision(const Division& division, std::span<const BufferRef> refs, bool whole) {
    const int64_t sum = std::accumulate(division.sizes.begin(), division.sizes.end(), int64_t{0});
    double flattened = 0;
    for (const BufferRef& ref : refs) {
      std::vector<int64_t> extents = p_.tensor(ref.tensor).shape;
      flattened += static_cast<double>(ElementsOf(p_.SliceOf(ref.tensor, -1)));
      if (!good_ || division.dim < 0) continue;
      const auto dim = static_cast<size_t>(division.dim);
      // Members may divide a part of the axis among them; then the buffer says which.
      if (ref.slice >= 0 && dim < extents.size()) {
        extents[dim] = whole ? p_.SliceOf(ref.tensor, ref.slice)[dim].size() : sum;
      }
      if (dim < extents.size() && extents[dim] == sum) continue;
      Report(FindingKind::kCollectiveDisagrees,
             dim < extents.size() ? fmt::format("{}: the sizes add up to {}, not to the {} of {}",
                                                PlaceOf(p_, device_, step_, index_), sum,
                                                extents[dim], p_.tensor(ref.tensor).name)
                                  : fmt::format("{} has no axis {}", Here(ref), dim));
    }
    if (!good_ || division.dim >= 0 || static_cast<double>(sum) == flattened) return;
    Report(FindingKind::kCollectiveDisagrees,
           fmt::format("{}: the sizes add up to {}, not to the {} elements of the buffers",
                       PlaceOf(p_, device_, step_, index_), sum, flattened));
  }

  // How long the ranges are together, where they overlap once: parts may lie beside each other
  // along another axis.
  static int64_t LengthOf(std::vector<Range> ranges) {
    std::sort(ranges.begin(), ranges.end());
    int64_t length = 0, end = 0;
    for (const Range& range : ranges) {
      length += std::max<int64_t>(0, range.end - std::max(end, range.begin));
      end = std::max(end, range.end);
    }
    return length;
  }

  // What goes in must have the size that the collective states for this member.
  void CheckPart(const Instruction& in, const BufferRef& ref, const Storage* storage, size_t rank) {
    const Division& from = p_.shapes[static_cast<size_t>(in.shape)].from;
    const auto dim = static_cast<size_t>(from.dim);
    if (in.kind == CollectiveKind::kReduceScatter || from.dim < 0 || storage == nullptr) return;
    std::vector<std::vector<Range>> ranges(p_.tensor(ref.tensor).shape.size());
    int64_t elements = 0, box = 1;
    for (const Part& part : storage->parts) {
      const Slice slice = SliceOf(part);
      for (size_t axis = 0; axis < ranges.size(); ++axis) ranges[axis].push_back(slice[axis]);
      elements += ElementsOf(slice);
    }
    for (const std::vector<Range>& along : ranges) box *= LengthOf(along);
    const int64_t extent = dim < ranges.size() ? LengthOf(ranges[dim]) : 0;
    if (extent == from.sizes[rank] && elements == box) return;
    if (extent == from.sizes[rank]) {
      return Report(FindingKind::kCollectiveDisagrees,
                    fmt::format("{} has a hole between the parts that came", Here(ref)));
    }
    Report(
        FindingKind::kCollectiveDisagrees,
        fmt::format("{} holds {} along axis {}, not {}", Here(ref), extent, dim, from.sizes[rank]));
  }

  // The member's part of the output: all of it after an all-gather. A part of flattened buffers has
  // its size, but is no slice: it counts as whatever part the reader means.
  void WriteDivided(const Instruction& in, const BufferRef& ref, size_t rank, int64_t offset) {
    if (!Tracked(ref.tensor)) return;
    if (Find(ref) != nullptr) {
      return Report(FindingKind::kOverwrite, Here(ref) + " is written while still live");
    }
    Slice slice = p_.SliceOf(ref.tensor, -1);
    int64_t elements = ElementsOf(slice);
    const CollectiveShape& shape = p_.shapes[static_cast<size_t>(in.shape)];
    const Division& division = in.kind == CollectiveKind::kAllToAll ? shape.to : shape.from;
    const auto sizes = division.sizes.begin();
    const int64_t begin = std::accumulate(sizes, sizes + static_cast<ptrdiff_t>(rank), int64_t{0});
    const int64_t end = begin + division.sizes[rank];
    const bool named = ref.slice >= 0 && division.dim >= 0;
    if (named) {
      slice = p_.SliceOf(ref.tensor, ref.slice);
      elements = ElementsOf(slice);
      const int64_t extent = slice[static_cast<size_t>(division.dim)].size();
      if (in.kind != CollectiveKind::kAllGather && extent != division.sizes[rank]) {
        return Report(FindingKind::kCollectiveDisagrees,
                      fmt::format("{} gets {} along axis {}, not {}", Here(ref), extent,
                                  division.dim, division.sizes[rank]));
      }
    } else if (in.kind != CollectiveKind::kAllGather && division.dim >= 0) {
      slice[static_cast<size_t>(division.dim)] = {begin, end};
      elements = ElementsOf(slice);
    } else if (in.kind != CollectiveKind::kAllGather) {
      elements = std::max<int64_t>(0, std::min(end, offset + elements) - std::max(begin, offset));
    }
    const size_t id = NewStorage();
    buffers_[KeyOf(ref, step_.i)] = id;
    AddPart(storages_[id], {ref.tensor, Part::kOwn, std::move(slice)},
            Bytes{elements * SizeOf(p_.tensor(ref.tensor).dtype)});
  }

  void VisitCompute(const Instruction& in) {
    const Segment& segment = p_.segment(in.target);
    const Bytes before = live_;
    const Bytes peak_before = peak_;
    Bytes added;  // weight gradients that appear here and stay
    for (const Port& port : segment.ports) {
      if (!good_) return;
      const BufferRef ref = BufferOf(port, in);
      switch (port.use) {
        case PortUse::kRead:
        case PortUse::kConsume:
        case PortUse::kChange:
        case PortUse::kAccumulate:
          Read(ref);
          break;
        case PortUse::kWrite:
          Write(ref);
          break;
        case PortUse::kAdd:
          if (in.accumulate) {
            Read(ref);
          } else {
            Write(ref);
            added += Tracked(ref.tensor) ? p_.BytesOf(ref.tensor, ref.slice) : Bytes{};
          }
          break;
      }
    }
    // With a stated scratch the inside is known exactly; else all outputs are there at once.
    if (added.value > 0 && segment.first_scratch.value > 0) {
      peak_ = std::max(peak_before, before + segment.first_scratch);
    } else if (segment.scratch.value > 0) {
      peak_ = std::max(peak_before, before + added + segment.scratch);
    }
    for (const Port& port : segment.ports) {
      if (good_ && port.use == PortUse::kConsume) Free(BufferOf(port, in));
    }
    peak_ = std::max(peak_, live_);
  }

  const Program& p_;
  bool relative_;
  int32_t device_;
  const CheckOptions& options_;
  Verdict& verdict_;
  bool good_ = true;
  Step step_{};
  size_t index_ = 0;
  Bytes live_, peak_, held_;
  BufferNames buffers_;   // storage of each name, or kFreed
  BufferNames at_start_;  // of the body, when it is always the same
  std::vector<Storage> storages_;
  std::vector<size_t> spare_;
};

}  // namespace

void CheckBuffers(const Program& program, const std::vector<Step>& steps,
                  const CheckOptions& options, const std::vector<int32_t>& like, Verdict& verdict) {
  const bool relative = IsRelative(program);
  for (size_t d = 0; d < program.devices.size(); ++d) {
    const size_t first = like.empty() ? d : static_cast<size_t>(like[d]);
    if (first < d) {
      verdict.memory[d] = verdict.memory[first];
    } else {
      BufferWalk(program, relative, static_cast<int32_t>(d), options, verdict).Run(steps);
    }
  }
}

}  // namespace heddle
