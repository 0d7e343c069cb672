#include "program/program.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace heddle {

int64_t Program::samples() const {
  int64_t total = 0;
  for (const int64_t rows : microbatch_rows) total += rows;
  return total;
}

int64_t Program::instruction_count() const {
  size_t count = 0;
  for (const DeviceProgram& device : devices) {
    for (const auto& list : device.sections) count += list.size();
  }
  return static_cast<int64_t>(count);
}

bool Program::has_section(Section section) const {
  return std::any_of(devices.begin(), devices.end(),
                     [&](const DeviceProgram& device) { return !device.list(section).empty(); });
}

Slice Program::SliceOf(int32_t id, int32_t slice) const {
  if (slice >= 0) return slices[static_cast<size_t>(slice)];
  Slice whole;
  for (const int64_t extent : tensor(id).shape) whole.push_back({0, extent});
  return whole;
}

Bytes Program::BytesOf(int32_t id, int32_t slice) const {
  int64_t elements = 1;
  if (slice >= 0) {
    elements = ElementsOf(slices[static_cast<size_t>(slice)]);
  } else {
    for (const int64_t extent : tensor(id).shape) elements *= extent;
  }
  return {elements * SizeOf(tensor(id).dtype)};
}

BufferRef BufferOf(const Port& port, const Instruction& compute) {
  BufferRef ref;
  ref.tensor = port.tensor;
  ref.form = port.form;
  ref.slice = port.slice;
  if (port.per_microbatch) ref.microbatch = compute.microbatch;
  if (port.per_replica) ref.replica = compute.replica;
  if (port.versioned) {
    ref.version = compute.version;
    if (ref.version.present()) ref.version.offset += port.version_offset;
  }
  return ref;
}

bool WritesOperand(const Instruction& in, int32_t k) {
  if (in.code == OpCode::kSend) return false;
  return in.code != OpCode::kCollective || in.output_count == 0 || k >= in.operand_count;
}

std::vector<Bytes> CollectiveSizes(CollectiveKind kind, const CollectiveShape& shape, Bytes whole) {
  const auto total = [](const Division& division) {
    int64_t sum = 0;
    for (const int64_t size : division.sizes) sum += size;
    return static_cast<double>(std::max<int64_t>(1, sum));
  };
  const auto bytes = [&](double part) {
    return Bytes{static_cast<int64_t>(std::llround(static_cast<double>(whole.value) * part))};
  };
  std::vector<Bytes> sizes;
  const double all = total(shape.from);
  if (kind != CollectiveKind::kAllToAll) {
    for (const int64_t size : shape.from.sizes) {
      sizes.push_back(bytes(static_cast<double>(size) / all));
    }
    return sizes;
  }
  // From one division to another: along two axes every pair exchanges a block; along one, the
  // overlap of its two intervals.
  const double all_to = total(shape.to);
  const bool same_axis = shape.from.dim == shape.to.dim;
  int64_t from_begin = 0;
  for (const int64_t from : shape.from.sizes) {
    int64_t to_begin = 0;
    for (const int64_t to : shape.to.sizes) {
      const int64_t common =
          std::min(from_begin + from, to_begin + to) - std::max(from_begin, to_begin);
      const double part = same_axis
                              ? static_cast<double>(std::max<int64_t>(0, common)) / all
                              : static_cast<double>(from) / all * static_cast<double>(to) / all_to;
      sizes.push_back(bytes(part));
      to_begin += to;
    }
    from_begin += from;
  }
  return sizes;
}

Bytes DividedBytes(const Program& program, const Instruction& collective, const BufferRef& input) {
  if (collective.shape < 0) return program.BytesOf(input.tensor, input.slice);
  const Division& division = program.shapes[static_cast<size_t>(collective.shape)].from;
  Slice slice = program.SliceOf(input.tensor, input.slice);
  if (division.dim >= 0 && static_cast<size_t>(division.dim) < slice.size()) {
    const auto& sizes = division.sizes;
    slice[static_cast<size_t>(division.dim)] = {
        0, std::accumulate(sizes.begin(), sizes.end(), int64_t{0})};
  }
  return {ElementsOf(slice) * SizeOf(program.tensor(input.tensor).dtype)};
}

int64_t ElementsOf(const Slice& slice) {
  int64_t elements = 1;
  for (const Range& range : slice) elements *= range.size();
  return elements;
}

bool Overlap(const Slice& a, const Slice& b) {
  HEDDLE_CHECK(a.size() == b.size());
  for (size_t axis = 0; axis < a.size(); ++axis) {
    if (std::max(a[axis].begin, b[axis].begin) >= std::min(a[axis].end, b[axis].end)) return false;
  }
  return true;
}

bool Contains(const Slice& outer, const Slice& inner) {
  HEDDLE_CHECK(outer.size() == inner.size());
  if (ElementsOf(inner) == 0) return true;
  for (size_t axis = 0; axis < outer.size(); ++axis) {
    if (inner[axis].begin < outer[axis].begin || inner[axis].end > outer[axis].end) return false;
  }
  return true;
}

}  // namespace heddle
