#include "base/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace heddle {
namespace {

// The file that a chain of symbolic links ends at, which need not exist yet.
std::string FollowLinks(const std::string& path) {
  constexpr int kMostLinks = 40;  // as the kernel
  std::filesystem::path at = path;
  for (int links = 0; links < kMostLinks; ++links) {
    std::error_code failed;
    const std::filesystem::path next = std::filesystem::read_symlink(at, failed);
    if (failed) return at;
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  return path;  // a circle: opening it says so
}

bool IsLackOfRoom(int code) { return code == ENOSPC || code == EDQUOT || code == EFBIG; }

std::string RoomHint(const std::string& path, int64_t bytes) {
  struct statvfs room {};
  std::string free;
  if (::statvfs(DirectoryOf(path).c_str(), &room) == 0) {
    free = fmt::format(" ({} bytes are free)", uint64_t{room.f_bavail} * room.f_frsize);
  }
  const std::string wanted = bytes >= 0 ? fmt::format("{} bytes", bytes) : "space";
  return fmt::format(
      "free {} there{}, raise the quota, or write to another disk; what was there before is "
      "untouched",
      wanted, free);
}

std::string RemedyOf(int code, const std::string& path, int64_t bytes) {
  if (code == EFBIG)
    return "files may not be that large here: raise ulimit -f; what was there before is untouched";
  if (IsLackOfRoom(code)) return RoomHint(path, bytes);
  switch (code) {
    case EMFILE:
    case ENFILE:
      return "too many files are open: raise ulimit -n";
    case ENOENT:
      if (bytes < 0) return "check the path";
      return fmt::format("create the directory {} first, or check the path", DirectoryOf(path));
    case ENOTDIR:
      return "a part of this path is a file, not a directory; choose another path";
    case EISDIR:
      return "this is a directory; name a file";
    case EROFS:
      return "the file system is read-only; write to another one";
    case EIO:
      return "the disk reports an error; write to another one";
    default:
      return "check the path and its permissions";
  }
}

}  // namespace

Error SystemError(const std::string& path, std::string_view doing, int64_t bytes) {
  const int code = errno;
  std::string what = fmt::format("cannot {}: {}", doing, std::strerror(code));
  if (IsLackOfRoom(code) && bytes >= 0) what += fmt::format("; {} bytes are wanted", bytes);
  return BadInput(path, std::move(what), RemedyOf(code, path, bytes));
}

std::string DirectoryOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

Status FlushDirectory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Where a directory may be written but not read, or cannot be flushed, nothing more can be done.
  if (fd < 0 && errno == EACCES) return Ok();
  if (fd < 0) return SystemError(directory, "open the directory");
  const bool good = ::fsync(fd) == 0 || errno == EINVAL;
  const Status status = good ? Ok() : Status(SystemError(directory, "flush the directory"));
  ::close(fd);
  return status;
}

Result<AtomicFile> AtomicFile::Create(const std::string& path, int64_t bytes) {
  static std::atomic<int> number = 0;  // two threads may write the same path
  AtomicFile file(path, bytes);
  file.target_ = FollowLinks(path);
  struct stat info {};
  const bool exists = ::stat(file.target_.c_str(), &info) == 0;
  if (!exists && errno == ELOOP) return file.Failed("open");
  if (exists && !S_ISREG(info.st_mode)) {
    file.fd_ = ::open(file.target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (file.fd_ < 0) return file.Failed("create");
    return file;
  }
  file.temporary_ = fmt::format("{}.tmp.{}.{}", file.target_, ::getpid(), number++);
  file.fd_ =
      ::open(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file.fd_ < 0) {
    Error error = file.Failed("create");
    file.temporary_.clear();  // not ours to remove
    return error;
  }
  if (exists && ::fchmod(file.fd_, info.st_mode & 07777) != 0)
    return file.Failed("set the mode of");
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, "")),
      bytes_(other.bytes_),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile::~AtomicFile() { Discard(); }

void AtomicFile::Discard() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  temporary_.clear();
}

Error AtomicFile::Failed(std::string_view doing) const { return SystemError(path_, doing, bytes_); }

Status AtomicFile::Append(std::span<const std::byte> bytes) {
  HEDDLE_CHECK(fd_ >= 0);
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = EIO;
    if (count <= 0) {
      Error error = Failed("write");
      Discard();  // at once: it may be what fills the disk
      return error;
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return Ok();
}

Status AtomicFile::Append(std::string_view text) { return Append(std::as_bytes(std::span(text))); }

Status AtomicFile::Commit() {
  HEDDLE_CHECK(fd_ >= 0);
  const bool replaces = !temporary_.empty();
  bool good = !replaces || ::fsync(fd_) == 0;
  const int flush_error = errno;
  const bool closed = ::close(std::exchange(fd_, -1)) == 0;
  if (!good) errno = flush_error;  // some file systems find out only now that they are full
  if (!good || !closed) {
    Error error = Failed("write");
    Discard();
    return error;
  }
  if (!replaces) return Ok();
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) {
    Error error = Failed("rename the temporary file to");
    Discard();
    return error;
  }
  temporary_.clear();
  return FlushDirectory(DirectoryOf(target_));
}

}  // namespace heddle
