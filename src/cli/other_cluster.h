// A plan on another cluster than the one it was made for: the same decisions, other devices.
//
//   HEDDLE_ASSIGN(const DeviceMatch match, MoveToCluster("faster.toml", loaded));
//   match.devices[0]      {"a:0", "x:0"}
//
// If the other cluster has all devices of the plan by name, these are meant. Otherwise each device
// becomes the next one of its type there, in the order of the two clusters.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

struct DeviceMatch {
  std::string file;  // the other cluster; empty: the plan is where it was made for
  bool by_name = true;
  std::vector<std::pair<std::string, std::string>> devices;  // of the plan, there; in plan order

  std::string Text() const;  // a line for people
};

Json MatchJson(const DeviceMatch& match);

// Bad input: a device of the plan has no counterpart.
Result<DeviceMatch> MoveToCluster(const std::string& file, LoadedPlan& loaded);

}  // namespace heddle
