#include "run/train/gathered_tensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <string>

namespace heddle {
namespace {

using Parts = std::map<std::string, Slice>;

// What a rank holds of each tensor.
Parts PartsAt(const Program& program, int32_t rank) {
  Parts parts;
  for (const BufferRef& ref : program.devices[static_cast<size_t>(rank)].holds) {
    parts[program.tensor(ref.tensor).name] = program.SliceOf(ref.tensor, ref.slice);
  }
  return parts;
}

// Leaves out what a rank before this one sends.
void EraseSentBefore(const Program& program, int32_t rank, std::vector<StoredTensor>& mine) {
  const Parts parts = PartsAt(program, rank);
  for (int32_t other = 0; other < rank; ++other) {
    const Parts theirs = PartsAt(program, other);
    std::erase_if(mine, [&](const StoredTensor& tensor) {
      const auto here = parts.find(tensor.name), there = theirs.find(tensor.name);
      return here != parts.end() && there != theirs.end() && here->second == there->second;
    });
  }
}

// A tensor that fills up.
struct Whole {
  std::vector<int64_t> shape;
  int64_t element;  // bytes
  std::byte* bytes;

  int64_t StrideOf(size_t axis) const {
    return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end(),
                           element, std::multiplies<>());
  }
};

// The part's bytes from `from` on, at `to` of the whole; returns where the rest of them begins.
const std::byte* CopyPart(const std::byte* from, const Slice& slice, size_t axis,
                          const Whole& whole, std::byte* to) {
  if (axis == slice.size()) {
    std::memcpy(to, from, static_cast<size_t>(whole.element));
    return from + whole.element;
  }
  const int64_t stride = whole.StrideOf(axis);
  to += slice[axis].begin * stride;
  bool rows = true;  // lie in one piece
  for (size_t k = axis + 1; k < slice.size(); ++k) {
    rows = rows && slice[k].begin == 0 && slice[k].size() == whole.shape[k];
  }
  if (rows) {
    std::memcpy(to, from, static_cast<size_t>(slice[axis].size() * stride));
    return from + slice[axis].size() * stride;
  }
  for (int64_t k = 0; k < slice[axis].size(); ++k) {
    from = CopyPart(from, slice, axis + 1, whole, to + k * stride);
  }
  return from;
}

// Whole tensors, as their parts come in.
class Gathering {
 public:
  explicit Gathering(const Graph& graph) : graph_(graph) {}

  // What a rank sent; `owner` keeps it.
  void Add(const std::vector<StoredTensor>& parts, const Parts& slices,
           const std::shared_ptr<const void>& owner) {
    owners_.push_back(owner);
    for (const StoredTensor& part : parts) {
      if (part.bytes.empty()) continue;
      const std::optional<TensorId> id = graph_.FindTensor(part.name);
      const auto slice = slices.find(part.name);
      if (!id || slice == slices.end()) throw PeerLost("a device sent a tensor it does not hold");
      const std::vector<int64_t>& shape = graph_.tensor(*id).shape;
      if (part.shape == shape) {
        whole_[part.name] = part;
      } else {
        Place(part, slice->second, shape);
      }
    }
  }

  HeldTensors Take() {
    HeldTensors held;
    for (const auto& [name, tensor] : whole_) held.tensors.push_back(tensor);
    held.owners = std::move(owners_);
    return held;
  }

 private:
  void Place(const StoredTensor& part, const Slice& slice, const std::vector<int64_t>& shape) {
    std::byte*& bytes = places_[part.name];
    const int64_t element = SizeOf(part.dtype);
    if (bytes == nullptr) {
      const int64_t size =
          std::accumulate(shape.begin(), shape.end(), element, std::multiplies<>());
      const auto made = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(size));
      bytes = made->data();
      owners_.push_back(made);
      whole_[part.name] = {part.name, part.dtype, shape, *made};
    }
    int64_t expected = element;
    for (const Range& range : slice) expected *= range.size();
    if (std::ssize(part.bytes) != expected)
      throw PeerLost("a device sent another part than its own");
    CopyPart(part.bytes.data(), slice, 0, {shape, element, bytes}, bytes);
  }

  const Graph& graph_;
  std::map<std::string, StoredTensor> whole_;
  std::map<std::string, std::byte*> places_;  // of those that come in parts
  std::vector<std::shared_ptr<const void>> owners_;
};

}  // namespace

Result<HeldTensors> GatherTensors(Role role, const TensorStore& store, const Program& program,
                                  const Graph& graph, RankMessages& messages) {
  HeldTensors mine = store.Held(role);
  EraseSentBefore(program, messages.rank(), mine.tensors);
  if (!messages.is_first()) {
    HEDDLE_ASSIGN(const std::string text, SafetensorsText(mine.tensors, {}, "a rank"));
    const auto* data = reinterpret_cast<const std::byte*>(text.data());
    messages.ToFirst(ByteString(data, data + text.size()));
    return HeldTensors{};
  }
  Gathering gathering(graph);
  gathering.Add(mine.tensors, PartsAt(program, 0), std::make_shared<HeldTensors>(mine));
  const std::vector<ByteString> others = messages.ToFirst({});
  for (size_t rank = 1; rank < others.size(); ++rank) {
    const std::string text(reinterpret_cast<const char*>(others[rank].data()), others[rank].size());
    HEDDLE_ASSIGN(SafetensorsFile parsed, SafetensorsFile::Parse(text, "a rank"));
    const auto file = std::make_shared<const SafetensorsFile>(std::move(parsed));
    gathering.Add(file->tensors(), PartsAt(program, static_cast<int32_t>(rank)), file);
  }
  return gathering.Take();
}

}  // namespace heddle
