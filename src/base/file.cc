#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/units.h"

namespace heddle {
namespace {

Error TooLarge(const std::string& path, size_t most_bytes) {
  return BadInput(path, "larger than " + ToText(Bytes{static_cast<int64_t>(most_bytes)}),
                  "is this the right file?");
}

// Closes the file.
Result<std::string> ReadAll(int fd, const std::string& path, size_t most_bytes) {
  std::string contents;
  struct stat info {};
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) &&
      info.st_size > static_cast<off_t>(most_bytes)) {
    ::close(fd);
    return TooLarge(path, most_bytes);
  }
  char block[65536];
  ssize_t count = 0;
  while ((count = ::read(fd, block, sizeof block)) > 0) {
    contents.append(block, static_cast<size_t>(count));
    if (contents.size() > most_bytes) {
      ::close(fd);
      return TooLarge(path, most_bytes);
    }
  }
  const Status status = count < 0 ? Status(SystemError(path, "read")) : Ok();
  ::close(fd);
  HEDDLE_RETURN_IF_ERROR(status);
  return contents;
}

}  // namespace

Result<std::string> ReadFile(const std::string& path, size_t most_bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError(path, "open");
  return ReadAll(fd, path, most_bytes);
}

Result<std::string> ReadRegularFile(const std::string& path, size_t most_bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return SystemError(path, "open");
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return BadInput(path, "is not a plain file", "write it as one");
  }
  return ReadAll(fd, path, most_bytes);
}

Status WriteFile(const std::string& path, const std::string& contents) {
  HEDDLE_ASSIGN(AtomicFile file, AtomicFile::Create(path, static_cast<int64_t>(contents.size())));
  HEDDLE_RETURN_IF_ERROR(file.Append(contents));
  return file.Commit();
}

Status MakeDirectories(const std::string& path) {
  struct stat info {};
  if (path.empty()) return Ok();
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return Ok();
    return BadInput(path, "is a file, expected a directory", "choose another path");
  }
  HEDDLE_RETURN_IF_ERROR(MakeDirectories(std::filesystem::path(path).parent_path()));
  const bool made = ::mkdir(path.c_str(), 0755) == 0;
  if (!made && errno != EEXIST) return SystemError(path, "create the directory");
  return FlushDirectory(DirectoryOf(path));
}

}  // namespace heddle
