// ScratchFolder: an empty directory for one test, removed at its end.
//
//   ScratchFolder scratch;
//   WriteFile(scratch / "plan.json", "{}");
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace heddle {

class ScratchFolder {
 public:
  ScratchFolder() {
    static int number = 0;
    path_ = std::filesystem::path(testing::TempDir()) /
            ("heddle-test-" + std::to_string(::getpid()) + "-" + std::to_string(number++));
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ / name; }

  // Names in it, or in a directory below it, sorted.
  std::vector<std::string> Names(const std::string& below = "") const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_ / below)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace heddle
