#include "base/json_struct.h"

#include <fmt/format.h>

#include <cmath>

#include "base/json_text.h"
#include "base/text.h"

namespace heddle {
namespace {

constexpr double kIntegers = 9.2e18;  // within which whole doubles are int64_t as well

Status CheckNumber(const JsonField& json, const ValueLimits& limits, double value) {
  const bool low = limits.above ? !(value > limits.least) : !(value >= limits.least);
  if (!low && value <= limits.most) return Ok();
  std::string wanted = fmt::format("expected {} {}", limits.above ? "more than" : "at least",
                                   ExactNumber(limits.least));
  if (!limits.above && std::isfinite(limits.most)) {
    wanted = fmt::format("expected {} to {}", ExactNumber(limits.least), ExactNumber(limits.most));
  }
  return json.Bad(fmt::format("{} is out of range", ExactNumber(value)), wanted);
}

}  // namespace

int64_t ValueLimits::least_int() const {
  if (!(least > -kIntegers)) return INT64_MIN;
  return static_cast<int64_t>(least) + (above ? 1 : 0);
}

int64_t ValueLimits::most_int() const {
  return most < kIntegers ? static_cast<int64_t>(most) : INT64_MAX;
}

Status ExpectSchema(const JsonField& json, std::string_view schema) {
  HEDDLE_ASSIGN(const JsonField field, json.Child("schema"));
  HEDDLE_ASSIGN(const std::string name, field.AsString());
  if (name == schema) return Ok();
  return field.Bad(fmt::format("found \"{}\", expected \"{}\"", name, schema),
                   "use the version of heddle that wrote it");
}

Status ReadValue(const JsonField& json, const ValueLimits&, bool& value) {
  HEDDLE_ASSIGN(value, json.AsBool());
  return Ok();
}

Status ReadValue(const JsonField& json, const ValueLimits&, std::string& value) {
  HEDDLE_ASSIGN(value, json.AsString());
  return Ok();
}

Status ReadValue(const JsonField& json, const ValueLimits& limits, int64_t& value) {
  HEDDLE_ASSIGN(value, json.AsInt(limits.least_int(), limits.most_int()));
  return Ok();
}

Status ReadValue(const JsonField& json, const ValueLimits& limits, int32_t& value) {
  HEDDLE_ASSIGN(const int64_t wide, json.AsInt(std::max<int64_t>(limits.least_int(), INT32_MIN),
                                               std::min<int64_t>(limits.most_int(), INT32_MAX)));
  value = static_cast<int32_t>(wide);
  return Ok();
}

Status ReadValue(const JsonField& json, const ValueLimits&, uint64_t& value) {
  if (!json.json().is_number_unsigned()) {
    return json.Bad(fmt::format("found {}, expected a whole number from 0", JsonText(json.json())));
  }
  value = json.json().get<uint64_t>();
  return Ok();
}

Status ReadValue(const JsonField& json, const ValueLimits& limits, double& value) {
  HEDDLE_ASSIGN(value, json.AsNumber());
  return CheckNumber(json, limits, value);
}

}  // namespace heddle
