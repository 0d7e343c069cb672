#include "base/destination.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>

#include "base/atomic_file.h"

namespace heddle {

Status CheckWritable(const std::string& path) {
  if (path.empty()) return Ok();
  struct stat info {};
  const bool special =
      ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
  // Opening a pipe would wait for its reader.
  if (special) {
    return ::access(path.c_str(), W_OK) == 0 ? Ok() : Status(SystemError(path, "write", 0));
  }
  const Result<AtomicFile> file = AtomicFile::Create(path, 0);
  return file.ok() ? Ok() : Status(file.error());
}

Status CheckRoom(const std::string& path, int64_t bytes, const std::string& for_what) {
  std::filesystem::path at = std::filesystem::absolute(path);
  std::error_code failed;
  while (!std::filesystem::exists(at, failed) && at.has_relative_path()) at = at.parent_path();
  struct statvfs room {};
  if (::statvfs(at.c_str(), &room) != 0 || room.f_blocks == 0) return Ok();
  const uint64_t free = uint64_t{room.f_bavail} * room.f_frsize;
  if (bytes <= 0 || free >= static_cast<uint64_t>(bytes)) return Ok();
  return BadInput(path,
                  fmt::format("{} need {} bytes, {} bytes are free there", for_what, bytes, free),
                  "free some, raise the quota, or write to another disk");
}

Status CheckFileSize(const std::string& path, int64_t bytes) {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return Ok();
  if (bytes <= 0 || limit.rlim_cur >= static_cast<uint64_t>(bytes)) return Ok();
  return BadInput(path,
                  fmt::format("a file of {} bytes is wanted, and files may have {} here", bytes,
                              limit.rlim_cur),
                  "raise ulimit -f");
}

}  // namespace heddle
