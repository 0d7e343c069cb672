#include "plan/planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/text.h"
#include "cost/network_cost.h"
#include "model/microbatch_graph.h"
#include "plan/cycle_bound.h"
#include "plan/family_bound.h"
#include "plan/few_microbatches.h"
#include "plan/partition_bound.h"
#include "plan/two_threads.h"
#include "program/lower/lower.h"
#include "program/plan/row_shares.h"

namespace heddle {
namespace {

std::vector<Bytes> CapacitiesOf(const Program& program, const Cluster& cluster) {
  std::vector<Bytes> capacities;
  for (const DeviceProgram& device : program.devices) {
    const auto id = cluster.FindDevice(device.name);
    capacities.push_back(id ? cluster.type_of(*id).memory : Bytes{0});
  }
  return capacities;
}

void FindLack(const Cluster& cluster, Evaluation& evaluation) {
  const std::vector<Bytes> capacities = CapacitiesOf(evaluation.program, cluster);
  for (size_t d = 0; d < capacities.size(); ++d) {
    const Bytes peak = evaluation.verdict.memory[d].peak;
    if (peak - capacities[d] <= evaluation.lacks) continue;
    evaluation.lacks = peak - capacities[d];
    evaluation.lacks_where = fmt::format("device {} ({}) needs {} and has {}: {} too much", d,
                                         evaluation.program.devices[d].name, ToText(peak),
                                         ToText(capacities[d]), ToText(evaluation.lacks));
  }
}

std::string LowerCase(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// What was tried, for the message about the closest plan that does not fit.
std::string Describe(const Plan& plan) {
  const bool recomputes =
      std::any_of(plan.pipelines.begin(), plan.pipelines.end(), [](const PipelinePlan& pipeline) {
        return std::any_of(
            pipeline.stages.begin(), pipeline.stages.end(), [](const StagePlan& stage) {
              return stage.recompute || (stage.body && !stage.body->shape.again.empty());
            });
      });
  return fmt::format("{} microbatches{}", plan.microbatches,
                     recomputes ? ", activations recomputed" : "");
}

// What would need less than the closest. Fewer samples at a time were tried unless the user said.
std::string WhatNeedsLess(const PlanRequest& request) {
  std::vector<std::string> ways = {"more or larger devices"};
  if (request.microbatches.value_or(request.batch) < request.batch) {
    ways.insert(ways.begin(), "more microbatches");
  }
  const bool has_state = request.optimizer != Optimizer::kSgd;
  ways.push_back(has_state ? "a smaller batch or --optimizer sgd" : "a smaller batch");
  const std::string last = std::exchange(ways.back(), "");
  ways.pop_back();
  return Join(ways, ", ") + (has_state ? ", " : " or ") + last + " need less";
}

Status CheckDevices(const Plan& plan, const Cluster& cluster, const std::string& where) {
  std::vector<std::string> devices;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      devices.insert(devices.end(), stage.devices.begin(), stage.devices.end());
    }
  }
  if (plan.spmd) {
    for (const auto& node : plan.spmd->mesh)
      devices.insert(devices.end(), node.begin(), node.end());
  }
  for (const std::string& device : devices) {
    if (cluster.FindDevice(device)) continue;
    return BadInput(where, fmt::format("the cluster has no device \"{}\"", device),
                    "devices are named node:number, e.g. \"a:0\"");
  }
  return Ok();
}

}  // namespace

Result<DeviceTypeSpec> ProfiledType(const ClusterSpec& cluster, const std::string& name,
                                    DType dtype) {
  if (!name.empty()) {
    std::vector<std::string> names;
    for (const DeviceTypeSpec& type : cluster.types) {
      if (type.name == name) return type;
      names.push_back(type.name);
    }
    return BadInput("profile device", fmt::format("the cluster has no device type \"{}\"", name),
                    SuggestName(name, names));
  }
  const DeviceTypeSpec* fastest = nullptr;
  for (const DeviceTypeSpec& type : cluster.types) {
    if (LowerCase(type.name).find("v100") != std::string::npos) return type;
    const bool faster = fastest == nullptr || type.rate(dtype) > fastest->rate(dtype);
    if (faster) fastest = &type;
  }
  HEDDLE_CHECK(fastest != nullptr);
  return *fastest;
}

Result<Planning> Planning::Make(const PlanRequest& request, const Cluster& cluster,
                                const Profile* profile, const Deadline& deadline) {
  ModelOptions model{request.batch, request.dtype, request.optimizer, request.clip};
  PlanRequest resolved = request;
  if (IsProfileSpec(request.model)) {
    HEDDLE_ASSIGN(const DeviceTypeSpec type,
                  ProfiledType(cluster.spec(), request.profile_device, request.dtype));
    resolved.profile_device = type.name;
    model.profile_batch = request.profile_batch.value_or(0);
    model.profile_rate = type.rate(request.dtype);
  } else if (request.profile_batch || !request.profile_device.empty()) {
    return BadInput("model", fmt::format("\"{}\" is no layer profile", request.model),
                    "leave out the profile's batch and device, or name a file that ends in .txt");
  }
  HEDDLE_ASSIGN(Graph graph, BuildModel(request.model, model));
  LayerChain chain = ChainOf(graph);
  return Planning{
      std::move(resolved), std::move(graph), std::move(chain), &cluster, profile, deadline};
}

Plan Planning::Blank(const std::string& strategy, const std::string& order) const {
  Plan plan;
  plan.strategy = strategy;
  plan.order_name = order;
  plan.request = request;
  plan.model_hash = graph.ContentHash();
  plan.cluster = cluster->spec();
  plan.cluster_hash = cluster->ContentHash();
  if (profile != nullptr) plan.profile_hash = profile->ContentHash();
  return plan;
}

namespace {

// For each device of the Program the first with the same work: of the same stage, with as many
// samples of every microbatch. Empty where all differ.
std::vector<int32_t> DevicesAlike(const Plan& plan, const Program& program) {
  if (plan.spmd || plan.has_bodies() || plan.request.sync == GradientSync::kServers) return {};
  std::map<std::string, int32_t> numbers;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    numbers[program.devices[d].name] = static_cast<int32_t>(d);
  }
  std::vector<int32_t> like(program.devices.size());
  for (const PipelinePlan& pipeline : plan.pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      std::vector<std::vector<int64_t>> sizes(stage.devices.size());
      for (const int64_t rows : MicrobatchRows(plan.request.batch, plan.microbatches)) {
        const std::vector<Range> ranges = DivideRows(rows, stage.shares);
        for (size_t k = 0; k < sizes.size(); ++k) sizes[k].push_back(ranges[k].size());
      }
      std::map<std::vector<int64_t>, int32_t> first;
      for (size_t k = 0; k < sizes.size(); ++k) {
        const int32_t number = numbers.at(stage.devices[k]);
        int32_t& least = first.try_emplace(sizes[k], number).first->second;
        least = std::min(least, number);
      }
      for (size_t k = 0; k < sizes.size(); ++k) {
        like[static_cast<size_t>(numbers.at(stage.devices[k]))] = first.at(sizes[k]);
      }
    }
  }
  return like;
}

Result<Program> Lowered(const Planning& planning, const Plan& plan) {
  HEDDLE_RETURN_IF_ERROR(ValidatePlan(plan, planning.chain.size(), "plan"));
  HEDDLE_RETURN_IF_ERROR(CheckDevices(plan, *planning.cluster, "plan"));
  return LowerPlan(plan, planning.graph);
}

Status NothingFound(const Verdict& verdict) {
  if (verdict.findings.empty()) return Ok();
  const Finding& finding = verdict.findings.front();
  return Error{ErrorKind::kInternal, "program",
               fmt::format("{}: {}", NameOf(finding.kind), finding.message), ""};
}

Result<Simulation> Simulated(const Planning& planning, const Program& program, bool keep_events) {
  const OpCost cost = planning.cost();
  HEDDLE_ASSIGN(const SegmentSeconds seconds, CostSegments(program, *planning.cluster, &cost));
  return Simulate(program, *planning.cluster, seconds, {planning.request.links, keep_events, 0});
}

}  // namespace

Result<Evaluation> Evaluate(const Planning& planning, const Plan& plan, bool keep_events) {
  Evaluation evaluation;
  HEDDLE_ASSIGN(evaluation.program, Lowered(planning, plan));
  evaluation.verdict = CheckProgram(evaluation.program, {&planning.graph, {}});
  HEDDLE_RETURN_IF_ERROR(NothingFound(evaluation.verdict));
  FindLack(*planning.cluster, evaluation);
  if (evaluation.lacks.value > 0) return evaluation;
  HEDDLE_ASSIGN(evaluation.simulation, Simulated(planning, evaluation.program, keep_events));
  return evaluation;
}

namespace {

// As EvaluateQuickly. With `more` microbatches than the plan has, all of the same size: nothing
// where their time does not follow from those it has.
Result<std::optional<Evaluation>> EvaluateWithMore(const Planning& planning, const Plan& plan,
                                                   int64_t more, Seconds limit) {
  Evaluation evaluation;
  HEDDLE_ASSIGN(evaluation.program, Lowered(planning, plan));
  bool follows = true;
  const auto simulate = [&]() -> Status {
    HEDDLE_ASSIGN(evaluation.simulation, Simulated(planning, evaluation.program, more > 0));
    if (more > 0) follows = AddMicrobatches(evaluation.program, more, evaluation.simulation);
    return Ok();
  };
  const auto check = [&] {
    evaluation.verdict = CheckMemory(evaluation.program, DevicesAlike(plan, evaluation.program));
    FindLack(*planning.cluster, evaluation);
  };
  const bool memory_first = std::isinf(limit.value);
  if (memory_first) check();
  if (evaluation.lacks.value > 0) return std::optional(std::move(evaluation));
  HEDDLE_RETURN_IF_ERROR(simulate());
  if (!follows) return std::optional<Evaluation>();
  if (!memory_first && evaluation.simulation.iteration < limit) check();
  return std::optional(std::move(evaluation));
}

}  // namespace

Result<Evaluation> EvaluateQuickly(const Planning& planning, const Plan& plan, Seconds limit) {
  for (const int64_t few : kFewMicrobatches) {
    if (!plan.spmd || 2 * few > plan.microbatches) break;
    const Plan shorter = WithMicrobatches(plan, few);
    const Planning part{planning.request, MicrobatchGraph(planning.graph, shorter.request.batch),
                        planning.chain,   planning.cluster,
                        planning.profile, planning.deadline};
    HEDDLE_ASSIGN(std::optional<Evaluation> evaluation,
                  EvaluateWithMore(part, shorter, plan.microbatches - few, limit));
    if (evaluation) return *std::move(evaluation);
  }
  HEDDLE_ASSIGN(std::optional<Evaluation> evaluation, EvaluateWithMore(planning, plan, 0, limit));
  return *std::move(evaluation);
}

Result<Evaluation> EvaluateFitting(const Planning& planning, const Plan& plan, bool keep_events) {
  HEDDLE_ASSIGN(Evaluation evaluation, Evaluate(planning, plan, keep_events));
  if (evaluation.lacks.value > 0) return Infeasible(plan.strategy, evaluation.lacks_where);
  return evaluation;
}

Result<LoadedPlan> LoadForUse(const std::string& path, const Profile* profile) {
  LoadedPlan loaded;
  HEDDLE_ASSIGN(loaded.plan, LoadPlan(path));
  const Plan& plan = loaded.plan;
  HEDDLE_ASSIGN(Cluster cluster, Cluster::Make(plan.cluster, path + ": cluster"));
  loaded.cluster = std::make_unique<Cluster>(std::move(cluster));
  if (loaded.cluster->ContentHash() != plan.cluster_hash) {
    return BadInput(path + ": cluster", "was edited: its hash is not the one the plan was made for",
                    "make the plan again with heddle plan");
  }
  const std::string profile_hash = profile == nullptr ? "" : profile->ContentHash();
  if (!plan.profile_hash.empty() && profile_hash != plan.profile_hash) {
    return BadInput(path + ": profile_hash", "the plan was made with another profile",
                    "give the same file with --profile, or make the plan again");
  }
  HEDDLE_ASSIGN(Planning planning, Planning::Make(plan.request, *loaded.cluster, profile));
  if (planning.graph.ContentHash() != plan.model_hash) {
    const bool profiled = IsProfileSpec(plan.request.model);
    return BadInput(path + ": model",
                    fmt::format("{}, batch, dtype or optimizer was edited: the hash is not the "
                                "plan's",
                                profiled ? "the profile " + plan.request.model : "the model"),
                    "make the plan again with heddle plan");
  }
  HEDDLE_RETURN_IF_ERROR(ValidatePlan(plan, planning.chain.size(), path));
  HEDDLE_RETURN_IF_ERROR(CheckDevices(plan, *loaded.cluster, path));
  loaded.planning = std::make_unique<Planning>(std::move(planning));
  return loaded;
}

namespace {

// All with the same runs of layers in the same stages.
bool PipelinesAlike(const Plan& plan) {
  const auto stage_alike = [](const StagePlan& a, const StagePlan& b) {
    return a.chunks == b.chunks && a.devices.size() == b.devices.size();
  };
  return !plan.pipelines.empty() && !plan.has_bodies() &&
         std::all_of(plan.pipelines.begin(), plan.pipelines.end(), [&](const PipelinePlan& one) {
           const std::vector<StagePlan>& first = plan.pipelines[0].stages;
           return std::equal(one.stages.begin(), one.stages.end(), first.begin(), first.end(),
                             stage_alike);
         });
}

}  // namespace

CollectiveAlgorithm CheapestAllReduce(const Planning& planning, const std::vector<int>& devices,
                                      Bytes bytes) {
  std::vector<DeviceId> group;
  for (const int d : devices) group.push_back(DeviceId{d});
  const std::vector<Bytes> sizes = {bytes};
  return NetworkCost(*planning.cluster)
      .Cheapest({CollectiveKind::kAllReduce, group, sizes, CollectiveAlgorithm::kRing, 0});
}

namespace {

// Is no way through all layers on single devices a part of it? Divided tensors take less time, and
// replicas that go their own way have no common latency, only common work.
bool HasOnlyWork(const Plan& plan) { return plan.spmd || plan.has_bodies() || plan.local; }

void FillBounds(const Planning& planning, const Evaluation& evaluation, Plan& plan) {
  Estimate& estimate = plan.estimate;
  estimate.iteration_seconds = evaluation.simulation.iteration.value;
  Seconds bound = FamilyBound(planning, HasOnlyWork(plan));
  bound = bound * static_cast<double>(plan.batches_per_iteration());
  if (PipelinesAlike(plan) && !plan.async && !plan.local)
    bound = PartitionBound(planning, bound, evaluation.simulation.iteration);
  estimate.lower_bound_seconds = bound.value;
  estimate.schedule_bound_seconds =
      std::max(OrderBound(planning, plan, evaluation).value, estimate.lower_bound_seconds);
}

void FillMemory(const Planning& planning, const Evaluation& evaluation, Plan& plan) {
  Estimate& estimate = plan.estimate;
  estimate.memory.clear();
  const std::vector<Bytes> capacities = CapacitiesOf(evaluation.program, *planning.cluster);
  for (size_t d = 0; d < capacities.size(); ++d) {
    estimate.memory.push_back({evaluation.program.devices[d].name,
                               evaluation.verdict.memory[d].peak.value, capacities[d].value});
  }
}

// The bound that takes no time.
void FillQuickBound(const Planning& planning, Plan& plan) {
  const Seconds bound = FamilyBound(planning, HasOnlyWork(plan));
  plan.estimate.lower_bound_seconds =
      bound.value * static_cast<double>(plan.batches_per_iteration());
  plan.estimate.schedule_bound_seconds = plan.estimate.lower_bound_seconds;
}

// Checks the plan, which fits and was simulated, and fills in its estimate, by two threads. On
// large clusters by one: both need much memory. Out of time it is only checked. `known`, unless
// nothing, is the plan's Program and simulation.
Status CheckAndEstimate(const Planning& planning, std::optional<Evaluation> known, bool late,
                        Plan& plan) {
  constexpr int kMany = 256;  // devices
  Evaluation evaluation;
  if (known) evaluation = *std::move(known);
  const bool is_simulated = evaluation.simulation.iteration.value > 0;
  if (!is_simulated) {
    HEDDLE_ASSIGN(evaluation.program, Lowered(planning, plan));
  }
  Status simulated = Ok();
  const auto simulate = [&] {
    if (!is_simulated) {
      Result<Simulation> made = Simulated(planning, evaluation.program, /*keep_events=*/false);
      if (!made.ok()) {
        simulated = made.error();
        return;
      }
      evaluation.simulation = std::move(made.value());
    }
    FillBounds(planning, evaluation, plan);
  };
  ForEachOnThreads(2, planning.cluster->device_count() > kMany ? 1 : 2, [&](size_t k) {
    if (k == 0) evaluation.verdict = CheckProgram(evaluation.program, {&planning.graph, {}});
    if (k == 1 && !late) simulate();
    if (k == 1 && late) FillQuickBound(planning, plan);
  });
  HEDDLE_RETURN_IF_ERROR(NothingFound(evaluation.verdict));
  HEDDLE_RETURN_IF_ERROR(simulated);
  FillMemory(planning, evaluation, plan);
  return Ok();
}

}  // namespace

void FillEstimate(const Planning& planning, const Evaluation& evaluation, Plan& plan) {
  FillBounds(planning, evaluation, plan);
  FillMemory(planning, evaluation, plan);
}

double Best::WorkOf(const Plan& plan, int64_t microbatches) const {
  const int devices = planning_.cluster->device_count();
  return static_cast<double>(planning_.graph.ops().size()) * devices *
         static_cast<double>(plan.batches_per_iteration() * microbatches);
}

// Of what EvaluateQuickly looks at.
double Best::EvaluationWork(const Plan& plan) const {
  const int64_t few = kFewMicrobatches[0];
  const bool by_few = plan.spmd && 2 * few <= plan.microbatches;
  return WorkOf(plan, by_few ? few : plan.microbatches);
}

double Best::SecondsFor(double work) const {
  return work_done_ > 0 ? spent_ * work / work_done_ : 0;
}

double Best::Reserve() const { return plan_ ? SecondsFor(WorkOf(*plan_, plan_->microbatches)) : 0; }

Deadline Best::deadline() const {
  const Deadline& deadline = planning_.deadline;
  return deadline.never() ? deadline : deadline.AtMost(deadline.left() - Reserve());
}

bool Best::LateFor(double work) {
  const Deadline& deadline = planning_.deadline;
  if (deadline.never() || deadline.left() > SecondsFor(work) + Reserve()) return false;
  cut_short_ = true;
  return true;
}

void Best::Learn(double work, double left_before) {
  const Deadline& deadline = planning_.deadline;
  if (deadline.never()) return;
  spent_ += left_before - deadline.left();
  work_done_ += work;
}

Result<Best::Outcome> Best::Try(Plan plan) {
  strategy_ = plan.strategy;
  const double work = EvaluationWork(plan);
  if (LateFor(work)) return Outcome::kSlower;
  const double left = planning_.deadline.left();
  HEDDLE_ASSIGN(Evaluation evaluation, EvaluateQuickly(planning_, plan, Seconds{seconds()}));
  Learn(work, left);
  return Consider(std::move(plan), std::move(evaluation));
}

Result<std::vector<Best::Outcome>> Best::TryAll(std::vector<Plan> plans,
                                                std::vector<std::string> how) {
  if (!plans.empty()) strategy_ = plans[0].strategy;
  double work = 0;
  for (const Plan& plan : plans) work = std::max(work, EvaluationWork(plan));
  if (LateFor(work)) return std::vector<Outcome>(plans.size(), Outcome::kSlower);
  std::vector<std::optional<Result<Evaluation>>> evaluations(plans.size());
  const Seconds limit{seconds()};
  const Deadline& deadline = planning_.deadline;
  const double left = deadline.left();
  ForEachOnTwoThreads(plans.size(), [&](size_t k) {
    if (!deadline.passed()) evaluations[k] = EvaluateQuickly(planning_, plans[k], limit);
  });
  Learn(work * static_cast<double>((plans.size() + 1) / 2), left);
  std::vector<Outcome> outcomes;
  for (size_t k = 0; k < plans.size(); ++k) {
    if (!evaluations[k]) {
      outcomes.push_back(Outcome::kSlower);
      continue;
    }
    if (!evaluations[k]->ok()) return evaluations[k]->error();
    if (!how.empty()) Tell(std::move(how[k]), evaluations[k]->value());
    outcomes.push_back(Consider(std::move(plans[k]), std::move(*evaluations[k]).value()));
  }
  return outcomes;
}

Best::Outcome Best::Consider(Plan plan, Evaluation evaluation) {
  ++tried_;
  if (evaluation.lacks.value > 0) {
    if (!refused_ || evaluation.lacks < least_lack_) {
      least_lack_ = evaluation.lacks;
      refused_ = Infeasible(
          plan.strategy,
          fmt::format("nothing fits; closest with {}: {}", Describe(plan), evaluation.lacks_where),
          WhatNeedsLess(planning_.request));
    }
    return Outcome::kDoesNotFit;
  }
  if (evaluation.simulation.iteration.value >= seconds()) return Outcome::kSlower;
  plan.estimate.iteration_seconds = evaluation.simulation.iteration.value;
  plan_ = std::move(plan);
  // Programs of many devices and microbatches are too large to keep.
  const bool whole = std::ssize(evaluation.program.microbatch_rows) == plan_->microbatches;
  evaluation_.reset();
  if (plan_->spmd && whole) evaluation_ = std::move(evaluation);
  return Outcome::kFastest;
}

void Best::Tell(std::string how, const Evaluation& evaluation) {
  if (evaluation.simulation.iteration.value == 0) return;  // not even simulated
  TriedPlan tried;
  tried.how = std::move(how);
  tried.iteration_seconds = evaluation.simulation.iteration.value;
  for (const DeviceUse& use : evaluation.simulation.devices) {
    tried.compute_seconds = std::max(tried.compute_seconds, use.busy.value);
  }
  const std::vector<Bytes> capacities = CapacitiesOf(evaluation.program, *planning_.cluster);
  double fullest = -1;
  for (size_t d = 0; d < evaluation.verdict.memory.size(); ++d) {
    const int64_t peak = evaluation.verdict.memory[d].peak.value;
    const double fill = static_cast<double>(peak) / static_cast<double>(capacities[d].value);
    if (fill <= fullest) continue;
    fullest = fill;
    tried.fullest = evaluation.program.devices[d].name;
    tried.peak_bytes = peak;
    tried.capacity_bytes = capacities[d].value;
  }
  told_.push_back(std::move(tried));
}

double Best::seconds() const {
  return plan_ ? plan_->estimate.iteration_seconds : std::numeric_limits<double>::infinity();
}

Result<Plan> Best::Take() && {
  const bool late = cut_short_ || planning_.deadline.passed();
  if (late && !plan_) return OutOfTime(strategy_);
  if (late) Note(kCutShort);
  if (plan_) {
    const double judged = seconds();
    HEDDLE_RETURN_IF_ERROR(CheckAndEstimate(planning_, std::move(evaluation_), late, *plan_));
    for (TriedPlan& tried : told_) {  // judged by few microbatches, it is known exactly now
      if (tried.iteration_seconds == judged) tried.iteration_seconds = seconds();
    }
    plan_->search.candidates = tried_;
    plan_->search.notes = std::move(notes_);
    std::stable_sort(told_.begin(), told_.end(), [](const TriedPlan& a, const TriedPlan& b) {
      if (a.fits() != b.fits()) return a.fits();
      return a.iteration_seconds < b.iteration_seconds;
    });
    constexpr size_t kMostTold = 6;
    if (told_.size() > kMostTold) told_.resize(kMostTold);
    plan_->search.tried = std::move(told_);
    return *std::move(plan_);
  }
  if (refused_) {
    for (const std::string& note : notes_) refused_->hint += "; " + note;
    return *std::move(refused_);
  }
  return Infeasible("plan", "no candidate could be made", Join(notes_, "; "));
}

}  // namespace heddle
