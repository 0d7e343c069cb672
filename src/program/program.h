// Program: what each device does, in order. Every planner's decisions end up as one of these, and
// the checker, the simulator, the runtime and the report read nothing else.
//
// docs/program.md explains the text form (program_text.h) by example. In short, a device walks its
// list; each instruction waits until the buffers it reads are complete, then
//   compute      runs a segment; the walk goes on when it is done;
//   send, recv, collectives   are posted and go on by themselves; the walk does not wait
//                (unless `on compute`); a message moves once both ends have posted it;
//   wait         stops the walk until all communication on its buffers is complete;
//   free         waits likewise, then releases the memory;
//   alias        gives a buffer a second name.
// A buffer may be read by several at once; what writes, changes or consumes it also waits for
// communication that still reads it. So memory at every point of the walk is known from the list
// alone.
//
// The body is repeated; the prologue runs before it, the epilogue after. Operands may depend on the
// repetition i: `#i+2` is microbatch i+2, `w@i-1` version i-1 of w.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/units.h"
#include "cost/network_cost.h"
#include "model/graph.h"

namespace heddle {

// coefficient * i + offset, where i counts the body's repetitions.
struct Index {
  static constexpr int32_t kAbsent = INT32_MIN;
  int32_t coefficient = 0;
  int32_t offset = kAbsent;

  static constexpr Index At(int32_t value) { return {0, value}; }
  constexpr bool present() const { return offset != kAbsent; }
  constexpr bool relative() const { return coefficient != 0; }
  // REQUIRES: present.
  constexpr int64_t value(int64_t i) const { return int64_t{coefficient} * i + offset; }
  constexpr auto operator<=>(const Index&) const = default;
};

struct Range {
  int64_t begin = 0;
  int64_t end = 0;

  int64_t size() const { return end - begin; }
  auto operator<=>(const Range&) const = default;
};

using Slice = std::vector<Range>;  // one range per axis

struct ProgramTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;  // of one whole microbatch, or of the whole weight
  Role role = Role::kActivation;
};

// A buffer on one device. Ids index the Program's tables; -1 stands for "none".
struct BufferRef {
  int32_t tensor = -1;
  int32_t form = -1;   // tells several buffers of one tensor apart: a shard, a partial sum
  int32_t slice = -1;  // the part of the tensor meant; -1: the whole
  int32_t replica = -1;
  Index microbatch;
  Index version;

  auto operator<=>(const BufferRef&) const = default;
};

enum class PortUse : uint8_t {
  kRead,
  kConsume,  // read, and freed inside the segment after its last use
  kWrite,
  kAdd,         // `=`, or `+=` when the compute says `acc`
  kAccumulate,  // always `+=`
  kChange,      // changed in place
};
inline constexpr int kPortUseCount = 6;

// A segment's buffer, completed by the compute instruction that runs it.
struct Port {
  int32_t tensor = -1;
  int32_t form = -1;
  int32_t slice = -1;
  PortUse use = PortUse::kRead;
  bool per_microbatch = false;
  bool per_replica = false;
  bool versioned = false;
  int8_t version_offset = 0;

  auto operator<=>(const Port&) const = default;
};

enum class SegmentPhase : uint8_t {
  kForward,
  kBackward,
  kBackwardInput,
  kBackwardWeight,
  kUpdate,
  kOther,
};
inline constexpr int kSegmentPhaseCount = 6;

// Ranges of an op's sharded axes, by letter; the others are whole, and the sample axis is the
// segment's rows.
using Shards = std::vector<std::pair<char, Range>>;

// A graph op inside a segment: indices into Program::op_names and Program::op_shards.
struct SegmentOp {
  int32_t op = -1;
  int32_t shards = -1;  // -1: none

  bool operator==(const SegmentOp&) const = default;
};

// A piece of work defined once and used by many instructions.
struct Segment {
  std::string name;
  SegmentPhase phase = SegmentPhase::kOther;
  int32_t first_layer = -1;  // both -1: belongs to no layer
  int32_t last_layer = -1;
  Range rows;                   // of a microbatch; empty when it has none (updates)
  bool recompute = false;       // a forward run again for its activations
  bool joint = false;           // one of several devices that together compute the same rows
  double scale = 1;             // without ops: what it moves is multiplied by this
  std::optional<Seconds> time;  // given: overrides what the cost model says of the ops
  Bytes scratch;                // most memory needed inside, beyond what was live before
  Bytes first_scratch;          // the same where its `adds` appear, these included; 0: on top
  std::vector<SegmentOp> ops;
  std::vector<Port> ports;
};

// What a step is, and which version of a weight a sample reads: the rule that the checker holds the
// lists against. `age` below counts updates.
enum class UpdateRule : uint8_t {
  kUnstated,
  kFlush,     // every sample of a step reads the newest, and the update waits for all of them
  kStash,     // a stage reads versions as old as there are stages behind it, backward as forward
  kVertical,  // all stages read versions as old as the first one's
  kNone,      // as kStash forward, but backward reads the newest
  kTwo,       // one version older than the newest
  kLocal,     // replicas go their own way for a body, and are averaged at its end
};
inline constexpr int kUpdateRuleCount = 7;

struct Group {
  std::string name;
  std::vector<int32_t> devices;  // in rank order
};

// Two groups of devices with an exclusive resource between them: one for both directions (half
// duplex), or one each. Only the simulator's `channels` model uses it.
struct Channel {
  std::array<std::vector<int32_t>, 2> ends;
  bool half_duplex = false;
};

// How a collective divides its buffers. Sizes are extents along `dim`, or elements of the flattened
// buffers when dim is -1. All-to-all goes from one division to another.
struct Division {
  int32_t dim = -1;
  std::vector<int64_t> sizes;

  auto operator<=>(const Division&) const = default;
};

struct CollectiveShape {
  Division from;
  Division to;  // all-to-all only
  auto operator<=>(const CollectiveShape&) const = default;
};

enum class OpCode : uint8_t { kCompute, kSend, kRecv, kCollective, kWait, kFree, kAlias };

struct Instruction {
  OpCode code = OpCode::kCompute;
  bool accumulate = false;  // compute: add ports are `+=`
  bool on_compute = false;  // communication that holds up the walk
  bool half = false;        // all-reduce: elements travel as f16
  CollectiveKind kind = CollectiveKind::kAllReduce;
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::kRing;
  int32_t target = -1;        // compute: segment; send, recv: peer; collective: group
  int32_t tag = 0;            // send, recv; broadcast: the root's rank
  int32_t shape = -1;         // collective: index into Program::shapes
  int32_t replica = -1;       // compute
  Index microbatch;           // compute
  Index version;              // compute
  int32_t first_operand = 0;  // into DeviceProgram::operands
  int32_t operand_count = 0;  // of the inputs; alias: {new, old}
  int32_t output_count = 0;   // of a collective's outputs, stored after its inputs; 0: in place
};

enum class Section : uint8_t { kPrologue, kBody, kEpilogue };
inline constexpr int kSectionCount = 3;

struct DeviceProgram {
  std::string name;              // of the cluster's device
  std::vector<BufferRef> holds;  // what exists before the prologue
  std::vector<BufferRef> operands;
  std::array<std::vector<Instruction>, kSectionCount> sections;

  const std::vector<Instruction>& list(Section section) const {
    return sections[static_cast<size_t>(section)];
  }
};

struct Program {
  std::string strategy = "none";
  std::string model;                     // spec, empty when the segments carry their times
  int64_t profile_batch = 0;             // of a model that is a layer profile, as in Plan
  std::string profile_device;            //
  std::string model_hash;                // of the Graph
  std::string cluster_hash;              //
  std::vector<int64_t> microbatch_rows;  // of the body's microbatches, in order
  int32_t updates = 0;  // per body, of each weight; on average where replicas differ
  int32_t layers = 0;
  UpdateRule rule = UpdateRule::kUnstated;
  std::vector<int64_t> local_steps;  // kLocal: of each replica; what it counts in the average

  std::vector<DeviceProgram> devices;
  std::vector<Group> groups;
  std::vector<Channel> channels;
  std::vector<ProgramTensor> tensors;
  std::vector<std::string> forms;
  std::vector<Slice> slices;
  std::vector<Segment> segments;
  std::vector<CollectiveShape> shapes;
  std::vector<std::string> op_names;
  std::vector<Shards> op_shards;

  int64_t samples() const;
  int64_t instruction_count() const;
  bool has_section(Section section) const;

  const ProgramTensor& tensor(int32_t id) const { return tensors[static_cast<size_t>(id)]; }
  const Segment& segment(int32_t id) const { return segments[static_cast<size_t>(id)]; }
  const Group& group(int32_t id) const { return groups[static_cast<size_t>(id)]; }

  const std::string& NameOf(const SegmentOp& op) const {
    return op_names[static_cast<size_t>(op.op)];
  }
  const Shards& ShardsOf(const SegmentOp& op) const {
    static const Shards kNone;
    return op.shards < 0 ? kNone : op_shards[static_cast<size_t>(op.shards)];
  }

  // The slice written out: the whole tensor when `slice` is -1.
  Slice SliceOf(int32_t tensor, int32_t slice) const;
  Bytes BytesOf(int32_t tensor, int32_t slice) const;
};

// The buffer a port means in a given compute instruction.
BufferRef BufferOf(const Port& port, const Instruction& compute);

// Whether an instruction other than compute needs its operand k to itself: a send only reads, and
// so does a collective the inputs it does not write in place; wait, free and alias end all other
// use.
bool WritesOperand(const Instruction& instruction, int32_t k);

// The sizes NetworkCost asks for (network_cost.h), of a collective that divides `whole` bytes.
std::vector<Bytes> CollectiveSizes(CollectiveKind kind, const CollectiveShape& shape, Bytes whole);

// What a collective divides of the tensor of one of its inputs: the axis that its sizes add up to,
// and of the others what the input has. All of the input where nothing is divided.
Bytes DividedBytes(const Program& program, const Instruction& collective, const BufferRef& input);

int64_t ElementsOf(const Slice& slice);
bool Overlap(const Slice& a, const Slice& b);
bool Contains(const Slice& outer, const Slice& inner);

}  // namespace heddle
