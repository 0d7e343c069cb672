// TorchExecutor: an executor whose buffers are ATen tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/graph.h"
#include "run/data/data_source.h"
#include "run/torch/kernels.h"
#include "run/torch/tensor_memory.h"
#include "run/train/train_executor.h"
#include "run/train_options.h"

namespace heddle {

using TensorsByName = std::map<std::string, at::Tensor>;

at::Tensor ToTensor(const std::vector<double>& values, const std::vector<int64_t>& shape,
                    DType dtype);
at::ScalarType ScalarOf(DType dtype);

// Makes a parameter's or a state's first value.
at::Tensor InitialTensor(const Graph& graph, TensorId tensor, const TrainOptions& options);

// Hears of every op that ran, and for how long.
using OpListener = std::function<void(const Op& op, double seconds)>;

class TorchExecutor final : public TrainExecutor {
 public:
  // The graph must have an op for every op the Program's segments name. Weights and states start
  // from `values` where they are there, by name, whole or the part that is held here, and as
  // InitialTensor says otherwise. All but the options must outlive this.
  TorchExecutor(const Program& program, int32_t device, const Graph& graph, const DataSource& data,
                const TrainOptions& options, const TensorsByName& values = {});

  void Compute(const Instruction& compute, int64_t i) override;
  Payload Outgoing(const BufferRef& ref, int64_t i) override;
  Payload Incoming(const BufferRef& ref, int64_t i) override;
  Payload InPlace(const BufferRef& ref, int64_t i) override;
  ExchangeBlocks Exchange(const Instruction& collective, int64_t i) override;
  void Free(const BufferRef& ref, int64_t i) override;
  void Alias(const BufferRef& name, const BufferRef& buffer, int64_t i) override;
  DType dtype() const override { return options_.dtype; }

  void StartAt(int64_t step, int64_t sample) override {
    options_.first_step = step;
    options_.first_sample = sample;
  }
  void SetFiniteWatch(FiniteWatch* watch) override { watch_ = watch; }
  double TakeLoss(int64_t step) override;
  HeldTensors Held(Role role) const override;
  HeldTensors Updated() const override;
  std::unique_ptr<TrainExecutor> Fork(const Program& program,
                                      const TrainOptions& options) const override;

  void SetListener(OpListener listener) { listener_ = std::move(listener); }
  // The bytes of this device's tensors, if tensor_memory.h is installed.
  MemoryAccount& memory() { return *memory_; }
  // Gradients as the last update saw them (if TrainOptions says so), and the parameters and
  // optimizer states now; by name.
  const TensorsByName& gradients() const { return gradients_; }
  TensorsByName Values(Role role) const;
  // What a buffer that is here has in it.
  at::Tensor Value(const BufferRef& ref, int64_t i) {
    return Whole(ref, SliceFor(ref.tensor, ref.slice), i);
  }

 private:
  using SlicePtr = std::shared_ptr<const Slice>;
  struct Part {
    SlicePtr slice;
    at::Tensor tensor;
  };
  // A buffer arrives in parts when several peers send it; mostly there is one.
  struct Buffer {
    Part part;
    std::vector<Part> more;
  };
  // A segment with its tensors numbered: places in the list of those alive while it runs.
  struct CompiledOp {
    const Op* op;
    std::vector<Range> parts;  // by letter of the op, of a joint segment
    std::vector<size_t> inputs, outputs;
    std::vector<size_t> dead;  // outputs that nobody reads
    std::vector<bool> last;    // by input: its last use
  };
  struct CompiledPort {
    size_t place;
    TensorId tensor;
    Role role;
    SlicePtr slice;
    bool copied = false;  // read, and written as another version: the kernel changes a copy
  };
  struct CompiledSegment {
    size_t places = 0;
    std::vector<CompiledOp> ops;
    std::vector<CompiledPort> ports;
  };

  const CompiledSegment& Compile(int32_t segment);
  std::vector<Range> PartsOf(const SegmentOp& segment_op, int32_t segment, const Op& op) const;
  SlicePtr SliceFor(int32_t tensor, int32_t slice);
  at::Tensor Whole(const BufferRef& ref, const SlicePtr& wanted, int64_t i);
  void Join(Buffer& buffer);
  at::Tensor LoadInput(TensorId tensor, const Slice& slice, int64_t first_sample, int64_t body);
  at::Tensor LoadInput(const CompiledPort& port, const Segment& segment, const Instruction& in,
                       int64_t i);
  at::ScalarType ScalarOf(TensorId tensor) const;
  at::Tensor Zeros(TensorId tensor, const Slice& slice) const;
  // A segment without ops.
  void Move(const Segment& segment, const CompiledSegment& compiled, const Instruction& in,
            int64_t i);
  std::vector<Payload> MakeBlocks(const BufferRef& ref, const Slice& whole,
                                  const std::vector<Slice>& blocks, int64_t i);
  // How many updates its weights had before.
  int64_t UpdateNumber(const Instruction& in, int64_t i) const;
  // The first sample of a segment's rows, within its body's batch.
  int64_t FirstSample(const Segment& segment, const Instruction& in, int64_t i) const;
  std::vector<at::Tensor> TakeInputs(const Segment& segment, const CompiledSegment& compiled,
                                     const Instruction& in, int64_t i);
  std::vector<at::Tensor> RunOp(const Op& op, std::vector<at::Tensor> inputs,
                                const KernelContext& context, const at::Tensor& sum) const;
  void KeepOutputs(const Segment& segment, const CompiledSegment& compiled, const Instruction& in,
                   int64_t i, std::vector<at::Tensor>& live);
  void RunOps(const Segment& segment, const CompiledSegment& compiled, const Instruction& in,
              int64_t i, std::vector<at::Tensor>& live);
  bool WatchesAll() const { return watch_ != nullptr && watch_->everything(); }
  // The training step that an instruction belongs to.
  int64_t StepAt(const Instruction& in, int64_t i) const {
    return options_.first_step + StepOf(p_, in, i);
  }
  void Watch(int64_t step, TensorId tensor, const at::Tensor& value) const;
  // Weights stay as they are.
  bool Frozen(const Segment& segment, const CompiledSegment& compiled, const Instruction& in,
              const std::vector<at::Tensor>& live) const;

  // First: it outlives the tensors.
  std::unique_ptr<MemoryAccount> memory_ = std::make_unique<MemoryAccount>();
  const Program& p_;
  int32_t device_;
  const Graph& g_;
  const DataSource& data_;
  TrainOptions options_;
  std::vector<TensorId> graph_tensor_;  // by Program tensor
  std::vector<int64_t> first_row_;      // by microbatch of the body
  double loss_share_ = 1;  // of a batch in the loss of a step, which may have one per replica
  std::map<std::pair<int32_t, int32_t>, SlicePtr> slices_;  // by tensor and slice
  std::unordered_map<BufferKey, Buffer> buffers_;
  std::unordered_map<int32_t, CompiledSegment> compiled_;
  std::mutex losses_mutex_;
  std::map<int64_t, double> losses_;  // by step
  TensorsByName gradients_;
  OpListener listener_;
  FiniteWatch* watch_ = nullptr;
};

// Runs made of them (Training). One thread each: devices are the threads.
std::unique_ptr<TrainExecutor> MakeTorchExecutor(const Program& program, int32_t device,
                                                 const Graph& graph, const DataSource& data,
                                                 const TrainOptions& options,
                                                 std::span<const StoredTensor> values);

}  // namespace heddle
