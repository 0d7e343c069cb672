#include <heddle/heddle.h>

#include <utility>

#include "advise/asked_plan.h"
#include "base/file.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/text.h"
#include "base/version.h"
#include "choose/planners.h"
#include "cluster/cluster.h"
#include "cost/profile.h"
#include "heddle/conversion.h"
#include "model/zoo.h"
#include "program/check/check.h"
#include "program/lower/lower.h"
#include "program/plan/request_fields.h"
#include "program/segment_cost.h"
#include "program/text/program_text.h"
#include "report/perfetto.h"
#include "report/plan/explanation.h"
#include "report/plan/plan_text.h"

namespace heddle::api {

const char* Version() { return kVersion; }

std::string Error::Text() const {
  return heddle::Error{heddle::ErrorKind::kInternal, where, what, hint}.ToString();
}

// --- Model ---------------------------------------------------------------------------------------

struct Model::State {
  std::string spec;
  Graph graph;  // for one sample
};

Result<Model> Model::Load(const std::string& spec) {
  HEDDLE_ASSIGN_OUTWARD(Graph graph, BuildModel(spec, {}));
  return Model(std::make_shared<const State>(State{spec, std::move(graph)}));
}

std::vector<std::string> Model::ZooNames() {
  std::vector<std::string> names;
  for (const ZooEntry& entry : Zoo()) names.push_back(entry.name);
  return names;
}

const std::string& Model::spec() const { return state_->spec; }
int64_t Model::parameters() const { return state_->graph.parameter_count(); }
const std::vector<std::string>& Model::layers() const { return state_->graph.layers(); }

// --- Cluster -------------------------------------------------------------------------------------

struct Cluster::State {
  heddle::Cluster cluster;
  std::vector<Device> devices;

  static std::shared_ptr<const State> Of(heddle::Cluster cluster) {
    std::vector<Device> devices;
    for (const heddle::Device& device : cluster.devices()) {
      const DeviceTypeSpec& type = cluster.types()[static_cast<size_t>(device.type)];
      devices.push_back({device.name, type.name,
                         cluster.nodes()[static_cast<size_t>(device.node)].name,
                         type.memory.value});
    }
    return std::make_shared<const State>(State{std::move(cluster), std::move(devices)});
  }
};

Result<Cluster> Cluster::Load(const std::string& path) {
  HEDDLE_ASSIGN_OUTWARD(heddle::Cluster cluster, LoadCluster(path));
  return Cluster(State::Of(std::move(cluster)));
}

Result<Cluster> Cluster::Parse(const std::string& toml, const std::string& name) {
  HEDDLE_ASSIGN_OUTWARD(heddle::Cluster cluster, ParseClusterToml(toml, name));
  return Cluster(State::Of(std::move(cluster)));
}

const std::vector<Device>& Cluster::devices() const { return state_->devices; }

// --- Plan ----------------------------------------------------------------------------------------

namespace {

// Of a plan's Program on paper.
struct Walk {
  heddle::Program program;
  std::vector<Bytes> capacity;  // by its devices
  heddle::Verdict verdict;
};

}  // namespace

struct Plan::State {
  std::shared_ptr<const heddle::Cluster> cluster;
  std::unique_ptr<const Profile> profile;  // may be null
  std::unique_ptr<const Planning> planning;
  heddle::Plan plan;

  heddle::Result<Walk> Walked() const {
    Walk walk;
    HEDDLE_ASSIGN(walk.program, LowerPlan(plan, planning->graph));
    HEDDLE_ASSIGN(const std::vector<DeviceId> ids, FindDevices(walk.program, *cluster));
    for (const DeviceId id : ids) walk.capacity.push_back(cluster->type_of(id).memory);
    walk.verdict = CheckProgram(walk.program, {&planning->graph, walk.capacity});
    return walk;
  }

  // What no clock is given to: a plan that somebody broke, or that does not fit.
  heddle::Status Refused() const {
    HEDDLE_ASSIGN(const Walk walk, Walked());
    if (walk.verdict.ok()) return Ok();
    const heddle::Finding& first = walk.verdict.findings[0];
    const std::string what = std::string(NameOf(first.kind)) + ": " + first.message;
    const std::string hint = "Check() lists all findings";
    return first.kind == FindingKind::kMemory ? Infeasible("plan", what, hint)
                                              : BadInput("plan", what, hint);
  }
};

namespace {

heddle::Result<std::unique_ptr<const Profile>> ProfileAt(const std::string& path) {
  if (path.empty()) return std::unique_ptr<const Profile>();
  HEDDLE_ASSIGN(Profile profile, LoadProfile(path));
  return std::make_unique<const Profile>(std::move(profile));
}

heddle::Result<PlanRequest> AskedFor(const Model& model, const Request& request) {
  PlanRequest asked;
  asked.model = model.spec();
  asked.batch = request.batch;
  asked.strategy = request.strategy;
  for (const auto& [key, text] : request.fields) {
    const RequestField* found = nullptr;
    std::vector<std::string> names;
    for (const RequestField& field : RequestFields()) {
      if (!field.taken_by(RequestSource::kPlan)) continue;
      names.emplace_back(field.key);
      if (field.key == key) found = &field;
    }
    if (found == nullptr) {
      return heddle::Usage("request: \"" + key + "\" is no field", SuggestName(key, names));
    }
    HEDDLE_RETURN_IF_ERROR(SetFromText(*found, text, asked));
  }
  HEDDLE_RETURN_IF_ERROR(
      CheckRequest(asked, [](std::string_view key) { return "request: " + std::string(key); }));
  if (asked.strategy != "auto") HEDDLE_RETURN_IF_ERROR(FindPlanner(asked.strategy));
  return asked;
}

}  // namespace

Result<Plan> Plan::Make(const Model& model, const Cluster& cluster, const Request& request) {
  HEDDLE_ASSIGN_OUTWARD(const PlanRequest asked, AskedFor(model, request));
  State state;
  state.cluster = std::shared_ptr<const heddle::Cluster>(cluster.state_, &cluster.state_->cluster);
  HEDDLE_ASSIGN_OUTWARD(state.profile, ProfileAt(request.profile));
  const Deadline deadline = PlanningDeadline(asked, request.budget_seconds);
  HEDDLE_ASSIGN_OUTWARD(Planning planning,
                        Planning::Make(asked, *state.cluster, state.profile.get(), deadline));
  state.planning = std::make_unique<const Planning>(std::move(planning));
  HEDDLE_ASSIGN_OUTWARD(state.plan, MakeAskedPlan(*state.planning, [](const std::string&) {}));
  return Plan(std::make_shared<const State>(std::move(state)));
}

Result<Plan> MakePlan(const Model& model, const Cluster& cluster, const Request& request) {
  return Plan::Make(model, cluster, request);
}

Result<Plan> Plan::Load(const std::string& path, const std::string& profile) {
  State state;
  HEDDLE_ASSIGN_OUTWARD(state.profile, ProfileAt(profile));
  HEDDLE_ASSIGN_OUTWARD(LoadedPlan loaded, LoadForUse(path, state.profile.get()));
  state.cluster = std::move(loaded.cluster);
  state.planning = std::move(loaded.planning);
  state.plan = std::move(loaded.plan);
  return Plan(std::make_shared<const State>(std::move(state)));
}

const std::string& Plan::strategy() const { return state_->plan.strategy; }
const std::string& Plan::model() const { return state_->plan.request.model; }
int64_t Plan::batch() const { return state_->plan.request.batch; }
int64_t Plan::microbatches() const { return state_->plan.microbatches; }
int Plan::devices_used() const { return state_->plan.devices_used(); }
double Plan::seconds_per_batch() const { return state_->plan.seconds_per_batch(); }
double Plan::planning_seconds() const { return state_->plan.search.planning_seconds; }

std::string Plan::Text(int width) const {
  const heddle::Plan& plan = state_->plan;
  const heddle::Result<Throughput> throughput = ThroughputOf(
      plan, state_->planning->graph, *state_->cluster, Seconds{plan.estimate.iteration_seconds});
  return PlanText(plan, state_->planning->graph,
                  throughput.ok() ? throughput.value() : Throughput(), {false, width});
}

std::string Plan::Json() const {
  return JsonText(PlanToJson(state_->plan, state_->planning->graph), 2) + "\n";
}

Status Plan::Write(const std::string& path) const { return Outward(WriteFile(path, Json())); }

Result<std::string> Plan::Program() const {
  HEDDLE_ASSIGN_OUTWARD(const heddle::Program program,
                        LowerPlan(state_->plan, state_->planning->graph));
  return PrintProgram(program);
}

// --- What is asked of a plan ---------------------------------------------------------------------

Result<Verdict> Check(const Plan& plan) {
  HEDDLE_ASSIGN_OUTWARD(const Walk walk, plan.state_->Walked());
  Verdict verdict;
  verdict.ok = walk.verdict.ok();
  for (const heddle::Finding& finding : walk.verdict.findings) {
    verdict.findings.push_back({std::string(NameOf(finding.kind)), finding.message});
  }
  for (size_t d = 0; d < walk.capacity.size(); ++d) {
    verdict.memory.push_back(
        {walk.program.devices[d].name, walk.verdict.memory[d].peak.value, walk.capacity[d].value});
  }
  return verdict;
}

Result<Simulation> Simulate(const Plan& plan) {
  const Plan::State& state = *plan.state_;
  if (const heddle::Status refused = state.Refused(); !refused.ok())
    return Outward(refused.error());
  HEDDLE_ASSIGN_OUTWARD(const Evaluation evaluation,
                        EvaluateFitting(*state.planning, state.plan, /*keep_events=*/true));
  const heddle::Simulation& found = evaluation.simulation;
  Simulation simulation;
  simulation.iteration_seconds = found.iteration.value;
  simulation.makespan_seconds = found.makespan.value;
  for (const heddle::DeviceUse& use : found.devices) {
    simulation.devices.push_back(
        {use.device, use.busy.value, use.idle.value, use.sent.value, use.received.value});
  }
  const Timeline& timeline = found.timeline;
  for (const TimelineEvent& event : timeline.events) {
    simulation.events.push_back({timeline.lanes[static_cast<size_t>(event.lane)].name,
                                 timeline.labels[static_cast<size_t>(event.label)],
                                 event.microbatch, event.start.value, event.end.value});
  }
  simulation.trace = PerfettoJson(timeline);
  return simulation;
}

Result<std::string> Explain(const Plan& plan, int width, bool all) {
  const Plan::State& state = *plan.state_;
  if (const heddle::Status refused = state.Refused(); !refused.ok())
    return Outward(refused.error());
  HEDDLE_ASSIGN_OUTWARD(const ExplainedPlan explained, ExplainPlan(*state.planning, state.plan));
  return ExplanationText(explained, *state.planning, {false, width}, all);
}

std::vector<std::string> Strategies() {
  std::vector<std::string> names;
  for (const Planner& planner : Planners()) names.push_back(planner.name);
  return names;
}

}  // namespace heddle::api
