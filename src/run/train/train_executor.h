// TrainExecutor: an Executor of training steps, with the tensors behind it. The loop that trains
// (train.h) knows nothing else of the library that computes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "model/graph.h"
#include "program/program.h"
#include "run/data/data_source.h"
#include "run/executor.h"
#include "run/train/finite_watch.h"
#include "run/train/tensor_store.h"
#include "run/train_options.h"

namespace heddle {

class TrainExecutor : public Executor, public TensorStore {
 public:
  // Where the next repetition 0 stands in the run.
  virtual void StartAt(int64_t step, int64_t sample) = 0;
  // This device's part of a step's loss, once. Another thread may ask while this one works.
  virtual double TakeLoss(int64_t step) = 0;
  // Looks at losses, gradients and what is sent, or at everything. From the first that is not
  // finite on weights stay as they are. May be null.
  virtual void SetFiniteWatch(FiniteWatch* watch) = 0;
  // Of another Program of the same model, on the same device: begins with the weights as they are
  // here now. If it trains, it has its own.
  virtual std::unique_ptr<TrainExecutor> Fork(const Program& program,
                                              const TrainOptions& options) const = 0;
};

// Makes the executor of a device. Weights and states start from `values` where they are there, by
// name and whole. All but options and values outlive it.
using MakeTrainExecutor = std::function<std::unique_ptr<TrainExecutor>(
    const Program& program, int32_t device, const Graph& graph, const DataSource& data,
    const TrainOptions& options, std::span<const StoredTensor> values)>;

}  // namespace heddle
