#include "run/torch/train.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>

#include "base/hash.h"
#include "base/json_field.h"
#include "base/version.h"
#include "program/unroll.h"
#include "run/data/data_source.h"
#include "run/kernel_environment.h"
#include "run/rank_messages.h"
#include "run/replica_check.h"
#include "run/run_files.h"
#include "run/store/checkpoint.h"
#include "run/torch/device_threads.h"
#include "run/torch/finite_watch.h"
#include "run/torch/gathered_values.h"
#include "run/torch/resumed_values.h"
#include "run/torch/stored_tensors.h"
#include "run/torch/training_orders.h"
#include "run/training_stops.h"

namespace heddle {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

uint64_t Hash64(const std::string& text) {
  Hash hash;
  hash.Add(text);
  return hash.value();
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

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
        outside_(StepsOutsideBody(training.program)),
        stops_(config_, per_body_, outside_),
        kind_(Hash64(KindOfKernels())),
        // An asynchronous pipeline may run for long before it stops: it ends where it stands.
        watch_(outside_ > 0 ? FiniteWatch::Manner::kThrow : FiniteWatch::Manner::kNote) {}

  Result<RunResult> Run() {
    HEDDLE_RETURN_IF_ERROR(Prepare());
    if (!ReplicasAgree(/*any_kind=*/true)) return EndUnequal();
    while (true) {
      const TrainingOrder order = NextOrder();
      if (order.bad) return EndBadly(Earliest(order.what));
      if (order.steps > 0) HEDDLE_RETURN_IF_ERROR(RunPart(order.steps));
      if ((order.compare || order.save) && !ReplicasAgree(/*any_kind=*/false)) return EndUnequal();
      if (order.evaluate) HEDDLE_RETURN_IF_ERROR(Evaluate());
      if (order.save) {
        HEDDLE_ASSIGN(const std::optional<NotFinite> refused, Save());
        if (refused && !config_.keep_going) return EndBadly(*refused);
      }
      if (order.end) return Finish();
    }
  }

 private:
  Status Prepare() {
    HEDDLE_ASSIGN(options_.dtype, TrainedType(plan_, config_));
    HEDDLE_ASSIGN(options_.schedule, ParseLearningRate(config_.schedule));
    options_.learning_rate = config_.learning_rate;
    options_.total_steps = config_.steps;
    options_.seed = config_.seed.value_or(1);
    TensorsByName values;
    if (!config_.resume.empty()) {
      HEDDLE_ASSIGN(values, Resume());
    }
    HEDDLE_RETURN_IF_ERROR(stops_.Check(done_));
    HEDDLE_ASSIGN(data_, OpenData(config_.data, graph_, {options_.seed, config_.validation}));
    HEDDLE_RETURN_IF_ERROR(CheckHeldOut());
    executor_ = std::make_unique<TorchExecutor>(program_, messages_.rank(), graph_, *data_,
                                                options_, values);
    if (!config_.keep_going) executor_->SetFiniteWatch(&watch_);
    if (emulation_ != nullptr) paced_executor_ = emulation_->Pace(messages_.rank(), *executor_);
    if (hooks_.wrap) paced_executor_ = hooks_.wrap(*executor_);
    if (config_.measure_noise) {
      Executor& inner = paced_executor_ ? *paced_executor_ : *executor_;
      meter_.emplace(program_, messages_.rank(), inner);
    }
    if (hooks_.turns != nullptr) {
      hooks_.turns->SetHash([this] { return QuickHashOf(executor_->UpdatedValues()); });
    }
    if (!messages_.is_first()) return Ok();
    HEDDLE_ASSIGN(RunFiles files, RunFiles::Open(plan_, graph_, config_, options_.dtype, done_));
    files_.emplace(std::move(files));
    listener_.opened(files_->path());
    listener_.note(fmt::format("{}: {} of {} on {} devices, {}; {}", files_->path(), plan_.strategy,
                               plan_.request.model, program_.devices.size(), where_,
                               data_->Describe()));
    outcome_.first_step = done_;
    outcome_.directory = files_->path();
    outcome_.predicted_iteration_seconds =
        plan_.estimate.iteration_seconds / static_cast<double>(per_body_);
    outcome_.timeline = EmptyTimeline(program_);
    return Ok();
  }

  Result<TensorsByName> Resume() {
    HEDDLE_ASSIGN(ResumedValues resumed, LoadResumedValues(config_.resume, graph_, options_.dtype));
    const CheckpointInfo& info = resumed.info;
    options_.seed = config_.seed.value_or(info.seed);
    if (options_.seed != info.seed && !config_.may_override) {
      return BadInput(
          "--seed",
          fmt::format("{} is not the seed of {}, {}", options_.seed, config_.resume, info.seed),
          "leave it out to go on with the run's; --override goes on all the same");
    }
    done_ = info.step;
    samples_ = info.samples;
    if (done_ > config_.steps) {
      return BadInput("--steps", fmt::format("{} steps are done already", done_),
                      "--steps counts from the beginning of the run");
    }
    return std::move(resumed.tensors);
  }

  // Whoever wants to look at samples held out must hold out as many as fill a batch.
  Status CheckHeldOut() {
    const int64_t held_out = data_->validation_samples();
    if (config_.validation == 0 || held_out >= forward_.samples()) return Ok();
    const std::string what = fmt::format("{} samples are held out, fewer than a batch of {}",
                                         held_out, forward_.samples());
    if (config_.eval_every > 0) {
      return BadInput("--eval-every", what, "a larger --validation, or a plan for a smaller batch");
    }
    if (messages_.is_first()) listener_.note(what + ": nobody looks at them");
    return Ok();
  }

  // Steps are ordered in parts that take about half a second: rarely enough not to cost anything,
  // and often enough to show progress and to stop when asked.
  TrainingOrder NextOrder() {
    TrainingOrder order;
    if (messages_.is_first()) {
      order.bad = bad_.has_value();
      order.what = bad_.value_or(NotFinite{});
      if (asked_to_stop_ == 0) asked_to_stop_ = listener_.interrupted();
      order.stopped_by = done_ < config_.steps ? asked_to_stop_ : 0;
      order.end = done_ == config_.steps || order.stopped_by != 0;
      if (config_.elastic && saved_ < 0 && !order.end) {
        order.save = true;  // a start to go back to
      } else if (order.end) {
        const bool trained = !outcome_.losses.empty();
        const bool seen = !outcome_.held_out.empty() && outcome_.held_out.back().step == done_;
        order.evaluate = trained && order.stopped_by == 0 && !seen;
        order.save = trained && saved_ != done_;
      } else {
        constexpr double kPartSeconds = 0.5;
        const double wanted = step_seconds_ > 0 ? kPartSeconds / step_seconds_ : 1;
        const int64_t until = stops_.After(done_);
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
        order.evaluate = stops && stops_.Looks(until);
        order.save = stops && stops_.Saves(until);
        order.compare = stops && stops_.Compares(until);
      }
    }
    // Nobody computes between two orders: the pace may change.
    if (order.dilation > 0 && emulation_->dilation() == 0) emulation_->SetDilation(order.dilation);
    order = OneFromBytes<TrainingOrder>(
        messages_.FromFirst(ToBytes(std::vector<TrainingOrder>{order})));
    // Another process has an emulation of its own.
    if (order.dilation > 0 && emulation_->dilation() == 0) emulation_->SetDilation(order.dilation);
    outcome_.interrupted = order.stopped_by != 0;
    outcome_.stopped_by = order.stopped_by;
    return order;
  }

  Status RunPart(int64_t steps) {
    executor_->StartAt(done_, samples_);
    WorkerOptions options;
    options.repetitions = steps / per_body_ - outside_;
    options.first_step = done_;
    options.start = Clock::now();
    options.progress = progress_;
    options.turns = hooks_.turns;
    Executor& paced = paced_executor_ ? *paced_executor_ : *executor_;
    Executor& executor = meter_ ? *meter_ : paced;
    std::vector<TimelineEvent> events;
    try {
      HEDDLE_ASSIGN(events,
                    RunDevice(program_, messages_.rank(), executor, communicator_, options));
    } catch (const FiniteWatch::Found& found) {
      return Describe(found.not_finite(), "");
    }
    if (hooks_.turns != nullptr && hooks_.turns->StopsAfter() < options.repetitions) {
      steps = (hooks_.turns->StopsAfter() + outside_) * per_body_;
    }
    const double elapsed = SecondsSince(options.start);
    step_seconds_ = elapsed / static_cast<double>(steps);
    std::vector<double> losses;
    for (int64_t step = done_; step < done_ + steps; ++step) {
      losses.push_back(executor_->TakeLoss(step));
    }
    std::vector<double> sums = SumAtFirst(losses);
    TellFirst();
    if (messages_.is_first()) {
      if (bad_) sums.resize(static_cast<size_t>(bad_->step - done_ + 1));
      HEDDLE_RETURN_IF_ERROR(LogPart(sums, EndsOf(events, steps / per_body_, elapsed)));
    }
    part_ = {done_, samples_};
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
      const auto values = OneFromBytes<std::array<double, 2>>(bytes);
      most = std::max(most, values[0]);
      all_work += values[1];
    }
    if (!messages_.is_first()) return;
    const double body = plan_.estimate.iteration_seconds;
    const double step = body / static_cast<double>(per_body_);
    const double cores = std::max(1U, std::thread::hardware_concurrency());
    const double fitting =
        std::max({kRoom * most, kLeastSeconds / step, kRoom * all_work / cores / body});
    const double links_are_real = 1;  // and do not go slower
    dilation_ = config_.dilate > 0           ? config_.dilate
                : emulation_->devices_only() ? links_are_real
                                             : fitting;
    seconds_.clear();
    listener_.note(
        emulation_->devices_only()
            ? fmt::format("devices are paced, messages are not; time goes {:.3g} times slower",
                          dilation_)
            : fmt::format("time goes {:.3g} times slower, so that real work fits in", dilation_));
  }

  void TellFirst() {
    const std::optional<NotFinite>& mine = watch_.first();
    const PartNote note{listener_.interrupted(), mine.has_value(), mine.value_or(NotFinite{})};
    for (const ByteString& bytes : messages_.ToFirst(ToBytes(std::vector<PartNote>{note}))) {
      const PartNote other = OneFromBytes<PartNote>(bytes);
      if (asked_to_stop_ == 0) asked_to_stop_ = other.asked_to_stop;
      if (other.bad && (!bad_ || other.what < *bad_)) bad_ = other.what;
    }
  }

  // Something was bad in a step, and since then no weight has changed: the step once more, with a
  // look at every tensor. Where it cannot be repeated, what was seen must do.
  NotFinite Earliest(const NotFinite& seen) {
    if (outside_ > 0 || hooks_.turns != nullptr) return seen;
    FiniteWatch everything(FiniteWatch::Manner::kEverything);
    executor_->SetFiniteWatch(&everything);
    const int64_t bodies = (seen.step - part_.step) / per_body_;
    executor_->StartAt(part_.step + bodies * per_body_,
                       part_.samples + bodies * program_.samples());
    WorkerOptions options;
    options.start = Clock::now();
    (void)RunDevice(program_, messages_.rank(), *executor_, communicator_, options).ok();
    const NotFinite mine = everything.first().value_or(seen);
    NotFinite first = mine;
    for (const ByteString& bytes : messages_.ToFirst(ToBytes(std::vector<NotFinite>{mine}))) {
      first = std::min(first, OneFromBytes<NotFinite>(bytes));
    }
    return first;
  }

  Error Describe(const NotFinite& what, const std::string& hint) const {
    return {ErrorKind::kRunFailed, fmt::format("step {}", what.step + 1),
            fmt::format("{} is not finite", graph_.tensor(TensorId{what.tensor}).name), hint};
  }

  // All ranks look; each knows the answer.
  bool ReplicasAgree(bool any_kind) {
    const TensorsByName values = executor_->Values(Role::kParameter);
    std::vector<uint64_t> mine = {kind_};
    for (const BufferRef& ref : HeldParameters(program_, messages_.rank())) {
      const std::string& name = program_.tensor(ref.tensor).name;
      mine.push_back(QuickHashOf({{name, values.at(name)}}));
    }
    std::vector<DeviceHashes> all;
    for (const ByteString& bytes : messages_.ToFirst(ToBytes(mine))) {
      const auto theirs = FromBytes<uint64_t>(bytes);
      if (theirs.empty()) throw PeerLost("a device sent no hashes");
      all.push_back({theirs[0], {theirs.begin() + 1, theirs.end()}});
    }
    if (messages_.is_first()) unequal_ = CompareReplicas(program_, all, any_kind);
    const std::vector<uint8_t> agree = {!unequal_.has_value()};
    return OneFromBytes<uint8_t>(messages_.FromFirst(ToBytes(agree))) != 0;
  }

  Result<RunResult> EndUnequal() {
    outcome_.failed = true;
    if (!messages_.is_first()) return std::move(outcome_);
    return Error{ErrorKind::kRunFailed,
                 done_ == outcome_.first_step ? "start" : fmt::format("step {}", done_), *unequal_,
                 GoOnHint(files_->path())};
  }

  // All ranks come here; the first says why.
  Result<RunResult> EndBadly(const NotFinite& what) {
    messages_.FromFirst({});
    outcome_.failed = true;
    if (!messages_.is_first()) return std::move(outcome_);
    return Describe(what, GoOnHint(files_->path(), "with a smaller --rate") +
                              "; --keep-going trains on all the same");
  }

  // Element by element, in the order of ranks. Empty on the other ranks.
  std::vector<double> SumAtFirst(const std::vector<double>& mine) {
    std::vector<double> sums;
    for (const ByteString& bytes : messages_.ToFirst(ToBytes(mine))) {
      const std::vector<double> values = FromBytes<double>(bytes);
      if (values.size() != mine.size()) throw PeerLost("a device trained another number of steps");
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
      HEDDLE_RETURN_IF_ERROR(files_->Append(
          {{"step", step + 1}, {"loss", losses[k]}, {"seconds", seconds}, {"rate", rate}}));
      if (std::isfinite(losses[k]) || bad_ || said_) continue;
      listener_.note(fmt::format("step {}: the loss is not finite; going on", step + 1));
      said_ = true;
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
    return files_->Append({{"step", done_}, {"validation_loss", loss}});
  }

  Result<TensorsByName> Gather(Role role) {
    return GatherValues(role, *executor_, program_, graph_, messages_, options_.dtype);
  }

  // All or nothing: what is not finite is not saved, and is told to all ranks.
  Result<std::optional<NotFinite>> Save() {
    HEDDLE_ASSIGN(TensorsByName values, Gather(Role::kParameter));
    HEDDLE_ASSIGN(TensorsByName states, Gather(Role::kState));
    values.merge(states);
    NotFinite refused{done_ - 1, -1};
    for (const Tensor& tensor : graph_.tensors()) {
      const auto value = values.find(tensor.name);  // at the first rank
      if (refused.tensor >= 0 || value == values.end() || AllFinite(value->second)) continue;
      refused.tensor = graph_.FindTensor(tensor.name)->value;
    }
    refused =
        OneFromBytes<NotFinite>(messages_.FromFirst(ToBytes(std::vector<NotFinite>{refused})));
    if (refused.tensor >= 0) {
      if (messages_.is_first() && config_.keep_going) {
        listener_.note(fmt::format("step {}: not saved: {} is not finite", done_,
                                   graph_.tensor(TensorId{refused.tensor}).name));
      }
      saved_ = done_;  // as far as it can be
      return std::optional(refused);
    }
    if (!messages_.is_first()) return std::optional<NotFinite>();
    const CheckpointInfo info{.step = done_,
                              .samples = samples_,
                              .seed = options_.seed,
                              .model = plan_.request.model,
                              .model_hash = plan_.model_hash,
                              .optimizer = std::string(NameOf(plan_.request.optimizer)),
                              .dtype = options_.dtype,
                              .heddle_version = kVersion};
    HEDDLE_ASSIGN(outcome_.checkpoint, files_->Save(info, ToStored(values)));
    saved_ = done_;
    return std::optional<NotFinite>();
  }

  Status ReportNoise() {
    outcome_.noise = GatherNoise(*meter_, messages_);
    outcome_.rows_per_parameter = RowsPerParameter(graph_, *data_);
    if (!outcome_.noise) return Ok();
    return files_->Append({{"step", done_}, {"noise_ratio", outcome_.noise->ratio}});
  }

  Result<RunResult> Finish() {
    if (meter_) HEDDLE_RETURN_IF_ERROR(ReportNoise());
    HEDDLE_ASSIGN(const TensorsByName parameters, Gather(Role::kParameter));
    KeepLastSteps();
    for (const ByteString& bytes : messages_.ToFirst(ToBytes(events_))) {
      const auto events = FromBytes<TimelineEvent>(bytes);
      outcome_.timeline.events.insert(outcome_.timeline.events.end(), events.begin(), events.end());
    }
    if (emulation_ != nullptr) CountDeadlines();
    messages_.FromFirst({});  // nobody leaves before the first rank has everything
    if (!messages_.is_first()) return std::move(outcome_);
    SortByStart(outcome_.timeline);
    outcome_.parameter_hash = HashOf(parameters);
    outcome_.measured_iteration_seconds = Median(seconds_);
    if (dilation_ > 0) DescribeEmulation();
    if (!config_.weights.empty()) {
      HEDDLE_RETURN_IF_ERROR(WriteSafetensors(config_.weights, ToStored(parameters),
                                              {{"model", plan_.request.model}}));
    }
    return std::move(outcome_);
  }

  // Of all devices: threads share an emulation, processes have one each.
  void CountDeadlines() {
    const bool mine = emulation_->devices_only() || messages_.is_first();
    const std::vector<int64_t> counts = {mine ? emulation_->deadlines() : 0,
                                         mine ? emulation_->missed() : 0};
    for (const ByteString& bytes : messages_.ToFirst(ToBytes(counts))) {
      const auto theirs = OneFromBytes<std::array<int64_t, 2>>(bytes);
      outcome_.deadlines += theirs[0];
      outcome_.missed += theirs[1];
    }
  }

  // In modelled seconds.
  void DescribeEmulation() {
    outcome_.emulated = true;
    outcome_.dilation = dilation_;
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
  TrainingStops stops_;
  uint64_t kind_;  // of this rank's processor
  TrainOptions options_;
  std::unique_ptr<DataSource> data_;
  std::unique_ptr<TorchExecutor> executor_;
  std::unique_ptr<Executor> paced_executor_;
  std::optional<NoiseMeter> meter_;
  int64_t done_ = 0;     // steps
  int64_t samples_ = 0;  // seen
  double step_seconds_ = 0;
  std::vector<TimelineEvent> events_;  // of the last part
  struct {
    int64_t step = 0, samples = 0;
  } part_;  // where the last part began
  FiniteWatch watch_;

  // The first rank's.
  double dilation_ = 0;
  std::optional<RunFiles> files_;
  std::optional<std::string> unequal_;  // replicas
  std::optional<NotFinite> bad_;        // the first that any rank saw
  bool said_ = false;                   // that losses are not finite
  int asked_to_stop_ = 0;               // the signal by which some rank was
  int64_t saved_ = -1;                  // the last step saved
  std::vector<double> seconds_;         // of steps
  RunResult outcome_;
};

}  // namespace

Result<RunResult> TrainRank(const Training& training, int32_t rank, Communicator& communicator,
                            const RunListener& listener, const std::string& where,
                            WorkerProgress* progress, const RankHooks& hooks) {
  return RankTrainer(training, rank, communicator, listener, where, progress, hooks).Run();
}

}  // namespace heddle
