#include "run/share/board_damage.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace heddle {
namespace {

constexpr int64_t kMostCounted = INT64_MAX / 8;  // turns, places, changes of hands
constexpr int64_t kAhead = 1'000'000'000;        // nanoseconds that clocks may differ by

bool IsIn(int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; }
bool IsCount(int64_t value) { return IsIn(value, 0, kMostCounted); }
bool IsTime(int64_t value) { return IsIn(value, 0, kLongestTime); }
bool IsNumber(double value, double least, double most) { return value >= least && value <= most; }

// A bool of other bytes than 0 and 1 may not even be read.
bool IsBool(const bool& value) {
  unsigned char byte = 0;
  std::memcpy(&byte, &value, 1);
  return byte <= 1;
}

bool IsHabit(const Habit& habit) { return IsTime(habit.expected) && IsTime(habit.longest); }

bool IsLease(const Lease& lease, int64_t now) {
  return IsIn(lease.since, 0, now + kAhead) && IsIn(lease.time, 0, INT64_MAX / 2) &&
         IsIn(lease.starved, -kLongestTime, kLongestTime);
}

bool IsThere(const JobRecord& record) { return record.state == JobState::kRunning; }

// --- Looking, part by part: a word for what is wrong, or nothing ---------------------------------

using Finding = const char*;

Finding LookAtShape(const BoardMemory& m, int64_t now) {
  if (!IsIn(m.devices, 0, kMostSharedDevices)) return "number of devices";
  if (!IsIn(m.jobs, 0, kMostJobs)) return "number of jobs";
  if (!IsIn(static_cast<int32_t>(m.order), 0, static_cast<int32_t>(TurnOrder::kArrival))) {
    return "order of turns";
  }
  for (int32_t d = 0; d < m.devices; ++d) {
    if (!IsIn(m.node_of[static_cast<size_t>(d)], 0, kMostSharedDevices - 1)) return "nodes";
  }
  if (!IsCount(m.scheduled)) return "number of turns";
  if (!IsIn(m.last_job, -1, m.jobs - 1)) return "last turn";
  if (!IsNumber(m.switch_cost.value, 0, 1e9)) return "cost of switching";
  if (!IsIn(m.last_sweep, 0, now + kAhead)) return "last sweep";
  return nullptr;
}

Finding LookAtRank(const BoardMemory& m, const JobRecord& record, const RankRecord& rank) {
  if (!IsIn(rank.pid, 0, INT32_MAX)) return "process of a rank";
  if (!IsIn(rank.device, IsThere(record) ? 0 : -1, m.devices - 1)) return "device of a rank";
  if (!IsBool(rank.ready) || !IsBool(rank.left) || !IsBool(rank.computing))
    return "state of a rank";
  if (!IsCount(rank.turns) || !IsIn(rank.posted, -1, kMostCounted)) return "turns of a rank";
  return nullptr;
}

Finding LookAtMember(const BoardMemory& m, const JobRecord& record, const OrderMember& member) {
  if (!IsBool(member.active)) return "place in the order";
  if (member.active && IsThere(record) && record.first_turn > m.scheduled) {
    return "first turn";  // it would never come
  }
  if (!IsNumber(member.seconds, 0, 1e9) || !IsNumber(member.weight, 1e-18, 1e18) ||
      !IsNumber(member.deficit, -member.seconds, 1e18)) {
    return "share of the turns";
  }
  return nullptr;
}

Finding LookAtJob(const BoardMemory& m, size_t j) {
  const JobRecord& record = m.job[j];
  if (record.name.back() != 0 || record.why.back() != 0) return "text";
  if (!IsIn(static_cast<int32_t>(record.state), 0, static_cast<int32_t>(JobState::kDead))) {
    return "state";
  }
  if (!IsIn(record.ranks, 0, kMostSharedDevices)) return "number of ranks";
  if (!IsTime(record.began) || !IsTime(record.ended) || !IsTime(record.lease) ||
      !IsTime(record.rest_after) || !IsTime(record.idle_since)) {
    return "times";
  }
  if (!IsBool(record.beats)) return "sign of life";
  if (!IsHabit(record.turns) || !IsHabit(record.network) || !IsHabit(record.coming))
    return "habits";
  for (int32_t r = 0; r < record.ranks; ++r) {
    if (const Finding found = LookAtRank(m, record, record.rank[static_cast<size_t>(r)]))
      return found;
  }
  if (!IsTurnJob(m.turn_job[j])) return "weight";
  return LookAtMember(m, record, m.member[j]);
}

Finding LookAtLine(const BoardMemory& m, const Token& t) {
  if (!IsIn(t.in_line, 0, kMostJobs)) return "line";
  for (int32_t k = 0; k < t.in_line; ++k) {
    if (!IsIn(t.line[static_cast<size_t>(k)].job, 0, m.jobs - 1)) return "line";
  }
  return nullptr;
}

Finding LookAtToken(const BoardMemory& m, const Token& t, int64_t now) {
  if (!IsIn(t.owner, -1, m.jobs - 1)) return "holder";
  if (t.owner >= 0) {
    const JobRecord& record = m.job[static_cast<size_t>(t.owner)];
    if (!IsIn(t.owner_rank, 0, record.ranks - 1)) return "rank of the holder";
    if (t.lease.since == 0 || t.lease.time == 0) return "lease";  // it would never end
  }
  if (!IsCount(t.generation)) return "changes of hands";
  if (!IsLease(t.lease, now) || !IsLease(t.awaited, now)) return "lease";
  const int64_t last = m.order == TurnOrder::kArrival ? kMostCounted : m.scheduled;
  if (!IsIn(t.turn, 0, last)) return "turn";  // it would never come
  return LookAtLine(m, t);
}

Finding LookAtPlace(const BoardMemory& m, const Place& place, int64_t now) {
  if (!IsIn(place.job, 0, m.jobs - 1)) return "job of a place";
  if (!IsIn(place.ranks, 0, kMostSharedDevices) || !IsCount(place.done)) {
    return "ranks of a place";
  }
  if (!IsIn(place.turn, -1, kMostCounted) || !IsLease(place.lease, now)) return "lease of a place";
  const JobRecord& record = m.job[static_cast<size_t>(place.job)];
  if (!IsThere(record) || place.done >= place.ranks) return nullptr;
  for (int32_t r = 0; r < record.ranks; ++r) {
    if (record.rank[static_cast<size_t>(r)].posted >= place.turn) return nullptr;
  }
  return "turn of a place";  // nobody took it, so nobody would leave it
}

Finding LookAtQueue(const BoardMemory& m, const NetworkQueue& queue, int64_t now) {
  if (!IsCount(queue.head) || !IsIn(queue.tail, queue.head, queue.head + kPlacesKept)) {
    return "length of the queue";
  }
  for (int64_t k = queue.head; k < queue.tail; ++k) {
    const Place& place = queue.places[static_cast<size_t>(k % kPlacesKept)];
    if (const Finding found = LookAtPlace(m, place, now)) return found;
  }
  return nullptr;
}

// --- Writing off ---------------------------------------------------------------------------------

template <size_t N>
void Write(std::array<char, N>& to, const std::string& text) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(to.data(), text.data(), size);
  std::memset(to.data() + size, 0, N - size);
}

void WriteOffRank(RankRecord& rank, int32_t devices) {
  if (!IsIn(rank.pid, 0, INT32_MAX)) rank.pid = 0;
  if (!IsIn(rank.device, -1, devices - 1)) rank.device = -1;
  if (!IsBool(rank.ready)) rank.ready = false;
  if (!IsBool(rank.left)) rank.left = false;
  rank.computing = false;
  rank.turns = 0;
  rank.posted = -1;
}

void WriteOffJob(JobRecord& record, const std::string& why, int32_t devices, int64_t now) {
  record.name.back() = 0;
  const bool had_left = record.state == JobState::kLeft && record.why.back() == 0;
  if (!had_left && record.state != JobState::kAbsent) {
    Write(record.why, why);
    record.state = JobState::kDead;
    record.ended = now;
  }
  record.why.back() = 0;
  if (!IsIn(record.ranks, 0, kMostSharedDevices)) record.ranks = 0;
  if (!IsTime(record.began)) record.began = 0;
  if (!IsTime(record.ended)) record.ended = 0;
  record.first_turn = -1;
  record.lease = record.rest_after = record.idle_since = 0;
  record.beats = true;
  record.turns = record.network = record.coming = {};
  for (int32_t r = 0; r < record.ranks; ++r) {
    WriteOffRank(record.rank[static_cast<size_t>(r)], devices);
  }
}

}  // namespace

bool IsTurnJob(const TurnJob& job) {
  return IsNumber(job.times.compute.value, 0, 1e9) &&
         IsNumber(job.times.communicate.value, 0, 1e9) &&
         IsNumber(job.times.exposed.value, 0, 1e9) && IsNumber(job.weight, 1e-12, 1e6);
}

std::optional<std::string> FindDamage(const BoardMemory& memory, int64_t now) {
  if (const Finding found = LookAtShape(memory, now)) return found;
  for (int32_t j = 0; j < memory.jobs; ++j) {
    if (const Finding found = LookAtJob(memory, static_cast<size_t>(j))) {
      return fmt::format("{} of job {}", found, j);
    }
  }
  for (int32_t d = 0; d < memory.devices; ++d) {
    if (const Finding found = LookAtToken(memory, memory.token[static_cast<size_t>(d)], now)) {
      return fmt::format("{} of device {}", found, d);
    }
  }
  for (int32_t n = 0; n < kMostSharedDevices; ++n) {
    if (const Finding found = LookAtQueue(memory, memory.network[static_cast<size_t>(n)], now)) {
      return fmt::format("{}, network of node {}", found, n);
    }
  }
  return std::nullopt;
}

void WriteOff(BoardMemory& memory, const std::string& what, int64_t now) {
  BoardMemory& m = memory;
  const std::string why = fmt::format("the memory that jobs share is damaged ({})", what);
  if (!IsIn(m.devices, 0, kMostSharedDevices)) m.devices = kMostSharedDevices;
  if (!IsIn(m.jobs, 0, kMostJobs)) m.jobs = kMostJobs;
  if (!IsIn(static_cast<int32_t>(m.order), 0, static_cast<int32_t>(TurnOrder::kArrival))) {
    m.order = TurnOrder::kRotation;
  }
  for (int32_t& node : m.node_of) {
    if (!IsIn(node, 0, kMostSharedDevices - 1)) node = 0;
  }
  m.last_sweep = m.scheduled = 0;
  m.last_job = -1;
  m.in_cycle = 0;
  m.switch_cost = Seconds{0};
  m.member.fill({});
  m.turn_job.fill({});
  for (JobRecord& record : m.job) WriteOffJob(record, why, m.devices, now);
  for (Token& t : m.token) {
    t.owner = t.owner_rank = -1;
    t.generation = IsCount(t.generation) ? t.generation + 1 : 0;
    t.lease = t.awaited = {};
    t.awaited_turn = -1;
    t.turn = 0;
    t.in_line = 0;
  }
  for (NetworkQueue& queue : m.network) queue.head = queue.tail = 0;
}

}  // namespace heddle
