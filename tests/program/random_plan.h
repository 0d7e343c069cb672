// RandomPlan: valid plans of every shape, with a model for each.
//
//   const RandomPlan random(seed);
//   LowerPlan(random.plan(), random.graph())      // the same for the same seed
#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <random>

#include "hand_plans.h"
#include "model/random_graph.h"
#include "model/skip_graphs.h"
#include "model/zoo.h"

namespace heddle {

// Synchronous with all-reduces or through parameter servers, asynchronous, or LocalSGD.
enum class PlanKind : uint8_t { kFlush, kServed, kAsync, kLocal };

class RandomPlan {
 public:
  explicit RandomPlan(uint32_t seed, PlanKind kind = PlanKind::kFlush)
      : random_(seed), kind_(kind) {
    batch_ = 1 + Upto(8);
    graph_ = MakeGraph();
    switch (kind) {
      case PlanKind::kAsync:
        MakeAsync();
        break;
      case PlanKind::kLocal:
        MakeLocal();
        break;
      case PlanKind::kServed:
      case PlanKind::kFlush:
        MakePlan();
        break;
    }
    if (kind == PlanKind::kServed) plan_.request.sync = GradientSync::kServers;
  }

  const Plan& plan() const { return plan_; }
  const Graph& graph() const { return *graph_; }

 private:
  int Upto(int most) { return std::uniform_int_distribution<int>(0, most)(random_); }
  bool Maybe() { return Upto(1) == 1; }

  Graph MakeGraph() {
    const int kind = Upto(5);
    if (kind < 2) {
      const ModelOptions options{.batch = batch_,
                                 .optimizer = Maybe() ? Optimizer::kMomentum : Optimizer::kAdamW,
                                 .clip = kind_ == PlanKind::kFlush && Maybe() ? 1.0 : 0.0};
      return RandomGraph(random_, options).Make();
    }
    if (kind == 2) {
      const std::string spec =
          fmt::format("tiny-gpt?layers={}&hidden=4&heads=2&vocab=8&seq=2&tied={}", 1 + Upto(3),
                      kind_ == PlanKind::kAsync || kind_ == PlanKind::kLocal ? 0 : Upto(1));
      return BuildModel(spec, {.batch = batch_}).value();
    }
    std::vector<std::vector<int>> skips(static_cast<size_t>(1 + Upto(7)));
    const int density = Upto(3);  // none, few, half, many
    for (int l = 2; l < static_cast<int>(skips.size()); ++l) {
      for (int from = 0; from + 1 < l; ++from) {
        if (Upto(3) < density) skips[static_cast<size_t>(l)].push_back(from);
      }
    }
    return SkipGraph(skips, batch_, 2, Maybe() ? Optimizer::kSgd : Optimizer::kAdam);
  }

  void MakePlan() {
    const int microbatches = 1 + Upto(static_cast<int>(std::min<int64_t>(batch_, 6)) - 1);
    std::vector<std::vector<int32_t>> parts(
        static_cast<size_t>(1 + Upto(microbatches > 1 ? 1 : 0)));
    for (int32_t m = 0; m < microbatches; ++m) {
      const bool needed = m < static_cast<int32_t>(parts.size());  // every pipeline gets one
      const auto part = static_cast<size_t>(needed ? m : Upto(static_cast<int>(parts.size()) - 1));
      parts[part].push_back(m);
    }
    std::vector<PipelinePlan> pipelines;
    for (const std::vector<int32_t>& part : parts) pipelines.push_back(MakePipeline(part));
    plan_ = PlanOf(batch_, microbatches, std::move(pipelines));
    plan_.bucket = Bytes{Maybe() ? 1 : Maybe() ? 60 : 1 << 20};
  }

  // Consecutive runs of layers, a stage each; forward and backward in turn.
  PipelinePlan MakeLine(int64_t microbatches, int most_stages, int most_devices) {
    const auto layers = static_cast<int32_t>(graph_->layers().size());
    PipelinePlan pipeline;
    for (int32_t first = 0, l = 0; l < layers; ++l) {
      const bool full = static_cast<int>(pipeline.stages.size()) + 1 >= most_stages;
      if (l + 1 < layers && (full || Maybe())) continue;
      StagePlan& stage = pipeline.stages.emplace_back();
      stage.chunks = {{first, l}};
      for (int k = Upto(most_devices - 1); k >= 0; --k) stage.shares.push_back(1);
      stage.order = ForwardsAndBackwardsInTurn(microbatches);
      first = l + 1;
    }
    return pipeline;
  }

  // A pipeline that is never flushed. With two versions a batch has a microbatch less than there
  // are stages at least.
  void MakeAsync() {
    const WeightVersions versions = kWeightVersions[static_cast<size_t>(Upto(3))];
    const bool batches = versions == WeightVersions::kTwo;
    const int64_t microbatches = batches ? 1 + Upto(static_cast<int>(batch_) - 1) : 1;
    const int most_stages = batches ? static_cast<int>(microbatches) + 1 : 6;
    // Each device has samples of every microbatch.
    const auto most_devices = static_cast<int>(std::min<int64_t>(3, batch_ / microbatches));
    plan_ = PlanOf(batch_, microbatches, {MakeLine(microbatches, most_stages, most_devices)});
    plan_.async = AsyncPlan{versions};
  }

  // Replicas of one device each, faster ones with more updates in a round; or all on one pipeline.
  void MakeLocal() {
    const int replicas = 1 + Upto(3);
    LocalPlan local;
    if (Maybe()) {
      const int64_t every = 1 + Upto(3);
      local.steps.assign(static_cast<size_t>(replicas), every);
      for (int k = 0; k + 1 < replicas; ++k) {  // what one has less, another has more
        if (local.steps[static_cast<size_t>(k)] == 1 || Maybe()) continue;
        --local.steps[static_cast<size_t>(k)];
        ++local.steps.back();
      }
      const int64_t microbatches = 1 + Upto(static_cast<int>(batch_) - 1);
      std::vector<PipelinePlan> pipelines;
      for (int r = 0; r < replicas; ++r) pipelines.push_back(MakeLine(microbatches, 1, 1));
      plan_ = PlanOf(batch_, microbatches, std::move(pipelines));
    } else {
      local.steps.assign(static_cast<size_t>(replicas), 1 + Upto(3));
      plan_ = PlanOf(batch_, 1, {MakeLine(1, 6, 1)});
    }
    plan_.local = std::move(local);
  }

  // Layers are cut into chunks, and these dealt out to stages.
  PipelinePlan MakePipeline(const std::vector<int32_t>& microbatches) {
    std::vector<LayerRun> chunks;
    const auto layers = static_cast<int32_t>(graph_->layers().size());
    for (int32_t first = 0, l = 0; l < layers; ++l) {
      if (l + 1 < layers && Maybe()) continue;
      chunks.push_back({first, l});
      first = l + 1;
    }
    PipelinePlan pipeline;
    pipeline.stages.resize(static_cast<size_t>(1 + Upto(static_cast<int>(chunks.size()) - 1)));
    const auto stages = static_cast<int>(pipeline.stages.size());
    std::shuffle(chunks.begin(), chunks.end(), random_);
    for (size_t k = 0; k < chunks.size(); ++k) {
      const auto stage = static_cast<int>(k) < stages ? k : static_cast<size_t>(Upto(stages - 1));
      pipeline.stages[stage].chunks.push_back(chunks[k]);
    }
    for (StagePlan& stage : pipeline.stages) {
      stage.recompute = Upto(2) == 0;
      for (int k = Upto(2); k >= 0; --k) stage.shares.push_back(Upto(3));
      if (std::accumulate(stage.shares.begin(), stage.shares.end(), 0.0) == 0) stage.shares[0] = 1;
    }
    DealOrders(pipeline, microbatches);
    return pipeline;
  }

  // What is to be done for one microbatch in one chunk.
  struct Task {
    size_t stage;
    int32_t index;  // of the chunk in its stage
    size_t place;   // of the chunk along the layers
    int32_t microbatch;
    bool split;
    std::string done;
  };

  // Runs the pipeline in any order that its data allow, and writes down what each stage did.
  void DealOrders(PipelinePlan& pipeline, const std::vector<int32_t>& microbatches) {
    std::vector<Task> tasks;
    for (size_t s = 0; s < pipeline.stages.size(); ++s) {
      const int splits = Upto(2);  // never, always, sometimes
      for (size_t c = 0; c < pipeline.stages[s].chunks.size(); ++c) {
        const size_t place = PlaceOf(pipeline, pipeline.stages[s].chunks[c]);
        for (const int32_t m : microbatches) {
          const bool split = splits == 1 || (splits == 2 && Maybe());
          tasks.push_back({s, static_cast<int32_t>(c), place, m, split, ""});
        }
      }
    }
    const bool eager = Maybe();  // backward as soon as possible, or anything at any time
    for (;;) {
      std::vector<std::pair<Task*, char>> ready, backward;
      for (Task& task : tasks) {
        const char next = NextOf(task, tasks);
        if (next == 0) continue;
        ready.emplace_back(&task, next);
        if (next != 'F') backward.emplace_back(&task, next);
      }
      if (ready.empty()) return;
      const auto& from = eager && !backward.empty() ? backward : ready;
      const auto& [task, kind] = from[static_cast<size_t>(Upto(static_cast<int>(from.size()) - 1))];
      task->done += kind;
      pipeline.stages[task->stage].order.push_back(
          {static_cast<WorkKind>(kind), task->index, task->microbatch});
    }
  }

  static size_t PlaceOf(const PipelinePlan& pipeline, const LayerRun& run) {
    size_t before = 0;
    for (const StagePlan& stage : pipeline.stages) {
      for (const LayerRun& other : stage.chunks) before += other < run ? 1 : 0;
    }
    return before;
  }

  // F, B, I or W; 0 when the task is done or must wait.
  static char NextOf(const Task& task, const std::vector<Task>& tasks) {
    const auto neighbour_did = [&](size_t place, bool backward) {
      for (const Task& other : tasks) {
        if (other.place != place || other.microbatch != task.microbatch) continue;
        return other.done.size() > (backward ? 1U : 0U);
      }
      return true;  // there is none
    };
    if (task.done.empty()) return task.place == 0 || neighbour_did(task.place - 1, false) ? 'F' : 0;
    if (task.done == "F") {
      if (!neighbour_did(task.place + 1, true)) return 0;
      return task.split ? 'I' : 'B';
    }
    return task.done == "FI" ? 'W' : 0;
  }

  std::mt19937 random_;
  PlanKind kind_;
  int64_t batch_ = 1;
  std::optional<Graph> graph_;
  Plan plan_;
};

}  // namespace heddle
