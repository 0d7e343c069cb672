// TOML as JSON, so that one reader (JsonField) and one kind of error message serve both.
//
//   HEDDLE_ASSIGN(Json json, ParseToml(text, "lab.toml"));
//   HEDDLE_ASSIGN(ClusterSpec spec, ClusterSpecFromJson(JsonField(json, "lab.toml")));
//
// Tables become objects (keys in alphabetical order), arrays lists, and so on. What JSON cannot
// say (dates, nan, inf) is refused. Hostile input cannot exhaust stack or memory.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "base/result.h"

namespace heddle {

// A syntax error's `where` is "lab.toml:3:14" (line and column).
Result<Json> ParseToml(const std::string& text, const std::string& file);

}  // namespace heddle
