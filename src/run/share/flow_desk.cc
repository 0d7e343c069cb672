#include "run/share/flow_desk.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <new>
#include <type_traits>

#include "base/check.h"
#include "base/futex.h"

namespace heddle {
namespace {

static_assert(sizeof(FlowPost) <= PIPE_BUF, "posts must not mix");
static_assert(std::is_trivially_copyable_v<FlowPost>);

}  // namespace

// Written by the office, but for `ends` that a rank clears before it posts.
struct FlowDesk::RankPart {
  std::atomic<uint32_t> changes{0};  // futex
  std::atomic<int64_t> granted{0};
  std::array<std::atomic<int64_t>, kInFlight> grants;
  std::array<std::atomic<int64_t>, kInFlight> ends;  // 0: not yet
};

struct FlowDesk::Shared {
  std::atomic<int64_t> beats{0};  // of the office
  std::array<RankPart, size_t{kMostJobs} * kMostSharedDevices> parts;
};

struct FlowDesk::Memory {
  int reads = -1, writes = -1;  // the pipe
  Shared* shared = nullptr;     // pages that nobody touches cost nothing

  ~Memory() {
    if (shared != nullptr) munmap(shared, sizeof(Shared));
    if (reads >= 0) close(reads);
    if (writes >= 0) close(writes);
  }
};

Result<FlowDesk> FlowDesk::Create() {
  const auto failed = [](const char* what) {
    return Error{ErrorKind::kRunFailed, "share", std::string(what) + ": " + std::strerror(errno),
                 ""};
  };
  auto memory = std::make_shared<Memory>();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failed("pipe");
  memory->reads = ends[0];
  memory->writes = ends[1];
  fcntl(memory->reads, F_SETFL, O_NONBLOCK);
  // All zero, which is how it begins.
  void* mapped = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return failed("shared memory");
  memory->shared = static_cast<Shared*>(mapped);
  return FlowDesk(std::move(memory));
}

FlowDesk::RankPart& FlowDesk::part(int32_t job, int32_t rank) const {
  return memory_->shared->parts[static_cast<size_t>(job * kMostSharedDevices + rank)];
}

void FlowDesk::Post(const FlowPost& post) const {
  if (post.performed == 0) {
    part(post.job, post.rank).ends[static_cast<size_t>(post.number) % kInFlight] = 0;
  }
  ssize_t written = -1;
  do {
    written = write(memory_->writes, &post, sizeof post);
  } while (written < 0 && errno == EINTR);
  HEDDLE_CHECK(written == sizeof post);
}

std::optional<int64_t> FlowDesk::AwaitGrant(int32_t job, int32_t rank, int64_t k,
                                            int64_t nanoseconds) const {
  RankPart& mine = part(job, rank);
  const uint32_t seen = mine.changes.load();
  if (mine.granted.load() <= k) WaitForChange(mine.changes, seen, nanoseconds);
  if (mine.granted.load() <= k) return std::nullopt;
  return mine.grants[static_cast<size_t>(k) % kInFlight].load();
}

int64_t FlowDesk::EndOf(int32_t job, int32_t rank, int64_t number) const {
  return part(job, rank).ends[static_cast<size_t>(number) % kInFlight].load();
}

Result<int64_t> FlowDesk::AwaitEnd(const Board& board, int32_t job, int32_t rank,
                                   int64_t number) const {
  constexpr int64_t kPatience = 20'000'000;
  RankPart& mine = part(job, rank);
  while (true) {
    const uint32_t seen = mine.changes.load();
    if (const int64_t time = EndOf(job, rank, number); time != 0) return time;
    if (WaitForChange(mine.changes, seen, kPatience)) continue;
    if (board.state(job) == JobState::kDead) {
      return Error{ErrorKind::kRunFailed, "job " + board.name(job),
                   "was struck from the share: " + board.why(job), ""};
    }
  }
}

std::vector<FlowPost> FlowDesk::Read(int64_t until) const {
  constexpr int64_t kSecond = 1'000'000'000;
  const int64_t wait = std::max<int64_t>(0, until - BoardNow());
  const timespec patience{wait / kSecond, wait % kSecond};
  pollfd waiting{memory_->reads, POLLIN, 0};
  ppoll(&waiting, 1, &patience, nullptr);
  std::vector<FlowPost> posts;
  FlowPost post;
  while (read(memory_->reads, &post, sizeof post) == sizeof post) posts.push_back(post);
  return posts;
}

void FlowDesk::Grant(int32_t job, int32_t rank, int64_t number) const {
  RankPart& its = part(job, rank);
  const int64_t k = its.granted.load();
  its.grants[static_cast<size_t>(k) % kInFlight] = number;
  its.granted = k + 1;
  ChangeAndWake(its.changes);
}

void FlowDesk::Beat() const { ++memory_->shared->beats; }
int64_t FlowDesk::beats() const { return memory_->shared->beats; }

void FlowDesk::End(int32_t job, int32_t rank, int64_t number, int64_t time) const {
  RankPart& its = part(job, rank);
  its.ends[static_cast<size_t>(number) % kInFlight] = time;
  ChangeAndWake(its.changes);
}

}  // namespace heddle
