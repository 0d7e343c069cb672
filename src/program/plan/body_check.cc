#include "program/plan/body_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "model/layer_chain.h"
#include "program/plan/spmd_check.h"
#include "program/plan/work_times.h"

namespace heddle {
namespace {

// What stages with bodies cannot do, and why.
struct Refusal {
  std::string_view field;
  bool (*is_asked)(const Plan&);
  std::string_view what;
  std::string_view remedy;
};

bool AnyStage(const Plan& plan, bool (*has)(const StagePlan&)) {
  return std::any_of(plan.pipelines.begin(), plan.pipelines.end(), [&](const PipelinePlan& one) {
    return std::any_of(one.stages.begin(), one.stages.end(), has);
  });
}

constexpr Refusal kRefusals[] = {
    {"pipelines", [](const Plan& plan) { return plan.pipelines.size() > 1; },
     "has several pipelines, whose gradients nobody would sum",
     "divide samples on an axis of the meshes instead"},
    {"async", [](const Plan& plan) { return plan.async.has_value(); },
     "stages with bodies update together", "leave it out, or give the stages devices and shares"},
    {"local", [](const Plan& plan) { return plan.local.has_value(); },
     "stages with bodies update together", "leave it out, or give the stages devices and shares"},
    {"sync", [](const Plan& plan) { return plan.request.sync == GradientSync::kServers; },
     "meshes sum gradients by collectives", "use allreduce"},
    {"compress", [](const Plan& plan) { return plan.request.compress; },
     "meshes sum gradients in full precision", "leave it out"},
    {"clip", [](const Plan& plan) { return plan.request.clip > 0; },
     "the norm of all gradients is not summed over meshes yet", "leave it out"},
    {"pipelines[0].stages",
     [](const Plan& plan) {
       return AnyStage(plan, [](const StagePlan& stage) { return !stage.body.has_value(); });
     },
     "some have a body and some have not",
     "a stage that is only replicated divides samples, letter b"},
    {"pipelines[0].stages",
     [](const Plan& plan) {
       return AnyStage(plan, [](const StagePlan& stage) { return stage.recompute; });
     },
     "a body says by layer what is computed again", "\"again\": [[first, last]] in the body"},
    {"pipelines[0].stages",
     [](const Plan& plan) {
       return AnyStage(plan, [](const StagePlan& stage) {
         return std::any_of(stage.order.begin(), stage.order.end(), [](const WorkItem& item) {
           return item.kind == WorkKind::kInput || item.kind == WorkKind::kWeight;
         });
       });
     },
     "bodies do a backward in one part", "B instead of I and W"},
};

Status CheckShape(const StagePlan& stage, const std::string& where) {
  const BodyShape& shape = stage.body->shape;
  if (shape.chunks.size() != stage.chunks.size()) {
    return BadInput(where, fmt::format("has steps for {} runs of layers and {} runs",
                                       shape.chunks.size(), stage.chunks.size()));
  }
  size_t at = 0;
  for (const ChunkSteps& chunk : shape.chunks) {
    const bool follows = chunk.forward == at && chunk.backward >= at && chunk.end >= chunk.backward;
    if (!follows) return BadInput(where, "has steps out of order");
    at = chunk.end;
  }
  if (at == shape.updates && at <= stage.body->program.steps.size()) return Ok();
  return BadInput(where, "has steps out of order");
}

// The scopes of all stages, from the cuts between runs of layers.
class StageScopes {
 public:
  StageScopes(const Plan& plan, const Graph& graph)
      : pipeline_(plan.pipelines[0]),
        g_(graph),
        chain_(ChainOf(graph)),
        places_(ChunkPlaces(pipeline_)) {
    for (size_t s = 0; s < places_.size(); ++s) {
      for (size_t c = 0; c < places_[s].size(); ++c) {
        if (chunk_at_.size() <= places_[s][c]) chunk_at_.resize(places_[s][c] + 1);
        chunk_at_[places_[s][c]] = {s, c};
      }
    }
  }

  Result<ReplayScope> Of(size_t s, const std::string& where) const {
    const StagePlan& stage = pipeline_.stages[s];
    ReplayScope scope;
    scope.whose = "the stage";
    scope.ops.resize(g_.ops().size(), false);
    std::set<int32_t> parameters;
    for (const LayerRun& run : stage.chunks) {
      for (int l = run.first; l <= run.last; ++l) {
        const ChainLayer& layer = chain_.layers[static_cast<size_t>(l)];
        for (const auto* ops : {&layer.forward, &layer.backward}) {
          for (const OpId op : *ops) scope.ops[static_cast<size_t>(op.value)] = true;
        }
        parameters.insert(layer.parameters.begin(), layer.parameters.end());
      }
    }
    scope.parameters.assign(parameters.begin(), parameters.end());
    for (const int32_t p : scope.parameters) {
      scope.ops[static_cast<size_t>(g_.parameters()[static_cast<size_t>(p)].update.value)] = true;
    }
    std::vector<size_t> chunks(stage.chunks.size());
    for (size_t c = 0; c < chunks.size(); ++c) chunks[c] = c;
    std::sort(chunks.begin(), chunks.end(),
              [&](size_t a, size_t b) { return places_[s][a] < places_[s][b]; });
    for (const size_t c : chunks) {
      HEDDLE_ASSIGN(scope.parts.emplace_back(), PartOf(s, c, /*forward=*/true, where));
    }
    std::reverse(chunks.begin(), chunks.end());
    for (const size_t c : chunks) {
      HEDDLE_ASSIGN(scope.parts.emplace_back(), PartOf(s, c, /*forward=*/false, where));
    }
    const size_t updates = stage.body->shape.updates;
    scope.parts.push_back({updates, stage.body->program.steps.size(), {}, {}, [](const Op& op) {
                             return op.phase == Phase::kUpdate;
                           }});
    return scope;
  }

 private:
  const ChunkSteps& StepsAt(size_t place) const {
    const auto& [stage, chunk] = chunk_at_[place];
    return pipeline_.stages[stage].body->shape.chunks[chunk];
  }

  // What crosses between two neighbouring runs of layers.
  const std::vector<TensorId>& Crossing(size_t lower_place, bool forward) const {
    const auto& [stage, chunk] = chunk_at_[lower_place];
    const Cut& cut = chain_.cuts[static_cast<size_t>(pipeline_.stages[stage].chunks[chunk].last)];
    return forward ? cut.forward : cut.backward;
  }

  Result<ReplayPart> PartOf(size_t s, size_t c, bool forward, const std::string& where) const {
    const size_t place = places_[s][c];
    const LayerRun run = pipeline_.stages[s].chunks[c];
    const ChunkSteps& steps = StepsAt(place);
    ReplayPart part;
    part.begin = forward ? steps.forward : steps.backward;
    part.end = forward ? steps.backward : steps.end;
    part.belongs = [run, forward](const Op& op) {
      const bool layer = op.layer.value >= run.first && op.layer.value <= run.last;
      return layer && op.phase != Phase::kUpdate && (op.phase == Phase::kForward) == forward;
    };
    const bool first = place == 0, last = place + 1 == chunk_at_.size();
    for (const BodyArrival& arrival : steps.arrivals) {
      const Role role = g_.tensor(arrival.tensor).role;
      const bool activation = role == Role::kActivation;
      if (!activation && role != Role::kGradient) return NotCrossing(arrival.tensor, run, where);
      if (activation != forward) continue;
      const bool from_nobody = forward ? first : last;
      if (from_nobody) return NotCrossing(arrival.tensor, run, where);
      const std::vector<TensorId>& crossing = Crossing(forward ? place - 1 : place, forward);
      if (!std::binary_search(crossing.begin(), crossing.end(), arrival.tensor)) {
        return NotCrossing(arrival.tensor, run, where);
      }
      const size_t giver = chunk_at_[forward ? place - 1 : place + 1].first;
      if (giver != s) part.arrives.push_back(arrival);
    }
    const bool to_nobody = forward ? last : first;
    if (to_nobody) return part;
    for (const BodyArrival& wanted : StepsAt(forward ? place + 1 : place - 1).arrivals) {
      const bool activation = g_.tensor(wanted.tensor).role == Role::kActivation;
      if (activation == forward) part.leaves.push_back(wanted.tensor);
    }
    return part;
  }

  Error NotCrossing(TensorId id, const LayerRun& run, const std::string& where) const {
    return BadInput(where + ": arrives",
                    fmt::format("{} does not come to layers {}..{} from their neighbours",
                                g_.tensor(id).name, run.first, run.last));
  }

  const PipelinePlan& pipeline_;
  const Graph& g_;
  const LayerChain chain_;
  std::vector<std::vector<size_t>> places_;          // by stage and chunk: along the layers
  std::vector<std::pair<size_t, size_t>> chunk_at_;  // by place
};

// A weight in several stages is stored alike in all of them, so that its gradient can be summed
// part by part.
Status CheckTied(const PipelinePlan& pipeline, const Graph& graph, const std::string& where) {
  struct First {
    size_t stage;
    Layout layout;
  };
  std::map<TensorId, First> known;
  for (size_t s = 0; s < pipeline.stages.size(); ++s) {
    const SpmdPlan& mine = pipeline.stages[s].body->program;
    for (const SpmdStorage& stored : mine.storage) {
      const auto [found, is_new] = known.try_emplace(stored.parameter, First{s, stored.layout});
      if (is_new) continue;
      const SpmdPlan& other = pipeline.stages[found->second.stage].body->program;
      const bool alike = mine.mesh.size() == other.mesh.size() &&
                         mine.mesh[0].size() == other.mesh[0].size() &&
                         mine.ratios == other.ratios && stored.layout == found->second.layout;
      if (alike) continue;
      return Infeasible(
          fmt::format("{}: pipelines[0].stages[{}]: storage.{}", where, s,
                      graph.tensor(stored.parameter).name),
          fmt::format("is shared with stage {}, which has another mesh or stores it differently",
                      found->second.stage),
          "stages that share a weight need meshes of one shape, or a model with tied=0");
    }
  }
  return Ok();
}

}  // namespace

Status ValidateBodies(const Plan& plan, const std::string& where) {
  for (const Refusal& refusal : kRefusals) {
    if (!refusal.is_asked(plan)) continue;
    return Infeasible(fmt::format("{}: {}", where, refusal.field), std::string(refusal.what),
                      std::string(refusal.remedy));
  }
  if (plan.request.batch % plan.microbatches != 0) {
    return BadInput(
        where + ": microbatches",
        fmt::format("{} do not divide the batch of {}", plan.microbatches, plan.request.batch),
        "stages with bodies have microbatches of one size");
  }
  for (size_t s = 0; s < plan.pipelines[0].stages.size(); ++s) {
    const StagePlan& stage = plan.pipelines[0].stages[s];
    const std::string place = fmt::format("{}: pipelines[0].stages[{}]", where, s);
    HEDDLE_RETURN_IF_ERROR(CheckMesh(stage.body->program, place));
    HEDDLE_RETURN_IF_ERROR(CheckShape(stage, place));
    if (stage.devices == DevicesOf(stage.body->program)) continue;
    return BadInput(place, "has devices that are not those of its mesh");
  }
  return Ok();
}

Status CheckBodies(const Plan& plan, const Graph& graph, const std::string& where) {
  const StageScopes scopes(plan, graph);
  for (size_t s = 0; s < plan.pipelines[0].stages.size(); ++s) {
    const std::string place = fmt::format("{}: pipelines[0].stages[{}]", where, s);
    HEDDLE_ASSIGN(const ReplayScope scope, scopes.Of(s, place));
    HEDDLE_RETURN_IF_ERROR(
        CheckSteps(plan.pipelines[0].stages[s].body->program, graph, scope, place));
  }
  return CheckTied(plan.pipelines[0], graph, where);
}

}  // namespace heddle
