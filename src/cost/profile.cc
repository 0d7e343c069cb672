#include "cost/profile.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/hash.h"

namespace heddle {

std::optional<Seconds> Profile::Find(std::string_view device_type,
                                     const std::string& signature) const {
  const auto type = times_.find(device_type);
  if (type == times_.end()) return std::nullopt;
  const auto found = type->second.find(signature);
  if (found == type->second.end()) return std::nullopt;
  return found->second;
}

void Profile::Add(std::string_view device_type, std::string signature, Seconds seconds) {
  times_[std::string(device_type)][std::move(signature)] = seconds;
}

size_t Profile::size() const {
  size_t count = 0;
  for (const auto& type : times_) count += type.second.size();
  return count;
}

Json Profile::ToJson() const {
  Json json;
  json["schema"] = kProfileSchema;
  json["device_types"] = Json::object();
  for (const auto& [type, times] : times_) {
    Json entries = Json::object();
    for (const auto& [signature, seconds] : times) entries[signature] = seconds.value;
    json["device_types"][type] = std::move(entries);
  }
  return json;
}

std::string Profile::ContentHash() const { return HashOf(ToJson().dump()); }

Result<Profile> ParseProfile(const std::string& text, const std::string& file) {
  HEDDLE_ASSIGN(const Json json, ParseJson(text, file));
  const JsonField root(json, file);
  HEDDLE_RETURN_IF_ERROR(root.OnlyKeys({"schema", "device_types"}));
  HEDDLE_ASSIGN(const std::string schema, root.String("schema"));
  if (schema != kProfileSchema) {
    return root.Bad(fmt::format("schema is \"{}\"", schema),
                    fmt::format("expected \"{}\"", kProfileSchema));
  }
  HEDDLE_ASSIGN(const JsonField types, root.Object("device_types"));
  Profile profile;
  for (const auto& type : types.json().items()) {
    HEDDLE_ASSIGN(const JsonField times, types.Object(type.key()));
    for (const auto& entry : times.json().items()) {
      HEDDLE_ASSIGN(const double seconds, times.Number(entry.key()));
      if (seconds < 0) return times.Bad(fmt::format("\"{}\" takes negative time", entry.key()));
      profile.Add(type.key(), entry.key(), Seconds{seconds});
    }
  }
  return profile;
}

Result<Profile> LoadProfile(const std::string& path) {
  HEDDLE_ASSIGN(const std::string text, ReadFile(path));
  return ParseProfile(text, path);
}

}  // namespace heddle
