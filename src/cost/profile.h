// Profile: measured seconds of ops, by device type and signature (op_cost.h). JSON:
//
//   { "schema": "heddle.profile/1",
//     "device_types": { "v100": { "einsum bk,kn->bn b=8 k=64 n=64 f32": 1.2e-05 } } }
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_field.h"
#include "base/result.h"
#include "base/units.h"

namespace heddle {

inline constexpr char kProfileSchema[] = "heddle.profile/1";

class Profile {
 public:
  std::optional<Seconds> Find(std::string_view device_type, const std::string& signature) const;
  void Add(std::string_view device_type, std::string signature, Seconds seconds);
  size_t size() const;

  Json ToJson() const;
  std::string ContentHash() const;

 private:
  std::map<std::string, std::map<std::string, Seconds>, std::less<>> times_;
};

Result<Profile> ParseProfile(const std::string& text, const std::string& file);
Result<Profile> LoadProfile(const std::string& path);

}  // namespace heddle
