#include "cluster/cluster_toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string_view>

#include "base/file.h"
#include "base/json_field.h"
#include "cluster/cluster.h"
#include "cluster/cluster_line.h"

// toml++ 3.3 asserts what malformed input can break ("[.]", see its pull request 301), and tells
// the optimiser to rely on it under NDEBUG. Here a broken assertion is an exception in all
// builds. This is the only file that includes toml++, so there is one definition of it.
[[noreturn]] static void RefuseToml() { throw std::logic_error("malformed near a key or value"); }
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? static_cast<void>(0) : RefuseToml())
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace heddle {
namespace {

constexpr int kMostKeyParts = 16;
constexpr int kMostDepth = 32;         // of the JSON made from it
constexpr size_t kMostKeys = 1024;     // in one table: looking a key up in Json is linear
constexpr size_t kMostText = 1 << 20;  // parsed, a byte of TOML can become ninety

constexpr char kTomlHint[] = "see docs/cluster.md for the file by example";

// Where the text goes on behind the string that starts at text[at], a quote.
size_t SkipString(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string_view three = quote == '"' ? "\"\"\"" : "'''";
  const bool multiline = text.substr(at, 3) == three;
  at += multiline ? 3 : 1;
  while (at < text.size()) {
    if (quote == '"' && text[at] == '\\') {
      at += 2;
    } else if (multiline && text.substr(at, 3) == three) {
      at += 3;
      // Up to two quotes just before the closing three belong to the string.
      for (int extra = 0; extra < 2 && at < text.size() && text[at] == quote; ++extra) ++at;
      return at;
    } else if (!multiline && (text[at] == quote || text[at] == '\n')) {
      return text[at] == quote ? at + 1 : at;
    } else {
      ++at;
    }
  }
  return text.size();
}

bool IsAscii(char c) { return (c & 0x80) == 0; }

// Refuses what toml++ 3.3 cannot be trusted with, and returns the rest without its comments:
// - Keys of many parts. It limits nested arrays and inline tables to 256, but not "a.a.a. …",
//   and destroys tables recursively: a few ten thousand parts overflow the stack. A key's dots
//   are those outside strings and comments since the last character that cannot be in a key.
// - Characters beyond ASCII, since its test for white space is undefined for most of them. In
//   comments they are welcome, so these are blanked; strings can write them as \uXXXX.
Result<std::string> Prepare(std::string text, const std::string& file) {
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // a byte order mark
  int line = 1;
  int parts = 1;
  size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    size_t end = at + 1;
    if (c == '"' || c == '\'') {
      end = SkipString(text, at);
    } else if (c == '#') {
      end = std::min(text.find('\n', at), text.size());
      for (size_t i = at; i < end; ++i) text[i] = IsAscii(text[i]) ? text[i] : '?';
    } else if (std::string_view("\n=,[]{}").find(c) != std::string_view::npos) {
      parts = 1;
    } else if (c == '.' && ++parts > kMostKeyParts) {
      return BadInput(fmt::format("{}:{}", file, line), "a key of too many parts",
                      fmt::format("expected at most {}", kMostKeyParts));
    }
    for (; at < end; ++at) {
      if (!IsAscii(text[at])) {
        return BadInput(fmt::format("{}:{}", file, line), "a character that is not ASCII",
                        "outside comments write it as \\uXXXX in a \"string\"");
      }
      if (text[at] == '\n') ++line;
    }
  }
  return text;
}

std::string Position(const std::string& file, const toml::source_region& source) {
  return fmt::format("{}:{}:{}", file, source.begin.line, source.begin.column);
}

Result<Json> Convert(const toml::node& node, const std::string& file, int depth) {
  const auto bad = [&](std::string what, std::string hint) {
    return BadInput(Position(file, node.source()), std::move(what), std::move(hint));
  };
  if (depth > kMostDepth) {
    return bad("nested too deeply", fmt::format("expected at most {} levels", kMostDepth));
  }
  if (const toml::table* table = node.as_table()) {
    if (table->size() > kMostKeys) {
      return bad(fmt::format("a table of {} keys", table->size()),
                 fmt::format("expected at most {}", kMostKeys));
    }
    Json json = Json::object();
    for (const auto& [key, value] : *table) {
      HEDDLE_ASSIGN(json[std::string(key.str())], Convert(value, file, depth + 1));
    }
    return json;
  }
  if (const toml::array* array = node.as_array()) {
    Json json = Json::array();
    for (const toml::node& element : *array) {
      HEDDLE_ASSIGN(json.emplace_back(), Convert(element, file, depth + 1));
    }
    return json;
  }
  if (const auto* text = node.as_string()) return Json(text->get());
  if (const auto* number = node.as_integer()) return Json(number->get());
  if (const auto* flag = node.as_boolean()) return Json(flag->get());
  if (const auto* number = node.as_floating_point()) {
    if (std::isfinite(number->get())) return Json(number->get());
    return bad("found a number that is not finite", "expected a finite one");
  }
  return bad("found a date or time", "expected text, a number, a list or a table");
}

bool IsJsonFile(const std::string& path) { return path.ends_with(".json"); }

Result<Cluster> ClusterFromJson(const Json& json, const std::string& file) {
  HEDDLE_ASSIGN(ClusterSpec spec, ClusterSpecFromJson(JsonField(json, file)));
  return Cluster::Make(std::move(spec), file);
}

}  // namespace

Result<Json> ParseToml(const std::string& text, const std::string& file) {
  if (text.size() > kMostText) {
    return BadInput(file, fmt::format("{} bytes of TOML", text.size()),
                    fmt::format("expected at most {}; count and patterns (\"a*\") keep large "
                                "clusters small",
                                kMostText));
  }
  HEDDLE_ASSIGN(const std::string prepared, Prepare(text, file));
  try {
    const toml::table table = toml::parse(std::string_view(prepared), std::string_view(file));
    return Convert(table, file, 0);
  } catch (const toml::parse_error& error) {
    return BadInput(Position(file, error.source()),
                    fmt::format("not valid TOML: {}", error.description()), kTomlHint);
  } catch (const std::logic_error& error) {  // TOML_ASSERT, which does not know where it is
    return BadInput(file, fmt::format("not valid TOML: {}", error.what()), kTomlHint);
  }
}

Result<Cluster> ParseClusterToml(const std::string& text, const std::string& file) {
  HEDDLE_ASSIGN(const Json json, ParseToml(text, file));
  return ClusterFromJson(json, file);
}

Result<Cluster> LoadCluster(const std::string& path) {
  if (!IsClusterFile(path)) {
    HEDDLE_ASSIGN(ClusterSpec spec, ParseClusterLine(path));
    return Cluster::Make(std::move(spec), "cluster \"" + path + "\"");
  }
  HEDDLE_ASSIGN(const std::string text, ReadFile(path, kMostTextBytes));
  if (!IsJsonFile(path)) return ParseClusterToml(text, path);
  HEDDLE_ASSIGN(const Json json, ParseJson(text, path));
  return ClusterFromJson(json, path);
}

}  // namespace heddle
