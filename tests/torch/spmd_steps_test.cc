// SPMD programs looked at from inside: after every instruction the devices together have what one
// device would.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>

#include "plan/spmd/spmd_planner.h"
#include "plan/spmd_cases.h"
#include "program/lower/spmd_schedule.h"
#include "run/data/synthetic.h"
#include "run/local_communicator.h"
#include "run/torch/reference.h"
#include "run/torch/torch_threads.h"
#include "run/worker.h"
#include "torch/spmd_fixture.h"

namespace heddle {
namespace {

constexpr char kMlp[] = "tiny-mlp?layers=2&dropout=20";
constexpr char kGpt[] = "tiny-gpt?layers=1&hidden=8&heads=2&seq=4&vocab=12&dropout=10";
constexpr char kResnet[] =
    "resnet152?width=2&image=33&classes=5&blocks1=1&blocks2=1&blocks3=1&blocks4=1";

const std::vector<std::vector<std::string>> kTwoByTwo = {{"a:0", "a:1"}, {"b:0", "b:1"}};

// Every tensor of the first step on one device; parameters and states before and after it.
struct ReferenceStep {
  std::map<TensorId, at::Tensor> values, before;
};

ReferenceStep RunReference(const Graph& graph, const TrainOptions& options) {
  ReferenceStep step;
  std::map<TensorId, at::Tensor>& values = step.values;
  for (size_t t = 0; t < graph.tensors().size(); ++t) {
    const TensorId id{static_cast<int32_t>(t)};
    const Role role = graph.tensor(id).role;
    if (role == Role::kInput) values[id] = BatchOf(graph, id, options, 0);
    if (role == Role::kParameter || role == Role::kState) {
      values[id] = InitialTensor(graph, id, options);
      step.before[id] = values[id].clone();
    }
  }
  KernelContext context;
  context.batch = graph.batch();
  context.learning_rate = options.learning_rate;
  for (const Op& op : graph.ops()) {
    std::vector<at::Tensor> inputs;
    for (const Operand& input : op.inputs) {
      // Clipping scales a gradient in place; what was made stays what is compared.
      const bool clipped = graph.tensor(input.tensor).role == Role::kWeightGradient;
      inputs.push_back(clipped ? values.at(input.tensor).clone() : values.at(input.tensor));
    }
    const std::vector<at::Tensor> outputs = RunKernel(graph, op, inputs, context);
    for (size_t o = 0; o < outputs.size(); ++o) {
      at::Tensor& value = values[op.outputs[o].tensor];
      value = value.defined() ? value + outputs[o] : outputs[o];
    }
  }
  return step;
}

// All devices in one thread, instruction by instruction.
class Lockstep {
 public:
  Lockstep(const SpmdPlan& spmd, const Graph& graph)
      : spmd_(spmd),
        g_(graph),
        plan_(PlanWith(spmd, graph)),
        program_(Lowered(spmd, graph, "lockstep")),
        schedule_(ScheduleOf(spmd, graph, {plan_.bucket, LowerOptions{}.free_behind})),
        data_(MakeSyntheticData(graph, {.seed = options_.seed})),
        executors_(MakeExecutors(program_, graph, *data_, options_)),
        exchange_(program_),
        expected_(RunReference(graph, options_)) {
    for (size_t d = 0; d < executors_.size(); ++d) {
      communicators_.push_back(exchange_.ForDevice(static_cast<int32_t>(d)));
    }
    for (const Op& op : graph.ops()) {
      for (const Operand& output : op.outputs) ++producers_[output.tensor];
    }
  }

  // Returns how many values were compared.
  int Run() {
    for (size_t k = 0; k < schedule_.pieces.size(); ++k) {
      std::vector<TicketPtr> tickets;
      for (size_t d = 0; d < executors_.size(); ++d) Do(d, k, tickets);
      for (const TicketPtr& ticket : tickets) ticket->Wait();
      Compare(k);
      if (testing::Test::HasFailure()) break;
    }
    return compared_;
  }

 private:
  const Instruction& At(size_t d, size_t k) const {
    return program_.devices[d].list(Section::kBody)[k];
  }

  void Do(size_t d, size_t k, std::vector<TicketPtr>& tickets) {
    const Instruction& in = At(d, k);
    if (in.code == OpCode::kCompute) return executors_[d]->Compute(in, 0);
    if (in.code == OpCode::kCollective) {
      tickets.push_back(PostCommunication(program_, static_cast<int32_t>(d), in, 0, *executors_[d],
                                          *communicators_[d]));
      return;
    }
    const DeviceProgram& device = program_.devices[d];
    for (int32_t o = 0; o < in.operand_count; ++o) {
      executors_[d]->Free(device.operands[static_cast<size_t>(in.first_operand + o)], 0);
    }
  }

  // A device's buffer of a value that instruction k has made.
  BufferRef RefOf(size_t d, size_t k, const SpmdValue& value) const {
    const Instruction& in = At(d, k);
    if (in.code == OpCode::kCompute) {
      for (const Port& port : program_.segment(in.target).ports) {
        const bool makes = port.use != PortUse::kRead && port.use != PortUse::kConsume;
        if (makes && port.tensor == value.tensor.value) return BufferOf(port, in);
      }
    }
    const DeviceProgram& device = program_.devices[d];
    for (int32_t o = in.operand_count + in.output_count; o-- > 0;) {
      const BufferRef& ref = device.operands[static_cast<size_t>(in.first_operand + o)];
      if (ref.tensor == value.tensor.value) return ref;
    }
    ADD_FAILURE() << "instruction " << k << " does not make " << g_.tensor(value.tensor).name;
    return {};
  }

  static at::Tensor Combine(const std::vector<at::Tensor>& parts, const ShardState& state) {
    if (state.kind == ShardKind::kSharded) return at::cat(parts, state.dim);
    at::Tensor all = parts[0].clone();
    for (size_t d = 1; d < parts.size(); ++d) {
      if (state.kind == ShardKind::kPartial) all.add_(parts[d]);
      if (state.kind == ShardKind::kReplicated) {
        EXPECT_TRUE(at::allclose(parts[0], parts[d], 1e-9, 1e-12)) << "copies differ";
      }
    }
    return all;
  }

  void Compare(size_t k) {
    const SpmdPiece& piece = schedule_.pieces[k];
    // A copy that is made to be summed in place is not yet what it will be.
    const SpmdPiece* next = k + 1 < schedule_.pieces.size() ? &schedule_.pieces[k + 1] : nullptr;
    const bool copies = piece.code == OpCode::kCompute && piece.steps.empty() && next != nullptr &&
                        next->code == OpCode::kCollective && next->from == piece.to;
    if (copies) return;
    for (const SpmdPort& port : piece.ports) {
      if (port.use == PortUse::kRead || port.use == PortUse::kConsume) continue;
      CompareValue(k, port.value, port.use == PortUse::kChange);
    }
    for (const int32_t to : piece.to) {
      if (piece.code == OpCode::kCollective) CompareValue(k, to, false);
    }
  }

  void CompareValue(size_t k, int32_t id, bool updated) {
    const SpmdValue& value = schedule_.values[static_cast<size_t>(id)];
    const Tensor& tensor = g_.tensor(value.tensor);
    // A sum of several is compared by those who read it; the log has the loss.
    const bool several = tensor.role == Role::kWeightGradient && producers_.at(value.tensor) > 1;
    if (several || tensor.role == Role::kLoss) return;
    const std::string what =
        tensor.name + " as " + NameOf(value.layout) + " after instruction " + std::to_string(k);
    SCOPED_TRACE(what);
    std::vector<at::Tensor> nodes;
    size_t d = 0;
    for (const auto& node : spmd_.mesh) {
      std::vector<at::Tensor> parts;
      for (size_t place = 0; place < node.size(); ++place, ++d) {
        parts.push_back(executors_[d]->Value(RefOf(d, k, value), 0).to(at::kDouble));
      }
      nodes.push_back(Combine(parts, value.layout[1]));
    }
    const at::Tensor got = Combine(nodes, value.layout[0]);
    const bool initial = !updated && expected_.before.contains(value.tensor);
    const auto& reference = initial ? expected_.before : expected_.values;
    const at::Tensor expected = reference.at(value.tensor).to(at::kDouble);
    ASSERT_EQ(got.sizes(), expected.sizes()) << what;
    const double scale = std::max(1e-12, expected.abs().max().item<double>());
    ASSERT_LT((got - expected).abs().max().item<double>() / scale, 1e-9) << what;
    ++compared_;
  }

  const SpmdPlan& spmd_;
  const Graph& g_;
  TrainOptions options_;
  Plan plan_;
  Program program_;
  SpmdSchedule schedule_;
  std::unique_ptr<DataSource> data_;
  Executors executors_;
  LocalExchange exchange_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  ReferenceStep expected_;
  std::map<TensorId, int> producers_;
  int compared_ = 0;
};

TEST(SpmdStepsTest, EveryInstructionOfHandMadePlans) {
  const Graph mlp = Tiny(kMlp, 5);
  EXPECT_GT(Lockstep(DataParallel(mlp, FlatMesh(3), {0.5, 0, 0.5}), mlp).Run(), 10);
  EXPECT_GT(Lockstep(ZeroSharded(mlp, FlatMesh(3), {0.5, 0.3, 0.2}), mlp).Run(), 20);
}

TEST(SpmdStepsTest, EveryInstructionOfRandomPlans) {
  for (const char* model : {kMlp, kGpt, kResnet}) {
    const Graph graph = Tiny(model, 3, Optimizer::kMomentum);
    for (unsigned seed = 10; seed < 13; ++seed) {
      EXPECT_GT(Lockstep(RandomSpmdPlan(graph, FlatMesh(3), seed), graph).Run(), 20) << seed;
      EXPECT_GT(Lockstep(RandomSpmdPlan(graph, kTwoByTwo, seed), graph).Run(), 20) << seed;
      if (HasFailure()) return;
    }
  }
}

// What the planner finds on a slow mixed cluster, on one axis and on two.
TEST(SpmdStepsTest, EveryInstructionOfPlansFound) {
  const Cluster cluster = ClusterOf({.nodes = 2,
                                     .devices = 2,
                                     .flops = 4e9,
                                     .slower = 2.5,
                                     .inside = 4e9,
                                     .memory = 1e9,
                                     .memory_rate = 20e9});
  for (const char* model : {kMlp, kGpt}) {
    PlanRequest options;
    options.model = model;
    options.batch = 8;
    options.clip = 0.1;
    const Planning planning = Planning::Make(options, cluster, nullptr).value();
    const Graph graph = Tiny(model, 8);
    const std::vector<SpmdCandidate> found = PlanSpmd(planning).value();
    for (const SpmdCandidate& candidate : found) {
      EXPECT_GT(Lockstep(candidate.plan, graph).Run(), 10) << model << ", " << candidate.how;
    }
  }
}

// Parameters that are broadcast, a normalisation whose weights are not one and zero, dropout,
// clipping; every op under ratios that change from layer to layer.
TEST(SpmdStepsTest, EveryInstructionOfBroadcastParametersAndChangingRatios) {
  const Graph graph = BroadcastModel(6);
  const SpmdPlan plan = ChangingRatios(graph);
  EXPECT_GT(Lockstep(plan, graph).Run(), 20);
  for (unsigned seed = 0; seed < 4; ++seed) {
    EXPECT_GT(Lockstep(RandomSpmdPlan(graph, kTwoByTwo, seed), graph).Run(), 20) << seed;
  }
}

}  // namespace
}  // namespace heddle
