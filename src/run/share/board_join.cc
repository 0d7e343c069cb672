// Jobs whose processes come by themselves, rank by rank, and whose steps nobody has counted: they
// may come, rest and go at any time, so their numbers on the board are used again.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "run/share/board_lock.h"
#include "run/share/process_state.h"

namespace heddle {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

Error Refused(const RankEntry& entry, std::string what, std::string hint) {
  return BadInput(fmt::format("job {}, rank {}", entry.job, entry.rank), std::move(what),
                  std::move(hint));
}

Status CheckRanges(const RankEntry& entry, int32_t devices) {
  if (entry.job.empty() || entry.job.size() >= sizeof(JobRecord::name)) {
    return Refused(entry, "needs a name",
                   fmt::format("1 to {} letters", sizeof(JobRecord::name) - 1));
  }
  if (entry.ranks < 1 || entry.ranks > kMostSharedDevices || entry.rank < 0 ||
      entry.rank >= entry.ranks) {
    return Refused(entry, fmt::format("is not one of {} ranks", entry.ranks),
                   fmt::format("ranks count from 0; a job has at most {}", kMostSharedDevices));
  }
  if (entry.device < 0 || entry.device >= devices || entry.node < 0 ||
      entry.node >= kMostSharedDevices) {
    return Refused(
        entry, fmt::format("there is no device {} on node {}", entry.device, entry.node),
        fmt::format("devices are 0 to {}, nodes 0 to {}", devices - 1, kMostSharedDevices - 1));
  }
  return Ok();
}

}  // namespace

// --- Coming
// ---------------------------------------------------------------------------------------

std::optional<int32_t> Board::FindJob(const std::string& name) const {
  for (int32_t j = 0; j < m().jobs; ++j) {
    const JobState state = job(j).state;
    if (state != JobState::kJoining && state != JobState::kRunning) continue;
    if (name == job(j).name.data()) return j;
  }
  return std::nullopt;
}

// Whether this rank may come, given those who are there.
Status Board::CheckEntry(const RankEntry& entry) const {
  HEDDLE_RETURN_IF_ERROR(CheckRanges(entry, m().devices));
  for (int32_t j = 0; j < m().jobs; ++j) {
    const bool there = job(j).state == JobState::kJoining || job(j).state == JobState::kRunning;
    const int32_t node = m().node_of[static_cast<size_t>(entry.device)];
    if (there && HasDevice(j, entry.device) && node != entry.node) {
      return Refused(entry,
                     fmt::format("puts device {} on node {}, job {} on node {}", entry.device,
                                 entry.node, job(j).name.data(), node),
                     "all jobs must say the same");
    }
  }
  const std::optional<int32_t> known = FindJob(entry.job);
  if (!known) return Ok();
  const JobRecord& record = job(*known);
  if (record.state == JobState::kRunning || record.rank[static_cast<size_t>(entry.rank)].ready) {
    return Refused(entry, "there is a job of that name in this share, and it has this rank",
                   "take another name for the job");
  }
  if (record.ranks != entry.ranks) {
    return Refused(entry, fmt::format("says {} ranks, another said {}", entry.ranks, record.ranks),
                   "all ranks of a job must say the same");
  }
  if (HasDevice(*known, entry.device)) {
    return Refused(entry, fmt::format("another rank of this job is on device {}", entry.device),
                   "a device for each rank");
  }
  return Ok();
}

// Nobody will speak of it any more.
bool Board::IsGone(int32_t j) const {
  const JobRecord& record = job(j);
  if (record.state == JobState::kAbsent) return true;
  if (record.state != JobState::kLeft && record.state != JobState::kDead) return false;
  return std::all_of(
      record.rank.begin(), record.rank.begin() + record.ranks,
      [](const RankRecord& r) { return r.left || r.pid == 0 || !ProcessLives(r.pid); });
}

// Forgets a job, and its places in line: they would be taken for those of the next of that number.
void Board::Clear(int32_t j) {
  job(j).state = JobState::kAbsent;
  for (NetworkQueue& queue : m().network) {
    for (int64_t k = queue.head; k < queue.tail; ++k) {
      Place& place = queue.places[static_cast<size_t>(k % kPlacesKept)];
      if (place.job != j) continue;
      place.done = place.ranks;
      place.turn = -1;
    }
    RefreshHead(queue);
  }
  std::destroy_at(&job(j));
  std::construct_at(&job(j));
}

std::optional<int32_t> Board::FreeNumber() {
  if (m().jobs < kMostJobs) return m().jobs;
  for (int32_t j = 0; j < kMostJobs; ++j) {
    if (IsGone(j)) return j;
  }
  return std::nullopt;
}

Result<int32_t> Board::MakeJob(const RankEntry& entry) {
  const std::optional<int32_t> number = FreeNumber();
  if (!number) {
    return Refused(entry, "is of one job too many",
                   fmt::format("at most {} at a time in one share", kMostJobs));
  }
  Clear(*number);
  JobRecord& record = job(*number);
  std::copy(entry.job.begin(), entry.job.end(), record.name.begin());
  record.ranks = entry.ranks;
  record.lease = BoardTime(entry.lease);
  record.beats = false;
  record.rest_after = BoardTime(entry.rest_after);
  m().member[static_cast<size_t>(*number)] = {.active = false, .left = kNever};
  m().turn_job[static_cast<size_t>(*number)] = {};
  record.state = JobState::kJoining;
  m().jobs = std::max(m().jobs, *number + 1);
  return *number;
}

Result<int32_t> Board::Join(const RankEntry& entry) {
  const Lock lock(*this);
  for (int32_t j = 0; j < m().jobs; ++j) Examine(j);
  HEDDLE_RETURN_IF_ERROR(CheckEntry(entry));
  int32_t j = FindJob(entry.job).value_or(-1);
  if (j < 0) {
    HEDDLE_ASSIGN(j, MakeJob(entry));
  }
  m().node_of[static_cast<size_t>(entry.device)] = entry.node;
  JobRecord& record = job(j);
  RankRecord& mine = record.rank[static_cast<size_t>(entry.rank)];
  mine.pid = getpid();
  mine.device = entry.device;
  mine.ready = true;
  const bool all = std::all_of(record.rank.begin(), record.rank.begin() + record.ranks,
                               [](const RankRecord& r) { return r.ready; });
  if (all) {
    Start(j);
    WakeAll();
  }
  return j;
}

// --- Resting
// --------------------------------------------------------------------------------------

bool Board::HasPlace(int32_t j) const {
  return std::any_of(m().network.begin(), m().network.end(), [&](const NetworkQueue& queue) {
    for (int64_t k = queue.head; k < queue.tail; ++k) {
      const Place& place = queue.places[static_cast<size_t>(k % kPlacesKept)];
      if (place.job == j && place.done < place.ranks) return true;
    }
    return false;
  });
}

bool Board::Works(int32_t j) const {
  const JobRecord& record = job(j);
  return std::any_of(record.rank.begin(), record.rank.begin() + record.ranks,
                     [](const RankRecord& r) { return r.computing; });
}

// None of its ranks works, communicates or asks for its device.
bool Board::IsAway(int32_t j, int64_t now) const {
  const JobRecord& record = job(j);
  if (!Alive(j) || record.rest_after == 0 || !m().member[static_cast<size_t>(j)].active)
    return false;
  if (now - record.idle_since < record.rest_after) return false;
  return !Works(j) && !HasPlace(j);
}

// Its turns pass on all devices at once, so that all still give turns in one order; devices that it
// holds without working go on. It begins again like a newcomer (Grab).
void Board::Rest(int32_t j) {
  m().member[static_cast<size_t>(j)].active = false;
  job(j).first_turn = kNever;
  for (int32_t d = 0; d < m().devices; ++d) {
    Token& t = token(d);
    if (t.owner != j) continue;
    ++t.generation;
    t.owner = -1;
  }
  WakeAll();
}

void Board::Pause(int32_t j, int32_t rank) {
  const Lock lock(*this);
  job(j).rank[static_cast<size_t>(rank)].computing = false;
  job(j).idle_since = Now();
}

Result<bool> Board::Resume(int32_t j, int32_t rank, const Grant& grant) {
  const Lock lock(*this);
  if (!Alive(j)) return Gone(j);
  const Token& t = token(device_of(j, rank));
  if (t.owner != j || t.generation != grant.generation) return false;
  job(j).rank[static_cast<size_t>(rank)].computing = true;
  return true;
}

// --- Messages
// -------------------------------------------------------------------------------------

void Board::TakePlaceEverywhere(int32_t j, int32_t rank, int64_t turn) {
  const Lock lock(*this);
  if (!Alive(j)) return;  // before its start not all devices are known
  job(j).rank[static_cast<size_t>(rank)].posted = turn;
  for (int32_t other = 0; other < job(j).ranks; ++other) {
    TakePlaceIn(node_of(j, other), j, turn);
  }
}

Status Board::Check(int32_t j) {
  const Lock lock(*this);
  Examine(j);
  if (job(j).state == JobState::kDead) return Gone(j);
  return Ok();
}

}  // namespace heddle
