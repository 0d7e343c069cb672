// A random case for all planners: a model of the zoo or a layer profile made up here, a cluster, a
// batch and options. The same seed and number give the same case.
//
//   const MonkeyCase one = MakeMonkeyCase(7, 42, MonkeySize::kSmall);
//   HEDDLE_RETURN_IF_ERROR(WriteMonkeyFiles(one, "build/monkey"));
//   one.Command("compare");       // "heddle compare --model … --cluster build/monkey/7-42.toml …"
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "plan/planning.h"

namespace heddle {

// Small: a test has fifty of them. Any: also models and clusters of real sizes. Profiles: any
// cluster, layer profiles alone (small: few nodes, none of others), no options beyond a batch.
enum class MonkeySize : uint8_t { kSmall, kAny, kProfiles, kSmallProfiles };

struct MonkeyCase {
  std::string name;     // "7-42"
  std::string folder;   // of its files
  PlanRequest options;  // the model is the path of the profile where there is one
  std::string profile;  // its text; empty: the model is of the zoo, or a file of others
  std::string cluster;  // TOML
  std::string cluster_path() const { return folder + "/" + name + ".toml"; }
  // What shows it from a shell, once its files are written.
  std::string Command(const std::string& command) const;
};

MonkeyCase MakeMonkeyCase(uint64_t seed, int number, MonkeySize size, const std::string& folder);
Status WriteMonkeyFiles(const MonkeyCase& one);

// A layer profile as PipeDream writes them: nodes in a chain with branches and skips.
std::string RandomProfile(uint64_t seed, int nodes);

}  // namespace heddle
