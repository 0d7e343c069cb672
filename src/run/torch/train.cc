#include "run/torch/train.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <numeric>
#include <thread>

#include "base/json_field.h"
#include "base/version.h"
#include "program/lower/forward_only.h"
#include "program/lower/lower.h"
#include "program/unroll.h"
#include "run/data/data_source.h"
#include "run/rank_messages.h"
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

// What the first rank tells the others to do next.
struct Order {
  int64_t steps = 0;
  double dilation = 0;  // of an emulation; 0: not paced yet
  bool evaluate = false;
  bool save = false;
  bool end = false;
};

class RankTrainer {
 public:
  RankTrainer(const Training& training, int32_t rank, Communicator& communicator,
              const RunListener& listener, const std::string& where, WorkerProgress* progress,
              const RankHooks& hooks)
      : plan_(*training.plan),
        graph_(*training.graph),
        config_(training.config),
        program_(training.program),
        forward_(training.forward),
        emulation_(training.emulation),
        paced_communicator_(emulation_ ? emulation_->Pace(rank, communicator) : nullptr),
        communicator_(emulation_ ? *paced_communicator_ : communicator),
        messages_(communicator, rank, static_cast<int32_t>(training.program.devices.size())),
        listener_(listener),
        where_(where),
        progress_(progress),
        hooks_(hooks),
        per_body_(StepsPerBody(training.program)),
        outside_(StepsOutsideBody(training.program)) {}

  Result<RunResult> Run() {
    HEDDLE_RETURN_IF_ERROR(Prepare());
    while (true) {
      const Order order = NextOrder();
      if (order.steps > 0) HEDDLE_RETURN_IF_ERROR(RunPart(order.steps));
      if (order.evaluate) HEDDLE_RETURN_IF_ERROR(Evaluate());
      if (order.save) HEDDLE_RETURN_IF_ERROR(Save());
      if (order.end) return Finish();
    }
  }

 private:
  Status Prepare() {
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
    HEDDLE_RETURN_IF_ERROR(CheckParts());
    HEDDLE_ASSIGN(data_, OpenData(config_.data, graph_, {options_.seed, config_.validation}));
    executor_ = std::make_unique<TorchExecutor>(program_, messages_.rank(), graph_, *data_,
                                                options_, values);
    if (emulation_ != nullptr) paced_executor_ = emulation_->Pace(messages_.rank(), *executor_);
    if (hooks_.wrap) paced_executor_ = hooks_.wrap(*executor_);
    if (hooks_.turns != nullptr) {
      hooks_.turns->SetHash([this] { return QuickHashOf(executor_->UpdatedValues()); });
    }
    if (!messages_.is_first()) return Ok();
    HEDDLE_RETURN_IF_ERROR(OpenDirectory());
    listener_.note(fmt::format("{}: {} of {} on {} devices, {}; {}", directory_->path(),
                               plan_.strategy, plan_.model, program_.devices.size(), where_,
                               data_->Describe()));
    outcome_.first_step = done_;
    outcome_.directory = directory_->path();
    outcome_.predicted_iteration_seconds =
        plan_.estimate.iteration_seconds / static_cast<double>(per_body_);
    outcome_.timeline = EmptyTimeline(program_);
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

  static bool Due(int64_t every, int64_t step) { return every > 0 && step % every == 0; }

  // The next step after which something else is due.
  int64_t StopAfter(int64_t step) const {
    int64_t next = config_.steps;
    for (const int64_t every : {config_.eval_every, config_.save_every}) {
      if (every > 0) next = std::min(next, (step / every + 1) * every);
    }
    return next;
  }

  // An asynchronous pipeline has to be filled and drained between two stops, and rounds are whole.
  Status CheckParts() const {
    if (outside_ == 0 && per_body_ == 1) return Ok();
    for (int64_t step = done_; step < config_.steps;) {
      const int64_t next = StopAfter(step);
      if ((next - step) % per_body_ != 0) {
        return BadInput("--steps",
                        fmt::format("{} steps from {} to the next stop are not whole rounds",
                                    next - step, step),
                        fmt::format("replicas are averaged every {} steps; give multiples of that "
                                    "for --steps, --eval-every and --save-every",
                                    per_body_));
      }
      if (next - step < outside_) {
        return BadInput(
            "--steps",
            fmt::format("{} steps from {} to the next stop are too few", next - step, step),
            fmt::format("this asynchronous pipeline needs {} to fill and drain; "
                        "--eval-every and --save-every are stops too",
                        outside_));
      }
      step = next;
    }
    return Ok();
  }

  // Steps are ordered in parts that take about half a second: rarely enough not to cost anything,
  // and often enough to show progress and to stop when asked.
  Order NextOrder() {
    Order order;
    if (messages_.is_first()) {
      outcome_.interrupted = listener_.interrupted();
      order.end = done_ == config_.steps || outcome_.interrupted;
      if (config_.elastic && saved_ < 0 && !order.end) {
        order.save = true;  // a start to go back to
      } else if (order.end) {
        const bool trained = !outcome_.losses.empty();
        const bool seen = !outcome_.held_out.empty() && outcome_.held_out.back().step == done_;
        order.evaluate = trained && !outcome_.interrupted && !seen;
        order.save = trained && saved_ != done_;
      } else {
        constexpr double kPartSeconds = 0.5;
        const double wanted = step_seconds_ > 0 ? kPartSeconds / step_seconds_ : 1;
        const int64_t until = StopAfter(done_);
        order.steps = std::clamp<int64_t>(static_cast<int64_t>(wanted) / per_body_ * per_body_,
                                          per_body_, until - done_);
        // An asynchronous pipeline is drained after each part: parts must not depend on time.
        // And between two parts a shared device would be given away.
        if (outside_ > 0 || hooks_.turns != nullptr) order.steps = until - done_;
        constexpr int64_t kToCalibrate = 3;
        if (emulation_ != nullptr && dilation_ == 0) {
          order.steps = std::min(std::max(kToCalibrate * per_body_, 2 * outside_), until - done_);
          if (until - done_ - order.steps < outside_) order.steps = until - done_;
        }
        order.dilation = dilation_;
        const bool stops = done_ + order.steps == until;
        order.evaluate = stops && Due(config_.eval_every, until);
        order.save = stops && Due(config_.save_every, until);
      }
    }
    // Nobody computes between two orders: the pace may change.
    if (order.dilation > 0 && emulation_->dilation() == 0) emulation_->SetDilation(order.dilation);
    return FromBytes<Order>(messages_.FromFirst(ToBytes(std::vector<Order>{order})))[0];
  }

  Status RunPart(int64_t steps) {
    executor_->StartAt(done_, samples_);
    WorkerOptions options;
    options.repetitions = steps / per_body_ - outside_;
    options.first_step = done_;
    options.start = Clock::now();
    options.progress = progress_;
    options.turns = hooks_.turns;
    Executor& executor = paced_executor_ ? *paced_executor_ : *executor_;
    HEDDLE_ASSIGN(std::vector<TimelineEvent> events,
                  RunDevice(program_, messages_.rank(), executor, communicator_, options));
    const double elapsed = SecondsSince(options.start);
    step_seconds_ = elapsed / static_cast<double>(steps);
    std::vector<double> losses;
    for (int64_t step = done_; step < done_ + steps; ++step) {
      losses.push_back(executor_->TakeLoss(step));
    }
    const std::vector<double> sums = SumAtFirst(losses);
    if (messages_.is_first())
      HEDDLE_RETURN_IF_ERROR(LogPart(sums, EndsOf(events, steps / per_body_, elapsed)));
    done_ += steps;
    samples_ += steps / per_body_ * program_.samples();
    events_ = std::move(events);
    if (emulation_ != nullptr && emulation_->dilation() == 0) Calibrate();
    return Ok();
  }

  // After some steps that were not paced: how much slower must time go, so that real work fits into
  // modelled time, with the other devices at work beside it?
  void Calibrate() {
    constexpr double kRoom = 2;             // for noise
    constexpr double kLeastSeconds = 0.02;  // of a step: sleeping is exact to some 50 us
    double longest = 0, work = 0;
    int32_t last = 0;
    for (const TimelineEvent& event : events_) last = std::max(last, event.repetition);
    for (const TimelineEvent& event : events_) {
      if (event.repetition != last) continue;
      const double real = (event.end - event.start).value;
      const double modelled = emulation_->ModelledSeconds(messages_.rank(), event.label);
      work += real;
      if (modelled > 0) longest = std::max(longest, real / modelled);
    }
    double most = 0, all_work = 0;
    for (const ByteString& bytes : messages_.ToFirst(ToBytes(std::vector<double>{longest, work}))) {
      const std::vector<double> values = FromBytes<double>(bytes);
      most = std::max(most, values[0]);
      all_work += values[1];
    }
    if (!messages_.is_first()) return;
    const double body = plan_.estimate.iteration_seconds;
    const double step = body / static_cast<double>(per_body_);
    const double cores = std::max(1U, std::thread::hardware_concurrency());
    dilation_ =
        config_.dilate > 0
            ? config_.dilate
            : std::max({kRoom * most, kLeastSeconds / step, kRoom * all_work / cores / body});
    seconds_.clear();
    listener_.note(
        fmt::format("time goes {:.3g} times slower, so that real work fits in", dilation_));
  }

  // Element by element, in the order of ranks. Empty on the other ranks.
  std::vector<double> SumAtFirst(const std::vector<double>& mine) {
    std::vector<double> sums;
    for (const ByteString& bytes : messages_.ToFirst(ToBytes(mine))) {
      const std::vector<double> values = FromBytes<double>(bytes);
      sums.resize(values.size(), 0);
      for (size_t k = 0; k < values.size(); ++k) sums[k] += values[k];
    }
    return sums;
  }

  // When this device was done with each body. What follows the last computation, such as an average
  // over replicas, counts too.
  std::vector<double> EndsOf(const std::vector<TimelineEvent>& events, int64_t bodies,
                             double elapsed) const {
    std::vector<double> ends(static_cast<size_t>(bodies), 0);
    const auto per_body = static_cast<int32_t>(program_.microbatch_rows.size());
    for (const TimelineEvent& event : events) {
      const int32_t body = outside_ > 0 ? event.microbatch / per_body : event.repetition;
      double& end = ends[static_cast<size_t>(body)];
      end = std::max(end, event.end.value);
    }
    ends.back() = std::max(ends.back(), elapsed);
    return ends;
  }

  Status LogPart(const std::vector<double>& losses, const std::vector<double>& ends) {
    for (size_t k = 0; k < losses.size(); ++k) {
      const int64_t step = done_ + static_cast<int64_t>(k);
      const size_t body = k / static_cast<size_t>(per_body_);
      const double seconds =
          (ends[body] - (body > 0 ? ends[body - 1] : 0)) / static_cast<double>(per_body_);
      if (!outcome_.losses.empty()) seconds_.push_back(seconds);  // the first step is cold
      outcome_.losses.push_back(losses[k]);
      listener_.step(step + 1, config_.steps, losses[k], seconds);
      const double rate = options_.schedule.At(step, options_.total_steps, options_.learning_rate);
      HEDDLE_RETURN_IF_ERROR(directory_->Append(
          {{"step", step + 1}, {"loss", losses[k]}, {"seconds", seconds}, {"rate", rate}}));
    }
    return Ok();
  }

  // The mean loss over the samples held out, as many as fill whole batches.
  Status Evaluate() {
    const int64_t batches = data_->validation_samples() / forward_.samples();
    if (batches == 0) return Ok();
    TrainOptions options = options_;
    options.training = false;
    TorchExecutor executor(forward_, messages_.rank(), graph_, *data_, options,
                           executor_->Values(Role::kParameter));
    WorkerOptions worker;
    worker.repetitions = batches;
    worker.start = Clock::now();
    HEDDLE_RETURN_IF_ERROR(RunDevice(forward_, messages_.rank(), executor, communicator_, worker));
    std::vector<double> losses;
    for (int64_t batch = 0; batch < batches; ++batch) losses.push_back(executor.TakeLoss(batch));
    const std::vector<double> sums = SumAtFirst(losses);
    if (!messages_.is_first()) return Ok();
    const double loss =
        std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(batches);
    outcome_.held_out.push_back({done_, loss});
    listener_.note(fmt::format("step {}: held-out loss {:.5g}", done_, loss));
    return directory_->Append({{"step", done_}, {"validation_loss", loss}});
  }

  // What a rank holds of each tensor.
  std::map<std::string, Slice> PartsAt(int32_t rank) const {
    std::map<std::string, Slice> parts;
    for (const BufferRef& ref : program_.devices[static_cast<size_t>(rank)].holds) {
      parts[program_.tensor(ref.tensor).name] = program_.SliceOf(ref.tensor, ref.slice);
    }
    return parts;
  }

  // Puts the parts that a rank sent where they belong.
  void Place(const TensorsByName& parts, int32_t rank, TensorsByName& whole) const {
    const std::map<std::string, Slice> slices = PartsAt(rank);
    for (const auto& [name, part] : parts) {
      const std::vector<int64_t>& shape = graph_.tensor(*graph_.FindTensor(name)).shape;
      if (part.numel() == 0) continue;
      if (part.sizes() == shape) {
        whole[name] = part;
        continue;
      }
      at::Tensor& all = whole[name];
      if (!all.defined()) all = at::zeros(shape, part.options());
      at::Tensor place = all;
      const Slice& slice = slices.at(name);
      for (size_t axis = 0; axis < slice.size(); ++axis) {
        place = place.narrow(static_cast<int64_t>(axis), slice[axis].begin, slice[axis].size());
      }
      place.copy_(part);
    }
  }

  // The whole tensors of a role, at the first rank. Of several that hold a part the first sends.
  Result<TensorsByName> GatherValues(Role role) {
    TensorsByName mine = executor_->Values(role);
    const std::map<std::string, Slice> parts = PartsAt(messages_.rank());
    for (int32_t rank = 0; rank < messages_.rank(); ++rank) {
      for (const auto& [name, slice] : PartsAt(rank)) {
        const auto same = parts.find(name);
        if (same != parts.end() && same->second == slice) mine.erase(name);
      }
    }
    if (messages_.is_first()) {
      TensorsByName whole;
      Place(mine, 0, whole);
      const std::vector<ByteString> others = messages_.ToFirst({});
      for (size_t rank = 0; rank < others.size(); ++rank) {
        const ByteString& bytes = others[rank];
        if (bytes.empty()) continue;
        const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        HEDDLE_ASSIGN(const SafetensorsFile file, SafetensorsFile::Parse(text, "a rank"));
        Place(FromStored(file, options_.dtype), static_cast<int32_t>(rank), whole);
      }
      return whole;
    }
    HEDDLE_ASSIGN(const std::string text, SafetensorsText(ToStored(mine), {}, "a rank"));
    const auto* data = reinterpret_cast<const std::byte*>(text.data());
    messages_.ToFirst(ByteString(data, data + text.size()));
    return TensorsByName{};
  }

  Status Save() {
    HEDDLE_ASSIGN(TensorsByName values, GatherValues(Role::kParameter));
    HEDDLE_ASSIGN(TensorsByName states, GatherValues(Role::kState));
    if (!messages_.is_first()) return Ok();
    values.merge(states);
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
    saved_ = done_;
    return PruneCheckpoints(directory_->path(), static_cast<int>(config_.keep));
  }

  Result<RunResult> Finish() {
    HEDDLE_ASSIGN(const TensorsByName parameters, GatherValues(Role::kParameter));
    KeepLastSteps();
    for (const ByteString& bytes : messages_.ToFirst(ToBytes(events_))) {
      const auto events = FromBytes<TimelineEvent>(bytes);
      outcome_.timeline.events.insert(outcome_.timeline.events.end(), events.begin(), events.end());
    }
    messages_.FromFirst({});  // nobody leaves before the first rank has everything
    if (!messages_.is_first()) return std::move(outcome_);
    SortByStart(outcome_.timeline);
    outcome_.parameter_hash = HashOf(parameters);
    outcome_.measured_iteration_seconds = Median(seconds_);
    if (dilation_ > 0) DescribeEmulation();
    if (!config_.weights.empty()) {
      HEDDLE_RETURN_IF_ERROR(
          WriteSafetensors(config_.weights, ToStored(parameters), {{"model", plan_.model}}));
    }
    return std::move(outcome_);
  }

  // In modelled seconds.
  void DescribeEmulation() {
    outcome_.emulated = true;
    outcome_.dilation = dilation_;
    outcome_.deadlines = emulation_->deadlines();
    outcome_.missed = emulation_->missed();
    outcome_.measured_iteration_seconds /= dilation_;
    outcome_.timeline.source = "emulated";
    for (TimelineEvent& event : outcome_.timeline.events) {
      event.start = event.start / dilation_;
      event.end = event.end / dilation_;
    }
  }

  // Enough to look at.
  void KeepLastSteps() {
    constexpr int32_t kSteps = 4;
    int32_t last = 0;
    for (const TimelineEvent& event : events_) last = std::max(last, event.repetition);
    std::erase_if(events_,
                  [&](const TimelineEvent& event) { return event.repetition <= last - kSteps; });
  }

  const Plan& plan_;
  const Graph& graph_;
  const RunConfig& config_;
  const Program& program_;
  const Program& forward_;
  Emulation* emulation_;
  std::unique_ptr<Communicator> paced_communicator_;
  Communicator& communicator_;
  RankMessages messages_;
  const RunListener& listener_;
  const std::string& where_;
  WorkerProgress* progress_;
  const RankHooks& hooks_;
  int64_t per_body_;  // steps: more than one in a round of LocalSGD
  int64_t outside_;   // steps of each part before and after the body's repetitions
  TrainOptions options_;
  std::unique_ptr<DataSource> data_;
  std::unique_ptr<TorchExecutor> executor_;
  std::unique_ptr<Executor> paced_executor_;
  int64_t done_ = 0;     // steps
  int64_t samples_ = 0;  // seen
  double step_seconds_ = 0;
  std::vector<TimelineEvent> events_;  // of the last part

  // The first rank's.
  double dilation_ = 0;
  std::optional<RunDirectory> directory_;
  int64_t saved_ = -1;           // the last step saved
  std::vector<double> seconds_;  // of steps
  RunResult outcome_;
};

}  // namespace

Result<Training> PrepareTraining(const Plan& plan, const Graph& graph, const RunConfig& config) {
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::kOpaque) continue;
    return BadInput(config.plan,
                    fmt::format("layer {} is a profile: it has times, no arithmetic", op.name),
                    "run it with --emulate: devices then only keep time");
  }
  Training training{&plan, &graph, config, {}, {}, nullptr};
  HEDDLE_ASSIGN(training.program, LowerPlan(plan, graph));
  // Looking at held-out samples knows one version of the weights.
  Plan flushed = plan;
  flushed.async.reset();
  if (flushed.local) std::fill(flushed.local->steps.begin(), flushed.local->steps.end(), 1);
  HEDDLE_ASSIGN(const Program whole, LowerPlan(flushed, graph));
  training.forward = ForwardOnly(whole);
  return training;
}

Result<RunResult> TrainRank(const Training& training, int32_t rank, Communicator& communicator,
                            const RunListener& listener, const std::string& where,
                            WorkerProgress* progress, const RankHooks& hooks) {
  return RankTrainer(training, rank, communicator, listener, where, progress, hooks).Run();
}

Result<RunResult> TrainOnThreads(const Training& training, const RunListener& listener) {
  std::optional<Result<RunResult>> first;
  const Status status =
      RunOnThreads(training.program, [&](int32_t rank, Communicator& communicator) -> Status {
        Result<RunResult> result =
            TrainRank(training, rank, communicator, listener, "threads of this process");
        if (!result.ok()) return result.error();
        if (rank == 0) first.emplace(std::move(result));
        return Ok();
      });
  if (!status.ok()) return status.error();
  return std::move(*first);
}

}  // namespace heddle
