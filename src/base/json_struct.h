// A struct's fields by name, written once: both directions of its JSON follow from the table.
//
//   template <>
//   struct JsonFields<TriedPlan> {
//     static constexpr auto kTable = std::tuple(
//         JsonMember("how", &TriedPlan::how),
//         JsonMember("peak_bytes", &TriedPlan::peak_bytes).AtLeast(0),
//         JsonMember("note", &TriedPlan::note).Optional());
//   };
//
//   Json json = WriteStruct(tried);
//   HEDDLE_ASSIGN(TriedPlan tried, ReadStruct<TriedPlan>(field));
//
// Values are bool, whole numbers, numbers, text, enums with Choices, quantities (their bare
// number), structs with a table, and optionals and vectors of these. An optional that is empty is
// not written. Reading refuses what the table does not know, unless the struct says kLenient; a
// struct that is a file of its own has its kSchema written and demanded.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/choices.h"
#include "base/json_field.h"

namespace heddle {

template <class Struct>
struct JsonFields;

template <class Struct>
concept HasJsonFields = requires {
  JsonFields<Struct>::kTable;
};

// What a number may be; both ends included, unless `above` says that the lower one is not.
struct ValueLimits {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above = false;

  int64_t least_int() const;
  int64_t most_int() const;
};

template <class Struct, class Value>
struct JsonMember {
  std::string_view key;
  Value Struct::*member;
  ValueLimits limits{};
  bool required = true;  // in files that are read

  constexpr JsonMember(std::string_view k, Value Struct::*m) : key(k), member(m) {}

  constexpr JsonMember Within(double least, double most) const {
    JsonMember copy = *this;
    copy.limits = {least, most, false};
    return copy;
  }
  constexpr JsonMember AtLeast(double least) const { return Within(least, kInfinite); }
  constexpr JsonMember Above(double least) const {
    JsonMember copy = *this;
    copy.limits = {least, kInfinite, true};
    return copy;
  }
  // May be missing; then it stays what a new Struct has.
  constexpr JsonMember Optional() const {
    JsonMember copy = *this;
    copy.required = false;
    return copy;
  }

 private:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
};

template <HasJsonFields Struct>
Json WriteStruct(const Struct& value);
template <HasJsonFields Struct>
Result<Struct> ReadStruct(const JsonField& json);

Status ExpectSchema(const JsonField& json, std::string_view schema);

Status ReadValue(const JsonField& json, const ValueLimits& limits, bool& value);
Status ReadValue(const JsonField& json, const ValueLimits& limits, std::string& value);
Status ReadValue(const JsonField& json, const ValueLimits& limits, int64_t& value);
Status ReadValue(const JsonField& json, const ValueLimits& limits, int32_t& value);
Status ReadValue(const JsonField& json, const ValueLimits& limits, uint64_t& value);
Status ReadValue(const JsonField& json, const ValueLimits& limits, double& value);

template <HasChoices Enum>
Status ReadValue(const JsonField& json, const ValueLimits&, Enum& value) {
  HEDDLE_ASSIGN(const std::string name, json.AsString());
  HEDDLE_ASSIGN(value, ReadChoice<Enum>(json.where(), name));
  return Ok();
}

template <class Tag, class Number>
Status ReadValue(const JsonField& json, const ValueLimits& limits, Quantity<Tag, Number>& value) {
  return ReadValue(json, limits, value.value);
}

template <HasJsonFields Struct>
Status ReadValue(const JsonField& json, const ValueLimits&, Struct& value) {
  HEDDLE_ASSIGN(value, ReadStruct<Struct>(json));
  return Ok();
}

template <class Value>
Status ReadValue(const JsonField& json, const ValueLimits& limits, std::optional<Value>& value) {
  return ReadValue(json, limits, value.emplace());
}

template <class Value>
Status ReadValue(const JsonField& json, const ValueLimits& limits, std::vector<Value>& values) {
  HEDDLE_RETURN_IF_ERROR(json.ExpectArray());
  for (size_t k = 0; k < json.size(); ++k) {
    HEDDLE_RETURN_IF_ERROR(ReadValue(json.Element(k), limits, values.emplace_back()));
  }
  return Ok();
}

template <class Value>
Json WriteValue(const Value& value) {
  if constexpr (HasChoices<Value>) {
    return NameOf(value);
  } else if constexpr (HasJsonFields<Value>) {
    return WriteStruct(value);
  } else if constexpr (requires { value.has_value(); }) {
    return value ? WriteValue(*value) : Json();
  } else if constexpr (requires { value.value; }) {
    return value.value;
  } else if constexpr (requires { typename Value::value_type; } &&
                       !std::is_same_v<Value, std::string>) {
    Json list = Json::array();
    for (const auto& element : value) list.push_back(WriteValue(element));
    return list;
  } else {
    return value;
  }
}

template <HasJsonFields Struct>
Json WriteStruct(const Struct& value) {
  Json json = Json::object();
  if constexpr (requires { JsonFields<Struct>::kSchema; }) {
    json["schema"] = JsonFields<Struct>::kSchema;
  }
  const auto write = [&](const auto& member) {
    const auto& field = value.*member.member;
    if constexpr (requires { field.has_value(); }) {
      if (!field.has_value()) return;
    }
    json[std::string(member.key)] = WriteValue(field);
  };
  std::apply([&](const auto&... members) { (write(members), ...); }, JsonFields<Struct>::kTable);
  return json;
}

template <HasJsonFields Struct>
Result<Struct> ReadStruct(const JsonField& json) {
  HEDDLE_RETURN_IF_ERROR(json.ExpectObject());
  std::vector<std::string_view> keys;
  std::apply([&](const auto&... members) { (keys.push_back(members.key), ...); },
             JsonFields<Struct>::kTable);
  if constexpr (requires { JsonFields<Struct>::kSchema; }) {
    HEDDLE_RETURN_IF_ERROR(ExpectSchema(json, JsonFields<Struct>::kSchema));
    keys.push_back("schema");
  }
  if constexpr (!requires { JsonFields<Struct>::kLenient; }) {
    HEDDLE_RETURN_IF_ERROR(json.OnlyKeys(keys));
  }
  Struct value{};
  Status status = Ok();
  const auto read = [&](const auto& member) {
    if (!status.ok()) return;
    auto& field = value.*member.member;
    constexpr bool kOptional = requires { field.has_value(); };
    if ((kOptional || !member.required) && !json.Has(member.key)) return;
    const Result<JsonField> child = json.Child(member.key);
    status = child.ok() ? ReadValue(child.value(), member.limits, field) : Status(child.error());
  };
  std::apply([&](const auto&... members) { (read(members), ...); }, JsonFields<Struct>::kTable);
  if (!status.ok()) return status.error();
  return value;
}

}  // namespace heddle
