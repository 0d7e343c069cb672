#include <fmt/format.h>

#include "base/file.h"
#include "base/json_struct.h"
#include "model/zoo.h"
#include "program/plan/body_json.h"
#include "program/plan/certificate_json.h"
#include "program/plan/plan.h"
#include "program/plan/request_fields.h"
#include "program/plan/spmd_json.h"

namespace heddle {

template <>
struct JsonFields<Estimate::Memory> {
  static constexpr auto kTable =
      std::tuple(JsonMember("device", &Estimate::Memory::device),
                 JsonMember("peak_bytes", &Estimate::Memory::peak_bytes).AtLeast(0),
                 JsonMember("capacity_bytes", &Estimate::Memory::capacity_bytes).AtLeast(0));
};

template <>
struct JsonFields<TriedPlan> {
  static constexpr auto kTable =
      std::tuple(JsonMember("how", &TriedPlan::how),
                 JsonMember("iteration_seconds", &TriedPlan::iteration_seconds),
                 JsonMember("compute_seconds", &TriedPlan::compute_seconds),
                 JsonMember("fullest", &TriedPlan::fullest),
                 JsonMember("peak_bytes", &TriedPlan::peak_bytes).AtLeast(0),
                 JsonMember("capacity_bytes", &TriedPlan::capacity_bytes).AtLeast(0));
};

template <>
struct JsonFields<LocalPlan> {
  static constexpr auto kTable =
      std::tuple(JsonMember("steps", &LocalPlan::steps).Within(1, kMostWorkItems));
};

template <>
struct JsonFields<AsyncPlan> {
  static constexpr auto kTable = std::tuple(JsonMember("versions", &AsyncPlan::versions));
};

namespace {

constexpr int64_t kMostLayers = 1 << 16;
constexpr size_t kMostItems = kMostWorkItems;  // in the orders of all stages together

Json StageToJson(const StagePlan& stage, const Graph& graph) {
  Json json;
  json["layers"] = Json::array();
  for (const LayerRun& run : stage.chunks) json["layers"].push_back({run.first, run.last});
  if (stage.body) {
    AddBody(*stage.body, graph, json);
  } else {
    json["devices"] = stage.devices;
    json["shares"] = stage.shares;
    if (stage.recompute) json["recompute"] = true;
  }
  json["order"] = PrintOrder(stage.order);
  return json;
}

Status ReadReplicas(const JsonField& json, StagePlan& stage) {
  HEDDLE_ASSIGN(const JsonField devices, json.Child("devices"));
  HEDDLE_RETURN_IF_ERROR(ReadValue(devices, {}, stage.devices));
  HEDDLE_ASSIGN(const JsonField shares, json.Child("shares"));
  HEDDLE_RETURN_IF_ERROR(ReadValue(shares, {0, 1e12}, stage.shares));
  if (json.Has("recompute")) {
    HEDDLE_ASSIGN(stage.recompute, json.Bool("recompute"));
  }
  return Ok();
}

// `items` is how many items of work the orders may still have; what this stage's has is taken off.
// `graph` is null until a stage needs it.
Result<StagePlan> StageFromJson(const JsonField& json, const Plan& plan,
                                std::optional<Graph>& graph, size_t& items) {
  const bool has_body = json.Has("mesh");
  if (has_body) {
    HEDDLE_RETURN_IF_ERROR(json.OnlyKeys({"layers", "mesh", "ratios", "converts_each", "storage",
                                          "again", "steps", "updates", "order"}));
  } else {
    HEDDLE_RETURN_IF_ERROR(json.OnlyKeys({"layers", "devices", "shares", "recompute", "order"}));
  }
  StagePlan stage;
  HEDDLE_ASSIGN(const JsonField layers, json.Array("layers"));
  for (size_t i = 0; i < layers.size(); ++i) {
    const JsonField run = layers.Element(i);
    if (!run.json().is_array() || run.size() != 2) {
      return run.Bad("is not [first, last]", "e.g. \"layers\": [[0, 3]]");
    }
    HEDDLE_ASSIGN(const int64_t first, run.Element(0).AsInt(0, kMostLayers));
    HEDDLE_ASSIGN(const int64_t last, run.Element(1).AsInt(first, kMostLayers));
    stage.chunks.push_back({static_cast<int32_t>(first), static_cast<int32_t>(last)});
  }
  if (stage.chunks.empty()) return layers.Bad("is empty");
  if (has_body) {
    if (!graph) {
      HEDDLE_ASSIGN(graph, GraphOf(plan));
    }
    HEDDLE_RETURN_IF_ERROR(ReadBody(json, *graph, stage));
  } else {
    HEDDLE_RETURN_IF_ERROR(ReadReplicas(json, stage));
  }
  HEDDLE_ASSIGN(const JsonField order, json.Child("order"));
  HEDDLE_ASSIGN(const std::string text, order.AsString());
  Result<WorkOrder> parsed = ParseOrder(text, "", items);
  if (!parsed.ok()) return order.Bad(parsed.error().what, parsed.error().hint);
  stage.order = std::move(parsed).value();
  items -= stage.order.size();
  return stage;
}

Result<Estimate> EstimateFromJson(const JsonField& json) {
  Estimate estimate;
  HEDDLE_ASSIGN(estimate.iteration_seconds, json.Number("iteration_seconds"));
  HEDDLE_ASSIGN(estimate.schedule_bound_seconds, json.Number("schedule_bound_seconds"));
  HEDDLE_ASSIGN(estimate.lower_bound_seconds, json.Number("lower_bound_seconds"));
  if (json.Has("guaranteed_seconds")) {
    HEDDLE_ASSIGN(estimate.guaranteed_seconds, json.Number("guaranteed_seconds"));
  }
  HEDDLE_ASSIGN(const JsonField memory, json.Child("memory"));
  HEDDLE_RETURN_IF_ERROR(ReadValue(memory, {}, estimate.memory));
  return estimate;
}

Result<SearchCertificate> CertificateFromJson(const JsonField& json) {
  SearchCertificate certificate;
  HEDDLE_RETURN_IF_ERROR(json.OnlyKeys(
      {"search", "cost_seconds", "lower_bound_seconds", "certified_gap", "expanded_states"}));
  HEDDLE_ASSIGN(certificate.search, json.String("search"));
  HEDDLE_ASSIGN(certificate.cost_seconds, json.Number("cost_seconds"));
  HEDDLE_ASSIGN(certificate.bound_seconds, json.Number("lower_bound_seconds"));
  HEDDLE_ASSIGN(certificate.expanded, json.Int("expanded_states", 0, INT64_MAX));
  return certificate;
}

Result<SearchReport> SearchFromJson(const JsonField& json) {
  SearchReport search;
  HEDDLE_ASSIGN(search.planning_seconds, json.Number("planning_seconds"));
  if (!json.Has("search")) return search;
  HEDDLE_ASSIGN(const JsonField field, json.Object("search"));
  HEDDLE_RETURN_IF_ERROR(field.OnlyKeys({"candidates", "notes", "tried", "certificate"}));
  HEDDLE_ASSIGN(search.candidates, field.Int("candidates", 0, INT64_MAX));
  HEDDLE_ASSIGN(const JsonField notes, field.Child("notes"));
  HEDDLE_RETURN_IF_ERROR(ReadValue(notes, {}, search.notes));
  if (field.Has("certificate")) {
    HEDDLE_ASSIGN(const JsonField certificate, field.Object("certificate"));
    HEDDLE_ASSIGN(search.certificate, CertificateFromJson(certificate));
  }
  if (!field.Has("tried")) return search;
  HEDDLE_ASSIGN(const JsonField tried, field.Child("tried"));
  HEDDLE_RETURN_IF_ERROR(ReadValue(tried, {}, search.tried));
  return search;
}

Status ReadPipelines(const JsonField& json, Plan& plan) {
  size_t items = kMostItems;
  std::optional<Graph> graph;
  HEDDLE_ASSIGN(const JsonField pipelines, json.Array("pipelines"));
  for (size_t p = 0; p < pipelines.size(); ++p) {
    HEDDLE_RETURN_IF_ERROR(pipelines.Element(p).OnlyKeys({"stages"}));
    HEDDLE_ASSIGN(const JsonField stages, pipelines.Element(p).Array("stages"));
    PipelinePlan pipeline;
    for (size_t s = 0; s < stages.size(); ++s) {
      HEDDLE_ASSIGN(pipeline.stages.emplace_back(),
                    StageFromJson(stages.Element(s), plan, graph, items));
    }
    if (pipeline.stages.empty()) return stages.Bad("is empty");
    plan.pipelines.push_back(std::move(pipeline));
  }
  if (plan.pipelines.empty()) return pipelines.Bad("is empty");
  return Ok();
}

Status ReadLocal(const JsonField& json, Plan& plan) {
  HEDDLE_ASSIGN(const JsonField local, json.Object("local"));
  HEDDLE_ASSIGN(plan.local, ReadStruct<LocalPlan>(local));
  int64_t left = kMostItems;
  for (const int64_t count : plan.local->steps) {
    left -= count;
    if (left < 0) return local.Bad("has too many steps", "a round has at most 2^24 updates");
  }
  return Ok();
}

Status ReadSpmd(const JsonField& json, Plan& plan) {
  HEDDLE_ASSIGN(const JsonField spmd, json.Object("spmd"));
  HEDDLE_ASSIGN(const Graph graph, GraphOf(plan));
  HEDDLE_ASSIGN(plan.spmd, SpmdFromJson(spmd, graph));
  return Ok();
}

Status CheckSchema(const JsonField& json) {
  HEDDLE_ASSIGN(const std::string schema, json.String("schema"));
  if (schema == kPlanSchema) return Ok();
  const bool older = schema == "heddle.plan/1";
  return json.Bad(fmt::format("schema is \"{}\"", schema),
                  older ? "an earlier heddle wrote it: make the plan again with heddle plan"
                        : fmt::format("expected \"{}\": is this a plan?", kPlanSchema));
}

// Pipelines or an SPMD program, and how weights follow.
Status ReadDecisions(const JsonField& json, Plan& plan) {
  if (json.Has("spmd") && json.Has("pipelines")) {
    return json.Bad("has both pipelines and an SPMD program", "leave one of them out");
  }
  if (json.Has("async") + json.Has("local") + json.Has("spmd") > 1) {
    return json.Bad("is of several kinds", "one of \"async\", \"local\" and \"spmd\"");
  }
  if (json.Has("async")) {
    HEDDLE_ASSIGN(const JsonField async, json.Object("async"));
    HEDDLE_ASSIGN(plan.async, ReadStruct<AsyncPlan>(async));
  }
  if (json.Has("local")) HEDDLE_RETURN_IF_ERROR(ReadLocal(json, plan));
  return json.Has("spmd") ? ReadSpmd(json, plan) : ReadPipelines(json, plan);
}

}  // namespace

Result<Graph> GraphOf(const Plan& plan) {
  const PlanRequest& request = plan.request;
  ModelOptions options{request.batch, request.dtype, request.optimizer, request.clip};
  options.profile_batch = request.profile_batch.value_or(0);
  for (const DeviceTypeSpec& type : plan.cluster.types) {
    if (type.name == request.profile_device) options.profile_rate = type.rate(request.dtype);
  }
  return BuildModel(request.model, options);
}

Json PlanToJson(const Plan& plan, const Graph& graph) {
  Json json;
  json["schema"] = kPlanSchema;
  json["strategy"] = plan.strategy;
  json["order"] = plan.order_name;
  json["request"] = RequestToJson(plan.request);
  json["model_hash"] = plan.model_hash;
  json["microbatches"] = plan.microbatches;
  json["bucket"] = fmt::format("{} B", plan.bucket.value);
  json["all_reduce"] = NameOf(plan.all_reduce);
  json["iteration_seconds"] = plan.estimate.iteration_seconds;
  json["schedule_bound_seconds"] = plan.estimate.schedule_bound_seconds;
  json["lower_bound_seconds"] = plan.estimate.lower_bound_seconds;
  if (plan.estimate.guaranteed_seconds > 0) {
    json["guaranteed_seconds"] = plan.estimate.guaranteed_seconds;
  }
  json["planning_seconds"] = plan.search.planning_seconds;
  json["devices_used"] = plan.devices_used();
  if (plan.spmd) {
    json["spmd"] = SpmdToJson(*plan.spmd, graph);
  } else {
    if (plan.async) json["async"] = WriteStruct(*plan.async);
    if (plan.local) json["local"] = WriteStruct(*plan.local);
    json["pipelines"] = Json::array();
    for (const PipelinePlan& pipeline : plan.pipelines) {
      Json stages = Json::array();
      for (const StagePlan& stage : pipeline.stages) stages.push_back(StageToJson(stage, graph));
      json["pipelines"].push_back({{"stages", std::move(stages)}});
    }
  }
  json["memory"] = WriteValue(plan.estimate.memory);
  json["search"] = {{"candidates", plan.search.candidates}, {"notes", plan.search.notes}};
  if (plan.search.certificate) {
    json["search"]["certificate"] = CertificateToJson(plan.search.certificate);
  }
  if (!plan.search.tried.empty()) json["search"]["tried"] = WriteValue(plan.search.tried);
  if (!plan.profile_hash.empty()) json["profile_hash"] = plan.profile_hash;
  json["cluster_hash"] = plan.cluster_hash;
  json["cluster"] = ClusterSpecToJson(plan.cluster);
  return json;
}

Result<Plan> PlanFromJson(const JsonField& json) {
  HEDDLE_RETURN_IF_ERROR(CheckSchema(json));
  HEDDLE_RETURN_IF_ERROR(json.OnlyKeys({"schema",
                                        "strategy",
                                        "order",
                                        "request",
                                        "model_hash",
                                        "microbatches",
                                        "bucket",
                                        "all_reduce",
                                        "iteration_seconds",
                                        "schedule_bound_seconds",
                                        "lower_bound_seconds",
                                        "guaranteed_seconds",
                                        "planning_seconds",
                                        "devices_used",
                                        "samples_per_second_per_device",
                                        "tokens_per_second_per_device",
                                        "mfu",
                                        "hfu",
                                        "pipelines",
                                        "async",
                                        "local",
                                        "spmd",
                                        "memory",
                                        "search",
                                        "profile_hash",
                                        "cluster_hash",
                                        "cluster"}));
  Plan plan;
  HEDDLE_ASSIGN(plan.strategy, json.String("strategy"));
  HEDDLE_ASSIGN(plan.order_name, json.String("order"));
  HEDDLE_ASSIGN(const JsonField request, json.Object("request"));
  HEDDLE_ASSIGN(plan.request, RequestFromJson(request));
  HEDDLE_ASSIGN(plan.model_hash, json.String("model_hash"));
  HEDDLE_ASSIGN(plan.cluster_hash, json.String("cluster_hash"));
  HEDDLE_ASSIGN(const JsonField cluster, json.Object("cluster"));
  HEDDLE_ASSIGN(plan.cluster, ClusterSpecFromJson(cluster));
  if (json.Has("profile_hash")) {
    HEDDLE_ASSIGN(plan.profile_hash, json.String("profile_hash"));
  }
  HEDDLE_ASSIGN(plan.microbatches,
                json.Int("microbatches", 1, std::min(kMostMicrobatches, plan.request.batch)));
  HEDDLE_ASSIGN(plan.bucket, json.BytesOf("bucket"));
  HEDDLE_ASSIGN(const JsonField all_reduce, json.Child("all_reduce"));
  HEDDLE_RETURN_IF_ERROR(ReadValue(all_reduce, {}, plan.all_reduce));
  HEDDLE_RETURN_IF_ERROR(ReadDecisions(json, plan));
  HEDDLE_ASSIGN(plan.estimate, EstimateFromJson(json));
  HEDDLE_ASSIGN(plan.search, SearchFromJson(json));
  return plan;
}

Result<Plan> ParsePlan(const std::string& text, const std::string& file) {
  HEDDLE_ASSIGN(const Json json, ParseJson(text, file));
  return PlanFromJson(JsonField(json, file));
}

Result<Plan> LoadPlan(const std::string& path) {
  HEDDLE_ASSIGN(const std::string text, ReadFile(path, kMostTextBytes));
  return ParsePlan(text, path);
}

}  // namespace heddle
