#include "run/store/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/atomic_file.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "base/text.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kInfoFile = "checkpoint.json";
constexpr std::string_view kTensorsFile = "tensors.safetensors";
constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kDroppedPrefix = "dropped-";
// Directories that are being written or removed, and ones moved aside while another takes their
// place. With the lock held, whatever has such a name was left by a dead writer.
constexpr std::string_view kTemporaryPrefix = ".tmp-";
constexpr std::string_view kReplacedPrefix = ".old-";

std::string Under(const std::string& directory, std::string_view prefix, const std::string& name) {
  return fmt::format("{}/{}{}", directory, prefix, name);
}

std::optional<int64_t> StepOf(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size());
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return ParseInteger(digits);
}

std::vector<std::string> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code failed;
  for (fs::directory_iterator it(directory, failed), end; !failed && it != end;
       it.increment(failed)) {
    names.push_back(it->path().filename());
  }
  return names;
}

struct Step {
  int64_t number;
  std::string name;
  auto operator<=>(const Step&) const = default;
};

std::vector<Step> StepsIn(const std::string& directory) {
  std::vector<Step> steps;
  for (std::string& name : NamesIn(directory)) {
    std::error_code ignored;
    const std::optional<int64_t> number = StepOf(name);
    if (!number || !fs::is_directory(fs::path(directory) / name, ignored)) continue;
    steps.push_back({*number, std::move(name)});
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

// The lock of a directory's writer, until destroyed or its process ends.
class DirectoryLock {
 public:
  static Result<DirectoryLock> Take(const std::string& directory) {
    constexpr auto kPatience = std::chrono::seconds(60);
    constexpr auto kPause = std::chrono::milliseconds(20);
    DirectoryLock lock(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (lock.fd_ < 0) return SystemError(directory, "open the directory");
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) break;  // no locks on this file system
      if (std::chrono::steady_clock::now() > until) {
        return BadInput(directory, "another process has been writing checkpoints here for 60 s",
                        "give each run a directory of its own");
      }
      std::this_thread::sleep_for(kPause);
    }
    return lock;
  }
  DirectoryLock(DirectoryLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~DirectoryLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}
  int fd_;
};

void RemoveQuietly(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// REQUIRES: the lock.
void ClearAfterDeadWriters(const std::string& parent) {
  for (const std::string& name : NamesIn(parent)) {
    const std::string path = Under(parent, "", name);
    if (name.starts_with(kTemporaryPrefix)) RemoveQuietly(path);
    if (!name.starts_with(kReplacedPrefix)) continue;
    // Its successor is in place, or else the writer died in between and it takes its place back.
    const std::string place = Under(parent, "", name.substr(kReplacedPrefix.size()));
    struct stat info {};
    const bool replaced = ::lstat(place.c_str(), &info) == 0;
    if (replaced || std::rename(path.c_str(), place.c_str()) != 0) RemoveQuietly(path);
  }
}

// Renames `from` to `to`, where another directory may be. REQUIRES: the lock; both in `parent`.
Status PutInPlace(const std::string& parent, const std::string& from, const std::string& to) {
  struct stat info {};
  if (::lstat(to.c_str(), &info) == 0) {
    // In one step where the file system can; then `from` is the old one.
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
      HEDDLE_RETURN_IF_ERROR(FlushDirectory(parent));
      RemoveQuietly(from);
      return Ok();
    }
    const std::string old = Under(parent, kReplacedPrefix, fs::path(to).filename());
    if (std::rename(to.c_str(), old.c_str()) != 0) return SystemError(to, "move aside");
  }
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    Error error = SystemError(to, "put in place");
    ClearAfterDeadWriters(parent);
    return error;
  }
  HEDDLE_RETURN_IF_ERROR(FlushDirectory(parent));
  ClearAfterDeadWriters(parent);
  return Ok();
}

Status WriteBoth(const std::string& directory, CheckpointInfo& info,
                 std::span<const StoredTensor> tensors) {
  if (::mkdir(directory.c_str(), 0755) != 0) return SystemError(directory, "create");
  HEDDLE_ASSIGN(
      const WrittenSafetensors written,
      WriteSafetensors(Under(directory, "", std::string(kTensorsFile)), tensors, MetadataOf(info)));
  info.tensors_bytes = written.bytes;
  info.tensors_hash = written.hash;
  const Json json = CheckpointInfoToJson(info);
  return WriteFile(Under(directory, "", std::string(kInfoFile)), JsonText(json, 2) + "\n");
}

// "use an earlier checkpoint: …", the last ones first.
std::string OtherCheckpoints(const std::string& path) {
  constexpr size_t kMost = 5;
  if (const auto own = ListCheckpoints(path); !own.empty()) {
    return fmt::format("this is the directory of a run; its last checkpoint is {}", own.back());
  }
  const fs::path self = fs::path(path + "/").lexically_normal().parent_path();
  std::vector<std::string> others;
  for (const Step& step : StepsIn(DirectoryOf(self))) {
    if (step.name != self.filename()) others.push_back((self.parent_path() / step.name).string());
  }
  if (others.empty()) return "there is no other checkpoint beside it; start the run anew";
  std::reverse(others.begin(), others.end());
  const bool more = others.size() > kMost;
  if (more) others.resize(kMost);
  return fmt::format("use an earlier checkpoint: {}{}", fmt::join(others, ", "), more ? ", …" : "");
}

// Both files must say the same. Older checkpoints say less of it in the tensors' file.
Status CheckAgreement(const CheckpointInfo& info, const SafetensorsMetadata& metadata,
                      const std::string& info_path) {
  for (const auto& [key, value] : MetadataOf(info)) {
    const auto saved = metadata.find(key);
    if (saved == metadata.end() || saved->second == value) continue;
    return BadInput(info_path, fmt::format("{} is {}, but the tensors were saved with {}: it was "
                                           "altered",
                                           key, value, saved->second));
  }
  return Ok();
}

Result<Checkpoint> LoadBoth(const std::string& path) {
  const std::string info_path = Under(path, "", std::string(kInfoFile));
  const std::string tensors_path = Under(path, "", std::string(kTensorsFile));
  HEDDLE_ASSIGN(const std::string text, ReadFile(info_path, kMostTextBytes));
  HEDDLE_ASSIGN(CheckpointInfo info, ParseCheckpointInfo(text, info_path));
  std::error_code failed;
  const uintmax_t bytes = fs::file_size(tensors_path, failed);
  if (!failed && bytes != static_cast<uintmax_t>(info.tensors_bytes)) {
    return BadInput(tensors_path,
                    fmt::format("has {} bytes, expected {}: it is {}", bytes, info.tensors_bytes,
                                bytes < static_cast<uintmax_t>(info.tensors_bytes)
                                    ? "truncated"
                                    : "not the file that was written"));
  }
  HEDDLE_ASSIGN(SafetensorsFile tensors, SafetensorsFile::Open(tensors_path));
  const std::string hash = HashOf(tensors.contents());
  if (hash != info.tensors_hash) {
    return BadInput(tensors_path, fmt::format("its hash is {}, expected {}: it was altered", hash,
                                              info.tensors_hash));
  }
  HEDDLE_RETURN_IF_ERROR(CheckAgreement(info, tensors.metadata(), info_path));
  return Checkpoint{std::move(info), std::move(tensors)};
}

}  // namespace

std::string CheckpointsOf(const std::string& run) { return run + "/checkpoints"; }

Result<std::string> SaveCheckpoint(const std::string& parent, CheckpointInfo info,
                                   std::span<const StoredTensor> tensors) {
  HEDDLE_CHECK(info.step >= 0);
  HEDDLE_RETURN_IF_ERROR(MakeDirectories(parent));
  HEDDLE_ASSIGN(const DirectoryLock lock, DirectoryLock::Take(parent));
  ClearAfterDeadWriters(parent);
  const std::string name = fmt::format("{}{:08}", kStepPrefix, info.step);
  const std::string path = Under(parent, "", name);
  const std::string temporary = Under(parent, kTemporaryPrefix, name);
  Status status = WriteBoth(temporary, info, tensors);
  if (status.ok()) status = PutInPlace(parent, temporary, path);
  if (status.ok()) return path;
  RemoveQuietly(temporary);
  Error error = status.error();
  // People know it by the name it would have had.
  if (error.where.starts_with(temporary)) error.where.replace(0, temporary.size(), path);
  return error;
}

Result<Checkpoint> LoadCheckpoint(const std::string& path) {
  Result<Checkpoint> loaded = LoadBoth(path);
  if (loaded.ok()) return loaded;
  Error error = loaded.error();
  const std::string others = OtherCheckpoints(path);
  error.hint = error.hint.empty() ? others : error.hint + "; " + others;
  return error;
}

Result<CheckpointInfo> LoadCheckpointInfo(const std::string& path) {
  const std::string file = Under(path, "", std::string(kInfoFile));
  HEDDLE_ASSIGN(const std::string text, ReadFile(file, kMostTextBytes));
  return ParseCheckpointInfo(text, file);
}

std::vector<std::string> ListCheckpoints(const std::string& run) {
  const std::string parent = CheckpointsOf(run);
  std::vector<std::string> paths;
  for (const Step& step : StepsIn(parent)) paths.push_back(Under(parent, "", step.name));
  return paths;
}

Result<std::string> LatestCheckpoint(const std::string& run) {
  std::vector<std::string> paths = ListCheckpoints(run);
  if (!paths.empty()) return std::move(paths.back());
  return BadInput(CheckpointsOf(run), "there is no checkpoint",
                  "check the path, or start the run anew");
}

Status PruneCheckpoints(const std::string& run, int keep) {
  const std::string parent = CheckpointsOf(run);
  if (keep < 1) return Usage(fmt::format("cannot keep {} checkpoints", keep), "keep at least 1");
  if (StepsIn(parent).size() <= static_cast<size_t>(keep)) return Ok();
  HEDDLE_ASSIGN(const DirectoryLock lock, DirectoryLock::Take(parent));
  std::vector<Step> steps = StepsIn(parent);
  steps.resize(steps.size() - std::min(steps.size(), static_cast<size_t>(keep)));
  for (const Step& step : steps) {
    // Renamed first: a step-* directory never lacks a part.
    const std::string path = Under(parent, "", step.name);
    const std::string temporary = Under(parent, kTemporaryPrefix, step.name);
    RemoveQuietly(temporary);
    if (std::rename(path.c_str(), temporary.c_str()) != 0) return SystemError(path, "remove");
    RemoveQuietly(temporary);
  }
  return FlushDirectory(parent);
}

Status DropCheckpointsAfter(const std::string& run, int64_t step) {
  const std::string parent = CheckpointsOf(run);
  std::vector<Step> later = StepsIn(parent);
  std::erase_if(later, [&](const Step& candidate) { return candidate.number <= step; });
  if (later.empty()) return Ok();
  HEDDLE_ASSIGN(const DirectoryLock lock, DirectoryLock::Take(parent));
  for (const Step& dropped : later) {
    const std::string path = Under(parent, "", dropped.name);
    const std::string aside = Under(parent, kDroppedPrefix, dropped.name);
    RemoveQuietly(aside);
    if (std::rename(path.c_str(), aside.c_str()) != 0) return SystemError(path, "move aside");
  }
  return FlushDirectory(parent);
}

}  // namespace heddle
