#include "cli/other_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/json_field.h"
#include "base/text.h"

namespace heddle {
namespace {

// Every name of a device in the plan, to read or to replace.
std::vector<std::string*> DeviceNames(Plan& plan) {
  std::vector<std::string*> names;
  for (PipelinePlan& pipeline : plan.pipelines) {
    for (StagePlan& stage : pipeline.stages) {
      for (std::string& device : stage.devices) names.push_back(&device);
      if (!stage.body) continue;
      for (std::vector<std::string>& row : stage.body->program.mesh) {
        for (std::string& device : row) names.push_back(&device);
      }
    }
  }
  if (!plan.spmd) return names;
  for (std::vector<std::string>& node : plan.spmd->mesh) {
    for (std::string& device : node) names.push_back(&device);
  }
  return names;
}

// Devices that the plan uses, each once, in the order of its cluster.
std::vector<std::string> UsedDevices(Plan& plan, const Cluster& cluster) {
  const std::vector<std::string*> names = DeviceNames(plan);
  std::vector<std::string> used;
  for (const Device& device : cluster.devices()) {
    const bool is_used = std::any_of(names.begin(), names.end(),
                                     [&](const std::string* name) { return *name == device.name; });
    if (is_used) used.push_back(device.name);
  }
  return used;
}

const std::string& TypeOf(const Cluster& cluster, const std::string& device) {
  return cluster.type_of(*cluster.FindDevice(device)).name;
}

std::string Number(size_t count) { return count == 0 ? "none" : std::to_string(count); }

Result<DeviceMatch> MatchByType(const std::vector<std::string>& used, const Cluster& own,
                                const Cluster& other) {
  std::map<std::string, std::vector<std::string>> there;
  for (const Device& device : other.devices()) {
    there[TypeOf(other, device.name)].push_back(device.name);
  }
  DeviceMatch match;
  match.by_name = false;
  std::map<std::string, size_t> taken;
  for (const std::string& device : used) {
    const std::string& type = TypeOf(own, device);
    const size_t next = taken[type]++;
    if (next < there[type].size()) match.devices.push_back({device, there[type][next]});
  }
  for (const auto& [type, wanted] : taken) {
    if (wanted <= there[type].size()) continue;
    return BadInput("",
                    fmt::format("the plan uses {} devices of the type {}, {} is there", wanted,
                                type, Number(there[type].size())),
                    "give devices the names or types that the plan has, " + Join(used, ", ") +
                        "; or plan for this cluster");
  }
  return match;
}

Result<DeviceMatch> MatchDevices(const std::vector<std::string>& used, const Cluster& own,
                                 const Cluster& other) {
  DeviceMatch match;
  for (const std::string& device : used) {
    if (!other.FindDevice(device)) return MatchByType(used, own, other);
    match.devices.push_back({device, device});
  }
  return match;
}

}  // namespace

std::string DeviceMatch::Text() const {
  if (by_name) return fmt::format("on {}, not the plan's own cluster: devices by name", file);
  std::vector<std::string> pairs;
  constexpr size_t kMost = 8;
  for (size_t k = 0; k < devices.size() && k < kMost; ++k) {
    pairs.push_back(fmt::format("{} is {}", devices[k].first, devices[k].second));
  }
  if (devices.size() > kMost) pairs.push_back("…");
  return fmt::format("on {}, not the plan's own cluster: devices by type, {}", file,
                     Join(pairs, ", "));
}

Json MatchJson(const DeviceMatch& match) {
  if (match.file.empty()) return Json();
  Json json = {{"file", match.file}, {"devices_by", match.by_name ? "name" : "type"}};
  json["devices"] = Json::array();
  for (const auto& [before, there] : match.devices) {
    json["devices"].push_back({{"plan", before}, {"device", there}});
  }
  return json;
}

Result<DeviceMatch> MoveToCluster(const std::string& file, LoadedPlan& loaded) {
  HEDDLE_ASSIGN(Cluster other, LoadCluster(file));
  Plan& plan = loaded.plan;
  Result<DeviceMatch> matched =
      MatchDevices(UsedDevices(plan, *loaded.cluster), *loaded.cluster, other);
  if (!matched.ok()) {
    Error error = matched.error();
    error.where = file;
    return error;
  }
  DeviceMatch match = std::move(matched).value();
  match.file = file;
  for (std::string* name : DeviceNames(plan)) {
    const auto found = std::find_if(match.devices.begin(), match.devices.end(),
                                    [&](const auto& pair) { return pair.first == *name; });
    *name = found->second;
  }
  // The graph stays: one of a layer profile was made with the speeds of the plan's own cluster.
  plan.cluster = other.spec();
  plan.cluster_hash = other.ContentHash();
  *loaded.cluster = std::move(other);
  return match;
}

}  // namespace heddle
