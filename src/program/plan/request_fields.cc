#include "program/plan/request_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_text.h"
#include "base/text.h"
#include "base/units.h"

namespace heddle {
namespace {

constexpr uint8_t kPlan = static_cast<uint8_t>(RequestSource::kPlan);
constexpr uint8_t kCompare = static_cast<uint8_t>(RequestSource::kCompare);
constexpr uint8_t kJob = static_cast<uint8_t>(RequestSource::kJob);
constexpr uint8_t kAll = kPlan | kCompare | kJob;

template <auto kMember>
using ValueOf = std::remove_cvref_t<decltype(std::declval<PlanRequest>().*kMember)>;

template <class Value>
struct Bare {
  using Type = Value;
};
template <class Value>
struct Bare<std::optional<Value>> {
  using Type = Value;
};

template <class Value>
constexpr RequestValue KindOf() {
  if constexpr (HasChoices<Value>) return RequestValue::kChoice;
  if constexpr (std::is_same_v<Value, std::string>) return RequestValue::kText;
  if constexpr (std::is_same_v<Value, double>) return RequestValue::kNumber;
  return RequestValue::kCount;
}

template <class Value>
std::vector<std::string> NamesOf() {
  if constexpr (HasChoices<Value>) {
    return ChoiceNames<Value>();
  } else {
    return {};
  }
}

template <auto kMember>
constexpr RequestField Field(std::string_view key, std::string_view about) {
  using Value = typename Bare<ValueOf<kMember>>::Type;
  RequestField field{};
  field.key = key;
  field.about = about;
  field.sources = kAll;
  field.kind = KindOf<Value>();
  field.get = [](const PlanRequest& request) { return WriteValue(request.*kMember); };
  field.set = [](const JsonField& json, const ValueLimits& limits, PlanRequest& request) -> Status {
    if constexpr (HasChoices<Value>) {
      HEDDLE_ASSIGN(const std::string name, json.AsString());
      HEDDLE_ASSIGN(request.*kMember, ReadOffered<Value>(json.where(), name));
      return Ok();
    } else {
      return ReadValue(json, limits, request.*kMember);
    }
  };
  field.choices = &NamesOf<Value>;
  return field;
}

// What a field has besides its name and meaning; those not named stay as Field made them.
struct More {
  std::string_view aliases = {};
  ValueLimits limits = {};
  std::string_view of_strategy = {};
  std::string_view goes_with = {};
  bool required = false;
  bool always_written = false;
  uint8_t sources = kAll;
};

constexpr RequestField With(RequestField field, const More& more) {
  field.aliases = more.aliases;
  field.limits = more.limits;
  field.of_strategy = more.of_strategy;
  field.goes_with = more.goes_with;
  field.required = more.required;
  field.always_written = more.always_written;
  field.sources = more.sources;
  return field;
}

// The one switch: it is named by the format that gradients travel in.
constexpr RequestField CompressField() {
  RequestField field = Field<&PlanRequest::compress>(
      "compress", "Gradients travel in half precision between replicas; not unless given");
  field.kind = RequestValue::kChoice;
  field.get = [](const PlanRequest& request) { return request.compress ? Json("fp16") : Json(); };
  field.set = [](const JsonField& json, const ValueLimits&, PlanRequest& request) -> Status {
    HEDDLE_ASSIGN(const std::string name, json.AsString());
    if (name != "fp16") return UnknownChoice(json.where(), name, {"fp16"});
    request.compress = true;
    return Ok();
  };
  field.choices = [] { return std::vector<std::string>{"fp16"}; };
  return field;
}

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr ValueLimits kBatches = {1, static_cast<double>(kMostBatch)};
constexpr std::string_view kAsynchronous = "--strategy async | --strategy auto --goal time-to-loss";
constexpr std::string_view kLocal = "--strategy local | --strategy auto --goal time-to-loss";

constexpr RequestField kFields[] = {
    With(Field<&PlanRequest::strategy>("strategy",
                                       "How to divide the work, or auto: the best of "
                                       "those that train as one device would"),
         {.always_written = true, .sources = kPlan | kJob}),
    With(Field<&PlanRequest::model>("model",
                                    "A zoo model, e.g. gpt?layers=24 (see heddle models), or the "
                                    "path of a Hugging Face config.json, or of a layer profile, "
                                    "with a slash or .txt (see docs/models.md)"),
         {.required = true, .always_written = true}),
    With(Field<&PlanRequest::profile_batch>(
             "profile_batch", "Samples that a layer profile was measured with; needed with one"),
         {.limits = kBatches}),
    Field<&PlanRequest::profile_device>(
        "profile_device",
        "Device type that a layer profile's times hold for, others take them by relative speed; "
        "unless given the first named like V100, else the fastest"),
    With(Field<&PlanRequest::batch>("batch", "Samples per update over all devices"),
         {.aliases = "--global-batch-size", .limits = kBatches, .always_written = true}),
    Field<&PlanRequest::microbatches>("microbatches", "Parts of a batch; tuned unless given"),
    With(Field<&PlanRequest::micro_batch_size>("micro_batch_size",
                                               "Instead of microbatches: samples of each part"),
         {.goes_with = "no --microbatches"}),
    With(Field<&PlanRequest::dtype>("dtype", "Weights, activations and gradients"),
         {.always_written = true}),
    With(Field<&PlanRequest::optimizer>("optimizer", "How weights follow gradients"),
         {.always_written = true}),
    With(Field<&PlanRequest::clip>("clip", "Largest norm of all gradients together; 0: none"),
         {.aliases = "--max-grad-norm", .limits = {0, 1e30}}),
    With(Field<&PlanRequest::versions>("versions", "Weights that asynchronous stages read"),
         {.of_strategy = "async", .goes_with = kAsynchronous}),
    Field<&PlanRequest::sync>("sync",
                              "How replicas come to the same gradient, ps by parameter servers"),
    CompressField(),
    With(Field<&PlanRequest::every>("every",
                                    "LocalSGD: updates of each replica between two averages"),
         {.limits = {1, 4096}, .of_strategy = "local", .goes_with = kLocal}),
    With(Field<&PlanRequest::replicas>("replicas",
                                       "LocalSGD: one on each device, or all on every stage; the "
                                       "faster unless given"),
         {.of_strategy = "local", .goes_with = kLocal}),
    With(Field<&PlanRequest::search>("search",
                                     "spmd: how programs are searched; fold is a dynamic program, "
                                     "astar A* after it, slower and sure, auto fold, and A* for "
                                     "the plan taken"),
         {.of_strategy = "spmd", .goes_with = "--strategy spmd,auto"}),
    Field<&PlanRequest::links>("links", "How transfers share links"),
    With(Field<&PlanRequest::goal>("goal",
                                   "auto: the fastest step of those that equal one device, or the "
                                   "soonest at a loss, which weighs synchronous, asynchronous and "
                                   "local training"),
         {.goes_with = "--strategy auto", .sources = kPlan}),
    With(Field<&PlanRequest::evidence>(
             "evidence",
             "time-to-loss: what tells progress per batch: map, the race of heddle lab map at your "
             "noise and rows; another objective of heddle lab race; or bound"),
         {.goes_with = "--goal time-to-loss", .sources = kPlan}),
    With(Field<&PlanRequest::noise>("noise", "time-to-loss: of gradients in the race"),
         {.limits = {0, kInfinite},
          .goes_with = "--goal time-to-loss --evidence !bound no --noise-ratio",
          .sources = kPlan}),
    With(
        Field<&PlanRequest::noise_ratio>(
            "noise_ratio", "time-to-loss: instead of noise, what heddle run --measure-noise found"),
        {.limits = {0, kInfinite},
         .goes_with = "--goal time-to-loss --evidence map",
         .sources = kPlan}),
    With(Field<&PlanRequest::rows_per_parameter>(
             "rows_per_parameter",
             "time-to-loss: samples of the data for each parameter of the model"),
         {.limits = {0.01, 1000},
          .goes_with = "--goal time-to-loss --evidence map",
          .sources = kPlan}),
};

const PlanRequest& NewRequest() {
  static const PlanRequest request;
  return request;
}

// What was typed, as the JSON that a file would have.
Json TypedJson(const RequestField& field, std::string_view text) {
  if (field.kind == RequestValue::kCount) {
    if (const auto number = ParseInteger(text)) return *number;
  }
  if (field.kind == RequestValue::kNumber) {
    if (const auto number = ParseReal(text)) return *number;
  }
  return std::string(text);
}

}  // namespace

std::string RequestField::option() const {
  std::string name = fmt::format("--{}", key);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::string RequestField::default_text() const {
  const Json value = get(NewRequest());
  if (value.is_null()) return "";
  if (value.is_number_float()) return ExactNumber(value.get<double>());
  if (!value.is_string()) return JsonText(value);
  const auto name = value.get<std::string>();
  return key == "dtype" ? std::string(Choices<DType>::kTable[0].spoken) : name;
}

std::string RequestField::about_with_choices() const {
  std::string text(about);
  if (kind == RequestValue::kChoice) text += ": " + Alternatives(choices());
  return text;
}

std::span<const RequestField> RequestFields() { return kFields; }

const RequestField& RequestFieldOf(std::string_view key) {
  const auto found = std::find_if(std::begin(kFields), std::end(kFields),
                                  [&](const RequestField& field) { return field.key == key; });
  HEDDLE_CHECK(found != std::end(kFields));
  return *found;
}

Status SetFromText(const RequestField& field, std::string_view text, PlanRequest& request) {
  const Json json = TypedJson(field, text);
  return field.set(JsonField(json, field.option()), field.limits, request);
}

Json RequestToJson(const PlanRequest& request) {
  Json json = Json::object();
  for (const RequestField& field : kFields) {
    Json value = field.get(request);
    if (value.is_null()) continue;
    if (!field.always_written && value == field.get(NewRequest())) continue;
    json[std::string(field.key)] = std::move(value);
  }
  return json;
}

Status ReadRequestFields(const JsonField& json, RequestSource source, PlanRequest& request) {
  for (const RequestField& field : kFields) {
    if (!field.taken_by(source)) continue;
    if (!json.Has(field.key) && !field.required) continue;
    HEDDLE_ASSIGN(const JsonField child, json.Child(field.key));
    HEDDLE_RETURN_IF_ERROR(field.set(child, field.limits, request));
  }
  return Ok();
}

PlaceOfField FieldsOf(const JsonField& json) {
  return [where = json.where()](std::string_view key) { return fmt::format("{}.{}", where, key); };
}

Result<PlanRequest> RequestFromJson(const JsonField& json) {
  std::vector<std::string_view> keys;
  for (const RequestField& field : kFields) keys.push_back(field.key);
  HEDDLE_RETURN_IF_ERROR(json.OnlyKeys(keys));
  for (const RequestField& field : kFields) {
    if (field.always_written) HEDDLE_RETURN_IF_ERROR(json.Child(field.key));
  }
  PlanRequest request;
  HEDDLE_RETURN_IF_ERROR(ReadRequestFields(json, RequestSource::kPlan, request));
  HEDDLE_RETURN_IF_ERROR(CheckRequest(request, FieldsOf(json)));
  return request;
}

}  // namespace heddle
