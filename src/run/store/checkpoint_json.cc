#include <fmt/format.h>

#include "base/json_field.h"
#include "run/store/checkpoint.h"

namespace heddle {
namespace {

// More than anybody trains, and far from where sums of them overflow.
constexpr int64_t kMostSteps = int64_t{1} << 40;
constexpr int64_t kMostSamples = int64_t{1} << 52;

Result<uint64_t> SeedOf(const JsonField& json) {
  HEDDLE_ASSIGN(const JsonField seed, json.Child("seed"));
  if (seed.json().is_number_unsigned()) return seed.json().get<uint64_t>();
  return seed.Bad(fmt::format("found {}, expected a whole number from 0", seed.json().dump()));
}

Result<DType> DTypeOf(const JsonField& json) {
  HEDDLE_ASSIGN(const JsonField field, json.Child("dtype"));
  HEDDLE_ASSIGN(const std::string name, field.AsString());
  if (const auto type = ParseDType(name)) return *type;
  return field.Bad(fmt::format("\"{}\" is unknown", name), "expected f64, f32, bf16 or f16");
}

Status CheckSchema(const JsonField& json) {
  HEDDLE_ASSIGN(const JsonField schema, json.Child("schema"));
  HEDDLE_ASSIGN(const std::string name, schema.AsString());
  if (name == kCheckpointSchema) return Ok();
  return schema.Bad(fmt::format("found \"{}\", expected \"{}\"", name, kCheckpointSchema),
                    "use the version of heddle that wrote it");
}

}  // namespace

Json CheckpointInfoToJson(const CheckpointInfo& info) {
  Json json;
  json["schema"] = kCheckpointSchema;
  json["step"] = info.step;
  json["samples"] = info.samples;
  json["seed"] = info.seed;
  json["model"] = info.model;
  json["model_hash"] = info.model_hash;
  json["optimizer"] = info.optimizer;
  json["dtype"] = NameOf(info.dtype);
  json["heddle_version"] = info.heddle_version;
  json["tensors_bytes"] = info.tensors_bytes;
  json["tensors_hash"] = info.tensors_hash;
  return json;
}

SafetensorsMetadata MetadataOf(const CheckpointInfo& info) {
  SafetensorsMetadata metadata;
  const Json json = CheckpointInfoToJson(info);
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with("tensors_")) continue;  // of the file that this goes into
    metadata[key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return metadata;
}

Result<CheckpointInfo> ParseCheckpointInfo(const std::string& text, const std::string& file) {
  HEDDLE_ASSIGN(const Json parsed, ParseJson(text, file));
  const JsonField json(parsed, file);
  HEDDLE_RETURN_IF_ERROR(CheckSchema(json));
  HEDDLE_RETURN_IF_ERROR(
      json.OnlyKeys({"schema", "step", "samples", "seed", "model", "model_hash", "optimizer",
                     "dtype", "heddle_version", "tensors_bytes", "tensors_hash"}));
  CheckpointInfo info;
  HEDDLE_ASSIGN(info.step, json.Int("step", 0, kMostSteps));
  HEDDLE_ASSIGN(info.samples, json.Int("samples", 0, kMostSamples));
  HEDDLE_ASSIGN(info.seed, SeedOf(json));
  HEDDLE_ASSIGN(info.model, json.String("model"));
  HEDDLE_ASSIGN(info.model_hash, json.String("model_hash"));
  HEDDLE_ASSIGN(info.optimizer, json.String("optimizer"));
  HEDDLE_ASSIGN(info.dtype, DTypeOf(json));
  HEDDLE_ASSIGN(info.heddle_version, json.String("heddle_version"));
  HEDDLE_ASSIGN(info.tensors_bytes, json.Int("tensors_bytes", 0, INT64_MAX));
  HEDDLE_ASSIGN(info.tensors_hash, json.String("tensors_hash"));
  return info;
}

}  // namespace heddle
