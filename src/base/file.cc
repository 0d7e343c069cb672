#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace heddle {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;

Error FileError(const std::string& path, const std::string& doing) {
  return BadInput(path, "cannot " + doing + ": " + std::strerror(errno),
                  "check the path and its permissions");
}

}  // namespace

Result<std::string> ReadFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(path, "open");
  std::string contents;
  char block[65536];
  ssize_t count = 0;
  while ((count = ::read(fd, block, sizeof block)) > 0) {
    contents.append(block, static_cast<size_t>(count));
    if (contents.size() > kMostBytes) {
      ::close(fd);
      return BadInput(path, "larger than 1 GiB", "is this the right file?");
    }
  }
  const Status status = count < 0 ? Status(FileError(path, "read")) : Ok();
  ::close(fd);
  HEDDLE_RETURN_IF_ERROR(status);
  return contents;
}

Status WriteFile(const std::string& path, const std::string& contents) {
  struct stat info {};
  const bool special = ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
  const std::string target = special ? path : path + ".tmp." + std::to_string(::getpid());
  const int fd = ::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FileError(target, "create");
  size_t written = 0;
  bool good = true;
  while (good && written < contents.size()) {
    const ssize_t count = ::write(fd, contents.data() + written, contents.size() - written);
    good = count > 0;
    if (good) written += static_cast<size_t>(count);
  }
  good = good && (special || ::fsync(fd) == 0);
  good = ::close(fd) == 0 && good;
  if (good && !special) good = std::rename(target.c_str(), path.c_str()) == 0;
  if (good) return Ok();
  Error error = FileError(path, "write");
  if (!special) ::unlink(target.c_str());
  return error;
}

}  // namespace heddle
