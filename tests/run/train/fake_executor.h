// FakeExecutor: trains without arithmetic. Buffers have their sizes and are sent for real; a weight
// counts its updates, and its elements tell where they belong:
//
//   element k of the whole tensor = k + 1000 * updates
//
// A loss is 1 / (step + 1), put together by all devices.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <vector>

#include "program/unroll.h"
#include "run/train/train_executor.h"

namespace heddle {

// What goes wrong on a device, and in which step.
struct FakeFault {
  std::optional<int64_t> bad_step;   // two tensors are no numbers, and the later one is seen
  std::optional<int64_t> flip_step;  // a weight is updated once more than elsewhere
};

class FakeExecutor final : public TrainExecutor {
 public:
  static constexpr float kUpdate = 1000;

  FakeExecutor(const Program& program, int32_t device, const Graph& graph,
               const TrainOptions& options, std::span<const StoredTensor> values, FakeFault fault)
      : p_(program), device_(device), graph_(graph), step_(options.first_step), fault_(fault) {
    for (const StoredTensor& tensor : values) {
      float first = 0;
      std::memcpy(&first, tensor.bytes.data(), sizeof first);
      begun_[tensor.name] = first / kUpdate;
    }
  }

  void Compute(const Instruction& compute, int64_t i) override {
    const int64_t step = step_ + i;
    const Segment& segment = p_.segment(compute.target);
    if (watch_ != nullptr && fault_.bad_step == step) {
      if (watch_->everything()) watch_->Bad(step, TensorId{1});
      watch_->Bad(step, TensorId{4});
    }
    const bool frozen = watch_ != nullptr && watch_->first();
    if (segment.phase != SegmentPhase::kUpdate || frozen) return;
    for (const Port& port : segment.ports) {
      if (port.use == PortUse::kRead) continue;
      updates_[port.tensor] += fault_.flip_step == step ? 2 : 1;
    }
  }
  Payload Outgoing(const BufferRef& ref, int64_t i) override { return Memory(ref, i); }
  Payload Incoming(const BufferRef& ref, int64_t i) override { return Memory(ref, i); }
  Payload InPlace(const BufferRef& ref, int64_t i) override { return Memory(ref, i); }
  ExchangeBlocks Exchange(const Instruction& collective, int64_t) override {
    const DeviceProgram& d = p_.devices[static_cast<size_t>(device_)];
    const BufferRef& input = d.operands[static_cast<size_t>(collective.first_operand)];
    const std::vector<Bytes> sizes =
        CollectiveSizes(collective.kind, p_.shapes[static_cast<size_t>(collective.shape)],
                        DividedBytes(p_, collective, input));
    const std::vector<int32_t>& members = p_.group(collective.target).devices;
    const auto rank =
        static_cast<size_t>(std::find(members.begin(), members.end(), device_) - members.begin());
    std::vector<Payload> blocks;
    for (size_t r = 0; r < members.size(); ++r) blocks.push_back(Block(sizes[r].value));
    if (collective.kind == CollectiveKind::kAllGather) return {{Block(sizes[rank].value)}, blocks};
    return {blocks, {Block(sizes[rank].value)}};
  }
  void Free(const BufferRef& ref, int64_t i) override { buffers_.erase(KeyOf(ref, i)); }
  void Alias(const BufferRef& name, const BufferRef& buffer, int64_t i) override {
    buffers_[KeyOf(name, i)] = Memory(buffer, i);
  }
  DType dtype() const override { return DType::kF32; }

  void StartAt(int64_t step, int64_t) override { step_ = step; }
  double TakeLoss(int64_t step) override {
    return 1.0 / static_cast<double>((step + 1) * std::ssize(p_.devices));
  }
  void SetFiniteWatch(FiniteWatch* watch) override { watch_ = watch; }
  HeldTensors Held(Role role) const override {
    std::map<std::string, BufferRef> refs;
    for (const BufferRef& ref : p_.devices[static_cast<size_t>(device_)].holds) {
      if (p_.tensor(ref.tensor).role == role) refs[p_.tensor(ref.tensor).name] = ref;
    }
    HeldTensors held;
    for (const auto& [name, ref] : refs) Add(name, ref, held);
    return held;
  }
  HeldTensors Updated() const override { return Held(Role::kParameter); }
  std::unique_ptr<TrainExecutor> Fork(const Program& program,
                                      const TrainOptions& options) const override {
    return std::make_unique<FakeExecutor>(program, device_, graph_, options,
                                          std::span<const StoredTensor>{}, FakeFault{});
  }

  static float ElementOf(int64_t k, double updates) {
    return static_cast<float>(k) + kUpdate * static_cast<float>(updates);
  }

 private:
  static Payload Block(int64_t bytes) {
    const auto memory = std::make_shared<std::vector<std::byte>>(static_cast<size_t>(bytes));
    return {memory, memory->data(), memory->size()};
  }
  Payload Memory(const BufferRef& ref, int64_t i) {
    Payload& payload = buffers_[KeyOf(ref, i)];
    if (payload.owner == nullptr) payload = Block(p_.BytesOf(ref.tensor, ref.slice).value);
    return payload;
  }

  double UpdatesOf(int32_t tensor) const {
    const auto begun = begun_.find(p_.tensor(tensor).name);
    const auto here = updates_.find(tensor);
    return (begun == begun_.end() ? 0 : begun->second) +
           (here == updates_.end() ? 0 : static_cast<double>(here->second));
  }

  void Add(const std::string& name, const BufferRef& ref, HeldTensors& held) const {
    const std::vector<int64_t>& shape = p_.tensor(ref.tensor).shape;
    const Slice slice = p_.SliceOf(ref.tensor, ref.slice);
    const auto values = std::make_shared<std::vector<float>>();
    std::vector<int64_t> at, extents;
    for (const Range& range : slice) {
      at.push_back(range.begin);
      extents.push_back(range.size());
    }
    const int64_t count =
        std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
    for (int64_t k = 0; k < count; ++k) {
      int64_t index = 0;
      for (size_t axis = 0; axis < shape.size(); ++axis) index = index * shape[axis] + at[axis];
      values->push_back(ElementOf(index, UpdatesOf(ref.tensor)));
      for (size_t axis = shape.size(); axis-- > 0;) {
        if (++at[axis] < slice[axis].end) break;
        at[axis] = slice[axis].begin;
      }
    }
    held.tensors.push_back({name, DType::kF32, extents, std::as_bytes(std::span(*values))});
    held.owners.push_back(values);
  }

  const Program& p_;
  int32_t device_;
  const Graph& graph_;
  int64_t step_;
  FakeFault fault_;
  FiniteWatch* watch_ = nullptr;
  std::unordered_map<int32_t, int64_t> updates_;
  std::map<std::string, double> begun_;  // updates before this run, by name
  std::unordered_map<BufferKey, Payload> buffers_;
};

}  // namespace heddle
