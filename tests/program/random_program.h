// RandomProgram: Programs that can be written down, though few of them make sense. Everything the
// text form can say occurs: every kind of line, port, instruction and index.
//
//   Program p = RandomProgram(seed, size).Make();      // the same for the same arguments
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "program/program_tables.h"

namespace heddle {

class RandomProgram {
 public:
  // `size` bounds the length of every table and list.
  RandomProgram(uint32_t seed, int size) : random_(seed), size_(std::max(1, size)) {}

  Program Make() {
    AddHeader();
    AddDevices();
    AddTensors();
    for (int k = Upto(size_); k > 0; --k) AddSegment();
    for (DeviceProgram& device : p_.devices) {
      for (int k = Upto(2); k > 0; --k) device.holds.push_back(Buffer());
    }
    AddLists();
    return std::move(p_);
  }

 private:
  int Upto(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }
  int32_t Below(size_t count) { return Upto(static_cast<int>(count) - 1); }
  bool Maybe() { return Upto(1) == 1; }
  template <class T>
  T Pick(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(from.size()))];
  }
  template <class Enum>
  Enum Kind(int count) {
    return static_cast<Enum>(Upto(count - 1));
  }

  void AddHeader() {
    const std::vector<std::string> words = {"1f1b", "a b", "//", "", "i", "x,y", "[0:1]", "#^@"};
    p_.strategy = Pick(words);
    p_.model = Pick(words);
    if (!p_.model.empty()) p_.model_hash = Pick(words);
    p_.profile_batch = Upto(2);
    if (p_.profile_batch > 0) p_.profile_device = Pick(words);
    p_.cluster_hash = Pick(words);
    for (int k = Upto(size_); k > 0; --k) {
      p_.microbatch_rows.insert(p_.microbatch_rows.end(), static_cast<size_t>(1 + Upto(2)),
                                Upto(4));
    }
    p_.updates = Upto(3);
    p_.layers = Upto(size_);
  }

  void AddDevices() {
    for (int k = Upto(3); k >= 0; --k) {
      DeviceProgram& device = p_.devices.emplace_back();
      device.name = Pick<std::string>({"a:0", "b 1", "", "//", "on", "\t", "é"});
    }
    for (int k = Upto(2); k > 0; --k) p_.groups.push_back({"g" + std::to_string(k), Devices(1)});
    for (int k = Upto(2); k > 0; --k) p_.channels.push_back({{Devices(0), Devices(0)}, Maybe()});
  }

  // At least `least` different devices in any order.
  std::vector<int32_t> Devices(size_t least) {
    std::vector<int32_t> ids(p_.devices.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random_);
    ids.resize(std::max(least, static_cast<size_t>(Below(ids.size() + 1))));
    return ids;
  }

  void AddTensors() {
    const std::vector<std::string> names = {"x", "_", "w.1", "i", "acc", "to", "body", "Over"};
    const int count = 1 + Upto(static_cast<int>(names.size()) - 1);
    for (int k = 0; k < count; ++k) {
      ProgramTensor tensor{
          names[static_cast<size_t>(k)], Kind<DType>(kDTypeCount), {}, Kind<Role>(kRoleCount)};
      for (int axes = Upto(3); axes > 0; --axes) tensor.shape.push_back(Upto(4));
      tables_.AddTensor(std::move(tensor));
    }
  }

  int32_t Form() { return Maybe() ? -1 : tables_.AddForm(Pick<std::string>({"s", "c1", "_"})); }

  Range RangeWithin(int64_t extent) {
    const int64_t a = Upto(static_cast<int>(extent)), b = Upto(static_cast<int>(extent));
    return {std::min(a, b), std::max(a, b)};
  }

  int32_t SliceFor(int32_t tensor) {
    Slice slice;
    for (const int64_t extent : p_.tensor(tensor).shape) {
      slice.push_back(Maybe() ? Range{0, extent} : RangeWithin(extent));
    }
    return tables_.AddSlice(tensor, slice);
  }

  void AddSegment() {
    Segment segment;
    segment.name = Pick<std::string>({"F", "B.0", "acc", "body"});
    segment.phase = Kind<SegmentPhase>(kSegmentPhaseCount);
    if (p_.layers > 0 && Maybe()) {
      const Range layers = RangeWithin(p_.layers - 1);
      segment.first_layer = static_cast<int32_t>(layers.begin);
      segment.last_layer = static_cast<int32_t>(layers.end);
    }
    if (Maybe()) segment.rows = {Upto(3), 4 + Upto(3)};
    segment.recompute = Maybe();
    segment.joint = Maybe();
    if (Maybe()) segment.scale = static_cast<double>(Upto(100)) / 64;
    if (Maybe()) segment.time = Seconds{std::exp(static_cast<double>(Upto(60) - 40) / 1.7)};
    if (Maybe()) segment.scratch = Bytes{Upto(1 << 20)};
    if (Maybe()) segment.first_scratch = Bytes{Upto(1 << 20)};
    for (int k = Upto(3); k > 0; --k) segment.ops.push_back(Op());
    for (int k = Upto(size_); k > 0; --k) segment.ports.push_back(RandomPort());
    tables_.AddSegment(std::move(segment));
  }

  SegmentOp Op() {
    SegmentOp op = tables_.AddOp(Pick<std::string>({"fc0", "fc0.da", "_"}));
    if (Maybe()) return op;
    Shards shards;
    for (int k = Upto(2); k >= 0; --k) {
      shards.emplace_back(Pick<char>({'n', 'K', 'b'}), RangeWithin(9));
    }
    op.shards = static_cast<int32_t>(p_.op_shards.size());
    p_.op_shards.push_back(std::move(shards));
    return op;
  }

  Port RandomPort() {
    Port port;
    port.tensor = Below(p_.tensors.size());
    port.form = Form();
    port.slice = SliceFor(port.tensor);
    port.use = Kind<PortUse>(kPortUseCount);
    port.per_microbatch = Maybe();
    port.per_replica = Maybe();
    port.versioned = Maybe();
    if (port.versioned) port.version_offset = static_cast<int8_t>(Maybe() ? 0 : Upto(100));
    return port;
  }

  Index RandomIndex() {
    switch (Upto(2)) {
      case 0:
        return {};
      case 1:
        return Index::At(Upto(9) - 4);
      default:
        return {Pick<int32_t>({-2, -1, 1, 4}), Upto(4) - 2};
    }
  }

  BufferRef Buffer() {
    BufferRef ref;
    ref.tensor = Below(p_.tensors.size());
    ref.form = Form();
    ref.slice = SliceFor(ref.tensor);
    ref.replica = Upto(2) - 1;
    ref.microbatch = RandomIndex();
    ref.version = RandomIndex();
    return ref;
  }

  std::vector<BufferRef> Buffers() {
    std::vector<BufferRef> refs = {Buffer()};
    for (int k = Upto(2); k > 0; --k) refs.push_back(Buffer());
    return refs;
  }

  void AddLists() {
    for (int s = 0; s < kSectionCount; ++s) {
      for (int32_t d = 0; d < static_cast<int32_t>(p_.devices.size()); ++d) {
        for (int k = Upto(size_); k > 0; --k) AddInstruction(d, static_cast<Section>(s));
      }
    }
    tables_.Emit(0, OpCode::kFree, Buffers(), Section::kBody);  // a Program has a body
  }

  void AddInstruction(int32_t device, Section section) {
    Instruction in;
    in.code = Kind<OpCode>(static_cast<int>(OpCode::kAlias) + 1);
    std::vector<BufferRef> refs;
    switch (in.code) {
      case OpCode::kCompute:
        if (p_.segments.empty()) return;
        in.target = Below(p_.segments.size());
        in.microbatch = RandomIndex();
        in.version = RandomIndex();
        in.replica = Upto(2) - 1;
        in.accumulate = Maybe();
        break;
      case OpCode::kSend:
      case OpCode::kRecv:
        if (p_.devices.size() < 2) return;
        in.target =
            (device + 1 + Below(p_.devices.size() - 1)) % static_cast<int32_t>(p_.devices.size());
        in.tag = Maybe() ? 0 : Upto(INT32_MAX - 1);
        in.on_compute = Maybe();
        refs = {Buffer()};
        break;
      case OpCode::kCollective:
        if (p_.groups.empty()) return;
        refs = Collective(in);
        in.on_compute = Maybe();
        break;
      case OpCode::kWait:
      case OpCode::kFree:
        refs = Buffers();
        break;
      case OpCode::kAlias:
        refs = {Buffer(), Buffer()};
        refs[1].tensor = refs[0].tensor;
        refs[1].slice = SliceFor(refs[0].tensor);
        break;
    }
    tables_.Emit(device, in, refs, section);
  }

  std::vector<BufferRef> Collective(Instruction& in) {
    in.kind = Kind<CollectiveKind>(5);
    in.algorithm = Kind<CollectiveAlgorithm>(4);
    in.half = in.kind == CollectiveKind::kAllReduce && Maybe();
    in.target = Below(p_.groups.size());
    const size_t members = p_.group(in.target).devices.size();
    std::vector<BufferRef> refs = Buffers();
    if (in.kind == CollectiveKind::kBroadcast) in.tag = Below(members);
    if (in.kind == CollectiveKind::kBroadcast || in.kind == CollectiveKind::kAllReduce) return refs;
    const std::vector<BufferRef> outputs = Buffers();
    in.output_count = static_cast<int32_t>(outputs.size());
    refs.insert(refs.end(), outputs.begin(), outputs.end());
    CollectiveShape shape{RandomDivision(members), {}};
    if (in.kind == CollectiveKind::kAllToAll) shape.to = RandomDivision(members);
    in.shape = static_cast<int32_t>(p_.shapes.size());
    p_.shapes.push_back(std::move(shape));
    return refs;
  }

  Division RandomDivision(size_t members) {
    Division division{Upto(3) - 1, {}};
    for (size_t k = 0; k < members; ++k) division.sizes.push_back(Upto(5));
    return division;
  }

  std::mt19937 random_;
  int size_;
  Program p_;
  ProgramTables tables_{p_};
};

}  // namespace heddle
