#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/atomic_file.h"

namespace heddle {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;

}  // namespace

Result<std::string> ReadFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError(path, "open");
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
  const Status status = count < 0 ? Status(SystemError(path, "read")) : Ok();
  ::close(fd);
  HEDDLE_RETURN_IF_ERROR(status);
  return contents;
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
