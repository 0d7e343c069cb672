// Boards that are found by name: /heddle-share-NAME in shared memory, with a stamp before it.
//
// Two locks on the file say what the memory itself cannot, since the kernel takes them back from
// the dead: who holds the gate is alone in making, joining and leaving; everybody who is there
// shares the presence. A file with nobody present was left by the dead, whole or half made, and is
// replaced.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

#include "base/text.h"
#include "base/units.h"
#include "base/version.h"
#include "run/share/board.h"

namespace heddle {
namespace {

constexpr std::string_view kMagic = "heddle board";
constexpr off_t kGate = 0, kPresence = 1;  // bytes of the file that are locked

// The same in every build, so that builds can tell each other apart.
struct BoardStamp {
  std::array<char, 16> magic{};
  uint32_t layout = 0;
  int32_t order = 0;
  uint64_t bytes = 0;
  uint64_t pid_namespace = 0;  // process ids mean nothing in another one
  std::array<char, 32> version{};
  uint64_t shape = 0;  // hash of devices and nodes
};

struct NamedBoard {
  BoardStamp stamp;
  BoardMemory board;
};

Error Failed(const std::string& name, const char* what) {
  return {ErrorKind::kRunFailed, fmt::format("share {}", name),
          fmt::format("{}: {}", what, std::strerror(errno)), "is /dev/shm there and writable?"};
}

Error Refused(const std::string& name, std::string what, std::string hint) {
  return BadInput(fmt::format("share {}", name), std::move(what), std::move(hint));
}

// FNV-1a, of numbers.
uint64_t HashOf(const std::vector<int32_t>& numbers) {
  uint64_t hash = 14695981039346656037U;
  for (const int32_t number : numbers) {
    hash = (hash ^ static_cast<uint32_t>(number)) * 1099511628211U;
  }
  return hash;
}

uint64_t PidNamespace() {
  struct stat found {};
  return stat("/proc/self/ns/pid", &found) == 0 ? found.st_ino : 0;
}

template <size_t N>
void Write(std::array<char, N>& to, std::string_view text) {
  std::copy_n(text.begin(), std::min(text.size(), N - 1), to.begin());
}

BoardStamp StampOf(const BoardShape& shape) {
  BoardStamp stamp;
  Write(stamp.magic, kMagic);
  stamp.layout = kBoardLayout;
  stamp.order = static_cast<int32_t>(shape.order);
  stamp.bytes = sizeof(NamedBoard);
  stamp.pid_namespace = PidNamespace();
  Write(stamp.version, kVersion);
  stamp.shape = HashOf(shape.node_of);
  return stamp;
}

// An open file of shared memory; closing it gives its locks back.
class SharedFile {
 public:
  explicit SharedFile(int file) : file_(file) {}
  ~SharedFile() { close(file_); }
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  // `type` is F_RDLCK, F_WRLCK or F_UNLCK. False without waiting if others are in the way, or, if
  // `waits`, on errors only.
  bool Lock(off_t byte, short type, bool waits) const {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    while (fcntl(file_, waits ? F_OFD_SETLKW : F_OFD_SETLK, &lock) != 0) {
      if (errno != EINTR) return false;
    }
    return true;
  }
  // REQUIRES: the gate is held, so that nobody comes meanwhile.
  bool NobodyElseIsPresent() const {
    if (!Lock(kPresence, F_WRLCK, false)) return false;
    return Lock(kPresence, F_UNLCK, false);
  }
  int number() const { return file_; }

 private:
  int file_;
};

Status CheckName(const std::string& name) {
  if (IsPlainName(name)) return Ok();
  return Refused(name, "is no name for a share", kPlainName);
}

Status CheckOwner(const std::string& name, const struct stat& found) {
  if (found.st_uid == geteuid() && (found.st_mode & 077) == 0) return Ok();
  return Refused(name, fmt::format("its memory belongs to user {}", found.st_uid),
                 "a share is one user's; take another name");
}

Status CheckStamp(const std::string& name, const BoardStamp& found, const BoardStamp& mine) {
  if (found.magic != mine.magic) {
    return Refused(name, "its memory is not a board of heddle", "take another name");
  }
  if (found.layout != mine.layout || found.bytes != mine.bytes || found.version != mine.version) {
    return Refused(name,
                   fmt::format("its jobs run another build of heddle: {}, layout {}, {} bytes; "
                               "this is {}, layout {}, {} bytes",
                               std::string(found.version.data(), strnlen(found.version.data(), 32)),
                               found.layout, found.bytes, kVersion, mine.layout, mine.bytes),
                   "use the same build, take another name, or wait until those jobs have ended");
  }
  if (found.pid_namespace != mine.pid_namespace) {
    return Refused(name, "its jobs run in another container",
                   "share inside one, or use --pid=host");
  }
  if (found.shape != mine.shape || found.order != mine.order) {
    return Refused(name, "its devices, nodes or order of turns are others than asked for",
                   "ask for the same, or take another name");
  }
  return Ok();
}

Status CheckFound(const std::string& name, const SharedFile& file, off_t bytes,
                  const BoardStamp& mine) {
  BoardStamp found;
  const ssize_t size = pread(file.number(), &found, sizeof found, 0);
  if (size < 0) return Failed(name, "read");
  HEDDLE_RETURN_IF_ERROR(CheckStamp(name, found, mine));
  if (bytes == sizeof(NamedBoard)) return Ok();
  return Refused(name, fmt::format("its memory was cut to {} bytes", bytes), "take another name");
}

// The last one to go removes the name. A forked child was never counted.
void GoOut(const std::string& path, const SharedFile& file, NamedBoard* memory, pid_t opener) {
  munmap(memory, sizeof(NamedBoard));
  if (getpid() != opener || !file.Lock(kGate, F_WRLCK, true)) return;
  file.Lock(kPresence, F_UNLCK, false);
  struct stat found {};
  const bool has_name = fstat(file.number(), &found) == 0 && found.st_nlink > 0;
  if (has_name && file.NobodyElseIsPresent()) shm_unlink(path.c_str());
}

}  // namespace

Result<Board> Board::Open(const std::string& name, const BoardShape& shape) {
  HEDDLE_RETURN_IF_ERROR(CheckName(name));
  HEDDLE_RETURN_IF_ERROR(CheckShape(shape));
  const std::string path = "/heddle-share-" + name;
  const BoardStamp stamp = StampOf(shape);
  while (true) {
    const int number = shm_open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (number < 0) return Failed(name, "shm_open");
    auto file = std::make_shared<SharedFile>(number);
    if (!file->Lock(kGate, F_WRLCK, true)) return Failed(name, "lock");
    struct stat found {};
    if (fstat(number, &found) != 0) return Failed(name, "stat");
    if (found.st_nlink == 0) continue;  // the last one left while we waited at the gate
    HEDDLE_RETURN_IF_ERROR(CheckOwner(name, found));
    if (found.st_size != 0 && file->NobodyElseIsPresent()) {
      shm_unlink(path.c_str());  // of the dead
      continue;
    }
    const bool is_new = found.st_size == 0;
    if (!is_new) HEDDLE_RETURN_IF_ERROR(CheckFound(name, *file, found.st_size, stamp));
    // Claimed now: memory that is promised and not there would end whoever touches it.
    if (is_new) {
      errno = posix_fallocate(number, 0, sizeof(NamedBoard));
      if (errno != 0) {
        const Error error = Failed(
            name, fmt::format("{} of shared memory", ToText(Bytes{sizeof(NamedBoard)})).c_str());
        shm_unlink(path.c_str());
        return error;
      }
    }
    void* memory = mmap(nullptr, sizeof(NamedBoard), PROT_READ | PROT_WRITE, MAP_SHARED, number, 0);
    if (memory == MAP_FAILED) return Failed(name, "mmap");
    auto* named = static_cast<NamedBoard*>(memory);
    if (is_new) {
      Lay(&named->board, shape);
      new (&named->stamp) BoardStamp(stamp);
    }
    file->Lock(kPresence, F_RDLCK, true);
    file->Lock(kGate, F_UNLCK, true);
    const auto leave = [path, file, named, opener = getpid()](BoardMemory*) {
      GoOut(path, *file, named, opener);
    };
    return Board(std::shared_ptr<BoardMemory>(&named->board, leave), RealClock());
  }
}

}  // namespace heddle
