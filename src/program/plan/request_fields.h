// The fields of a PlanRequest, in the order people are shown them.
//
//   for (const RequestField& field : RequestFields())
//     if (field.taken_by(RequestSource::kJob)) …
//
// Each knows its name in files, its option on the command line, what it means, which strategies
// read it, and how to get and set it as JSON.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_struct.h"
#include "program/plan/plan_request.h"

namespace heddle {

// Who takes requests.
enum class RequestSource : uint8_t { kPlan = 1, kCompare = 2, kJob = 4 };

enum class RequestValue : uint8_t { kText, kCount, kNumber, kChoice };

struct RequestField {
  std::string_view key;      // in JSON and TOML
  std::string_view aliases;  // of the option, with commas between them
  RequestValue kind;
  ValueLimits limits;
  std::string_view about;        // a sentence for --help and docs/request.md, without its choices
  std::string_view of_strategy;  // that alone reads it; empty: all do
  std::string_view goes_with;    // on the command line of `plan` (cli/option_rules.h), where it
                                 // takes more than a strategy
  bool required = false;         // by whoever takes requests
  bool always_written = false;   // also where it is what a new request has
  uint8_t sources = 0;

  Json (*get)(const PlanRequest&);  // null: not given
  Status (*set)(const JsonField&, const ValueLimits&, PlanRequest&);
  std::vector<std::string> (*choices)();  // of kChoice

  bool taken_by(RequestSource source) const {
    return (sources & static_cast<uint8_t>(source)) != 0;
  }
  std::string option() const;              // "--profile-batch"
  std::string default_text() const;        // "256"; empty: none
  std::string about_with_choices() const;  // "…: shared, exclusive or channels"
};

std::span<const RequestField> RequestFields();
const RequestField& RequestFieldOf(std::string_view key);  // REQUIRES: it exists

// Sets the field from what somebody typed after its option.
Status SetFromText(const RequestField& field, std::string_view text, PlanRequest& request);

// As an object; fields that are what a new request has are left out, but for the most telling.
Json RequestToJson(const PlanRequest& request);

// Reads the fields that `source` takes and are there into `request`; other keys are left to the
// caller. Does not CheckRequest.
Status ReadRequestFields(const JsonField& json, RequestSource source, PlanRequest& request);

// Where the fields of this object are.
PlaceOfField FieldsOf(const JsonField& json);

// The whole of what RequestToJson wrote.
Result<PlanRequest> RequestFromJson(const JsonField& json);

}  // namespace heddle
