#include "base/json_struct.h"
#include "base/json_text.h"
#include "run/store/checkpoint.h"

namespace heddle {

template <>
struct JsonFields<CheckpointInfo> {
  // More than anybody trains, and far from where sums of them overflow.
  static constexpr double kMostSteps = int64_t{1} << 40;
  static constexpr double kMostSamples = int64_t{1} << 52;
  static constexpr std::string_view kSchema = kCheckpointSchema;
  static constexpr auto kTable = std::tuple(
      JsonMember("step", &CheckpointInfo::step).Within(0, kMostSteps),
      JsonMember("samples", &CheckpointInfo::samples).Within(0, kMostSamples),
      JsonMember("seed", &CheckpointInfo::seed), JsonMember("model", &CheckpointInfo::model),
      JsonMember("model_hash", &CheckpointInfo::model_hash),
      JsonMember("optimizer", &CheckpointInfo::optimizer),
      JsonMember("dtype", &CheckpointInfo::dtype),
      JsonMember("heddle_version", &CheckpointInfo::heddle_version),
      JsonMember("tensors_bytes", &CheckpointInfo::tensors_bytes).AtLeast(0),
      JsonMember("tensors_hash", &CheckpointInfo::tensors_hash));
};

Json CheckpointInfoToJson(const CheckpointInfo& info) { return WriteStruct(info); }

SafetensorsMetadata MetadataOf(const CheckpointInfo& info) {
  SafetensorsMetadata metadata;
  const Json json = CheckpointInfoToJson(info);
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with("tensors_")) continue;  // of the file that this goes into
    metadata[key] = value.is_string() ? value.get<std::string>() : JsonText(value);
  }
  return metadata;
}

Result<CheckpointInfo> ParseCheckpointInfo(const std::string& text, const std::string& file) {
  HEDDLE_ASSIGN(const Json parsed, ParseJson(text, file));
  return ReadStruct<CheckpointInfo>(JsonField(parsed, file));
}

}  // namespace heddle
