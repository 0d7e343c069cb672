#include "run/store/safetensors_header.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <optional>
#include <set>

#include "base/json_field.h"
#include "base/json_text.h"
#include "base/text.h"

namespace heddle {
namespace {

constexpr std::string_view kMetadataName = "__metadata__";
constexpr std::array<std::string_view, kDTypeCount> kTypeNames = {"F64", "F32", "BF16", "F16",
                                                                  "I64"};
constexpr size_t kMostDimensions = 64;

std::string Quoted(std::string_view text) {
  constexpr size_t kMost = 200;
  const bool cut = text.size() > kMost;
  const Json json = std::string(text.substr(0, kMost)) + (cut ? "…" : "");
  return JsonText(json);
}

// Follows the events of the JSON parser through the one form a header has.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}

  const std::optional<Error>& error() const { return error_; }
  SafetensorsHeader&& header() && { return std::move(header_); }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool value) override { return Unexpected(value ? "true" : "false"); }
  bool number_float(number_float_t, const string_t& text) override { return Unexpected(text); }
  bool number_integer(number_integer_t value) override { return Unexpected(std::to_string(value)); }
  bool binary(binary_t&) override { return Unexpected("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ != Place::kList || value > static_cast<uint64_t>(INT64_MAX)) {
      return Unexpected(std::to_string(value));
    }
    std::vector<int64_t>& list = field_ == "shape" ? entry_.shape : offsets_;
    if (list.size() >= (field_ == "shape" ? kMostDimensions : 2)) {
      return Fail(fmt::format("{} has more than {} numbers", field_, list.size()),
                  field_ == "shape" ? "no tensor has so many dimensions" : "expected [begin, end]");
    }
    list.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::kMetadata) {
      header_.metadata[field_] = text;
      return true;
    }
    if (place_ != Place::kTensor || field_ != "dtype") return Unexpected(Quoted(text));
    for (size_t i = 0; i < kTypeNames.size(); ++i) {
      if (kTypeNames[i] != text) continue;
      entry_.dtype = static_cast<DType>(i);
      return true;
    }
    return Fail(fmt::format("dtype {} is unknown", Quoted(text)),
                fmt::format("expected {}", fmt::join(kTypeNames, ", ")));
  }

  bool start_object(size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kNames;
      return true;
    }
    if (place_ != Place::kNames) return Unexpected("a table");
    fields_.clear();
    place_ = name_ == kMetadataName ? Place::kMetadata : Place::kTensor;
    entry_ = {.name = name_, .dtype = DType::kF32, .shape = {}};
    offsets_.clear();
    return true;
  }

  bool key(string_t& text) override {
    if (place_ == Place::kNames) {
      name_ = text;
      return names_.insert(text).second || Fail("is there twice", "every name once");
    }
    field_ = text;
    const bool known = text == "dtype" || text == "shape" || text == "data_offsets";
    if (place_ == Place::kTensor && !known) {
      return Fail(fmt::format("unknown field {}", Quoted(text)),
                  "expected dtype, shape and data_offsets");
    }
    return fields_.insert(text).second ||
           Fail(fmt::format("field {} is there twice", Quoted(text)), "every field once");
  }

  bool end_object() override {
    if (place_ == Place::kTensor && !EndTensor()) return false;
    place_ = place_ == Place::kNames ? Place::kEnd : Place::kNames;
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || field_ == "dtype") return Unexpected("a list");
    place_ = Place::kList;
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    error_ = BadInput(
        file_, fmt::format("header is not valid JSON at byte {}: {}", position, error.what()),
        "the file may be damaged or not a safetensors file");
    return false;
  }

 private:
  enum class Place { kStart, kNames, kTensor, kMetadata, kList, kEnd };

  bool Fail(std::string what, std::string hint) {
    const bool inside = place_ != Place::kStart && place_ != Place::kEnd;
    error_ = BadInput(inside ? TensorPlace(file_, name_) : file_, std::move(what), std::move(hint));
    return false;
  }

  bool Unexpected(const std::string& found) {
    switch (place_) {
      case Place::kStart:
      case Place::kEnd:
        return Fail(fmt::format("header is {}", found), "expected a table of tensors");
      case Place::kNames:
        return Fail(fmt::format("found {}", found), "expected a table");
      case Place::kMetadata:
        return Fail(fmt::format("{}: found {}", Quoted(field_), found), "expected text");
      default:
        return Fail(fmt::format("{}: found {}", field_, found),
                    field_ == "dtype" ? "expected the name of a type, e.g. \"F32\""
                                      : "expected a list of whole numbers from 0");
    }
  }

  bool EndTensor() {
    for (const char* field : {"dtype", "shape", "data_offsets"}) {
      if (fields_.count(field) == 0) {
        return Fail(fmt::format("{} is missing", field), "expected dtype, shape and data_offsets");
      }
    }
    if (offsets_.size() != 2 || offsets_[0] > offsets_[1]) {
      return Fail(fmt::format("data_offsets is [{}]", fmt::join(offsets_, ", ")),
                  "expected [begin, end], the begin first");
    }
    const Result<int64_t> bytes =
        StoredBytes(entry_.shape, entry_.dtype, TensorPlace(file_, name_));
    if (!bytes.ok()) {
      error_ = bytes.error();
      return false;
    }
    entry_.begin = offsets_[0];
    entry_.end = offsets_[1];
    if (entry_.end - entry_.begin != bytes.value()) {
      return Fail(fmt::format("data_offsets [{}] hold {} bytes", fmt::join(offsets_, ", "),
                              entry_.end - entry_.begin),
                  fmt::format("expected {}: shape [{}] of {}", bytes.value(),
                              fmt::join(entry_.shape, ", "), NameOf(entry_.dtype)));
    }
    header_.entries.push_back(std::move(entry_));
    return true;
  }

  std::string file_;
  Place place_ = Place::kStart;
  std::string name_;   // the last name at the top
  std::string field_;  // the last field of a tensor, or key of the metadata
  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> fields_;
  SafetensorsEntry entry_;
  std::vector<int64_t> offsets_;
  SafetensorsHeader header_;
  std::optional<Error> error_;
};

}  // namespace

std::string TensorPlace(const std::string& file, std::string_view name) {
  return fmt::format("{}: {} {}", file, name == kMetadataName ? "table" : "tensor", Quoted(name));
}

Result<int64_t> StoredBytes(const std::vector<int64_t>& shape, DType dtype,
                            const std::string& where) {
  int64_t bytes = SizeOf(dtype);
  for (const int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
      return BadInput(where, fmt::format("shape is [{}]", fmt::join(shape, ", ")),
                      "expected extents from 0, and fewer than 2^63 bytes in all");
    }
  }
  return bytes;
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, const std::string& file) {
  HeaderReader reader(file);
  const bool good = Json::sax_parse(json.begin(), json.end(), &reader);
  if (reader.error()) return *reader.error();
  if (!good) return BadInput(file, "header is not valid JSON", "the file may be damaged");
  return std::move(reader).header();
}

Result<std::string> PrintSafetensorsHeader(const SafetensorsHeader& header,
                                           const std::string& file) {
  const auto no_text = [&](const std::string& what) {
    return BadInput(file + ": " + what, "is not UTF-8", "choose another name");
  };
  std::string json;
  for (const auto& [key, value] : header.metadata) {
    const auto pair = ExactJsonText(Json{{key, value}});
    if (!pair) return no_text(fmt::format("metadata {}", Quoted(key)));
    json += fmt::format("{}{}", json.empty() ? "\"__metadata__\":{" : ",",
                        pair->substr(1, pair->size() - 2));
  }
  if (!header.metadata.empty()) json += "}";
  for (const SafetensorsEntry& entry : header.entries) {
    const auto name = ExactJsonText(Json(entry.name));
    if (!name) return no_text(fmt::format("tensor {}", Quoted(entry.name)));
    json +=
        fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                    json.empty() ? "" : ",", *name, kTypeNames[static_cast<size_t>(entry.dtype)],
                    fmt::join(entry.shape, ","), entry.begin, entry.end);
  }
  return "{" + json + "}";
}

}  // namespace heddle
