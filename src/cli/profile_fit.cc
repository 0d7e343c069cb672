#include "cli/profile_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/json_field.h"
#include "base/text.h"

namespace heddle {

Status CheckProfileIsOf(const Cluster& cluster, const Profile* profile, const std::string& path) {
  if (profile == nullptr) return Ok();
  std::vector<std::string> measured, there;
  const Json json = profile->ToJson();
  for (const auto& [type, times] : json["device_types"].items()) measured.push_back(type);
  for (const DeviceTypeSpec& type : cluster.types()) {
    there.push_back(type.name);
    if (std::find(measured.begin(), measured.end(), type.name) != measured.end()) return Ok();
  }
  return BadInput(
      path,
      fmt::format("has times of {}, the cluster has {}",
                  measured.empty() ? "nothing" : Join(measured, ", "), Join(there, ", ")),
      "measure these (heddle profile --type), or leave --profile out");
}

}  // namespace heddle
