// heddle-worker race: the lab's methods on the model of a plan, its stages as blocks. heddle asks
// for it and shows what came of it: while it runs, a line "racing DONE KNOWN" now and then on
// standard output; then the race as JSON.

#include <fmt/format.h>

#include <chrono>
#include <cstdio>

#include "lab/block_work.h"
#include "lab/network_objective.h"
#include "lab/race_json.h"
#include "model/layer_chain.h"
#include "run/torch/plan_network.h"
#include "worker/commands.h"
#include "worker/output.h"

namespace heddle {
namespace {

// Seconds of a microbatch on each stage, on the first of its devices.
Result<std::vector<BlockWork>> WorkOf(const LoadedPlan& loaded, const PlanNetwork& made) {
  const OpCost cost = loaded.planning->cost();
  const LayerChain chain = ChainOf(loaded.planning->graph);
  const int64_t rows = made.graph->batch();
  std::vector<BlockWork> blocks;
  for (const StagePlan& stage : loaded.plan.pipelines[0].stages) {
    const auto device = loaded.cluster->FindDevice(stage.devices[0]);
    if (!device) return BadInput("plan", "device " + stage.devices[0] + " is not in its cluster");
    const auto seconds = [&](const std::vector<OpId>& ops) {
      double sum = 0;
      for (const OpId id : ops) {
        sum += cost.RowsSeconds(cost.graph().op(id), rows, loaded.cluster->type_of(*device)).value;
      }
      return sum;
    };
    BlockWork work;
    for (int layer = stage.chunks[0].first; layer <= stage.chunks[0].last; ++layer) {
      const ChainLayer& ops = chain.layers[static_cast<size_t>(layer)];
      work.forward += seconds(ops.forward);
      work.backward_input += seconds(ops.backward_input);
      work.backward_weight += seconds(ops.backward_weight);
    }
    blocks.push_back(work);
  }
  return blocks;
}

void TellProgress(RaceOptions& options) {
  using Clock = std::chrono::steady_clock;
  options.progress = [last = Clock::now()](int64_t done, int64_t known) mutable {
    constexpr std::chrono::milliseconds kPause{200};
    if (Clock::now() - last < kPause) return;
    last = Clock::now();
    fmt::print("racing {} {}\n", done, known);
    std::fflush(stdout);
  };
}

}  // namespace

Status RaceCommand(const Words& words) {
  if (words.size() < 2) return Usage("no plan or no options given");
  HEDDLE_ASSIGN(const Json json, ParseJson(words[1], "race options"));
  HEDDLE_ASSIGN(RaceOptions options, RaceOptionsFromJson(JsonField(json, "race options")));
  HEDDLE_ASSIGN(const PlanAndProfile both, LoadPlanAndProfile(words[0], ""));
  HEDDLE_ASSIGN(const PlanNetwork made, NetworkOfPlan(both.loaded.plan));
  HEDDLE_ASSIGN(const std::vector<BlockWork> work, WorkOf(both.loaded, made));
  const NetworkObjective objective(*made.network);
  options.stages = {made.network->blocks()};
  options.trial.staleness = true;
  if (options.trial.microbatches == 0 && both.loaded.plan.microbatches > 1) {
    options.trial.microbatches = both.loaded.plan.microbatches;
  }
  TellProgress(options);
  HEDDLE_ASSIGN(const Race race, RunRace(objective, options));
  RaceSubject subject = SubjectOf(both.loaded.plan.request.model, objective);
  subject.work = WorkOfUpdates(work);
  return PrintJson(RaceToJson(subject, options, race));
}

}  // namespace heddle
