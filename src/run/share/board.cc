#include "run/share/board.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/futex.h"
#include "run/share/board_lock.h"
#include "run/share/process_state.h"

namespace heddle {
namespace {

template <size_t N>
void Write(std::array<char, N>& to, const std::string& text) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(to.data(), text.data(), size);
  to[size] = 0;
}

Error NoMemory(const char* what) {
  return {ErrorKind::kRunFailed, "shared memory", fmt::format("{}: {}", what, std::strerror(errno)),
          "is /dev/shm there and writable?"};
}

void InitMutex(pthread_mutex_t* mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  HEDDLE_CHECK(pthread_mutex_init(mutex, &attributes) == 0);
  pthread_mutexattr_destroy(&attributes);
}

}  // namespace

int64_t BoardNow() { return NanosecondsOf(RealClock().Now()); }

Status Board::CheckShape(const BoardShape& shape) {
  if (shape.node_of.size() > kMostSharedDevices) {
    return BadInput("share", fmt::format("{} devices are too many", shape.node_of.size()),
                    fmt::format("at most {}", kMostSharedDevices));
  }
  return Ok();
}

BoardMemory* Board::Lay(void* memory, const BoardShape& shape) {
  auto* board = new (memory) BoardMemory;
  InitMutex(&board->mutex);
  board->order = shape.order;
  board->switch_cost = shape.switch_cost;
  board->devices = static_cast<int32_t>(shape.node_of.size());
  std::copy(shape.node_of.begin(), shape.node_of.end(), board->node_of.begin());
  return board;
}

Result<Board> Board::Create(const BoardShape& shape, Clock& clock) {
  HEDDLE_RETURN_IF_ERROR(CheckShape(shape));
  const std::string name = fmt::format("/heddle-board-{}-{}", getpid(), BoardNow());
  const int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0) return NoMemory("shm_open");
  // The processes of the share are forked from this one and keep the mapping: no name is left
  // behind, however they end.
  shm_unlink(name.c_str());
  // Claimed now: memory that is promised and not there would end whoever touches it.
  errno = posix_fallocate(file, 0, sizeof(BoardMemory));
  if (errno != 0) {
    const Error error = NoMemory("posix_fallocate");
    close(file);
    return error;
  }
  void* memory = mmap(nullptr, sizeof(BoardMemory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return NoMemory("mmap");
  return Board(
      std::shared_ptr<BoardMemory>(
          Lay(memory, shape), [](BoardMemory* mapped) { munmap(mapped, sizeof(BoardMemory)); }),
      clock);
}

// --- Dead and hung jobs
// ---------------------------------------------------------------------------

// Somebody died in the middle of an edit. Records are written so that what is half done is not seen
// (the count after the entry, the owner last), or belongs to the dead job alone.
void Board::Repair() {
  if (m().editor == 0) return;  // no edit had begun; a sweep finds the dead
  for (int32_t j = 0; j < m().jobs; ++j) {
    for (int32_t rank = 0; rank < job(j).ranks; ++rank) {
      if (job(j).rank[static_cast<size_t>(rank)].pid == m().editor) {
        Strike(j, fmt::format("rank {} (process {}) died", rank, m().editor));
      }
    }
  }
}

void Board::Strike(int32_t j, const std::string& why) {
  JobRecord& record = job(j);
  if (record.state == JobState::kDead || record.state == JobState::kLeft) return;
  Write(record.why, why);
  record.ended = Now();
  record.state = JobState::kDead;
  m().member[static_cast<size_t>(j)].active = false;
  for (int32_t d = 0; d < m().devices; ++d) {
    Token& t = token(d);
    if (t.owner != j) continue;
    t.owner = -1;
    ++t.generation;
  }
  for (FairDevice& device : m().fair_device) {
    FairUse& use = device.use[static_cast<size_t>(j)];
    use.done = use.number;
  }
  WakeAll();
}

void Board::WakeAll() {
  for (int32_t d = 0; d < m().devices; ++d) {
    ChangeAndWake(m().token[static_cast<size_t>(d)].changes);
    ChangeAndWake(m().network[static_cast<size_t>(d)].changes);
    ChangeAndWake(m().fair_device[static_cast<size_t>(d)].changes);
  }
}

void Board::Examine(int32_t j) {
  JobRecord& record = job(j);
  if (record.state != JobState::kRunning && record.state != JobState::kJoining) return;
  for (int32_t rank = 0; rank < record.ranks; ++rank) {
    const RankRecord& r = record.rank[static_cast<size_t>(rank)];
    if (r.pid == 0 || r.left || ProcessLives(r.pid)) continue;
    return Strike(j, fmt::format("rank {} (process {}) died", rank, r.pid));
  }
}

// Those who wait do this; once in a while is enough for all of them.
void Board::SweepLocked() {
  constexpr int64_t kPause = 20'000'000;
  const int64_t now = Now();
  if (now - m().last_sweep < kPause) return;
  m().last_sweep = now;
  for (int32_t j = 0; j < m().jobs; ++j) {
    Examine(j);
    if (IsAway(j, now)) Rest(j);
  }
  LookAtLeases(now);
}

void Board::Sweep() {
  const Lock lock(*this);
  SweepLocked();
}

void Board::MarkDead(int32_t j, const std::string& why) {
  const Lock lock(*this);
  Strike(j, why);
}

void Board::MarkAllDead(const std::string& why) {
  const Lock lock(*this);
  for (int32_t j = 0; j < m().jobs; ++j) Strike(j, why);
}

Error Board::Gone(int32_t j) const {
  return {ErrorKind::kRunFailed, fmt::format("job {}", job(j).name.data()),
          fmt::format("was struck from the share: {}", job(j).why.data()), ""};
}

// --- Coming and going
// -----------------------------------------------------------------------------

Result<int32_t> Board::AddJob(const JobEntry& entry) {
  const Lock lock(*this);
  if (m().jobs == kMostJobs) {
    return BadInput("share", fmt::format("job {} is one too many", entry.name),
                    fmt::format("at most {} in one share", kMostJobs));
  }
  if (!IsTurnJob({entry.times, entry.weight})) {
    return BadInput(fmt::format("job {}", entry.name),
                    fmt::format("a weight of {:g} and turns of {:g} s cannot be shared",
                                entry.weight, entry.times.alone().value),
                    "weights from 1e-12 to 1e6, turns of up to 1e9 s");
  }
  const int32_t j = m().jobs;
  JobRecord& record = job(j);
  Write(record.name, entry.name);
  record.ranks = static_cast<int32_t>(entry.devices.size());
  for (size_t rank = 0; rank < entry.devices.size(); ++rank) {
    HEDDLE_CHECK(entry.devices[rank] >= 0 && entry.devices[rank] < m().devices);
    record.rank[rank].device = entry.devices[rank];
  }
  record.lease = BoardTime(entry.lease);
  record.turns.expected = record.coming.expected = BoardTime(entry.expected_turn);
  record.network.expected = BoardTime(entry.expected_network);
  m().turn_job[static_cast<size_t>(j)] = {entry.times, entry.weight};
  m().member[static_cast<size_t>(j)] = {.active = false, .left = entry.turns};
  record.state = JobState::kJoining;
  ++m().jobs;
  return j;
}

bool Board::IsReady(int32_t j) const {
  const Lock lock(*this);
  const JobRecord& record = job(j);
  return std::all_of(record.rank.begin(), record.rank.begin() + record.ranks,
                     [](const RankRecord& rank) { return rank.ready; });
}

int64_t Board::Activate(std::span<const int32_t> jobs) {
  const Lock lock(*this);
  // The end of the sequence: beyond every turn that was given on any device.
  for (const int32_t j : jobs) {
    if (job(j).state == JobState::kJoining) Start(j);
  }
  WakeAll();
  return m().scheduled;
}

void Board::Start(int32_t j) {
  JobRecord& record = job(j);
  record.first_turn = m().scheduled;
  record.idle_since = Now();
  if (record.began == 0) record.began = record.idle_since;
  record.state = JobState::kRunning;
  m().member[static_cast<size_t>(j)].active = true;
}

void Board::Enter(int32_t j, int32_t rank) {
  const Lock lock(*this);
  RankRecord& record = job(j).rank[static_cast<size_t>(rank)];
  record.pid = getpid();
  record.ready = true;
}

void Board::Beat(int32_t j, int32_t rank, int64_t starved) {
  RankRecord& record = job(j).rank[static_cast<size_t>(rank)];
  record.starved += starved;
  record.last_beat = Now();
  ++record.beats;
}

void Board::AskToStop(int32_t j) { job(j).asked_to_stop = 1; }

void Board::AskAllToStop() {
  for (int32_t j = 0; j < m().jobs; ++j) AskToStop(j);
}

void Board::StopAfter(int32_t j, int64_t repetitions) { job(j).stops_after = repetitions; }

void Board::Leave(int32_t j, int32_t rank) {
  const Lock lock(*this);
  JobRecord& record = job(j);
  record.rank[static_cast<size_t>(rank)].left = true;
  const bool all = std::all_of(record.rank.begin(), record.rank.begin() + record.ranks,
                               [](const RankRecord& r) { return r.left; });
  if (!all || record.state == JobState::kDead) return;
  record.ended = Now();
  record.state = JobState::kLeft;
  m().member[static_cast<size_t>(j)].active = false;
  WakeAll();
}

// --- Tokens
// ---------------------------------------------------------------------------------------

Status Board::AwaitStart(int32_t j, double patience) {
  constexpr int64_t kPause = 20'000'000;
  const int64_t end = Now() + BoardTime(patience);
  // Any device's: a start wakes them all, and those of ranks that have not come are not known.
  std::atomic<uint32_t>& word = token(0).changes;
  while (true) {
    const uint32_t seen = word.load();
    const JobState now = state(j);
    if (now == JobState::kRunning) return Ok();
    if (now != JobState::kJoining) return Gone(j);
    if (WaitForChange(word, seen, kPause)) continue;
    Sweep();
    if (Now() > end) {
      return Error{ErrorKind::kRunFailed, "job " + name(j),
                   fmt::format("not all of its {} ranks came within {:.3g} s", ranks(j), patience),
                   "start them all on this host, with the same share and job"};
    }
  }
}

bool Board::HasDevice(int32_t j, int32_t device) const {
  const JobRecord& record = job(j);
  return std::any_of(record.rank.begin(), record.rank.begin() + record.ranks,
                     [&](const RankRecord& r) { return r.device == device && !r.left; });
}

// When a job has come, has had its last turn or is dead, the order becomes that of the jobs there
// are now, from its beginning: what the planner simulates of them.
void Board::KeepCycle() {
  if (m().order != TurnOrder::kDeficit) return;
  const auto jobs = static_cast<size_t>(m().jobs);
  uint32_t waiting = 0;
  for (size_t j = 0; j < jobs; ++j) waiting |= uint32_t{m().member[j].waits()} << j;
  if (waiting == m().in_cycle) return;
  BeginCycle({m().turn_job.data(), jobs}, m().switch_cost, {m().member.data(), jobs});
  m().last_job = -1;
  m().in_cycle = waiting;  // last: who dies before leaves it to the next
}

// Adds a turn to the sequence, if somebody on this device can still get one.
bool Board::Grow(int32_t device) {
  bool wanted = false;
  for (int32_t j = 0; j < m().jobs && !wanted; ++j) {
    wanted = Alive(j) && HasDevice(j, device) && m().member[static_cast<size_t>(j)].waits();
  }
  if (!wanted) return false;
  KeepCycle();
  const std::span<OrderMember> members(m().member.data(), static_cast<size_t>(m().jobs));
  const int32_t next = NextJob(m().order, members, m().last_job);
  m().sequence[static_cast<size_t>(m().scheduled % kSequenceKept)] = next;
  m().last_job = next;
  ++m().scheduled;
  return true;
}

// The job whose turn it is on the device, as far as the sequence goes; -1: nobody's yet.
int32_t Board::NextOn(int32_t device) {
  Token& t = token(device);
  // What is older than the sequence was of jobs that are gone.
  t.turn = std::max(t.turn, m().scheduled - kSequenceKept);
  for (; t.turn < m().scheduled; ++t.turn) {
    const int32_t next = m().sequence[static_cast<size_t>(t.turn % kSequenceKept)];
    if (next < 0 || next >= m().jobs) continue;  // nobody's
    // A turn before its first was of another job of that number, or passed while it rested.
    if (Alive(next) && t.turn >= job(next).first_turn && HasDevice(next, device)) return next;
  }
  return -1;
}

bool Board::IsNext(int32_t j, int32_t rank, Token& t) {
  if (m().order == TurnOrder::kArrival) {
    // Out with those who are gone, and with whom somebody who died in the middle of this left there
    // twice.
    uint32_t seen = 0;
    const auto end =
        std::remove_if(t.line.begin(), t.line.begin() + t.in_line, [&](const Waiting& w) {
          const bool twice = (seen >> w.job & 1U) != 0;
          seen |= 1U << w.job;
          return twice || !Alive(w.job);
        });
    t.in_line = static_cast<int32_t>(end - t.line.begin());
    const auto mine = [&](const Waiting& w) { return w.job == j; };
    if (std::none_of(t.line.begin(), end, mine)) {
      t.line[static_cast<size_t>(t.in_line++)] = {j, rank};
    }
    return t.owner < 0 && t.line[0].job == j;
  }
  if (t.owner >= 0) return false;
  const int32_t device = device_of(j, rank);
  do {
    const int32_t next = NextOn(device);
    if (next >= 0) return next == j;
  } while (Grow(device));
  return false;
}

std::optional<Grant> Board::Grab(int32_t j, int32_t rank) {
  Token& t = token(device_of(j, rank));
  if (!m().member[static_cast<size_t>(j)].active) Start(j);  // it rested
  job(j).idle_since = Now();
  if (!IsNext(j, rank, t)) return std::nullopt;
  if (m().order == TurnOrder::kArrival) {
    std::copy(t.line.begin() + 1, t.line.begin() + t.in_line, t.line.begin());
    --t.in_line;
  }
  StartTurn(j, rank, t);
  t.owner_rank = rank;
  ++t.generation;
  job(j).rank[static_cast<size_t>(rank)].computing = true;
  t.owner = j;
  return Grant{t.generation, t.turn};
}

Result<Grant> Board::Acquire(int32_t j, int32_t rank) {
  std::optional<Grant> grant;
  HEDDLE_RETURN_IF_ERROR(WaitUntil(j, token(device_of(j, rank)).changes, [&] {
    grant = Grab(j, rank);
    return grant.has_value();
  }));
  return *grant;
}

Result<std::optional<Grant>> Board::TryAcquire(int32_t j, int32_t rank) {
  const Lock lock(*this);
  if (!Alive(j)) return Gone(j);
  return Grab(j, rank);
}

bool Board::Release(int32_t j, int32_t rank, const Grant& grant) {
  const Lock lock(*this);
  Token& t = token(device_of(j, rank));
  job(j).rank[static_cast<size_t>(rank)].computing = false;
  job(j).idle_since = Now();
  if (t.owner != j || t.generation != grant.generation) return false;
  EndTurn(j, rank, t);
  ++t.generation;
  ++t.turn;
  t.owner = -1;
  ChangeAndWake(t.changes);
  return true;
}

}  // namespace heddle
