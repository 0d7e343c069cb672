#include "report/throughput.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/json_field.h"
#include "base/text.h"
#include "program/lower/lower.h"

namespace heddle {
namespace {

// Of an op's FLOPs, those that the gradient needs: its kernel's second look at the scores is left
// out. Products in backward: two of each forward one.
double ModelShare(OpKind kind) {
  switch (kind) {
    case OpKind::kAttentionInput:
      return 8.0 / 10;
    case OpKind::kCrossAttentionQuery:
      return 4.0 / 6;
    case OpKind::kCrossAttentionContext:
      return 4.0 / 8;
    default:
      return 1;
  }
}

double ProductFlops(const Op& op, std::span<const int64_t> extents) {
  if (!InfoOf(op.kind).matrix || op.phase == Phase::kUpdate) return 0;
  return ModelShare(op.kind) * FlopsOf(op, extents).value;
}

double SegmentFlops(const Program& program, const Segment& segment, const Graph& graph) {
  double flops = 0;
  for (const SegmentOp& member : segment.ops) {
    const auto id = graph.FindOp(program.NameOf(member));
    if (!id) continue;
    const Op& op = graph.op(*id);
    std::vector<int64_t> extents =
        segment.rows.size() > 0 ? ExtentsForRows(op, segment.rows.size()) : op.extents;
    for (const auto& [letter, range] : program.ShardsOf(member)) {
      extents[op.IndexOf(letter)] = range.size();
    }
    flops += ProductFlops(op, extents);
  }
  return flops;
}

std::set<std::string> UsedBy(const Plan& plan) {
  std::set<std::string> names;
  for (const PipelinePlan& pipeline : plan.pipelines) {
    for (const StagePlan& stage : pipeline.stages) {
      names.insert(stage.devices.begin(), stage.devices.end());
    }
  }
  if (plan.spmd) {
    for (const auto& node : plan.spmd->mesh) names.insert(node.begin(), node.end());
  }
  return names;
}

bool Recomputes(const Plan& plan) {
  return std::any_of(plan.pipelines.begin(), plan.pipelines.end(), [](const PipelinePlan& one) {
    return std::any_of(one.stages.begin(), one.stages.end(), [](const StagePlan& stage) {
      return stage.recompute || (stage.body && !stage.body->shape.again.empty());
    });
  });
}

}  // namespace

std::optional<Flops> ModelFlops(const Graph& graph) {
  Flops flops;
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::kOpaque) return std::nullopt;
    flops += Flops{ProductFlops(op, op.extents)};
  }
  return flops;
}

Flops RecomputedFlops(const Program& program, const Graph& graph) {
  std::vector<double> known(program.segments.size(), -1);
  Flops flops;
  for (const DeviceProgram& device : program.devices) {
    for (const Instruction& in : device.list(Section::kBody)) {
      if (in.code != OpCode::kCompute || !program.segment(in.target).recompute) continue;
      double& once = known[static_cast<size_t>(in.target)];
      if (once < 0) once = SegmentFlops(program, program.segment(in.target), graph);
      flops += Flops{once};
    }
  }
  return flops;
}

std::optional<int64_t> TokensPerSample(const Graph& graph) {
  std::optional<int64_t> tokens;
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::kEmbedding) continue;
    const Tensor& words = graph.tensor(op.inputs[0].tensor);
    if (words.per_sample && words.shape.size() == 2) tokens = words.shape[1];
  }
  return tokens;
}

Result<Throughput> ThroughputOf(const Plan& plan, const Graph& graph, const Cluster& cluster,
                                Seconds iteration) {
  const std::set<std::string> devices = UsedBy(plan);
  const double seconds = plan.seconds_per_batch(iteration.value);
  Throughput result;
  if (devices.empty() || !(seconds > 0)) return result;
  result.samples =
      static_cast<double>(plan.request.batch) / seconds / static_cast<double>(devices.size());
  if (const auto tokens = TokensPerSample(graph)) {
    result.tokens = result.samples * static_cast<double>(*tokens);
  }
  const std::optional<Flops> model = ModelFlops(graph);
  if (!model) return result;
  double peak = 0;
  for (const std::string& name : devices) {
    peak += cluster.type_of(*cluster.FindDevice(name)).rate(plan.request.dtype).value;
  }
  result.mfu = model->value / (seconds * peak);
  result.hfu = result.mfu;
  if (!Recomputes(plan)) return result;
  HEDDLE_ASSIGN(const Program program, LowerPlan(plan, graph));
  const double again = RecomputedFlops(program, graph).value;
  const auto batches = static_cast<double>(plan.batches_per_iteration());
  result.hfu = (model->value + again / batches) / (seconds * peak);
  return result;
}

std::string RateText(double per_second) {
  if (per_second < 99.95) return fmt::format("{:.3g}", per_second);
  constexpr double kMost = 9e18;
  return GroupDigits(std::llround(std::min(per_second, kMost)));
}

std::string UtilizationText(const std::optional<double>& utilization) {
  return utilization ? fmt::format("{:.1f}%", 100 * *utilization) : "–";
}

std::string ThroughputText(const Throughput& throughput) {
  std::string text = throughput.tokens
                         ? fmt::format("{} tokens/s per device ({} samples/s)",
                                       RateText(*throughput.tokens), RateText(throughput.samples))
                         : fmt::format("{} samples/s per device", RateText(throughput.samples));
  text += ", MFU " + UtilizationText(throughput.mfu);
  if (throughput.computes_again()) text += ", HFU " + UtilizationText(throughput.hfu);
  return text;
}

void AddThroughput(const std::optional<Throughput>& throughput, Json& json) {
  const auto put = [&](const char* key, const std::optional<double>& value) {
    json[key] = value ? Json(*value) : Json();
  };
  const Throughput known = throughput.value_or(Throughput{});
  put("samples_per_second_per_device",
      throughput ? std::optional<double>(known.samples) : std::nullopt);
  put("tokens_per_second_per_device", known.tokens);
  put("mfu", known.mfu);
  put("hfu", known.hfu);
}

}  // namespace heddle
