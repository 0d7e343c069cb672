#include "program/plan/body_json.h"

#include <algorithm>

#include "base/json_field.h"
#include "program/plan/spmd_json.h"

namespace heddle {
namespace {

Json RunsToJson(const std::vector<int32_t>& layers) {
  Json json = Json::array();
  for (size_t k = 0; k < layers.size(); ++k) {
    const bool goes_on = k > 0 && layers[k] == layers[k - 1] + 1;
    if (goes_on) {
      json.back()[1] = layers[k];
    } else {
      json.push_back({layers[k], layers[k]});
    }
  }
  return json;
}

// Ascending, and only layers of the stage.
Status ReadAgain(const JsonField& again, const StagePlan& stage, std::vector<int32_t>& layers) {
  const auto in_stage = [&](int64_t layer) {
    return std::any_of(stage.chunks.begin(), stage.chunks.end(), [&](const LayerRun& run) {
      return layer >= run.first && layer <= run.last;
    });
  };
  for (size_t k = 0; k < again.size(); ++k) {
    const JsonField run = again.Element(k);
    if (!run.json().is_array() || run.size() != 2) {
      return run.Bad("is not [first, last]", "e.g. \"again\": [[1, 3]]");
    }
    const int64_t least = layers.empty() ? 0 : layers.back() + 1;
    HEDDLE_ASSIGN(const int64_t first, run.Element(0).AsInt(least, INT32_MAX));
    HEDDLE_ASSIGN(const int64_t last, run.Element(1).AsInt(first, INT32_MAX));
    for (int64_t layer = first; layer <= last; ++layer) {
      if (!in_stage(layer)) return run.Bad("has layers of another stage");
      layers.push_back(static_cast<int32_t>(layer));
    }
  }
  return Ok();
}

std::vector<int32_t> ParametersOf(const StagePlan& stage, const Graph& graph) {
  std::vector<int32_t> parameters;
  for (size_t p = 0; p < graph.parameters().size(); ++p) {
    const std::vector<LayerId>& layers = graph.parameters()[p].layers;
    const bool mine = std::any_of(layers.begin(), layers.end(), [&](LayerId layer) {
      return std::any_of(stage.chunks.begin(), stage.chunks.end(), [&](const LayerRun& run) {
        return layer.value >= run.first && layer.value <= run.last;
      });
    });
    if (mine) parameters.push_back(static_cast<int32_t>(p));
  }
  return parameters;
}

Result<ChunkSteps> ReadChunk(const JsonField& json, const Graph& graph, SpmdPlan& program) {
  HEDDLE_RETURN_IF_ERROR(json.OnlyKeys({"arrives", "forward", "backward"}));
  ChunkSteps chunk;
  HEDDLE_ASSIGN(const JsonField arrives, json.Array("arrives"));
  for (size_t k = 0; k < arrives.size(); ++k) {
    HEDDLE_ASSIGN(chunk.arrivals.emplace_back(), ArrivalFromJson(arrives.Element(k), graph));
  }
  chunk.forward = program.steps.size();
  HEDDLE_ASSIGN(const JsonField forward, json.Array("forward"));
  HEDDLE_RETURN_IF_ERROR(ReadSteps(forward, graph, program));
  chunk.backward = program.steps.size();
  HEDDLE_ASSIGN(const JsonField backward, json.Array("backward"));
  HEDDLE_RETURN_IF_ERROR(ReadSteps(backward, graph, program));
  chunk.end = program.steps.size();
  return chunk;
}

}  // namespace

void AddBody(const StageBody& body, const Graph& graph, Json& stage) {
  const SpmdPlan& program = body.program;
  stage["mesh"] = program.mesh;
  stage["ratios"] = program.ratios;
  if (program.converts_each) stage["converts_each"] = true;
  stage["storage"] = StorageToJson(program, graph);
  if (!body.shape.again.empty()) stage["again"] = RunsToJson(body.shape.again);
  stage["steps"] = Json::array();
  for (const ChunkSteps& chunk : body.shape.chunks) {
    Json arrives = Json::array();
    for (const BodyArrival& arrival : chunk.arrivals) {
      arrives.push_back(ArrivalToJson(arrival, graph));
    }
    stage["steps"].push_back(
        {{"arrives", std::move(arrives)},
         {"forward", StepsToJson(program, chunk.forward, chunk.backward, graph)},
         {"backward", StepsToJson(program, chunk.backward, chunk.end, graph)}});
  }
  stage["updates"] = StepsToJson(program, body.shape.updates, program.steps.size(), graph);
}

Status ReadBody(const JsonField& json, const Graph& graph, StagePlan& stage) {
  StageBody body;
  SpmdPlan& program = body.program;
  HEDDLE_RETURN_IF_ERROR(ReadMesh(json, program));
  if (json.Has("converts_each")) {
    HEDDLE_ASSIGN(program.converts_each, json.Bool("converts_each"));
  }
  HEDDLE_RETURN_IF_ERROR(ReadStorage(json, graph, ParametersOf(stage, graph), program));
  if (json.Has("again")) {
    HEDDLE_ASSIGN(const JsonField again, json.Array("again"));
    HEDDLE_RETURN_IF_ERROR(ReadAgain(again, stage, body.shape.again));
  }
  HEDDLE_ASSIGN(const JsonField steps, json.Array("steps"));
  for (size_t c = 0; c < steps.size(); ++c) {
    HEDDLE_ASSIGN(body.shape.chunks.emplace_back(), ReadChunk(steps.Element(c), graph, program));
  }
  body.shape.updates = program.steps.size();
  HEDDLE_ASSIGN(const JsonField updates, json.Array("updates"));
  HEDDLE_RETURN_IF_ERROR(ReadSteps(updates, graph, program));
  stage.devices = DevicesOf(program);
  stage.body = std::move(body);
  return Ok();
}

}  // namespace heddle
