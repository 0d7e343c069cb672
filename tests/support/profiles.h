// Layer profiles that tests read: some of ours, and those that others published, where this machine
// has them. What is true of the former is tested everywhere.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "support/places.h"

namespace heddle {

inline std::vector<std::filesystem::path> ProfileFolders() {
  return {SourceDir() + "/tests/data/profiles", SourceDir() + "/../shared/data/profiles"};
}

inline std::vector<std::filesystem::path> AllProfiles() {
  std::vector<std::filesystem::path> all;
  for (const std::filesystem::path& folder : ProfileFolders()) {
    if (!std::filesystem::exists(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) all.push_back(entry);
  }
  std::sort(all.begin(), all.end());
  return all;
}

// Empty where it is not here.
inline std::string ProfilePath(const std::string& name) {
  for (const std::filesystem::path& folder : ProfileFolders()) {
    const std::filesystem::path path = folder / (name + ".txt");
    if (std::filesystem::exists(path)) return path;
  }
  return "";
}

// The rows of a table whose profiles are here.
template <class Row>
std::vector<Row> WithProfiles(const std::string& prefix, std::vector<Row> rows) {
  std::erase_if(rows, [&](const Row& row) { return ProfilePath(prefix + row.profile).empty(); });
  return rows;
}

}  // namespace heddle
