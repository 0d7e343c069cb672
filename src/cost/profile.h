// Profile: measured seconds of ops, by device type and signature (op_cost.h). JSON:
//
//   { "schema": "heddle.profile/1",
//     "device_types": { "v100": { "einsum bk,kn->bn b=8 k=64 n=64 f32": 1.2e-05 } } }
//
// An op measured for some numbers of samples ("b=8", "b=16") is known for the others: on the
// straight line between its neighbours, in proportion beyond the largest, and below the smallest on
// the line through the two smallest, if that is not below proportion.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
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
  using Curve = std::map<int64_t, Seconds>;  // by number of samples
  static Seconds At(const Curve& curve, int64_t rows);

  std::map<std::string, std::map<std::string, Seconds>, std::less<>> times_;
  // By device type and by the signature without its number of samples.
  std::map<std::string, std::map<std::string, Curve>, std::less<>> curves_;
};

Result<Profile> ParseProfile(const std::string& text, const std::string& file);
Result<Profile> LoadProfile(const std::string& path);

}  // namespace heddle
