// SegmentTransfer: what a segment makes of what it reads.
//
// Microbatches differ in their samples alone, and samples are counted from the microbatch's first
// one: so what a segment makes depends on the terms that its ports bring, and is found once for
// each such state. Updates come once a step and are looked at as they come.
//
// A segment of unknown inside, written by hand or of a profiled layer, is as bad as it can be: not
// linear in anything it reads; its gradients are sums over its samples.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/graph.h"
#include "program/program.h"
#include "program/proof/gradient_terms.h"
#include "program/proof/held_value.h"
#include "program/proof/op_transfer.h"
#include "program/proof/version_rules.h"

namespace heddle {

enum class ProofFault : uint8_t {
  kNotWhole,       // a partial sum, or another part, where all is needed
  kWrongGradient,  // an update's gradient lacks samples, or has some twice
  kWrongVersion,   // a weight of another version than the rule says
};

// What is wrong with a compute; nothing where `text` is empty.
struct ProofWrong {
  ProofFault fault = ProofFault::kNotWhole;
  std::string text;
};

// On whose behalf an update is made.
struct UpdateOwner {
  int32_t device = -1;
  int32_t replica = -1;
  int64_t number = 0;  // which update the instruction says it is
};

class SegmentTransfer {
 public:
  // `graph` is null where nothing is known of the segments' inside.
  SegmentTransfer(const Program& program, const Graph* graph, BoxTable& boxes, TermTable& terms,
                  const GradientTerms& sums, VersionRules& rules);

  // What a port means, as a part of its tensor; a statistic's has the segment's rows first.
  BoxId BoxOf(int32_t segment, size_t port) const {
    return compiled_[static_cast<size_t>(segment)].boxes[port];
  }
  BoxId BoxOf(int32_t tensor, int32_t slice, Range rows);
  bool IsStatistic(int32_t tensor) const { return statistic_[static_cast<size_t>(tensor)]; }
  // Does it update, or look at whole gradients?
  bool Updates(int32_t segment) const { return compiled_[static_cast<size_t>(segment)].updates; }

  // By port: the state of what it reads, samples and versions left out (a StateId where that fills
  // the port's box, else of a Mixture); kNoInput where it reads nothing.
  using Key = std::vector<int32_t>;
  static constexpr int32_t kNoInput = -1;
  int32_t Mixture(const ValueParts& parts);

  struct Made {
    ProofWrong wrong;
    std::vector<ValueParts> ports;  // those it writes; of gradients what is added
    std::vector<HeldParts> held;    // the same of all but gradients, their samples to be filled in
  };
  const Made& Of(int32_t segment, const Key& key);

  // An update, on values as they are: `ports` are what is there, and become what is then.
  ProofWrong Update(int32_t segment, const UpdateOwner& owner, std::vector<ValueParts>& ports,
                    bool accumulate);

 private:
  struct CompiledOp {
    int32_t op;
    std::vector<Range> ranges;  // by the op's letters
  };
  struct Compiled {
    std::vector<BoxId> boxes;  // by port
    std::vector<CompiledOp> ops;
    std::vector<std::pair<Key, Made>> made;
    bool updates = false;
    bool divided = false;  // some op computes a part of a letter
  };

  void Compile(const Segment& segment, Compiled& compiled);
  Made Evaluate(int32_t segment, const Key& key);
  bool IsPlain(int32_t segment, const Key& key) const;
  Made EvaluatePlain(int32_t segment);
  Made EvaluateOpaque(int32_t segment, const Key& key);
  ProofWrong RunOp(const CompiledOp& op, Range group);
  ProofWrong RunUpdate(const CompiledOp& op, const UpdateOwner& owner);
  ProofWrong UpdateOpaque(const Segment& segment, const UpdateOwner& owner,
                          std::vector<ValueParts>& ports);
  ProofWrong SquareOf(const CompiledOp& op, const UpdateOwner& owner);
  ProofWrong CheckGradient(int32_t tensor, const ValueParts& parts, const UpdateOwner& owner,
                           const std::string& user, int64_t step) const;
  ProofWrong VersionOf(int32_t tensor, const ValueParts& parts, const UpdateOwner& owner,
                       const std::string& user, std::optional<int64_t>& version) const;
  int64_t StepFor(int32_t gradient, const ValueParts& parts, int64_t version) const;
  void Store(TensorId tensor, ValueParts parts);
  void AddTo(TensorId tensor, const ValueParts& parts);
  ValueParts* Local(TensorId tensor);
  void Forget();

  const Program& p_;
  const Graph* g_;
  BoxTable& boxes_;
  TermTable& terms_;
  const GradientTerms& sums_;
  VersionRules& rules_;
  std::optional<OpTransfer> ops_;
  std::vector<TensorId> ids_;       // by tensor of the Program
  std::vector<int32_t> tensors_;    // by tensor of the graph
  std::vector<bool> statistic_;     // by tensor of the Program
  std::vector<Compiled> compiled_;  // by segment
  std::vector<ValueParts> locals_;  // by tensor of the graph: what the segment at work has
  std::vector<bool> is_local_;      //
  std::vector<TensorId> touched_;   //
  std::vector<int32_t> seen_;       // by tensor of the graph: the last plain segment that had it
  int32_t marks_ = 0;               // of plain segments
  std::vector<PathId> terms_of_;    // by op: of a gradient that it makes all of
  std::vector<int32_t> op_ids_;     // by name of an op in the Program
  std::vector<ValueParts> mixtures_;
  std::map<std::vector<std::pair<BoxId, StateId>>, int32_t> mixture_ids_;
};

}  // namespace heddle
