#include <fmt/format.h>

#include "base/file.h"
#include "base/json_field.h"
#include "model/zoo.h"
#include "program/plan/certificate_json.h"
#include "program/plan/plan.h"
#include "program/plan/spmd_json.h"

namespace heddle {
namespace {

constexpr int64_t kMostBatch = 1 << 26;
constexpr int64_t kMostMicrobatches = 1 << 16;
constexpr int64_t kMostLayers = 1 << 16;
constexpr size_t kMostItems = kMostWorkItems;  // in the orders of all stages together

Json StageToJson(const StagePlan& stage) {
  Json json;
  json["layers"] = Json::array();
  for (const LayerRun& run : stage.chunks) json["layers"].push_back({run.first, run.last});
  json["devices"] = stage.devices;
  json["shares"] = stage.shares;
  if (stage.recompute) json["recompute"] = true;
  json["order"] = PrintOrder(stage.order);
  return json;
}

// `items` is how many items of work the orders may still have; what this stage's has is taken off.
Result<StagePlan> StageFromJson(const JsonField& json, size_t& items) {
  HEDDLE_RETURN_IF_ERROR(json.OnlyKeys({"layers", "devices", "shares", "recompute", "order"}));
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
  HEDDLE_ASSIGN(const JsonField devices, json.Array("devices"));
  for (size_t i = 0; i < devices.size(); ++i) {
    HEDDLE_ASSIGN(stage.devices.emplace_back(), devices.Element(i).AsString());
  }
  HEDDLE_ASSIGN(const JsonField shares, json.Array("shares"));
  for (size_t i = 0; i < shares.size(); ++i) {
    HEDDLE_ASSIGN(const double share, shares.Element(i).AsNumber());
    if (share < 0 || share > 1e12)
      return shares.Element(i).Bad("is not a share", "expected 0 or more");
    stage.shares.push_back(share);
  }
  if (json.Has("recompute")) {
    HEDDLE_ASSIGN(stage.recompute, json.Bool("recompute"));
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
  HEDDLE_ASSIGN(const JsonField memory, json.Array("memory"));
  for (size_t i = 0; i < memory.size(); ++i) {
    const JsonField row = memory.Element(i);
    Estimate::Memory entry;
    HEDDLE_ASSIGN(entry.device, row.String("device"));
    HEDDLE_ASSIGN(entry.peak_bytes, row.Int("peak_bytes", 0, INT64_MAX));
    HEDDLE_ASSIGN(entry.capacity_bytes, row.Int("capacity_bytes", 0, INT64_MAX));
    estimate.memory.push_back(std::move(entry));
  }
  return estimate;
}

Result<TriedPlan> TriedFromJson(const JsonField& json) {
  TriedPlan tried;
  HEDDLE_ASSIGN(tried.how, json.String("how"));
  HEDDLE_ASSIGN(tried.iteration_seconds, json.Number("iteration_seconds"));
  HEDDLE_ASSIGN(tried.compute_seconds, json.Number("compute_seconds"));
  HEDDLE_ASSIGN(tried.fullest, json.String("fullest"));
  HEDDLE_ASSIGN(tried.peak_bytes, json.Int("peak_bytes", 0, INT64_MAX));
  HEDDLE_ASSIGN(tried.capacity_bytes, json.Int("capacity_bytes", 0, INT64_MAX));
  return tried;
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
  HEDDLE_ASSIGN(const JsonField notes, field.Array("notes"));
  for (size_t i = 0; i < notes.size(); ++i) {
    HEDDLE_ASSIGN(search.notes.emplace_back(), notes.Element(i).AsString());
  }
  if (field.Has("certificate")) {
    HEDDLE_ASSIGN(const JsonField certificate, field.Object("certificate"));
    HEDDLE_ASSIGN(search.certificate, CertificateFromJson(certificate));
  }
  if (!field.Has("tried")) return search;
  HEDDLE_ASSIGN(const JsonField tried, field.Array("tried"));
  for (size_t i = 0; i < tried.size(); ++i) {
    HEDDLE_ASSIGN(search.tried.emplace_back(), TriedFromJson(tried.Element(i)));
  }
  return search;
}

template <class T>
Result<T> Named(const JsonField& json, std::string_view key,
                std::optional<T> (*parse)(std::string_view), std::string_view known) {
  HEDDLE_ASSIGN(const JsonField field, json.Child(key));
  HEDDLE_ASSIGN(const std::string name, field.AsString());
  if (const auto value = parse(name)) return *value;
  return field.Bad(fmt::format("\"{}\" is unknown", name), std::string(known));
}

Status ReadModelAndCluster(const JsonField& json, Plan& plan) {
  HEDDLE_ASSIGN(const JsonField model, json.Object("model"));
  HEDDLE_RETURN_IF_ERROR(model.OnlyKeys({"spec", "profile_batch", "profile_device", "hash"}));
  HEDDLE_ASSIGN(plan.model, model.String("spec"));
  if (model.Has("profile_batch") || model.Has("profile_device")) {
    HEDDLE_ASSIGN(plan.profile_batch, model.Int("profile_batch", 1, kMostBatch));
    HEDDLE_ASSIGN(plan.profile_device, model.String("profile_device"));
  }
  HEDDLE_ASSIGN(plan.model_hash, model.String("hash"));
  HEDDLE_ASSIGN(plan.cluster_hash, json.String("cluster_hash"));
  HEDDLE_ASSIGN(const JsonField cluster, json.Object("cluster"));
  HEDDLE_ASSIGN(plan.cluster, ClusterSpecFromJson(cluster));
  return Ok();
}

// The model that the names of an SPMD plan's ops and tensors belong to.
Result<Graph> GraphOf(const Plan& plan) {
  ModelOptions options{plan.batch, plan.dtype, plan.optimizer, plan.clip};
  options.profile_batch = plan.profile_batch;
  for (const DeviceTypeSpec& type : plan.cluster.types) {
    if (type.name == plan.profile_device) options.profile_rate = type.rate(plan.dtype);
  }
  return BuildModel(plan.model, options);
}

Status ReadPipelines(const JsonField& json, Plan& plan) {
  size_t items = kMostItems;
  HEDDLE_ASSIGN(const JsonField pipelines, json.Array("pipelines"));
  for (size_t p = 0; p < pipelines.size(); ++p) {
    HEDDLE_RETURN_IF_ERROR(pipelines.Element(p).OnlyKeys({"stages"}));
    HEDDLE_ASSIGN(const JsonField stages, pipelines.Element(p).Array("stages"));
    PipelinePlan pipeline;
    for (size_t s = 0; s < stages.size(); ++s) {
      HEDDLE_ASSIGN(pipeline.stages.emplace_back(), StageFromJson(stages.Element(s), items));
    }
    if (pipeline.stages.empty()) return stages.Bad("is empty");
    plan.pipelines.push_back(std::move(pipeline));
  }
  if (plan.pipelines.empty()) return pipelines.Bad("is empty");
  return Ok();
}

Status ReadLocal(const JsonField& json, Plan& plan) {
  HEDDLE_ASSIGN(const JsonField local, json.Object("local"));
  HEDDLE_RETURN_IF_ERROR(local.OnlyKeys({"steps"}));
  HEDDLE_ASSIGN(const JsonField steps, local.Array("steps"));
  plan.local.emplace();
  int64_t left = kMostItems;
  for (size_t r = 0; r < steps.size(); ++r) {
    HEDDLE_ASSIGN(const int64_t count, steps.Element(r).AsInt(1, left));
    left -= count;
    plan.local->steps.push_back(count);
  }
  return Ok();
}

Status ReadSpmd(const JsonField& json, Plan& plan) {
  HEDDLE_ASSIGN(const JsonField spmd, json.Object("spmd"));
  HEDDLE_ASSIGN(const Graph graph, GraphOf(plan));
  HEDDLE_ASSIGN(plan.spmd, SpmdFromJson(spmd, graph));
  return Ok();
}

}  // namespace

Json PlanToJson(const Plan& plan) {
  Json json;
  json["schema"] = kPlanSchema;
  json["strategy"] = plan.strategy;
  json["order"] = plan.order_name;
  json["model"]["spec"] = plan.model;
  if (plan.profile_batch > 0) {
    json["model"]["profile_batch"] = plan.profile_batch;
    json["model"]["profile_device"] = plan.profile_device;
  }
  json["model"]["hash"] = plan.model_hash;
  json["batch"] = plan.batch;
  json["microbatches"] = plan.microbatches;
  if (plan.microbatches_given) json["microbatches_given"] = true;
  json["dtype"] = NameOf(plan.dtype);
  json["optimizer"] = NameOf(plan.optimizer);
  if (plan.clip > 0) json["clip"] = plan.clip;
  json["bucket"] = fmt::format("{} B", plan.bucket.value);
  if (plan.sync != GradientSync::kAllReduce) json["sync"] = NameOf(plan.sync);
  if (plan.compress) json["compress"] = "fp16";
  json["all_reduce"] = NameOf(plan.all_reduce);
  json["links"] = plan.links;
  json["iteration_seconds"] = plan.estimate.iteration_seconds;
  json["schedule_bound_seconds"] = plan.estimate.schedule_bound_seconds;
  json["lower_bound_seconds"] = plan.estimate.lower_bound_seconds;
  if (plan.estimate.guaranteed_seconds > 0) {
    json["guaranteed_seconds"] = plan.estimate.guaranteed_seconds;
  }
  json["planning_seconds"] = plan.search.planning_seconds;
  json["devices_used"] = plan.devices_used();
  if (plan.spmd) {
    json["spmd"] = SpmdToJson(*plan.spmd, GraphOf(plan).value());
  } else {
    if (plan.async) json["async"] = {{"versions", NameOf(plan.async->versions)}};
    if (plan.local) json["local"] = {{"steps", plan.local->steps}};
    json["pipelines"] = Json::array();
    for (const PipelinePlan& pipeline : plan.pipelines) {
      Json stages = Json::array();
      for (const StagePlan& stage : pipeline.stages) stages.push_back(StageToJson(stage));
      json["pipelines"].push_back({{"stages", std::move(stages)}});
    }
  }
  json["memory"] = Json::array();
  for (const Estimate::Memory& memory : plan.estimate.memory) {
    json["memory"].push_back({{"device", memory.device},
                              {"peak_bytes", memory.peak_bytes},
                              {"capacity_bytes", memory.capacity_bytes}});
  }
  json["search"] = {{"candidates", plan.search.candidates}, {"notes", plan.search.notes}};
  if (plan.search.certificate) {
    json["search"]["certificate"] = CertificateToJson(plan.search.certificate);
  }
  for (const TriedPlan& tried : plan.search.tried) {
    json["search"]["tried"].push_back({{"how", tried.how},
                                       {"iteration_seconds", tried.iteration_seconds},
                                       {"compute_seconds", tried.compute_seconds},
                                       {"fullest", tried.fullest},
                                       {"peak_bytes", tried.peak_bytes},
                                       {"capacity_bytes", tried.capacity_bytes}});
  }
  if (!plan.profile_hash.empty()) json["profile_hash"] = plan.profile_hash;
  json["cluster_hash"] = plan.cluster_hash;
  json["cluster"] = ClusterSpecToJson(plan.cluster);
  return json;
}

Result<Plan> PlanFromJson(const JsonField& json) {
  HEDDLE_ASSIGN(const std::string schema, json.String("schema"));
  if (schema != kPlanSchema) {
    return json.Bad(fmt::format("schema is \"{}\"", schema),
                    fmt::format("expected \"{}\": is this a plan?", kPlanSchema));
  }
  HEDDLE_RETURN_IF_ERROR(json.OnlyKeys({"schema",
                                        "strategy",
                                        "order",
                                        "model",
                                        "batch",
                                        "microbatches",
                                        "microbatches_given",
                                        "dtype",
                                        "optimizer",
                                        "clip",
                                        "bucket",
                                        "sync",
                                        "compress",
                                        "all_reduce",
                                        "links",
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
  HEDDLE_RETURN_IF_ERROR(ReadModelAndCluster(json, plan));
  if (json.Has("profile_hash")) {
    HEDDLE_ASSIGN(plan.profile_hash, json.String("profile_hash"));
  }
  HEDDLE_ASSIGN(plan.batch, json.Int("batch", 1, kMostBatch));
  HEDDLE_ASSIGN(plan.microbatches,
                json.Int("microbatches", 1, std::min(kMostMicrobatches, plan.batch)));
  if (json.Has("microbatches_given")) {
    HEDDLE_ASSIGN(plan.microbatches_given, json.Bool("microbatches_given"));
  }
  HEDDLE_ASSIGN(plan.dtype, Named(json, "dtype", &ParseDType, "f64, f32, bf16 or f16"));
  HEDDLE_ASSIGN(plan.optimizer,
                Named(json, "optimizer", &ParseOptimizer, std::string(kOptimizerChoices)));
  if (json.Has("clip")) {
    HEDDLE_ASSIGN(plan.clip, json.Number("clip"));
    if (!(plan.clip > 0))
      return json.Bad("clip is not above 0", "leave it out: nothing is clipped");
  }
  HEDDLE_ASSIGN(plan.bucket, json.BytesOf("bucket"));
  if (json.Has("sync")) {
    HEDDLE_ASSIGN(plan.sync,
                  Named(json, "sync", &ParseGradientSync, std::string(kGradientSyncChoices)));
  }
  if (json.Has("compress")) {
    HEDDLE_ASSIGN(const JsonField compress, json.Child("compress"));
    HEDDLE_ASSIGN(const std::string type, compress.AsString());
    if (type != "fp16") return compress.Bad(fmt::format("\"{}\" is unknown", type), "fp16");
    plan.compress = true;
  }
  HEDDLE_ASSIGN(plan.links, json.String("links"));
  HEDDLE_ASSIGN(plan.all_reduce, Named(json, "all_reduce", &ParseCollectiveAlgorithm,
                                       "ring, tree, hierarchical or grouped"));
  if (json.Has("spmd") && json.Has("pipelines")) {
    return json.Bad("has both pipelines and an SPMD program", "leave one of them out");
  }
  if (json.Has("async") + json.Has("local") + json.Has("spmd") > 1) {
    return json.Bad("is of several kinds", "one of \"async\", \"local\" and \"spmd\"");
  }
  if (json.Has("async")) {
    HEDDLE_ASSIGN(const JsonField async, json.Object("async"));
    HEDDLE_RETURN_IF_ERROR(async.OnlyKeys({"versions"}));
    HEDDLE_ASSIGN(const WeightVersions versions,
                  Named(async, "versions", &ParseWeightVersions, "stash, vertical, none or 2bw"));
    plan.async = AsyncPlan{versions};
  }
  if (json.Has("local")) HEDDLE_RETURN_IF_ERROR(ReadLocal(json, plan));
  HEDDLE_RETURN_IF_ERROR(json.Has("spmd") ? ReadSpmd(json, plan) : ReadPipelines(json, plan));
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
