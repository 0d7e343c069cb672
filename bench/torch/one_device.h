// A model on one device of this machine, ready to train a step at a time.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "choose/planners.h"
#include "cluster/cluster.h"
#include "plan/planning.h"
#include "program/lower/lower.h"
#include "run/data/synthetic.h"
#include "run/torch/torch_threads.h"

namespace heddle {

inline constexpr char kOneDevice[] = R"(
schema = "heddle.cluster/1"
[device_type.cpu]
flops = "80 GFLOP/s"
memory = "8 GiB"
memory_bandwidth = "10 GB/s"
[[node]]
name = "a"
devices = [{ type = "cpu", count = 1 }]
)";

inline double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Work>
double Time(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Another source, with the time it takes.
class TimedData final : public DataSource {
 public:
  explicit TimedData(std::unique_ptr<DataSource> inner) : inner_(std::move(inner)) {}
  std::string Describe() const override { return inner_->Describe(); }
  int64_t train_samples() const override { return inner_->train_samples(); }
  int64_t validation_samples() const override { return inner_->validation_samples(); }
  std::vector<double> Train(TensorId input, int64_t first, int64_t count) const override {
    std::vector<double> values;
    seconds += Time([&] { values = inner_->Train(input, first, count); });
    return values;
  }
  std::vector<double> Validation(TensorId input, int64_t first, int64_t count) const override {
    return inner_->Validation(input, first, count);
  }
  mutable double seconds = 0;  // one thread at a time

 private:
  std::unique_ptr<DataSource> inner_;
};

class OneDevice {
 public:
  OneDevice(const std::string& model, int64_t batch, int64_t microbatches,
            const Profile* profile = nullptr)
      : cluster_(ParseClusterToml(kOneDevice, "one").value()),
        planning_(Planning::Make(OptionsOf(model, batch, microbatches), cluster_, profile).value()),
        plan_(MakePlan("dp", planning_).value()),
        program_(LowerPlan(plan_, planning_.graph).value()),
        data_(MakeSyntheticData(planning_.graph, {})) {
    TrainOptions train;
    train.dtype = DType::kF32;
    executors_ = MakeExecutors(program_, planning_.graph, data_, train);
  }

  // Returns the loss.
  double Step(int64_t step) {
    executors_[0]->StartAt(step, step * planning_.graph.batch());
    (void)RunThreads(program_, 1, executors_).ok();
    return executors_[0]->TakeLoss(step);
  }

  const Graph& graph() const { return planning_.graph; }
  TimedData& data() { return data_; }
  const Program& program() const { return program_; }
  const Plan& plan() const { return plan_; }
  TorchExecutor& executor() { return *executors_[0]; }

 private:
  static PlanRequest OptionsOf(const std::string& model, int64_t batch, int64_t microbatches) {
    PlanRequest options;
    options.model = model;
    options.batch = batch;
    options.microbatches = microbatches;
    return options;
  }

  Cluster cluster_;
  Planning planning_;
  Plan plan_;
  Program program_;
  TimedData data_;
  Executors executors_;
};

}  // namespace heddle
