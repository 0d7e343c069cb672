#include "run/torch/gathered_values.h"

#include <ATen/ATen.h>

#include <map>
#include <string>

#include "run/store/safetensors.h"
#include "run/torch/stored_tensors.h"

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

// Puts the parts that a rank sent where they belong.
void Place(const TensorsByName& parts, const Parts& slices, const Graph& graph,
           TensorsByName& whole) {
  for (const auto& [name, part] : parts) {
    const std::vector<int64_t>& shape = graph.tensor(*graph.FindTensor(name)).shape;
    if (part.numel() == 0) continue;
    if (part.sizes() == shape) {
      whole[name] = part;
      continue;
    }
    at::Tensor& all = whole[name];
    if (!all.defined()) all = at::zeros(shape, part.options());
    at::Tensor place = all;
    const Slice& slice = slices.at(name);
    for (size_t axis = 0; axis < slice.size(); ++axis) {
      place = place.narrow(static_cast<int64_t>(axis), slice[axis].begin, slice[axis].size());
    }
    place.copy_(part);
  }
}

}  // namespace

Result<TensorsByName> GatherValues(Role role, const TorchExecutor& executor, const Program& program,
                                   const Graph& graph, RankMessages& messages, DType dtype) {
  TensorsByName mine = executor.Values(role);
  const Parts parts = PartsAt(program, messages.rank());
  for (int32_t rank = 0; rank < messages.rank(); ++rank) {
    for (const auto& [name, slice] : PartsAt(program, rank)) {
      const auto same = parts.find(name);
      if (same != parts.end() && same->second == slice) mine.erase(name);
    }
  }
  if (messages.is_first()) {
    TensorsByName whole;
    Place(mine, parts, graph, whole);
    const std::vector<ByteString> others = messages.ToFirst({});
    for (size_t rank = 0; rank < others.size(); ++rank) {
      const ByteString& bytes = others[rank];
      if (bytes.empty()) continue;
      const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      HEDDLE_ASSIGN(const SafetensorsFile file, SafetensorsFile::Parse(text, "a rank"));
      Place(FromStored(file, dtype), PartsAt(program, static_cast<int32_t>(rank)), graph, whole);
    }
    return whole;
  }
  HEDDLE_ASSIGN(const std::string text, SafetensorsText(ToStored(mine), {}, "a rank"));
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  messages.ToFirst(ByteString(data, data + text.size()));
  return TensorsByName{};
}

}  // namespace heddle
