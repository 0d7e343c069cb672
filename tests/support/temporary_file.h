// TemporaryFile: a file with these contents, gone when the test is over.
//
//   const TemporaryFile plan("{}");
//   RunHeddle("check " + plan.path());
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/file.h"

namespace heddle {

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& contents = "") {
    path_ = testing::TempDir() + "heddle-test-XXXXXX";
    const int file = mkstemp(path_.data());
    EXPECT_GE(file, 0) << path_;
    close(file);
    EXPECT_TRUE(WriteFile(path_, contents).ok()) << path_;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace heddle
