#include "base/directory_claim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <utility>

#include "base/atomic_file.h"
#include "base/text.h"

namespace heddle {
namespace {

std::string FileOf(const std::string& directory) {
  return fmt::format("{}/{}", directory, kClaimFile);
}

std::string HostName() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "a host without a name";
}

// "process 12 on box, since 2026-01-31 12:00:00 UTC"
std::string Self() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  char time[64] = {};
  std::strftime(time, sizeof time, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return fmt::format("process {} on {}, since {}", ::getpid(), HostName(), time);
}

// What the holder wrote; it may not have come to it yet.
std::string Holder(int file) {
  char text[512];
  const ssize_t size = ::pread(file, text, sizeof text, 0);
  if (size <= 0) return "another process";
  std::string_view line(text, static_cast<size_t>(size));
  line = line.substr(0, line.find('\n'));
  return Printable(line);
}

struct flock WholeFile() {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Result<DirectoryClaim> DirectoryClaim::Take(const std::string& directory) {
  const std::string path = FileOf(directory);
  // Whatever has the name: neither followed nor waited for.
  const int file =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (file < 0) return SystemError(path, "open");
  DirectoryClaim claim(file);
  struct stat found {};
  if (::fstat(file, &found) != 0) return SystemError(path, "look at");
  if (!S_ISREG(found.st_mode)) {
    return BadInput(path, "is not a file", "remove it, or choose another directory");
  }
  struct flock lock = WholeFile();
  if (::fcntl(file, F_OFD_SETLK, &lock) != 0) {
    if (errno != EAGAIN && errno != EACCES) return claim;  // no locks here
    return BadInput(directory, fmt::format("is in use by {}", Holder(file)),
                    "wait until it has ended, stop it, or choose another directory");
  }
  const std::string self = Self() + "\n";
  if (::ftruncate(file, 0) != 0 ||
      ::pwrite(file, self.data(), self.size(), 0) != static_cast<ssize_t>(self.size())) {
    return SystemError(path, "write", static_cast<int64_t>(self.size()));
  }
  return claim;
}

bool DirectoryClaim::IsTaken(const std::string& directory) {
  const int file =
      ::open(FileOf(directory).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return false;
  struct flock lock = WholeFile();
  const bool taken = ::fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  ::close(file);
  return taken;
}

int DirectoryClaim::KeepOnExec() const {
  ::fcntl(file_, F_SETFD, 0);
  return file_;
}

std::optional<DirectoryClaim> DirectoryClaim::Adopt(const std::string& directory, int file) {
  struct stat mine {
  }, named{};
  if (::fstat(file, &mine) != 0 || ::lstat(FileOf(directory).c_str(), &named) != 0) return {};
  if (mine.st_dev != named.st_dev || mine.st_ino != named.st_ino) return {};
  ::fcntl(file, F_SETFD, FD_CLOEXEC);
  return DirectoryClaim(file);
}

DirectoryClaim::DirectoryClaim(DirectoryClaim&& other) noexcept
    : file_(std::exchange(other.file_, -1)) {}

DirectoryClaim::~DirectoryClaim() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace heddle
