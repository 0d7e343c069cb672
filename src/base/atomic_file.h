// AtomicFile: a file that appears whole or not at all, also when the machine loses power.
//
//   HEDDLE_ASSIGN(AtomicFile file, AtomicFile::Create("plan.json", bytes_to_come));
//   HEDDLE_RETURN_IF_ERROR(file.Append(header));
//   HEDDLE_RETURN_IF_ERROR(file.Append(body));
//   HEDDLE_RETURN_IF_ERROR(file.Commit());
//
// The bytes go to a temporary file beside `path`; Commit flushes it to disk, renames it and flushes
// the directory. Without Commit, or when anything fails, the temporary file is removed and what was
// at `path` stays. Through a symbolic link the file it points to is replaced, not the link; an
// existing file keeps its mode. Devices and pipes cannot be replaced and are written to directly.
//
// Errors name the path, what failed, the bytes wanted and what to do about it. A writer that is
// killed leaves `<path>.tmp.<pid>.<number>` behind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace heddle {

class AtomicFile {
 public:
  // `bytes` is the size the whole file will have, for the error when there is no room for it.
  static Result<AtomicFile> Create(const std::string& path, int64_t bytes);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;
  ~AtomicFile();

  Status Append(std::span<const std::byte> bytes);
  Status Append(std::string_view text);
  Status Commit();  // once, after the last Append

 private:
  AtomicFile(std::string path, int64_t bytes) : path_(std::move(path)), bytes_(bytes) {}
  Error Failed(std::string_view doing) const;
  void Discard();

  std::string path_;       // as the caller named it
  std::string target_;     // where it is, links followed
  std::string temporary_;  // empty: written to directly, or committed
  int64_t bytes_;
  int fd_ = -1;
};

// The error of a failed system call, from errno, with a remedy for those that people meet: "path:
// cannot write: No space left on device; 1234 bytes are wanted". `bytes` < 0: nothing was written.
Error SystemError(const std::string& path, std::string_view doing, int64_t bytes = -1);

// Makes the entries of a directory (created, renamed, removed) survive a loss of power.
Status FlushDirectory(const std::string& directory);

// "." for "name", "/" for "/name", "a" for "a/name".
std::string DirectoryOf(const std::string& path);

}  // namespace heddle
