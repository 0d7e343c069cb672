#include "program/lower/plan_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "program/plan/row_shares.h"

namespace heddle {
namespace {

PipelineLayout PlaceStages(const PipelinePlan& plan, PlanLayout& layout) {
  PipelineLayout pipeline;
  pipeline.plan = &plan;
  pipeline.rows.resize(plan.stages.size());
  pipeline.chunks_of = ChunkPlaces(plan);
  pipeline.times = TimesOf(plan, "plan").value();
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    pipeline.devices.emplace_back();
    for (const std::string& name : stage.devices) {
      pipeline.devices.back().push_back(static_cast<int32_t>(layout.device_names.size()));
      layout.device_names.push_back(name);
    }
    for (const int64_t rows : layout.microbatch_rows) {
      if (!pipeline.rows[s].contains(rows)) pipeline.rows[s][rows] = DivideRows(rows, stage.shares);
    }
    for (size_t c = 0; c < stage.chunks.size(); ++c) {
      Chunk chunk;
      chunk.stage = s;
      chunk.index = static_cast<int32_t>(c);
      chunk.layers = stage.chunks[c];
      pipeline.chunks.push_back(std::move(chunk));
    }
  }
  std::sort(pipeline.chunks.begin(), pipeline.chunks.end(),
            [](const Chunk& a, const Chunk& b) { return a.layers < b.layers; });
  return pipeline;
}

// Fills in which parameters every device holds; returns the devices of every parameter.
std::vector<std::vector<int32_t>> FindHolders(const Graph& graph, PlanLayout& layout) {
  layout.held.resize(layout.device_names.size());
  std::vector<std::vector<int32_t>> holders(graph.parameters().size());
  for (const PipelineLayout& pipeline : layout.pipelines) {
    for (size_t s = 0; s < pipeline.devices.size(); ++s) {
      std::set<int32_t> parameters;
      for (const LayerRun& run : pipeline.plan->stages[s].chunks) {
        for (int l = run.first; l <= run.last; ++l) {
          const auto& list = layout.chain.layers[static_cast<size_t>(l)].parameters;
          parameters.insert(list.begin(), list.end());
        }
      }
      for (const int32_t device : pipeline.devices[s]) {
        layout.held[static_cast<size_t>(device)].assign(parameters.begin(), parameters.end());
        for (const int32_t p : parameters) holders[static_cast<size_t>(p)].push_back(device);
      }
    }
  }
  return holders;
}

// Backward of a replicated stage is cut where a bucket is complete.
std::vector<int32_t> BackwardCuts(const PlanLayout& layout, int32_t device) {
  std::vector<int32_t> cuts;
  for (const GradientBucket& bucket : layout.buckets) {
    const bool mine = std::binary_search(bucket.group.begin(), bucket.group.end(), device);
    if (mine && bucket.group.size() > 1) cuts.push_back(bucket.lowest_layer);
  }
  std::sort(cuts.begin(), cuts.end(), std::greater<>());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

bool SplitsBackward(const StagePlan& stage) {
  return std::any_of(stage.order.begin(), stage.order.end(),
                     [](const WorkItem& item) { return item.kind == WorkKind::kWeight; });
}

void MakeSegments(const Graph& graph, const PlanLayout& layout, PipelineLayout& pipeline,
                  size_t k) {
  Chunk& chunk = pipeline.chunks[k];
  const StagePlan& stage = pipeline.plan->stages[chunk.stage];
  ChunkOptions options;
  options.layers = chunk.layers;
  options.recompute = stage.recompute;
  options.split_backward = SplitsBackward(stage);
  options.previous_is_local = k > 0 && pipeline.Local(k, k - 1);
  options.next_is_local = k + 1 < pipeline.chunks.size() && pipeline.Local(k, k + 1);
  options.backward_cuts = BackwardCuts(layout, pipeline.devices[chunk.stage][0]);
  chunk.segments = SegmentsOf(graph, layout.chain, options);
  if (k > 0) {
    const Cut& cut = layout.chain.cuts[static_cast<size_t>(chunk.layers.first - 1)];
    chunk.in = cut.forward;
    chunk.gradients_out = cut.backward;
  }
  if (k + 1 < pipeline.chunks.size()) {
    const Cut& cut = layout.chain.cuts[static_cast<size_t>(chunk.layers.last)];
    chunk.out = cut.forward;
    chunk.gradients_in = cut.backward;
  }
}

// A tied weight may get its gradient from several segments of a stage: the first to run, in the
// last chunk, sets it (or adds, for later microbatches), the others always add. With a split
// backward any of the chunks may be the first to run: then all add to zeros. Returns what starts as
// zeros.
std::set<TensorId> ShareGradients(PipelineLayout& pipeline, std::vector<size_t> chunks,
                                  bool split) {
  std::sort(chunks.begin(), chunks.end(), std::greater<>());
  std::map<TensorId, size_t> first;  // chunk that sets it
  std::set<TensorId> zeroed;
  for (const size_t k : chunks) {
    for (SegmentTemplate& segment : pipeline.chunks[k].segments.segments) {
      for (TensorPort& port : segment.ports) {
        if (port.use != PortUse::kAdd) continue;
        const auto [found, is_first] = first.emplace(port.tensor, k);
        if (!is_first) port.use = PortUse::kAccumulate;
        if (split && found->second != k) zeroed.insert(port.tensor);
      }
    }
  }
  for (const size_t k : chunks) {
    for (SegmentTemplate& segment : pipeline.chunks[k].segments.segments) {
      for (TensorPort& port : segment.ports) {
        if (zeroed.contains(port.tensor)) port.use = PortUse::kAccumulate;
      }
    }
  }
  return zeroed;
}

// What each chunk receives while another chunk of the stage holds it as well. `step` is +1 for
// activations, which come from the chunk before, and -1 for gradients.
void FindOwnForms(PipelineLayout& pipeline, const std::vector<size_t>& chunks, int step,
                  std::vector<TensorId> Chunk::*in, std::vector<TensorId> Chunk::*out) {
  std::set<TensorId> held;
  for (const size_t k : chunks) {
    Chunk& chunk = pipeline.chunks[k];
    const size_t source = step > 0 ? k - 1 : k + 1;
    const bool local = !(chunk.*in).empty() && pipeline.Local(k, source);
    for (const TensorId tensor : chunk.*in) {
      if (!local) {
        if (held.contains(tensor)) chunk.own_form[tensor] = chunk.index;
        continue;
      }
      const auto& inherited = pipeline.chunks[source].own_form;
      if (const auto found = inherited.find(tensor); found != inherited.end()) {
        chunk.own_form[tensor] = found->second;
      }
    }
    held.insert((chunk.*in).begin(), (chunk.*in).end());
    held.insert((chunk.*out).begin(), (chunk.*out).end());
  }
}

}  // namespace

void AddChannels(const PipelineLayout& pipeline, Program& program) {
  std::set<std::pair<size_t, size_t>> done;
  for (size_t k = 0; k + 1 < pipeline.chunks.size(); ++k) {
    const size_t a = std::min(pipeline.chunks[k].stage, pipeline.chunks[k + 1].stage);
    const size_t b = std::max(pipeline.chunks[k].stage, pipeline.chunks[k + 1].stage);
    if (a == b || !done.emplace(a, b).second) continue;
    program.channels.push_back({{pipeline.devices[a], pipeline.devices[b]}, false});
  }
}

Status CheckNotShared(const Plan& plan, const Graph& graph, const PlanLayout& layout) {
  for (const GradientBucket& bucket : layout.buckets) {
    for (size_t s = 0; s < layout.pipelines[0].devices.size(); ++s) {
      const std::vector<int32_t>& stage = layout.pipelines[0].devices[s];
      const bool mine = std::find(stage.begin(), stage.end(), bucket.group[0]) != stage.end();
      if (!mine || bucket.group.size() == stage.size()) continue;
      const Parameter& parameter = graph.parameters()[static_cast<size_t>(bucket.parameters[0])];
      return Infeasible(plan.strategy,
                        fmt::format("{} is shared by stage {} and another",
                                    graph.tensor(parameter.tensor).name, s),
                        "stages that update on their own cannot share weights; most models "
                        "have tied=0");
    }
  }
  return Ok();
}

PlanLayout LayOut(const Plan& plan, const Graph& graph) {
  PlanLayout layout;
  layout.chain = ChainOf(graph);
  for (const Cut& cut : layout.chain.cuts) {
    layout.most_crossing =
        std::max({layout.most_crossing, cut.forward.size(), cut.backward.size()});
  }
  layout.microbatch_rows = MicrobatchRows(plan.request.batch, plan.microbatches);
  for (const PipelinePlan& pipeline : plan.pipelines) {
    layout.pipelines.push_back(PlaceStages(pipeline, layout));
  }
  layout.buckets = MakeBuckets(graph, FindHolders(graph, layout), plan.bucket);
  for (PipelineLayout& pipeline : layout.pipelines) {
    for (size_t k = 0; k < pipeline.chunks.size(); ++k) MakeSegments(graph, layout, pipeline, k);
    for (size_t s = 0; s < pipeline.chunks_of.size(); ++s) {
      std::vector<size_t> chunks = pipeline.chunks_of[s];
      pipeline.zeroed.push_back(
          ShareGradients(pipeline, chunks, SplitsBackward(pipeline.plan->stages[s])));
      std::sort(chunks.begin(), chunks.end());
      FindOwnForms(pipeline, chunks, +1, &Chunk::in, &Chunk::out);
      std::reverse(chunks.begin(), chunks.end());
      FindOwnForms(pipeline, chunks, -1, &Chunk::gradients_in, &Chunk::gradients_out);
    }
  }
  return layout;
}

}  // namespace heddle
