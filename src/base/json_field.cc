#include "base/json_field.h"

#include <fmt/format.h>

#include <cmath>

#include "base/text.h"

namespace heddle {

bool JsonField::Has(std::string_view key) const {
  return json_->is_object() && json_->contains(key);
}

Error JsonField::Bad(std::string what, std::string hint) const {
  return BadInput(where(), std::move(what), std::move(hint));
}

Result<JsonField> JsonField::Child(std::string_view key) const {
  const std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  HEDDLE_RETURN_IF_ERROR(ExpectObject());
  const auto found = json_->find(key);
  if (found == json_->end()) return BadInput(file_ + ": " + path, "missing", "add this field");
  return JsonField(*found, file_, path);
}

Status JsonField::ExpectObject() const {
  if (json_->is_object()) return Ok();
  return Bad(fmt::format("found {}, expected a table", json_->type_name()));
}

Status JsonField::ExpectArray() const {
  if (json_->is_array()) return Ok();
  return Bad(fmt::format("found {}, expected a list", json_->type_name()));
}

Result<JsonField> JsonField::Object(std::string_view key) const {
  HEDDLE_ASSIGN(JsonField child, Child(key));
  HEDDLE_RETURN_IF_ERROR(child.ExpectObject());
  return child;
}

Result<JsonField> JsonField::Array(std::string_view key) const {
  HEDDLE_ASSIGN(JsonField child, Child(key));
  HEDDLE_RETURN_IF_ERROR(child.ExpectArray());
  return child;
}

Result<std::string> JsonField::String(std::string_view key) const {
  HEDDLE_ASSIGN(JsonField child, Child(key));
  return child.AsString();
}

Result<bool> JsonField::Bool(std::string_view key) const {
  HEDDLE_ASSIGN(JsonField child, Child(key));
  return child.AsBool();
}

Result<int64_t> JsonField::Int(std::string_view key, int64_t least, int64_t most) const {
  HEDDLE_ASSIGN(JsonField child, Child(key));
  return child.AsInt(least, most);
}

Result<double> JsonField::Number(std::string_view key) const {
  HEDDLE_ASSIGN(JsonField child, Child(key));
  return child.AsNumber();
}

template <class T>
Result<T> JsonField::Parsed(std::string_view key, Result<T> (*parse)(std::string_view)) const {
  HEDDLE_ASSIGN(JsonField child, Child(key));
  if (child.json_->is_number()) {
    return child.Bad(fmt::format("{} has no unit", child.json_->dump()),
                     "write it as text with a unit, e.g. \"16 GiB\", \"10 Gbit/s\", \"5 us\"");
  }
  HEDDLE_ASSIGN(const std::string text, child.AsString());
  Result<T> parsed = parse(text);
  if (!parsed.ok()) return child.Bad(parsed.error().what, parsed.error().hint);
  return parsed;
}

Result<Bytes> JsonField::BytesOf(std::string_view key) const { return Parsed(key, &ParseBytes); }
Result<Seconds> JsonField::SecondsOf(std::string_view key) const {
  return Parsed(key, &ParseSeconds);
}
Result<Bandwidth> JsonField::BandwidthOf(std::string_view key) const {
  return Parsed(key, &ParseBandwidth);
}

Result<std::vector<int64_t>> JsonField::Ints(std::string_view key, int64_t least,
                                             int64_t most) const {
  HEDDLE_ASSIGN(JsonField list, Array(key));
  std::vector<int64_t> values;
  for (size_t i = 0; i < list.size(); ++i) {
    HEDDLE_ASSIGN(values.emplace_back(), list.Element(i).AsInt(least, most));
  }
  return values;
}

Result<bool> JsonField::AsBool() const {
  if (json_->is_boolean()) return json_->get<bool>();
  return Bad(fmt::format("found {}, expected true or false", json_->type_name()));
}

Result<std::string> JsonField::AsString() const {
  if (json_->is_string()) return json_->get<std::string>();
  return Bad(fmt::format("found {}, expected text", json_->type_name()));
}

Result<int64_t> JsonField::AsInt(int64_t least, int64_t most) const {
  if (!json_->is_number_integer()) {
    return Bad(fmt::format("found {}, expected a whole number", json_->dump()));
  }
  const bool too_large =
      json_->is_number_unsigned() && json_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  const int64_t value = too_large ? INT64_MAX : json_->get<int64_t>();
  if (too_large || value < least || value > most) {
    return Bad(fmt::format("{} is out of range", json_->dump()),
               fmt::format("expected {} to {}", GroupDigits(least), GroupDigits(most)));
  }
  return value;
}

Result<double> JsonField::AsNumber() const {
  if (!json_->is_number()) {
    return Bad(fmt::format("found {}, expected a number", json_->type_name()));
  }
  const double value = json_->get<double>();
  if (!std::isfinite(value)) return Bad("is not a finite number");
  return value;
}

JsonField JsonField::Element(size_t index) const {
  HEDDLE_CHECK(json_->is_array() && index < json_->size());
  return JsonField((*json_)[index], file_, fmt::format("{}[{}]", path_, index));
}

Status JsonField::OnlyKeys(std::span<const std::string_view> keys) const {
  HEDDLE_RETURN_IF_ERROR(ExpectObject());
  for (const auto& item : json_->items()) {
    bool known = false;
    for (const std::string_view key : keys) known = known || key == item.key();
    if (known) continue;
    const std::vector<std::string> names(keys.begin(), keys.end());
    return Bad(fmt::format("unknown field \"{}\"", item.key()), SuggestName(item.key(), names));
  }
  return Ok();
}

namespace {

// Why the text is not worth parsing, or "". The parser itself has no limits, and it looks for each
// new field among all before it.
std::string ExcessOf(std::string_view text) {
  constexpr size_t kMostDepth = 64;
  constexpr int kMostFields = 1 << 14;
  std::vector<int> fields;  // of the tables and lists that are open
  for (size_t at = 0; at < text.size(); ++at) {
    switch (text[at]) {
      case '"':
        for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
        break;
      case '{':
      case '[':
        fields.push_back(0);
        if (fields.size() > kMostDepth) return "nested too deeply";
        break;
      case '}':
      case ']':
        if (!fields.empty()) fields.pop_back();
        break;
      case ':':
        if (!fields.empty() && ++fields.back() > kMostFields) {
          return fmt::format("a table has more than {} fields", GroupDigits(kMostFields));
        }
        break;
      default:
        break;
    }
  }
  return "";
}

}  // namespace

Result<Json> ParseJson(const std::string& text, const std::string& file) {
  const std::string excess = ExcessOf(text);
  if (!excess.empty()) return BadInput(file, excess, "a plan nests a dozen levels at most");
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    return BadInput(file, fmt::format("not valid JSON: {}", error.what()),
                    "the file may be truncated; write it again");
  }
}

}  // namespace heddle
