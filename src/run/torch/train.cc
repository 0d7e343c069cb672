#include "run/torch/train.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>

#include "base/version.h"
#include "program/lower/forward_only.h"
#include "program/lower/lower.h"
#include "run/data/data_source.h"
#include "run/store/checkpoint.h"
#include "run/store/run_directory.h"
#include "run/torch/device_threads.h"
#include "run/torch/stored_tensors.h"

namespace heddle {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// The checkpoint that `resume` means: itself, or the last of a run.
Result<Checkpoint> LoadResumed(const std::string& resume) {
  if (std::filesystem::exists(resume + "/checkpoint.json")) return LoadCheckpoint(resume);
  HEDDLE_ASSIGN(const std::string latest, LatestCheckpoint(resume));
  return LoadCheckpoint(latest);
}

// Every weight and state of the model must be there, in its shape.
Status CheckFits(const Graph& graph, const Checkpoint& checkpoint, const std::string& path) {
  for (const Tensor& tensor : graph.tensors()) {
    if (tensor.role != Role::kParameter && tensor.role != Role::kState) continue;
    const StoredTensor* stored = checkpoint.tensors.Find(tensor.name);
    if (stored == nullptr) {
      return BadInput(path, fmt::format("has no {}", tensor.name),
                      fmt::format("it is of {} with {}; plan the same model and optimizer",
                                  checkpoint.info.model, checkpoint.info.optimizer));
    }
    if (stored->shape != tensor.shape) {
      return BadInput(path,
                      fmt::format("{} has another shape than in the plan's model", tensor.name),
                      fmt::format("it is of {}", checkpoint.info.model));
    }
  }
  return Ok();
}

class Trainer {
 public:
  Trainer(const Plan& plan, const Graph& graph, const RunConfig& config,
          const RunListener& listener)
      : plan_(plan), graph_(graph), config_(config), listener_(listener) {}

  Result<RunResult> Run() {
    HEDDLE_RETURN_IF_ERROR(Prepare());
    while (done_ < config_.steps && !outcome_.interrupted) {
      HEDDLE_RETURN_IF_ERROR(RunPart(NextStop()));
      const bool ends = done_ == config_.steps || outcome_.interrupted;
      if (Due(config_.eval_every) || (ends && !outcome_.interrupted)) {
        HEDDLE_RETURN_IF_ERROR(Evaluate());
      }
      if (Due(config_.save_every) || ends) HEDDLE_RETURN_IF_ERROR(Save());
    }
    return Finish();
  }

 private:
  Status Prepare() {
    for (const Op& op : graph_.ops()) {
      if (op.kind != OpKind::kOpaque) continue;
      return BadInput(config_.plan,
                      fmt::format("layer {} is a profile: it has times, no arithmetic", op.name),
                      "run a model of the zoo");
    }
    const DType planned = plan_.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    options_.dtype = config_.dtype.value_or(planned);
    HEDDLE_ASSIGN(options_.schedule, ParseLearningRate(config_.schedule));
    options_.learning_rate = config_.learning_rate;
    options_.total_steps = config_.steps;
    options_.seed = config_.seed.value_or(1);
    TensorsByName values;
    if (!config_.resume.empty()) {
      HEDDLE_ASSIGN(values, Resume());
    }
    HEDDLE_ASSIGN(data_, OpenData(config_.data, graph_, {options_.seed, config_.validation}));
    HEDDLE_ASSIGN(program_, LowerPlan(plan_, graph_));
    forward_ = ForwardOnly(program_);
    HEDDLE_RETURN_IF_ERROR(OpenDirectory());
    executors_ = MakeExecutors(program_, graph_, *data_, options_, values);
    listener_.note(fmt::format("{}: {} of {} on {} devices, threads of this process; {}",
                               directory_->path(), plan_.strategy, plan_.model,
                               program_.devices.size(), data_->Describe()));
    outcome_.first_step = done_;
    outcome_.directory = directory_->path();
    outcome_.predicted_iteration_seconds = plan_.estimate.iteration_seconds;
    return Ok();
  }

  Result<TensorsByName> Resume() {
    HEDDLE_ASSIGN(const Checkpoint checkpoint, LoadResumed(config_.resume));
    HEDDLE_RETURN_IF_ERROR(CheckFits(graph_, checkpoint, config_.resume));
    if (config_.seed && *config_.seed != checkpoint.info.seed) {
      return BadInput("--seed",
                      fmt::format("{} is not the seed of {}, {}", *config_.seed, config_.resume,
                                  checkpoint.info.seed),
                      "leave it out to go on with the run's");
    }
    options_.seed = checkpoint.info.seed;
    done_ = checkpoint.info.step;
    samples_ = checkpoint.info.samples;
    if (done_ > config_.steps) {
      return BadInput("--steps", fmt::format("{} steps are done already", done_),
                      "--steps counts from the beginning of the run");
    }
    return FromStored(checkpoint.tensors, options_.dtype);
  }

  // Going on with a run goes on in its directory, unless another is named.
  Status OpenDirectory() {
    const bool in_place = !config_.resume.empty() && config_.directory.empty() &&
                          std::filesystem::exists(config_.resume + "/config.json");
    Result<RunDirectory> opened =
        in_place ? RunDirectory::Open(config_.resume)
        : config_.directory.empty()
            ? RunDirectory::CreateNamed("runs", plan_.model, std::time(nullptr))
            : RunDirectory::Create(config_.directory);
    if (!opened.ok()) return opened.error();
    directory_.emplace(std::move(opened).value());
    if (in_place) HEDDLE_RETURN_IF_ERROR(directory_->ResumeAfter(done_));
    HEDDLE_RETURN_IF_ERROR(directory_->WriteConfig(RunConfigToJson(config_)));
    return directory_->WritePlan(PlanToJson(plan_).dump(2) + "\n");
  }

  bool Due(int64_t every) const { return every > 0 && done_ % every == 0; }

  int64_t NextStop() const {
    int64_t next = config_.steps;
    for (const int64_t every : {config_.eval_every, config_.save_every}) {
      if (every > 0) next = std::min(next, (done_ / every + 1) * every);
    }
    return next;
  }

  // Trains up to step `until`.
  Status RunPart(int64_t until) {
    const auto devices = static_cast<int>(executors_.size());
    for (const auto& executor : executors_) executor->StartAt(done_, samples_);
    Clock::time_point last = Clock::now();
    Status logged = Ok();
    StepGate gate(devices, [&](int64_t step) {
      const double seconds = SecondsSince(last);
      last = Clock::now();
      if (outcome_.losses.empty() || step > 0) seconds_.push_back(seconds);
      const Status status = StepDone(done_ + step, seconds);
      if (!status.ok() && logged.ok()) logged = status;
      outcome_.interrupted = outcome_.interrupted || listener_.interrupted();
      if (outcome_.interrupted || !logged.ok()) gate_->Stop();
    });
    gate_ = &gate;
    HEDDLE_ASSIGN(Timeline timeline, RunThreads(program_, until - done_, executors_, &gate));
    gate_ = nullptr;
    HEDDLE_RETURN_IF_ERROR(logged);
    done_ += gate.steps_done();
    samples_ += gate.steps_done() * program_.samples();
    KeepTimeline(std::move(timeline));
    return Ok();
  }

  Status StepDone(int64_t step, double seconds) {
    double loss = 0;  // in the order of devices, whoever was last
    for (const auto& executor : executors_) loss += executor->TakeLoss(step);
    outcome_.losses.push_back(loss);
    listener_.step(step + 1, config_.steps, loss, seconds);
    const double rate = options_.schedule.At(step, options_.total_steps, options_.learning_rate);
    return directory_->Append(
        {{"step", step + 1}, {"loss", loss}, {"seconds", seconds}, {"rate", rate}});
  }

  // The last steps are enough to look at.
  void KeepTimeline(Timeline timeline) {
    constexpr int32_t kSteps = 4;
    int32_t last = 0;
    for (const TimelineEvent& event : timeline.events) last = std::max(last, event.repetition);
    std::erase_if(timeline.events,
                  [&](const TimelineEvent& event) { return event.repetition <= last - kSteps; });
    outcome_.timeline = std::move(timeline);
  }

  // The mean loss over the samples held out, as many as fill whole batches.
  Status Evaluate() {
    const int64_t batches = data_->validation_samples() / program_.samples();
    if (batches == 0) return Ok();
    TrainOptions options = options_;
    options.training = false;
    const Executors executors =
        MakeExecutors(forward_, graph_, *data_, options, Values(Role::kParameter));
    HEDDLE_RETURN_IF_ERROR(RunThreads(forward_, batches, executors));
    double loss = 0;
    for (int64_t batch = 0; batch < batches; ++batch) {
      for (const auto& executor : executors) loss += executor->TakeLoss(batch);
    }
    loss /= static_cast<double>(batches);
    outcome_.held_out.push_back({done_, loss});
    listener_.note(fmt::format("step {}: held-out loss {:.5g}", done_, loss));
    return directory_->Append({{"step", done_}, {"validation_loss", loss}});
  }

  TensorsByName Values(Role role) const {
    TensorsByName all;
    for (const auto& executor : executors_) all.merge(executor->Values(role));
    return all;
  }

  Status Save() {
    TensorsByName values = Values(Role::kParameter);
    values.merge(Values(Role::kState));
    CheckpointInfo info{.step = done_,
                        .samples = samples_,
                        .seed = options_.seed,
                        .model = plan_.model,
                        .model_hash = plan_.model_hash,
                        .optimizer = std::string(NameOf(plan_.optimizer)),
                        .dtype = options_.dtype,
                        .heddle_version = kVersion};
    HEDDLE_ASSIGN(outcome_.checkpoint,
                  SaveCheckpoint(directory_->checkpoints_path(), info, ToStored(values)));
    return PruneCheckpoints(directory_->path(), static_cast<int>(config_.keep));
  }

  Result<RunResult> Finish() {
    const TensorsByName parameters = Values(Role::kParameter);
    outcome_.parameter_hash = HashOf(parameters);
    outcome_.measured_iteration_seconds = Median(seconds_);
    if (!config_.weights.empty()) {
      HEDDLE_RETURN_IF_ERROR(
          WriteSafetensors(config_.weights, ToStored(parameters), {{"model", plan_.model}}));
    }
    return std::move(outcome_);
  }

  const Plan& plan_;
  const Graph& graph_;
  const RunConfig& config_;
  const RunListener& listener_;
  TrainOptions options_;
  std::unique_ptr<DataSource> data_;
  Program program_, forward_;
  std::optional<RunDirectory> directory_;
  Executors executors_;
  StepGate* gate_ = nullptr;
  int64_t done_ = 0;     // steps
  int64_t samples_ = 0;  // seen
  std::vector<double> seconds_;
  RunResult outcome_;
};

}  // namespace

Result<RunResult> Train(const Plan& plan, const Graph& graph, const RunConfig& config,
                        const RunListener& listener) {
  return Trainer(plan, graph, config, listener).Run();
}

}  // namespace heddle
