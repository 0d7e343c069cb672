#include "simulate/joint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <queue>
#include <set>

#include "simulate/engine.h"
#include "simulate/period.h"
#include "simulate/tickets.h"
#include "simulate/tokens.h"

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One run of all jobs, for given numbers of repetitions.
class JointRun final : public Commons {
 public:
  JointRun(std::span<const JointJob> jobs, const std::vector<std::vector<DeviceId>>& ids,
           const Cluster& cluster, const JointOptions& options, const std::vector<int>& repetitions)
      : jobs_(jobs),
        ids_(ids),
        cluster_(cluster),
        options_(options),
        network_(MakeNetwork(LinkModel::kShared, WireBandwidths(cluster), 0)),
        tickets_(cluster.nodes().size()) {
    const auto devices = static_cast<size_t>(cluster.device_count());
    const SimulateOptions engine_options{LinkModel::kShared, options.keep_events, 0};
    tokens_.assign(devices, DeviceToken(options.sequence, jobs.size()));
    local_.assign(jobs.size(), std::vector<int32_t>(devices, -1));
    if (options.devices == DeviceSharing::kFair) {
      processors_ = MakeNetwork(LinkModel::kShared, std::vector<double>(devices, 1.0), 0);
      for (size_t d = 0; d < devices; ++d) loads_.push_back({{static_cast<int32_t>(d), 1.0}});
    }
    for (size_t j = 0; j < jobs.size(); ++j) {
      const auto job = static_cast<int32_t>(j);
      for (size_t d = 0; d < ids[j].size(); ++d) {
        local_[j][Place(ids[j][d])] = static_cast<int32_t>(d);
        tokens_[Place(ids[j][d])].Join(job);
      }
      engines_.push_back(std::make_unique<Engine>(
          *jobs[j].program, ids[j], cluster, *jobs[j].seconds, engine_options, repetitions[j],
          EngineSeat{this, job, jobs[j].whole_turns && options.devices != DeviceSharing::kFair}));
    }
  }

  Status Run() {
    for (const auto& engine : engines_) engine->Start();
    Settle();
    for (;;) {
      const double network = network_->NextTime();
      const double processors = processors_ ? processors_->NextTime() : kInfinity;
      const double compute = alarms_.empty() ? kInfinity : alarms_.top().time;
      const double next = std::min({network, processors, compute});
      if (next == kInfinity) break;
      now_ = next;
      if (network == next) {
        EndFlows();
      } else if (processors == next) {
        EndFairComputes();
      } else {
        const Alarm alarm = alarms_.top();
        alarms_.pop();
        EndCompute(alarm.job, alarm.device);
      }
      Settle();
    }
    for (size_t j = 0; j < engines_.size(); ++j) {
      if (engines_[j]->done()) continue;
      Error error = engines_[j]->Stuck();
      error.where = fmt::format("job {}", jobs_[j].name);
      return error;
    }
    return Ok();
  }

  const std::vector<double>& finish(size_t job) const { return engines_[job]->finish(); }
  const std::vector<double>& moved(size_t job) const { return engines_[job]->moved(); }
  JobTimeline MakeTimeline();

  bool Ask(int32_t job, DeviceId device) override {
    if (options_.devices == DeviceSharing::kFair) return true;
    return tokens_[Place(device)].Ask(job);
  }

  void Leave(int32_t job, DeviceId device, bool done) override {
    if (options_.devices == DeviceSharing::kFair) return;
    tokens_[Place(device)].Leave(job, done);
    left_.push_back(device);
  }

  double Compute(int32_t job, DeviceId device, double seconds) override {
    if (options_.devices == DeviceSharing::kFair) {
      FlowSpec spec;
      spec.loads = &loads_[Place(device)];
      spec.work = seconds;
      spec.seconds = seconds;
      processors_->Start(job * cluster_.device_count() + device.value, spec, now_);
      return now_;
    }
    const bool switches = tokens_[Place(device)].Switches(job);
    const double start = now_ + (switches ? options_.switch_cost.value : 0);
    alarms_.push({start + seconds, order_++, job, device});
    return start;
  }

  void Move(int32_t job, int32_t flow, const CompiledFlow& what, double since) override {
    const auto jobs = static_cast<int32_t>(engines_.size());
    const int32_t id = flow * jobs + job;
    FlowSpec spec = what.spec;
    // Jobs have connections of their own.
    if (spec.stream >= 0) spec.stream = spec.stream * jobs + job;
    if (options_.network == NetworkSharing::kFair) {
      network_->Start(id, spec, now_);
      return;
    }
    std::set<int32_t> nodes;
    for (const DeviceId end : what.ends) nodes.insert(cluster_.device(end).node);
    TicketRequest request{id, job, since, {nodes.begin(), nodes.end()}};
    asked_[id] = {request, spec};
    tickets_.Request(std::move(request));
    served_ = false;
  }

 private:
  struct Alarm {
    double time;
    uint64_t order;
    int32_t job;
    DeviceId device;
    bool operator>(const Alarm& other) const {
      return time > other.time || (time == other.time && order > other.order);
    }
  };
  struct Asked {
    TicketRequest request;
    FlowSpec spec;
  };

  static size_t Place(DeviceId device) { return static_cast<size_t>(device.value); }

  void EndCompute(int32_t job, DeviceId device) {
    engines_[static_cast<size_t>(job)]->Computed(local_[static_cast<size_t>(job)][Place(device)],
                                                 now_);
  }

  void EndFairComputes() {
    std::vector<int32_t> done;
    processors_->Advance(now_, done);
    for (const int32_t id : done) {
      EndCompute(id / cluster_.device_count(), DeviceId{id % cluster_.device_count()});
    }
  }

  void EndFlows() {
    std::vector<int32_t> done;
    network_->Advance(now_, done);
    const auto jobs = static_cast<int32_t>(engines_.size());
    for (const int32_t id : done) {
      if (const auto asked = asked_.find(id); asked != asked_.end()) {
        tickets_.Return(asked->second.request);
        asked_.erase(asked);
        served_ = false;
      }
      engines_[static_cast<size_t>(id % jobs)]->Complete(id / jobs, now_);
    }
  }

  // Grants tokens and tickets until nobody can go on at this time. Not from within the engines'
  // calls: they would be entered again.
  void Settle() {
    while (!left_.empty() || !served_) {
      if (!served_) {
        served_ = true;
        for (const TicketRequest& request : tickets_.Serve()) {
          network_->Start(request.id, asked_.at(request.id).spec, now_);
          const auto jobs = static_cast<int32_t>(engines_.size());
          engines_[static_cast<size_t>(request.job)]->Moves(request.id / jobs, now_);
        }
        continue;
      }
      const DeviceId device = left_.back();
      left_.pop_back();
      if (const auto job = tokens_[Place(device)].Grant()) {
        const auto j = static_cast<size_t>(*job);
        engines_[j]->Resume(local_[j][Place(device)], now_);
      }
    }
  }

  std::span<const JointJob> jobs_;
  const std::vector<std::vector<DeviceId>>& ids_;
  const Cluster& cluster_;
  const JointOptions& options_;
  std::unique_ptr<Network> network_;
  std::unique_ptr<Network> processors_;       // kFair devices: computing is a flow on a device
  std::vector<std::vector<FlowLoad>> loads_;  // its load
  Tickets tickets_;
  std::map<int32_t, Asked> asked_;  // by flow: waiting for tickets, or moving with them
  bool served_ = true;
  std::vector<DeviceToken> tokens_;          // by device
  std::vector<std::vector<int32_t>> local_;  // by job and device: number in the job's Program
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<DeviceId> left_;  // whose token may be free
  std::priority_queue<Alarm, std::vector<Alarm>, std::greater<>> alarms_;
  uint64_t order_ = 0;
  double now_ = 0;
};

JobTimeline JointRun::MakeTimeline() {
  JobTimeline all;
  Timeline& timeline = all.timeline;
  timeline.source = "simulated";
  std::vector<int32_t> lane_of(static_cast<size_t>(cluster_.device_count()), -1);
  for (size_t d = 0; d < lane_of.size(); ++d) {
    const bool used = std::any_of(local_.begin(), local_.end(),
                                  [&](const std::vector<int32_t>& job) { return job[d] >= 0; });
    if (!used) continue;
    const std::string& name = cluster_.devices()[d].name;
    lane_of[d] = static_cast<int32_t>(timeline.lanes.size());
    timeline.lanes.push_back({name + " compute", name, LaneKind::kCompute});
    timeline.lanes.push_back({name + " network", name, LaneKind::kNetwork});
  }
  std::vector<std::pair<TimelineEvent, int32_t>> events;  // and their jobs
  for (size_t j = 0; j < engines_.size(); ++j) {
    const auto first_label = static_cast<int32_t>(timeline.labels.size());
    all.jobs.push_back(jobs_[j].name);
    for (TimelineEvent& event : engines_[j]->events()) {
      const DeviceId device = ids_[j][static_cast<size_t>(event.lane / 2)];
      event.lane = lane_of[Place(device)] + event.lane % 2;
      event.label += first_label;
      events.emplace_back(event, static_cast<int32_t>(j));
    }
    const std::vector<std::string> labels = engines_[j]->Labels();
    timeline.labels.insert(timeline.labels.end(), labels.begin(), labels.end());
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.first.start < b.first.start; });
  for (const auto& [event, job] : events) {
    timeline.events.push_back(event);
    all.job_of.push_back(job);
  }
  return all;
}

struct Inputs {
  std::span<const JointJob> jobs;
  std::vector<std::vector<DeviceId>> ids;
  const Cluster& cluster;
  JointOptions options;
};

// Turns in a fixed order: every pass of the sequence looks like the one before, in the end. What
// comes last differs, since others are done by then. While messages pile up, devices seem faster
// than the network can bear for long: so the slower of the two counts.
Result<JointSimulation> SimulateTurns(const Inputs& in) {
  constexpr int kFirst = 8;
  constexpr int kMost = 128;
  constexpr int kLeftOut = 3;  // passes at the end
  std::vector<int> turns(in.jobs.size(), 0);
  for (const int32_t job : in.options.sequence) ++turns[static_cast<size_t>(job)];
  for (int passes = kFirst;; passes *= 2) {
    std::vector<int> repetitions;
    for (const int count : turns) repetitions.push_back(count * passes);
    JointRun run(in.jobs, in.ids, in.cluster, in.options, repetitions);
    HEDDLE_RETURN_IF_ERROR(run.Run());
    JointSimulation simulation;
    for (size_t j = 0; j < in.jobs.size(); ++j) {
      for (const std::vector<double>* times : {&run.finish(j), &run.moved(j)}) {
        std::vector<double> ends;  // of the job's last turn in each pass
        for (int pass = 0; pass + kLeftOut < passes; ++pass) {
          ends.push_back((*times)[static_cast<size_t>((pass + 1) * turns[j] - 1)]);
        }
        const Period period = PeriodOf(ends, Seconds{ends[0]});
        simulation.steady = simulation.steady && period.steady;
        simulation.cycle = std::max(simulation.cycle, period.seconds);
      }
    }
    for (const int count : turns) simulation.iteration.push_back(simulation.cycle / count);
    if (!simulation.steady && passes < kMost) continue;
    if (in.options.keep_events) simulation.timeline = run.MakeTimeline();
    return simulation;
  }
}

// The mean time between the ends of bodies while all jobs are at work. Of a job that has hardly
// ended one by then, the longest it took for one: those after it may have had the devices alone.
std::vector<Seconds> MeanIterations(const JointRun& run, size_t jobs) {
  double end = kInfinity;
  for (size_t j = 0; j < jobs; ++j) end = std::min(end, run.finish(j).back());
  std::vector<Seconds> means;
  for (size_t j = 0; j < jobs; ++j) {
    const std::vector<double>& finish = run.finish(j);
    const auto first = std::lower_bound(finish.begin(), finish.end() - 2, end / 4);
    const auto count = std::upper_bound(first, finish.end(), end) - first;
    if (count >= 2) {
      means.push_back(Seconds{(first[count - 1] - *first) / static_cast<double>(count - 1)});
      continue;
    }
    const double before = first == finish.begin() ? 0 : first[-1];
    means.push_back(Seconds{std::max(first[0] - before, first[1] - first[0])});
  }
  return means;
}

// No fixed order: jobs go at their own pace. First to see how fast each is, then long enough for
// all.
Result<JointSimulation> SimulatePaces(const Inputs& in) {
  constexpr int kFirst = 8;
  constexpr int kLong = 24;
  constexpr int kMost = 2000;
  std::vector<int> repetitions(in.jobs.size(), kFirst);
  JointRun probe(in.jobs, in.ids, in.cluster, in.options, repetitions);
  HEDDLE_RETURN_IF_ERROR(probe.Run());
  const std::vector<Seconds> paces = MeanIterations(probe, in.jobs.size());
  const Seconds slowest = *std::max_element(paces.begin(), paces.end());
  for (size_t j = 0; j < in.jobs.size(); ++j) {
    const double more = paces[j].value > 0 ? slowest.value / paces[j].value * kLong : kLong;
    repetitions[j] = static_cast<int>(std::min<double>(std::ceil(more), kMost));
  }
  JointRun run(in.jobs, in.ids, in.cluster, in.options, repetitions);
  HEDDLE_RETURN_IF_ERROR(run.Run());
  JointSimulation simulation;
  simulation.iteration = MeanIterations(run, in.jobs.size());
  simulation.cycle = *std::max_element(simulation.iteration.begin(), simulation.iteration.end());
  simulation.steady = false;
  if (in.options.keep_events) simulation.timeline = run.MakeTimeline();
  return simulation;
}

}  // namespace

Result<JointSimulation> SimulateJoint(std::span<const JointJob> jobs, const Cluster& cluster,
                                      const JointOptions& options) {
  HEDDLE_CHECK(!jobs.empty());
  HEDDLE_CHECK(!options.keep_events || options.devices != DeviceSharing::kFair);
  Inputs in{jobs, {}, cluster, options};
  for (const JointJob& job : jobs) {
    HEDDLE_ASSIGN(std::vector<DeviceId> ids, FindDevices(*job.program, cluster));
    HEDDLE_RETURN_IF_ERROR(CheckCollectives(*job.program, ids, cluster));
    in.ids.push_back(std::move(ids));
  }
  if (options.devices != DeviceSharing::kTurns) {
    in.options.sequence.clear();
    return SimulatePaces(in);
  }
  for (size_t j = 0; j < jobs.size() && options.sequence.empty(); ++j) {
    in.options.sequence.push_back(static_cast<int32_t>(j));
  }
  for (size_t j = 0; j < jobs.size(); ++j) {
    HEDDLE_CHECK(jobs[j].whole_turns);
    HEDDLE_CHECK(std::count(in.options.sequence.begin(), in.options.sequence.end(),
                            static_cast<int32_t>(j)) > 0);
  }
  return SimulateTurns(in);
}

}  // namespace heddle
