#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/check.h"
#include "base/hash.h"
#include "base/version.h"
#include "program/unroll.h"
#include "run/data/data_source.h"
#include "run/device_threads.h"
#include "run/kernel_environment.h"
#include "run/rank_messages.h"
#include "run/replica_check.h"
#include "run/train/gathered_tensors.h"
#include "run/train/resumed_checkpoint.h"
#include "run/train/run_pace.h"
#include "run/train/run_record.h"
#include "run/train/train.h"
#include "run/train/training_order.h"
#include "run/train/training_stops.h"

namespace heddle {
namespace {

uint64_t Hash64(const std::string& text) {
  Hash hash;
  hash.Add(text);
  return hash.value();
}

class RankTrainer {
 public:
  RankTrainer(const Training& training, int32_t rank, Communicator& communicator,
              const RunListener& listener, const std::string& where, WorkerProgress* progress,
              const RankHooks& hooks)
      : training_(training),
        plan_(*training.plan),
        graph_(*training.graph),
        config_(training.config),
        program_(training.program),
        pace_(training.emulation, rank, communicator),
        messages_(communicator, rank, static_cast<int32_t>(training.program.devices.size())),
        listener_(listener),
        where_(where),
        progress_(progress),
        hooks_(hooks),
        stops_(config_, StepsPerBody(training.program), StepsOutsideBody(training.program)),
        kind_(Hash64(KindOfKernels())),
        // An asynchronous pipeline may run for long before it stops: it ends where it stands.
        watch_(stops_.outside() > 0 ? FiniteWatch::Manner::kThrow : FiniteWatch::Manner::kNote) {}

  Result<RunResult> Run() {
    HEDDLE_RETURN_IF_ERROR(Prepare());
    if (!ReplicasAgree(/*any_kind=*/true)) return EndUnequal();
    while (true) {
      const TrainingOrder order = AgreeOnOrder();
      if (order.bad) return EndBadly(Earliest(order.what));
      if (order.steps > 0) HEDDLE_RETURN_IF_ERROR(RunPart(order.steps));
      if (went_bad_) continue;  // some weights stayed as they were: nothing to save or compare
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
  bool is_first() const { return messages_.is_first(); }

  Status Prepare() {
    HEDDLE_ASSIGN(options_.dtype, TrainedType(plan_, config_));
    HEDDLE_ASSIGN(options_.schedule, ParseLearningRate(config_.schedule));
    options_.learning_rate = config_.learning_rate;
    options_.total_steps = config_.steps;
    options_.seed = config_.seed.value_or(1);
    std::optional<Checkpoint> resumed;
    if (!config_.resume.empty()) {
      HEDDLE_ASSIGN(resumed, LoadResumedCheckpoint(config_.resume, graph_));
      HEDDLE_RETURN_IF_ERROR(GoOnAfter(resumed->info));
    }
    HEDDLE_RETURN_IF_ERROR(stops_.Check(state_.done));
    HEDDLE_ASSIGN(data_, OpenData(config_.data, graph_, {options_.seed, config_.validation}));
    HEDDLE_RETURN_IF_ERROR(CheckHeldOut());
    MakeExecutor(resumed ? resumed->tensors.tensors() : std::vector<StoredTensor>{});
    state_.one_part = stops_.outside() > 0 || hooks_.turns != nullptr;
    if (!is_first()) return Ok();
    HEDDLE_ASSIGN(RunRecord record,
                  RunRecord::Open(training_, options_.dtype, state_.done, listener_));
    record_.emplace(std::move(record));
    listener_.note(fmt::format("{}: {} of {} on {} devices, {}; {}", record_->path(),
                               plan_.strategy, plan_.request.model, program_.devices.size(), where_,
                               data_->Describe()));
    outcome_.first_step = state_.done;
    outcome_.directory = record_->path();
    outcome_.predicted_iteration_seconds =
        plan_.estimate.iteration_seconds / static_cast<double>(stops_.per_body());
    outcome_.timeline = EmptyTimeline(program_);
    return Ok();
  }

  Status GoOnAfter(const CheckpointInfo& info) {
    options_.seed = config_.seed.value_or(info.seed);
    if (options_.seed != info.seed && !config_.may_override) {
      return BadInput(
          "--seed",
          fmt::format("{} is not the seed of {}, {}", options_.seed, config_.resume, info.seed),
          "leave it out to go on with the run's; --override goes on all the same");
    }
    state_.done = info.step;
    samples_ = info.samples;
    if (state_.done <= config_.steps) return Ok();
    return BadInput("--steps", fmt::format("{} steps are done already", state_.done),
                    "--steps counts from the beginning of the run");
  }

  // Whoever wants to look at samples held out must hold out as many as fill a batch.
  Status CheckHeldOut() {
    const int64_t held_out = data_->validation_samples();
    const int64_t batch = training_.forward.samples();
    if (config_.validation == 0 || held_out >= batch) return Ok();
    const std::string what =
        fmt::format("{} samples are held out, fewer than a batch of {}", held_out, batch);
    if (config_.eval_every > 0) {
      return BadInput("--eval-every", what, "a larger --validation, or a plan for a smaller batch");
    }
    if (is_first()) listener_.note(what + ": nobody looks at them");
    return Ok();
  }

  void MakeExecutor(const std::vector<StoredTensor>& values) {
    executor_ = training_.executors(program_, messages_.rank(), graph_, *data_, options_, values);
    if (!config_.keep_going) executor_->SetFiniteWatch(&watch_);
    paced_ = hooks_.wrap ? hooks_.wrap(*executor_) : pace_.Pace(*executor_);
    if (config_.measure_noise) meter_.emplace(program_, messages_.rank(), unmetered());
    if (hooks_.turns != nullptr) {
      hooks_.turns->SetHash([this] { return QuickHashOf(executor_->Updated().tensors); });
    }
  }
  Executor& unmetered() { return paced_ ? *paced_ : *executor_; }

  TrainingOrder AgreeOnOrder() {
    TrainingOrder order;
    if (is_first()) {
      if (state_.asked_to_stop == 0) state_.asked_to_stop = listener_.interrupted();
      state_.dilation = pace_.dilation();
      state_.calibrates = training_.emulation != nullptr && state_.dilation == 0;
      order = NextOrder(state_, config_, stops_);
      pace_.Follow(order.dilation);  // nobody computes between two orders
    }
    order = OneFromBytes<TrainingOrder>(
        messages_.FromFirst(ToBytes(std::vector<TrainingOrder>{order})));
    pace_.Follow(order.dilation);
    outcome_.interrupted = order.stopped_by != 0;
    outcome_.stopped_by = order.stopped_by;
    return order;
  }

  Status RunPart(int64_t steps) {
    executor_->StartAt(state_.done, samples_);
    const int64_t per_body = stops_.per_body();
    WorkerOptions options;
    options.repetitions = steps / per_body - stops_.outside();
    options.first_step = state_.done;
    options.start = options.clock->Now();
    options.progress = progress_;
    options.turns = hooks_.turns;
    std::vector<TimelineEvent> events;
    try {
      HEDDLE_ASSIGN(events, RunDevice(program_, messages_.rank(), meter_ ? *meter_ : unmetered(),
                                      pace_.communicator(), options));
    } catch (const FiniteWatch::Found& found) {
      return Describe(found.not_finite(), "");
    }
    if (hooks_.turns != nullptr && hooks_.turns->StopsAfter() < options.repetitions) {
      steps = (hooks_.turns->StopsAfter() + stops_.outside()) * per_body;
    }
    const double elapsed = SecondsIn(options.clock->Now() - options.start);
    state_.step_seconds = elapsed / static_cast<double>(steps);
    std::vector<double> losses = SumAtFirst(TakeLosses(*executor_, state_.done, steps));
    TellEachOther();
    if (is_first()) {
      if (state_.bad) losses.resize(static_cast<size_t>(state_.bad->step - state_.done + 1));
      HEDDLE_RETURN_IF_ERROR(Log(losses, EndsOf(events, steps / per_body, elapsed)));
    }
    part_ = {state_.done, samples_};
    state_.done += steps;
    samples_ += steps / per_body * program_.samples();
    events_ = std::move(events);
    if (pace_.calibrates()) Calibrate();
    return Ok();
  }

  static std::vector<double> TakeLosses(TrainExecutor& executor, int64_t first, int64_t count) {
    std::vector<double> losses;
    for (int64_t step = first; step < first + count; ++step) {
      losses.push_back(executor.TakeLoss(step));
    }
    return losses;
  }

  void Calibrate() {
    const std::string line = pace_.Calibrate(events_, messages_, config_.dilate,
                                             plan_.estimate.iteration_seconds, stops_.per_body());
    if (!is_first()) return;
    record_->ForgetSeconds();
    listener_.note(line);
  }

  // The first rank hears who was asked to stop and who saw something bad, and all whether anybody
  // did.
  void TellEachOther() {
    const std::optional<NotFinite>& mine = watch_.first();
    const PartNote note{listener_.interrupted(), mine.has_value(), mine.value_or(NotFinite{})};
    for (const ByteString& bytes : messages_.ToFirst(ToBytes(std::vector<PartNote>{note}))) {
      const PartNote other = OneFromBytes<PartNote>(bytes);
      if (state_.asked_to_stop == 0) state_.asked_to_stop = other.asked_to_stop;
      if (other.bad && (!state_.bad || other.what < *state_.bad)) state_.bad = other.what;
    }
    const std::vector<uint8_t> bad = {state_.bad.has_value()};
    went_bad_ = OneFromBytes<uint8_t>(messages_.FromFirst(ToBytes(bad))) != 0;
  }

  // Something was bad in a step, and since then no weight has changed: the step once more, with a
  // look at every tensor. Where it cannot be repeated, what was seen must do.
  NotFinite Earliest(const NotFinite& seen) {
    if (state_.one_part) return seen;
    FiniteWatch everything(FiniteWatch::Manner::kEverything);
    executor_->SetFiniteWatch(&everything);
    const int64_t bodies = (seen.step - part_.step) / stops_.per_body();
    executor_->StartAt(part_.step + bodies * stops_.per_body(),
                       part_.samples + bodies * program_.samples());
    WorkerOptions options;
    options.start = options.clock->Now();
    (void)RunDevice(program_, messages_.rank(), *executor_, pace_.communicator(), options).ok();
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

  // The hash of each weight that this device holds.
  std::vector<uint64_t> HashesOfHeld() const {
    std::vector<uint64_t> hashes;
    const HeldTensors held = executor_->Held(Role::kParameter);
    for (const BufferRef& ref : HeldParameters(program_, messages_.rank())) {
      const auto tensor = std::lower_bound(
          held.tensors.begin(), held.tensors.end(), program_.tensor(ref.tensor).name,
          [](const StoredTensor& stored, const std::string& name) { return stored.name < name; });
      HEDDLE_CHECK(tensor != held.tensors.end() &&
                   tensor->name == program_.tensor(ref.tensor).name);
      hashes.push_back(QuickHashOf({&*tensor, 1}));
    }
    return hashes;
  }

  // All ranks look; each knows the answer.
  bool ReplicasAgree(bool any_kind) {
    std::vector<uint64_t> mine = HashesOfHeld();
    mine.insert(mine.begin(), kind_);
    std::vector<DeviceHashes> all;
    for (const ByteString& bytes : messages_.ToFirst(ToBytes(mine))) {
      const auto theirs = FromBytes<uint64_t>(bytes);
      if (theirs.empty()) throw PeerLost("a device sent no hashes");
      all.push_back({theirs[0], {theirs.begin() + 1, theirs.end()}});
    }
    if (is_first()) unequal_ = CompareReplicas(program_, all, any_kind);
    const std::vector<uint8_t> agree = {!unequal_.has_value()};
    return OneFromBytes<uint8_t>(messages_.FromFirst(ToBytes(agree))) != 0;
  }

  Result<RunResult> EndUnequal() {
    outcome_.failed = true;
    if (!is_first()) return std::move(outcome_);
    const bool at_start = state_.done == outcome_.first_step;
    return Error{ErrorKind::kRunFailed, at_start ? "start" : fmt::format("step {}", state_.done),
                 *unequal_, GoOnHint(record_->path())};
  }

  // All ranks come here; the first says why.
  Result<RunResult> EndBadly(const NotFinite& what) {
    messages_.FromFirst({});
    outcome_.failed = true;
    if (!is_first()) return std::move(outcome_);
    return Describe(what, GoOnHint(record_->path(), "with a smaller --rate") +
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
      const int32_t body = stops_.outside() > 0 ? event.microbatch / per_body : event.repetition;
      double& end = ends[static_cast<size_t>(body)];
      end = std::max(end, event.end.value);
    }
    ends.back() = std::max(ends.back(), elapsed);
    return ends;
  }

  // The steps of a part, at the first rank.
  Status Log(const std::vector<double>& losses, const std::vector<double>& ends) {
    state_.trained = state_.trained || !losses.empty();
    for (size_t k = 0; k < losses.size(); ++k) {
      const int64_t step = state_.done + static_cast<int64_t>(k);
      const size_t body = k / static_cast<size_t>(stops_.per_body());
      const double seconds =
          (ends[body] - (body > 0 ? ends[body - 1] : 0)) / static_cast<double>(stops_.per_body());
      const double rate = options_.schedule.At(step, options_.total_steps, options_.learning_rate);
      outcome_.losses.push_back(losses[k]);
      HEDDLE_RETURN_IF_ERROR(
          record_->Add({step + 1, losses[k], seconds, rate}, /*ends=*/state_.bad.has_value()));
    }
    return Ok();
  }

  // The mean loss over the samples held out, as many as fill whole batches.
  Status Evaluate() {
    const Program& forward = training_.forward;
    const int64_t batches = data_->validation_samples() / forward.samples();
    if (batches == 0) return Ok();
    TrainOptions options = options_;
    options.training = false;
    const std::unique_ptr<TrainExecutor> executor = executor_->Fork(forward, options);
    WorkerOptions worker;
    worker.repetitions = batches;
    worker.start = worker.clock->Now();
    HEDDLE_RETURN_IF_ERROR(
        RunDevice(forward, messages_.rank(), *executor, pace_.communicator(), worker));
    const std::vector<double> sums = SumAtFirst(TakeLosses(*executor, 0, batches));
    if (!is_first()) return Ok();
    const double loss =
        std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(batches);
    outcome_.held_out.push_back({state_.done, loss});
    state_.looked = state_.done;
    return record_->AddHeldOut(state_.done, loss);
  }

  Result<HeldTensors> Gather(Role role) {
    return GatherTensors(role, *executor_, program_, graph_, messages_);
  }

  // All or nothing: what is not finite is not saved, and is told to all ranks.
  Result<std::optional<NotFinite>> Save() {
    HEDDLE_ASSIGN(const HeldTensors parameters, Gather(Role::kParameter));
    HEDDLE_ASSIGN(const HeldTensors states, Gather(Role::kState));
    std::vector<StoredTensor> tensors = parameters.tensors;
    tensors.insert(tensors.end(), states.tensors.begin(), states.tensors.end());
    std::sort(tensors.begin(), tensors.end(),
              [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
    const NotFinite refused = OneFromBytes<NotFinite>(
        messages_.FromFirst(ToBytes(std::vector<NotFinite>{FirstNotFinite(tensors)})));
    state_.saved = state_.done;  // as far as it can be
    if (refused.tensor >= 0) {
      if (is_first() && config_.keep_going) {
        listener_.note(fmt::format("step {}: not saved: {} is not finite", state_.done,
                                   graph_.tensor(TensorId{refused.tensor}).name));
      }
      return std::optional(refused);
    }
    if (!is_first()) return std::optional<NotFinite>();
    HEDDLE_ASSIGN(outcome_.checkpoint, record_->Save(CheckpointNow(), tensors));
    return std::optional<NotFinite>();
  }

  // In the order of the graph; no tensor if there is none.
  NotFinite FirstNotFinite(const std::vector<StoredTensor>& tensors) const {
    NotFinite first{state_.done - 1, -1};
    for (const StoredTensor& tensor : tensors) {
      if (AllFinite(tensor)) continue;
      const int32_t id = graph_.FindTensor(tensor.name)->value;
      if (first.tensor < 0 || id < first.tensor) first.tensor = id;
    }
    return first;
  }

  CheckpointInfo CheckpointNow() const {
    return {.step = state_.done,
            .samples = samples_,
            .seed = options_.seed,
            .model = plan_.request.model,
            .model_hash = plan_.model_hash,
            .optimizer = std::string(NameOf(plan_.request.optimizer)),
            .dtype = options_.dtype,
            .heddle_version = kVersion};
  }

  Status ReportNoise() {
    outcome_.noise = GatherNoise(*meter_, messages_);
    outcome_.rows_per_parameter = RowsPerParameter(graph_, *data_);
    if (!outcome_.noise) return Ok();
    return record_->AddNoise(state_.done, outcome_.noise->ratio);
  }

  Result<RunResult> Finish() {
    if (meter_) HEDDLE_RETURN_IF_ERROR(ReportNoise());
    HEDDLE_ASSIGN(const HeldTensors parameters, Gather(Role::kParameter));
    KeepLastSteps();
    for (const ByteString& bytes : messages_.ToFirst(ToBytes(events_))) {
      const auto events = FromBytes<TimelineEvent>(bytes);
      outcome_.timeline.events.insert(outcome_.timeline.events.end(), events.begin(), events.end());
    }
    pace_.CountDeadlines(messages_, outcome_);
    messages_.FromFirst({});  // nobody leaves before the first rank has everything
    if (!is_first()) return std::move(outcome_);
    SortByStart(outcome_.timeline);
    outcome_.parameter_hash = HashOf(parameters.tensors);
    outcome_.measured_iteration_seconds = record_->MedianSeconds();
    pace_.Describe(outcome_);
    if (!config_.weights.empty()) {
      HEDDLE_RETURN_IF_ERROR(
          WriteSafetensors(config_.weights, parameters.tensors, {{"model", plan_.request.model}}));
    }
    return std::move(outcome_);
  }

  // Enough to look at.
  void KeepLastSteps() {
    constexpr int32_t kSteps = 4;
    int32_t last = 0;
    for (const TimelineEvent& event : events_) last = std::max(last, event.repetition);
    std::erase_if(events_,
                  [&](const TimelineEvent& event) { return event.repetition <= last - kSteps; });
  }

  const Training& training_;
  const Plan& plan_;
  const Graph& graph_;
  const RunConfig& config_;
  const Program& program_;
  RunPace pace_;
  RankMessages messages_;
  const RunListener& listener_;
  const std::string& where_;
  WorkerProgress* progress_;
  const RankHooks& hooks_;
  TrainingStops stops_;
  uint64_t kind_;  // of this rank's processor
  TrainOptions options_;
  std::unique_ptr<DataSource> data_;
  std::unique_ptr<TrainExecutor> executor_;
  std::unique_ptr<Executor> paced_;
  std::optional<NoiseMeter> meter_;
  TrainingState state_;  // of it the first rank knows all, the others steps and seconds
  int64_t samples_ = 0;  // seen
  std::vector<TimelineEvent> events_;  // of the last part
  struct {
    int64_t step = 0, samples = 0;
  } part_;  // where the last part began
  FiniteWatch watch_;
  bool went_bad_ = false;  // something was not finite, on some rank

  // The first rank's.
  std::optional<RunRecord> record_;
  std::optional<std::string> unequal_;  // replicas
  RunResult outcome_;
};

}  // namespace

Result<RunResult> TrainRank(const Training& training, int32_t rank, Communicator& communicator,
                            const RunListener& listener, const std::string& where,
                            WorkerProgress* progress, const RankHooks& hooks) {
  return RankTrainer(training, rank, communicator, listener, where, progress, hooks).Run();
}

}  // namespace heddle
