#include "program/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "program/plan/body_check.h"
#include "program/plan/row_shares.h"
#include "program/plan/spmd_check.h"
#include "program/plan/work_times.h"

namespace heddle {
namespace {

Status ValidateLayers(const PipelinePlan& pipeline, int layers, const std::string& where) {
  const std::string remedy = "every layer must be in exactly one stage of a pipeline";
  std::vector<bool> seen(static_cast<size_t>(layers), false);
  for (const StagePlan& stage : pipeline.stages) {
    for (const LayerRun& run : stage.chunks) {
      if (run.first < 0 || run.last < run.first || run.last >= layers) {
        return BadInput(
            where, fmt::format("layers {}..{} are not layers of the model", run.first, run.last),
            fmt::format("the model has layers 0..{}", layers - 1));
      }
      for (int l = run.first; l <= run.last; ++l) {
        if (seen[static_cast<size_t>(l)]) {
          return BadInput(where, fmt::format("layer {} is in two stages", l), remedy);
        }
        seen[static_cast<size_t>(l)] = true;
      }
    }
  }
  const auto missing = std::find(seen.begin(), seen.end(), false);
  if (missing == seen.end()) return Ok();
  return BadInput(where, fmt::format("layer {} is in no stage", missing - seen.begin()), remedy);
}

// Every microbatch named goes through every chunk once, forward before backward.
Status ValidateOrder(const StagePlan& stage, int64_t microbatches, const std::string& where) {
  std::map<std::pair<int32_t, int32_t>, std::string> seen;  // (chunk, microbatch) -> kinds so far
  for (const WorkItem& item : stage.order) {
    if (item.chunk >= static_cast<int32_t>(stage.chunks.size()) ||
        item.microbatch >= microbatches) {
      return BadInput(where, fmt::format("{}{}.{} is out of range", static_cast<char>(item.kind),
                                         item.microbatch, item.chunk));
    }
    seen[{item.chunk, item.microbatch}] += static_cast<char>(item.kind);
  }
  for (const auto& [key, kinds] : seen) {
    if (kinds == "FB" || kinds == "FIW") continue;
    return BadInput(
        where,
        fmt::format("microbatch {} of chunk {} is done as \"{}\"", key.second, key.first, kinds),
        "each needs F then B, or F then I then W, once");
  }
  std::set<int32_t> microbatches_seen;
  for (const auto& item : seen) microbatches_seen.insert(item.first.second);
  if (seen.size() != microbatches_seen.size() * stage.chunks.size()) {
    return BadInput(where, "some microbatch does not go through all of the stage's layers");
  }
  return Ok();
}

// Every device of the stage has samples of every microbatch: one without would update weights that
// it never read.
Status ValidateSamples(const Plan& plan, const StagePlan& stage, const std::string& place) {
  if (!(std::accumulate(stage.shares.begin(), stage.shares.end(), 0.0) > 0)) return Ok();  // later
  for (const int64_t rows : MicrobatchRows(plan.request.batch, plan.microbatches)) {
    const std::vector<Range> ranges = DivideRows(rows, stage.shares);
    for (size_t k = 0; k < ranges.size() && k < stage.devices.size(); ++k) {
      if (ranges[k].size() > 0) continue;
      return BadInput(place + ".shares",
                      fmt::format("{} has no sample of a microbatch of {}", stage.devices[k], rows),
                      "devices of asynchronous stages need one each: leave it out");
    }
  }
  return Ok();
}

// One pipeline, one run of layers per stage, each microbatch forward and then backward.
Status ValidateAsync(const Plan& plan, const std::string& where) {
  if (plan.pipelines.size() != 1) return BadInput(where, "an asynchronous plan has one pipeline");
  const std::vector<StagePlan>& stages = plan.pipelines[0].stages;
  const WorkOrder expected = ForwardsAndBackwardsInTurn(plan.microbatches);
  for (size_t s = 0; s < stages.size(); ++s) {
    const std::string place = fmt::format("{}: pipelines[0].stages[{}]", where, s);
    if (stages[s].chunks.size() != 1) return BadInput(place, "has more than one run of layers");
    if (stages[s].recompute) return BadInput(place, "recomputes", "asynchronous stages cannot");
    HEDDLE_RETURN_IF_ERROR(ValidateSamples(plan, stages[s], place));
    if (stages[s].order == expected) continue;
    return BadInput(place + ".order", "is not each forward followed by its backward",
                    "the order of an asynchronous pipeline is fixed");
  }
  if (plan.request.clip > 0) {
    return BadInput(where + ": clip", "stages update without waiting for each other",
                    "clipping needs all gradients at once; leave it out");
  }
  const bool batches = plan.async->versions == WeightVersions::kTwo;
  if (!batches && plan.microbatches != 1) {
    return BadInput(where + ": microbatches", "weights are updated after each",
                    "only the versions \"2bw\" have several per update");
  }
  if (batches && plan.microbatches + 1 < static_cast<int64_t>(stages.size())) {
    return BadInput(where + ": microbatches",
                    fmt::format("{} are too few for {} stages with two versions", plan.microbatches,
                                stages.size()),
                    fmt::format("at least {}", stages.size() - 1));
  }
  return Ok();
}

// Whole replicas, one device each, or one pipeline for all of them; an update at a time.
Status ValidateLocal(const Plan& plan, const std::string& where) {
  const std::string field = where + ": local.steps";
  const std::vector<int64_t>& steps = plan.local->steps;
  const bool whole = plan.local->HasWholeReplicas(plan.pipelines);
  if (steps.empty()) return BadInput(field, "is empty", "a number of local updates per replica");
  for (const int64_t count : steps) {
    if (count < 1) return BadInput(field, "has a replica without updates", "1 or more for each");
  }
  if (plan.local->updates() % std::ssize(steps) != 0) {
    return BadInput(field,
                    fmt::format("{} updates are not the same number for each of {} replicas on "
                                "average",
                                plan.local->updates(), steps.size()));
  }
  if (whole && plan.pipelines.size() != steps.size()) {
    return BadInput(
        field, fmt::format("has {} numbers for {} replicas", steps.size(), plan.pipelines.size()));
  }
  const bool equal =
      std::all_of(steps.begin(), steps.end(), [&](int64_t count) { return count == steps[0]; });
  if (!whole && !equal) {
    return BadInput(field, "differ", "replicas that share a pipeline take turns");
  }
  if (!whole && plan.microbatches != 1) {
    return BadInput(where + ": microbatches", "an update of a shared pipeline is one microbatch");
  }
  const WorkOrder expected = ForwardsAndBackwardsInTurn(plan.microbatches);
  for (size_t p = 0; p < plan.pipelines.size(); ++p) {
    const std::vector<StagePlan>& stages = plan.pipelines[p].stages;
    for (size_t s = 0; s < stages.size(); ++s) {
      const std::string place = fmt::format("{}: pipelines[{}].stages[{}]", where, p, s);
      if (whole && stages.size() != 1) return BadInput(place, "a replica has one stage");
      if (stages[s].devices.size() != 1) return BadInput(place, "has more than one device");
      if (stages[s].chunks.size() != 1) return BadInput(place, "has more than one run of layers");
      if (stages[s].recompute) return BadInput(place, "recomputes", "local updates cannot");
      if (stages[s].order == expected) continue;
      return BadInput(place + ".order", "is not each forward followed by its backward",
                      "the order of local updates is fixed");
    }
  }
  if (plan.request.clip <= 0) return Ok();
  return BadInput(where + ": clip", "replicas update without waiting for each other",
                  "clipping needs all gradients at once; leave it out");
}

Status ValidateCompression(const Plan& plan, const std::string& where) {
  const bool reduces = !plan.spmd && !plan.async && !plan.local;
  if (reduces && plan.request.sync == GradientSync::kAllReduce) return Ok();
  return Infeasible(where + ": compress", "only the all-reduces of synchronous replicas compress",
                    "leave it out, or use a strategy that replicates stages, such as dp");
}

Status ValidateServers(const Plan& plan, const std::string& where) {
  const std::string field = where + ": sync";
  if (plan.spmd || plan.async || plan.local) {
    return Infeasible(field, "servers sum gradients of synchronous replicas",
                      "use allreduce, or a strategy that replicates stages, such as dp");
  }
  if (plan.request.clip > 0) {
    return Infeasible(field, "no device has all gradients to clip",
                      "use allreduce, or leave out clipping");
  }
  return Ok();
}

}  // namespace

int64_t LocalPlan::updates() const {
  return std::accumulate(steps.begin(), steps.end(), int64_t{0});
}

std::vector<LocalUpdate> UpdatesInTurn(const LocalPlan& local) {
  std::vector<LocalUpdate> updates;
  for (size_t r = 0; r < local.steps.size(); ++r) {
    for (int32_t step = 0; step < local.steps[r]; ++step) {
      updates.push_back({static_cast<int32_t>(r), step});
    }
  }
  // Update h of H is in the middle of its part of the round, (2h + 1) / 2H.
  std::stable_sort(updates.begin(), updates.end(), [&](const LocalUpdate& a, const LocalUpdate& b) {
    return (2 * a.step + 1) * local.steps[static_cast<size_t>(b.replica)] <
           (2 * b.step + 1) * local.steps[static_cast<size_t>(a.replica)];
  });
  return updates;
}

std::vector<LayerAge> WeightAges(const Plan& plan, int layers) {
  if (!plan.async) return {};
  std::vector<LayerAge> ages(static_cast<size_t>(layers));
  const std::vector<StagePlan>& stages = plan.pipelines[0].stages;
  for (size_t s = 0; s < stages.size(); ++s) {
    const int64_t ahead = std::ssize(stages) - 1 - static_cast<int64_t>(s);
    LayerAge age{ahead, ahead};
    if (plan.async->versions == WeightVersions::kVertical) {
      age = {std::ssize(stages) - 1, std::ssize(stages) - 1};
    } else if (plan.async->versions == WeightVersions::kTwo) {
      age = {1, 1};
    } else if (plan.async->versions == WeightVersions::kNone) {
      age.backward = 0;
    }
    for (const LayerRun& run : stages[s].chunks) {
      for (int l = run.first; l <= run.last; ++l) ages[static_cast<size_t>(l)] = age;
    }
  }
  return ages;
}

WorkOrder ForwardsAndBackwardsInTurn(int64_t microbatches) {
  WorkOrder order;
  for (int32_t m = 0; m < microbatches; ++m) {
    order.push_back({WorkKind::kForward, 0, m});
    order.push_back({WorkKind::kBackward, 0, m});
  }
  return order;
}

int Plan::devices_used() const {
  size_t count = 0;
  for (const PipelinePlan& pipeline : pipelines) {
    for (const StagePlan& stage : pipeline.stages) count += stage.devices.size();
  }
  if (spmd) count += spmd->mesh.size() * spmd->mesh[0].size();
  return static_cast<int>(count);
}

bool Plan::has_bodies() const {
  return std::any_of(pipelines.begin(), pipelines.end(), [](const PipelinePlan& pipeline) {
    return std::any_of(pipeline.stages.begin(), pipeline.stages.end(),
                       [](const StagePlan& stage) { return stage.body.has_value(); });
  });
}

Status ValidatePlan(const Plan& plan, int layers, const std::string& where) {
  if (plan.request.sync == GradientSync::kServers)
    HEDDLE_RETURN_IF_ERROR(ValidateServers(plan, where));
  if (plan.request.compress) HEDDLE_RETURN_IF_ERROR(ValidateCompression(plan, where));
  if (plan.spmd) {
    if (!plan.pipelines.empty()) return BadInput(where, "has both pipelines and an SPMD program");
    if (plan.request.batch % plan.microbatches != 0) {
      return BadInput(
          where + ": microbatches",
          fmt::format("{} do not divide the batch of {}", plan.microbatches, plan.request.batch),
          "an SPMD program has microbatches of one size");
    }
    return CheckMesh(*plan.spmd, where + ": spmd");
  }
  if (plan.has_bodies()) HEDDLE_RETURN_IF_ERROR(ValidateBodies(plan, where));
  if (plan.async) HEDDLE_RETURN_IF_ERROR(ValidateAsync(plan, where));
  if (plan.local) HEDDLE_RETURN_IF_ERROR(ValidateLocal(plan, where));
  std::set<std::string> used;
  std::vector<int> done(static_cast<size_t>(plan.microbatches), 0);
  for (size_t p = 0; p < plan.pipelines.size(); ++p) {
    const PipelinePlan& pipeline = plan.pipelines[p];
    HEDDLE_RETURN_IF_ERROR(
        ValidateLayers(pipeline, layers, fmt::format("{}: pipelines[{}]", where, p)));
    std::set<int32_t> microbatches;
    for (size_t s = 0; s < pipeline.stages.size(); ++s) {
      const StagePlan& stage = pipeline.stages[s];
      const std::string place = fmt::format("{}: pipelines[{}].stages[{}]", where, p, s);
      if (stage.devices.empty()) return BadInput(place + ".devices", "is empty");
      if (!stage.body && stage.shares.size() != stage.devices.size()) {
        return BadInput(place + ".shares", fmt::format("{} shares for {} devices",
                                                       stage.shares.size(), stage.devices.size()));
      }
      double total = 0;
      for (const double share : stage.shares) total += share;
      if (!stage.body && !(total > 0)) return BadInput(place + ".shares", "add up to nothing");
      for (const std::string& device : stage.devices) {
        if (used.insert(device).second) continue;
        return BadInput(place + ".devices", fmt::format("{} is used twice", device));
      }
      HEDDLE_RETURN_IF_ERROR(ValidateOrder(stage, plan.microbatches, place + ".order"));
      std::set<int32_t> mine;
      for (const WorkItem& item : stage.order) mine.insert(item.microbatch);
      if (s == 0) microbatches = mine;
      if (mine != microbatches) {
        return BadInput(place + ".order", "does not process the microbatches of the stage before");
      }
    }
    HEDDLE_RETURN_IF_ERROR(TimesOf(pipeline, fmt::format("{}: pipelines[{}]", where, p)));
    for (const int32_t m : microbatches) ++done[static_cast<size_t>(m)];
  }
  for (size_t m = 0; m < done.size() && !plan.local;
       ++m) {  // replicas each have batches of their own
    if (done[m] == 1) continue;
    return BadInput(where, fmt::format("microbatch {} is processed {} times", m, done[m]),
                    "every microbatch goes through exactly one pipeline");
  }
  return Ok();
}

}  // namespace heddle
