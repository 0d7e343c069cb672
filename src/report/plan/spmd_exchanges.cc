#include "report/plan/spmd_exchanges.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_field.h"

namespace heddle {
namespace {

using Place = std::array<size_t, kMeshAxes>;

Slice Common(Slice a, const Slice& b) {
  for (size_t d = 0; d < a.size(); ++d) {
    a[d].begin = std::max(a[d].begin, b[d].begin);
    a[d].end = std::max(a[d].begin, std::min(a[d].end, b[d].end));
  }
  return a;
}

// The first row or column of the mesh, or all devices.
std::vector<Place> FirstGroup(const SpmdPlan& spmd, int axis) {
  std::vector<Place> places;
  for (size_t node = 0; node < spmd.mesh.size(); ++node) {
    for (size_t k = 0; k < spmd.mesh[0].size(); ++k) {
      if (axis == 0 && k > 0) continue;
      if (axis == 1 && node > 0) continue;
      places.push_back({node, k});
    }
  }
  return places;
}

Seconds AloneSeconds(const SpmdPlan& spmd, const Tensor& tensor, const Cluster& cluster,
                     const SpmdStep& step, const SpmdConversion& conversion) {
  const std::vector<Place> places = FirstGroup(spmd, conversion.axis);
  const auto part = [&](const Layout& layout, const Place& place) {
    return ShardOf(tensor.shape, layout, spmd, place);
  };
  const auto bytes = [&](const Slice& slice) {
    return Bytes{ElementsOf(slice) * SizeOf(tensor.dtype)};
  };
  std::vector<DeviceId> group;
  std::vector<Bytes> sizes;
  for (const Place& place : places) {
    group.push_back(*cluster.FindDevice(spmd.mesh[place[0]][place[1]]));
    switch (conversion.kind) {
      case CollectiveKind::kAllGather:
        sizes.push_back(bytes(part(step.from, place)));
        break;
      case CollectiveKind::kReduceScatter:
        sizes.push_back(bytes(part(step.to, place)));
        break;
      case CollectiveKind::kAllToAll:
        for (const Place& other : places) {
          sizes.push_back(bytes(Common(part(step.from, place), part(step.to, other))));
        }
        break;
      case CollectiveKind::kAllReduce:
      case CollectiveKind::kBroadcast:
        if (sizes.empty()) sizes.push_back(bytes(part(step.to, place)));
        break;
    }
  }
  return NetworkCost(cluster)
      .Collective({conversion.kind, group, sizes, step.algorithm, 0})
      .seconds;
}

}  // namespace

std::vector<int32_t> LayersOfTensors(const Graph& graph) {
  constexpr int32_t kNone = -1;
  std::vector<int32_t> layers(graph.tensors().size(), kNone);
  const auto place = [&](const Operand& operand, const Op& op) {
    int32_t& layer = layers[static_cast<size_t>(operand.tensor.value)];
    if (layer == kNone) layer = std::max(0, op.layer.value);
  };
  for (const Op& op : graph.ops()) {
    for (const Operand& output : op.outputs) place(output, op);
    for (const Operand& input : op.inputs) place(input, op);
  }
  return layers;
}

std::vector<SpmdExchange> ExchangesOf(const Plan& plan, const Graph& graph,
                                      const Cluster& cluster) {
  const SpmdPlan& spmd = *plan.spmd;
  const std::vector<int32_t> layers = LayersOfTensors(graph);
  const std::array<size_t, kMeshAxes> places = {spmd.mesh.size(), spmd.mesh[0].size()};
  std::vector<SpmdExchange> exchanges;
  for (const SpmdStep& step : spmd.steps) {
    if (!step.converts()) continue;
    const auto conversion = ConversionOf(step.from, step.to);
    if (!conversion || !conversion->exchanges) continue;
    Tensor tensor = graph.tensor(step.tensor);
    if (tensor.per_sample) tensor.shape[0] /= plan.microbatches;
    SpmdExchange exchange{&step, *conversion, 0, tensor.bytes(), 1, 1, {}};
    exchange.layer = layers[static_cast<size_t>(step.tensor.value)];
    exchange.members = places[0] * places[1];
    if (conversion->axis < kMeshAxes) {
      exchange.members = places[static_cast<size_t>(conversion->axis)];
      exchange.groups = places[static_cast<size_t>(1 - conversion->axis)];
    }
    if (exchange.members == 1) continue;
    exchange.alone = AloneSeconds(spmd, tensor, cluster, step, *conversion);
    exchanges.push_back(exchange);
  }
  return exchanges;
}

std::string GroupText(const SpmdExchange& exchange) {
  if (exchange.groups == 1) return fmt::format("all {}", exchange.members);
  return exchange.conversion.axis == 0 ? fmt::format("across {} nodes", exchange.members)
                                       : fmt::format("{} in a node", exchange.members);
}

Json ExchangesJson(const std::vector<SpmdExchange>& exchanges, const Graph& graph) {
  Json rows = Json::array();
  for (const SpmdExchange& exchange : exchanges) {
    const SpmdStep& step = *exchange.step;
    rows.push_back({{"layer", graph.layers()[static_cast<size_t>(exchange.layer)]},
                    {"kind", NameOf(exchange.conversion.kind)},
                    {"algorithm", NameOf(step.algorithm)},
                    {"tensor", graph.tensor(step.tensor).name},
                    {"from", NameOf(step.from)},
                    {"to", NameOf(step.to)},
                    {"bytes", exchange.bytes.value},
                    {"groups", exchange.groups},
                    {"members", exchange.members},
                    {"alone_seconds", exchange.alone.value}});
  }
  return rows;
}

}  // namespace heddle
