#include "cost/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/file.h"
#include "base/hash.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/text.h"

namespace heddle {

namespace {

// "einsum bk,kn->bn b=8 k=64 …" without its number of samples, and that number.
struct WithoutRows {
  std::string rest;
  int64_t rows;
};

std::optional<WithoutRows> SplitRows(const std::string& signature) {
  constexpr std::string_view kMark = " b=";
  const size_t at = signature.find(kMark);
  if (at == std::string::npos) return std::nullopt;
  const size_t begin = at + kMark.size();
  const size_t end = std::min(signature.find(' ', begin), signature.size());
  const auto rows = ParseInteger(std::string_view(signature).substr(begin, end - begin));
  if (!rows || *rows < 1) return std::nullopt;
  return WithoutRows{signature.substr(0, begin) + signature.substr(end), *rows};
}

}  // namespace

std::optional<Seconds> Profile::Find(std::string_view device_type,
                                     const std::string& signature) const {
  const auto type = times_.find(device_type);
  if (type == times_.end()) return std::nullopt;
  const auto found = type->second.find(signature);
  if (found != type->second.end()) return found->second;
  const auto split = SplitRows(signature);
  const auto curves = curves_.find(device_type);
  if (!split || curves == curves_.end()) return std::nullopt;
  const auto curve = curves->second.find(split->rest);
  if (curve == curves->second.end()) return std::nullopt;
  return At(curve->second, split->rows);
}

Seconds Profile::At(const Curve& curve, int64_t rows) {
  const auto proportional = [&](Curve::const_iterator point) {
    return point->second * (static_cast<double>(rows) / static_cast<double>(point->first));
  };
  const auto after = curve.lower_bound(rows);
  if (after == curve.end()) return proportional(std::prev(after));
  const auto line = [&](Curve::const_iterator a, Curve::const_iterator b) {
    const double slope = (b->second - a->second).value / static_cast<double>(b->first - a->first);
    return Seconds{a->second.value + slope * static_cast<double>(rows - a->first)};
  };
  if (after != curve.begin()) return line(std::prev(after), after);
  if (curve.size() == 1) return proportional(after);
  return std::max(proportional(after), line(after, std::next(after)));
}

void Profile::Add(std::string_view device_type, std::string signature, Seconds seconds) {
  if (const auto split = SplitRows(signature)) {
    curves_[std::string(device_type)][split->rest][split->rows] = seconds;
  }
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

std::string Profile::ContentHash() const { return HashOf(JsonText(ToJson())); }

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
  HEDDLE_ASSIGN(const std::string text, ReadFile(path, kMostTextBytes));
  return ParseProfile(text, path);
}

}  // namespace heddle
