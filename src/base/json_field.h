// JsonField: a JSON value that knows its file and path, so that every error names both.
//
//   JsonField root(json, "plan.json");
//   HEDDLE_ASSIGN(JsonField stages, root.Array("stages"));
//   HEDDLE_ASSIGN(int batch, root.Int("batch", 1, 1 << 20));
//   HEDDLE_RETURN_IF_ERROR(root.OnlyKeys({"stages", "batch"}));
//
// A missing or mistyped field gives "plan.json: stages[2].devices: missing", exit code 4.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "base/units.h"

namespace heddle {

class JsonField {
 public:
  JsonField(const Json& json, std::string file, std::string path = "")
      : json_(&json), file_(std::move(file)), path_(std::move(path)) {}

  const Json& json() const { return *json_; }
  bool Has(std::string_view key) const;
  std::string where() const { return path_.empty() ? file_ : file_ + ": " + path_; }
  Error Bad(std::string what, std::string hint = "") const;  // an error about this field

  // Children of an object. REQUIRES of the file: the key is there and has this type.
  Result<JsonField> Child(std::string_view key) const;
  Result<JsonField> Object(std::string_view key) const;
  Result<JsonField> Array(std::string_view key) const;
  Result<std::string> String(std::string_view key) const;
  Result<bool> Bool(std::string_view key) const;
  Result<int64_t> Int(std::string_view key, int64_t least, int64_t most) const;
  Result<double> Number(std::string_view key) const;  // finite
  Result<Bytes> BytesOf(std::string_view key) const;  // a string with a unit
  Result<Seconds> SecondsOf(std::string_view key) const;
  Result<Bandwidth> BandwidthOf(std::string_view key) const;
  Result<std::vector<int64_t>> Ints(std::string_view key, int64_t least, int64_t most) const;

  // This value itself.
  Result<std::string> AsString() const;
  Result<bool> AsBool() const;
  Result<int64_t> AsInt(int64_t least, int64_t most) const;
  Result<double> AsNumber() const;
  size_t size() const { return json_->size(); }
  JsonField Element(size_t index) const;  // REQUIRES: an array, index < size()

  // Refuses keys that are not in the list, with the nearest known one.
  Status OnlyKeys(std::span<const std::string_view> keys) const;
  Status OnlyKeys(std::initializer_list<std::string_view> keys) const {
    return OnlyKeys(std::span(keys.begin(), keys.size()));
  }
  Status ExpectObject() const;
  Status ExpectArray() const;

 private:
  template <class T>
  Result<T> Parsed(std::string_view key, Result<T> (*parse)(std::string_view)) const;

  const Json* json_;
  std::string file_;
  std::string path_;
};

// Parses JSON text; a syntax error names file and byte. Depth and the number of a table's fields
// are limited, so that a hostile file can exhaust neither stack nor patience.
Result<Json> ParseJson(const std::string& text, const std::string& file);

}  // namespace heddle
