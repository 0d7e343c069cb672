// The board's leases. Whenever jobs wait for each other, one of three runs out in the end: that of
// the holder of a device, that of the job whose turn is next and which does not come for it, that
// of the job that has the network. Let t be the first turn of the sequence that is not over; then
// on each of its devices nothing older is in the way, so that its job holds the device, or should,
// or has posted and is first in line on every node.

#include <fmt/format.h>

#include <algorithm>

#include "run/share/board_lock.h"

namespace heddle {
namespace {

constexpr int64_t kColdTurns = 3;
constexpr int64_t kIdle = 60'000'000'000;  // nanoseconds

double InSeconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

// Written without the mutex: as much as can be added up, whatever is there.
int64_t Starved(const RankRecord& rank) {
  constexpr int64_t kMost = kLongestTime / kMostSharedDevices;
  return std::clamp<int64_t>(rank.starved, -kMost, kMost);
}

int64_t StarvedRanks(const JobRecord& record) {
  int64_t sum = 0;
  for (int32_t r = 0; r < record.ranks; ++r) sum += Starved(record.rank[static_cast<size_t>(r)]);
  return sum;
}

int64_t LastBeat(const JobRecord& record, const RankRecord& rank, int64_t now) {
  return record.beats ? rank.last_beat.load() : now;
}

// The last moment at which all ranks had given a sign of life.
int64_t LastBeats(const JobRecord& record, int64_t now) {
  int64_t last = record.beats ? INT64_MAX : now;
  for (int32_t r = 0; r < record.ranks; ++r) {
    const RankRecord& rank = record.rank[static_cast<size_t>(r)];
    if (!rank.left) last = std::min(last, LastBeat(record, rank, now));
  }
  return last;
}

int64_t FewestTurns(const JobRecord& record) {
  int64_t fewest = INT64_MAX;
  for (int32_t r = 0; r < record.ranks; ++r) {
    fewest = std::min(fewest, record.rank[static_cast<size_t>(r)].turns);
  }
  return fewest;
}

}  // namespace

Lease Board::NewLease(int32_t j, const Habit& habit, bool cold, int64_t starved,
                      int64_t now) const {
  const int64_t fixed = job(j).lease;
  return {now, fixed > 0 ? fixed : LeaseTime(habit, cold), starved};
}

void Board::StartTurn(int32_t j, int32_t rank, Token& t) {
  JobRecord& record = job(j);
  const RankRecord& mine = record.rank[static_cast<size_t>(rank)];
  const int64_t now = Now();
  if (t.awaited.since > 0 && t.awaited_turn == t.turn && mine.turns > kColdTurns) {
    record.coming.Learn(now - t.awaited.since);
  }
  t.awaited = {};
  t.lease = NewLease(j, record.turns, mine.turns < kColdTurns, Starved(mine), now);
}

void Board::EndTurn(int32_t j, int32_t rank, Token& t) {
  JobRecord& record = job(j);
  RankRecord& mine = record.rank[static_cast<size_t>(rank)];
  if (mine.turns >= kColdTurns) record.turns.Learn(Now() - t.lease.since);
  ++mine.turns;
}

void Board::LearnExchange(int32_t j, const Place& place) {
  JobRecord& record = job(j);
  const bool known = place.lease.since > 0 && FewestTurns(record) > kColdTurns;
  if (known) record.network.Learn(Now() - place.lease.since);
}

Lease Board::NetworkLease(int32_t j) const {
  const Lock lock(*this);
  const JobRecord& record = job(j);
  return NewLease(j, record.network, FewestTurns(record) <= kColdTurns, StarvedRanks(record),
                  Now());
}

bool Board::HasOutstayed(int32_t j, const Lease& lease) const {
  const Lock lock(*this);
  return IsOver(lease, StarvedRanks(job(j)), LastBeats(job(j), Now()));
}

void Board::LookAtLeases(int64_t now) {
  for (int32_t d = 0; d < m().devices; ++d) {
    if (token(d).owner >= 0) {
      LookAtHolder(d, now);
    } else if (m().order != TurnOrder::kArrival) {
      LookForTheNext(d, now);
    }
    LookAtNetwork(d, now);  // no more nodes than devices
  }
  for (int32_t j = 0; j < m().jobs && m().order == TurnOrder::kArrival; ++j) LookForWork(j, now);
}

// Where nobody has to wait for a job that hangs with empty hands, it would only never end.
void Board::LookForWork(int32_t j, int64_t now) {
  const JobRecord& record = job(j);
  if (!Alive(j) || !record.beats || record.idle_since == 0) return;
  const int64_t usual = LeaseTime(record.turns, false) + LeaseTime(record.network, false);
  const int64_t patience = record.lease > 0 ? record.lease : usual + kIdle;
  if (Works(j) || now - record.idle_since < patience) return;
  Strike(j, fmt::format("hangs: none of its ranks has computed or asked for a device in {:.3g} s",
                        InSeconds(patience)));
}

void Board::LookAtHolder(int32_t device, int64_t now) {
  Token& t = token(device);
  if (!Alive(t.owner)) {  // left, and took it along
    ++t.generation;
    t.owner = -1;
    return ChangeAndWake(t.changes);
  }
  const JobRecord& record = job(t.owner);
  const RankRecord& holder = record.rank[static_cast<size_t>(t.owner_rank)];
  if (!IsOver(t.lease, Starved(holder), LastBeat(record, holder, now))) return;
  Strike(t.owner, fmt::format("rank {} hangs: it kept device {} beyond its lease of {:.3g} s",
                              t.owner_rank, device, InSeconds(t.lease.time)));
}

void Board::LookForTheNext(int32_t device, int64_t now) {
  Token& t = token(device);
  const int32_t j = NextOn(device);
  if (j < 0) return;
  JobRecord& record = job(j);
  const auto rank = std::find_if(record.rank.begin(), record.rank.begin() + record.ranks,
                                 [&](const RankRecord& r) { return r.device == device; });
  const NetworkQueue& queue = network_of(j, static_cast<int32_t>(rank - record.rank.begin()));
  bool exchanges = false;
  for (int64_t k = queue.head; k < queue.tail && !exchanges; ++k) {
    const Place& place = queue.places[static_cast<size_t>(k % kPlacesKept)];
    exchanges = place.job == j && place.done < place.ranks;
  }
  if (exchanges) {  // the network's leases count
    t.awaited = {};
  } else if (t.awaited.since == 0 || t.awaited_turn != t.turn) {
    const bool cold = rank->turns > 0 && rank->turns <= kColdTurns;
    t.awaited = NewLease(j, record.coming, cold, Starved(*rank), now);
    t.awaited_turn = t.turn;
  } else if (IsOver(t.awaited, Starved(*rank), LastBeat(record, *rank, now))) {
    Strike(j,
           fmt::format("rank {} hangs: it did not come for its turn on device {} within {:.3g} s",
                       rank - record.rank.begin(), device, InSeconds(t.awaited.time)));
  }
}

// Whether the job's exchange of this turn waits for nobody but the job itself: all its ranks have
// posted and given their device back, and no other job is before it on any node.
bool Board::AllExchange(int32_t j, int64_t turn) {
  const JobRecord& record = job(j);
  for (int32_t r = 0; r < record.ranks; ++r) {
    const RankRecord& rank = record.rank[static_cast<size_t>(r)];
    const Token& t = token(rank.device);
    if (rank.posted < turn || (t.owner == j && t.turn == turn)) return false;
    NetworkQueue& queue = network_of(j, r);
    RefreshHead(queue);
    const Place* place = FindPlace(queue, j, turn);
    if (place != nullptr && place != &queue.places[static_cast<size_t>(queue.head % kPlacesKept)]) {
      return false;
    }
  }
  return true;
}

void Board::LookAtNetwork(int32_t node, int64_t now) {
  NetworkQueue& queue = m().network[static_cast<size_t>(node)];
  RefreshHead(queue);
  if (queue.head == queue.tail) return;
  Place& first = queue.places[static_cast<size_t>(queue.head % kPlacesKept)];
  const JobRecord& record = job(first.job);
  if (!AllExchange(first.job, first.turn)) {
    first.lease = {};
  } else if (first.lease.since == 0) {
    const bool cold = FewestTurns(record) <= kColdTurns;
    first.lease = NewLease(first.job, record.network, cold, StarvedRanks(record), now);
  } else if (IsOver(first.lease, StarvedRanks(record), LastBeats(record, now))) {
    Strike(first.job,
           fmt::format("hangs: it kept the network of node {} beyond its lease of {:.3g} s", node,
                       InSeconds(first.lease.time)));
  }
}

}  // namespace heddle
