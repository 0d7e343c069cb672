// Graph: the whole training step of one device as explicit ops.
//
// Forward, backward with respect to inputs, backward with respect to weights, and the update are
// ops alike; each belongs to a layer. Shapes are those of the full batch; ops on a part of it take
// local extents (one per letter, see op_kind.h).
//
//   HEDDLE_ASSIGN(Graph graph, BuildModel("gpt?layers=4", {.batch = 16}));
//   for (const Op& op : graph.ops()) total += FlopsOf(op, op.extents);
//
// Invariants: ops are in topological order; operand shapes equal their letters' extents; forward
// ops read only tensors of their own or earlier layers; every parameter has one gradient tensor
// (the sum of all its producers: a tied weight has several) and one update; the loss is the sum of
// the tensors with that role. Immutable.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/choices.h"
#include "base/dtype.h"
#include "base/id.h"
#include "base/result.h"
#include "base/units.h"
#include "model/op_kind.h"

namespace heddle {

using TensorId = Id<struct TensorTag>;
using OpId = Id<struct OpTag>;

enum class Role : uint8_t {
  kInput,           // read from the data source: features, tokens, targets
  kParameter,       //
  kState,           // of the optimizer
  kActivation,      //
  kGradient,        // of an activation
  kWeightGradient,  // a sum of its producers; the squared norm of all of them too, when clipping
  kLoss,            //
};
inline constexpr int kRoleCount = 7;
template <>
struct Choices<Role> {
  static constexpr Choice<Role> kTable[] = {
      {Role::kInput, "input"},       {Role::kParameter, "parameter"},
      {Role::kState, "state"},       {Role::kActivation, "activation"},
      {Role::kGradient, "gradient"}, {Role::kWeightGradient, "weight_gradient"},
      {Role::kLoss, "loss"}};
};

enum class Phase : uint8_t { kForward, kBackwardInput, kBackwardWeight, kUpdate };

struct Tensor {
  std::string name;  // [A-Za-z_][A-Za-z0-9_.]*
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  Role role = Role::kActivation;
  bool per_sample = false;  // axis 0 is the sample axis

  int64_t elements() const;
  Bytes bytes() const { return {elements() * SizeOf(dtype)}; }
};

struct Operand {
  TensorId tensor;
  std::string letters;  // one per axis
};

// What a convolution or pooling sees of its input at once.
struct Window {
  int64_t height = 0;
  int64_t width = 0;
  int64_t stride = 1;
  int64_t pad_height = 0;
  int64_t pad_width = 0;
};

struct OpAttributes {
  bool causal = false;    // attention
  double epsilon = 1e-5;  // normalisations
  Window window;          // convolution and pooling
  double rate = 0;        // dropout: of elements that become zero
  std::string mask;       // dropout: the op whose elements they are, backward too
  int64_t offset = 0;     // slice: first channel
  int64_t capacity = 0;   // route, dispatch, combine: slots per expert and sequence
  double weight = 0;      // balance loss: relative to the loss proper
  double decay = 0;       // update: of weights, per step, times the learning rate
  double clip = 0;        // update: largest norm of all gradients together; 0: none
  // kOpaque only: measured for `profiled_rows` samples, and assumed proportional to them.
  // A backward op states its own seconds; a forward op also those of its whole backward.
  Seconds profiled_seconds;
  Seconds profiled_backward;
  int64_t profiled_rows = 0;
  FlopRate profiled_rate;  // of the device profiled; 0: unknown, times hold on every device
};

struct Op {
  std::string name;
  OpKind kind = OpKind::kEinsum;
  Phase phase = Phase::kForward;
  LayerId layer;
  std::string letters;           // each letter of the op once
  std::vector<int64_t> extents;  // of the full batch, one per letter
  std::string work;              // letters whose extents multiply to the number of points
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  OpAttributes attributes;

  // Index of a letter in `letters`, or npos.
  size_t IndexOf(char letter) const { return letters.find(letter); }
};

struct Parameter {
  TensorId tensor;
  TensorId gradient;
  OpId update;
  OpId square;  // adds to the squared norm of all gradients; invalid without clipping
  std::vector<TensorId> states;
  std::vector<LayerId> layers;  // that read it, ascending
  // Initial elements: mean + deviation * a standard normal number.
  double initial_mean = 0;
  double initial_deviation = 0.02;
};

enum class Optimizer : uint8_t { kSgd, kMomentum, kAdam, kAdamW };
inline constexpr std::array<Optimizer, 4> kOptimizers = {Optimizer::kSgd, Optimizer::kMomentum,
                                                         Optimizer::kAdam, Optimizer::kAdamW};
template <>
struct Choices<Optimizer> {
  static constexpr Choice<Optimizer> kTable[] = {{Optimizer::kSgd, "sgd"},
                                                 {Optimizer::kMomentum, "momentum"},
                                                 {Optimizer::kAdam, "adam"},
                                                 {Optimizer::kAdamW, "adamw"}};
};

class Graph {
 public:
  // The one way to make a Graph; checks every invariant. Used by GraphBuilder and importers.
  static Result<Graph> Make(std::vector<Tensor> tensors, std::vector<Op> ops,
                            std::vector<Parameter> parameters, std::vector<std::string> layers,
                            int64_t batch);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  const std::vector<Op>& ops() const { return ops_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<std::string>& layers() const { return layers_; }
  int64_t batch() const { return batch_; }
  // The squared norm of all gradients; invalid without clipping.
  TensorId clip_norm() const { return clip_norm_; }

  const Tensor& tensor(TensorId id) const { return tensors_[static_cast<size_t>(id.value)]; }
  const Op& op(OpId id) const { return ops_[static_cast<size_t>(id.value)]; }
  std::optional<TensorId> FindTensor(std::string_view name) const;
  std::optional<OpId> FindOp(std::string_view name) const;

  int64_t parameter_count() const;
  std::string ContentHash() const;

 private:
  Graph() = default;
  Status Validate() const;
  Status ValidateOp(const Op& op) const;

  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::vector<Parameter> parameters_;
  std::vector<std::string> layers_;
  int64_t batch_ = 1;
  TensorId clip_norm_;
  std::unordered_map<std::string, int32_t> tensor_index_;
  std::unordered_map<std::string, int32_t> op_index_;
};

// Local extents of an op on `rows` samples, everything else whole.
std::vector<int64_t> ExtentsForRows(const Op& op, int64_t rows);

// Elements that an op may use at once for temporaries: attention goes through its samples in parts
// of at most this size (but one at least), the loss through its rows.
inline constexpr int64_t kWorkspaceElements = int64_t{1} << 18;

// REQUIRES below: extents has one entry per letter of the op.
Flops FlopsOf(const Op& op, std::span<const int64_t> extents);
int64_t ElementsOf(const Op& op, const Operand& operand, std::span<const int64_t> extents);
// Bytes read and written by the op: a gathered table counts the rows taken, not the whole.
Bytes TrafficOf(const Graph& graph, const Op& op, std::span<const int64_t> extents);
// Memory that the op needs while it runs, besides its operands.
Bytes WorkspaceOf(const Graph& graph, const Op& op, std::span<const int64_t> extents);

}  // namespace heddle
