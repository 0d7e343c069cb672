// The board's network: places in the nodes' queues; and devices that jobs use side by side.

#include <fmt/format.h>

#include <algorithm>

#include "base/futex.h"
#include "run/share/board_lock.h"

namespace heddle {

// Also asked without the mutex: always one that the records have room for.
int32_t Board::device_of(int32_t j, int32_t rank) const {
  const int32_t device = job(j).rank[static_cast<size_t>(rank)].device;
  return device >= 0 && device < kMostSharedDevices ? device : 0;
}

NetworkQueue& Board::network_of(int32_t j, int32_t rank) const {
  return m().network[static_cast<size_t>(node_of(j, rank))];
}

int32_t Board::node_of(int32_t j, int32_t rank) const {
  const int32_t node = m().node_of[static_cast<size_t>(device_of(j, rank))];
  return node >= 0 && node < kMostSharedDevices ? node : 0;
}

// Leaves out the places of jobs that are gone, or done.
void Board::RefreshHead(NetworkQueue& queue) {
  while (queue.head < queue.tail) {
    const Place& first = queue.places[static_cast<size_t>(queue.head % kPlacesKept)];
    if (Alive(first.job) && first.done < first.ranks) return;
    ++queue.head;
    ChangeAndWake(queue.changes);
  }
}

Place* Board::FindPlace(NetworkQueue& queue, int32_t j, int64_t turn) {
  for (int64_t k = queue.head; k < queue.tail; ++k) {
    Place& place = queue.places[static_cast<size_t>(k % kPlacesKept)];
    if (place.job == j && place.turn == turn) return &place;
  }
  return nullptr;
}

void Board::TakePlaceIn(int32_t node, int32_t j, int64_t turn) {
  NetworkQueue& queue = m().network[static_cast<size_t>(node)];
  if (!Alive(j) || FindPlace(queue, j, turn) != nullptr) return;
  if (queue.tail - queue.head >= kPlacesKept) {
    return Strike(j, fmt::format("node {} has no place left in its queue", node));
  }
  const JobRecord& record = job(j);
  const auto here = std::count_if(record.rank.begin(), record.rank.begin() + record.ranks,
                                  [&](const RankRecord& other) {
                                    return m().node_of[static_cast<size_t>(other.device)] == node;
                                  });
  queue.places[static_cast<size_t>(queue.tail % kPlacesKept)] = {
      j, turn, static_cast<int32_t>(here), 0, {}};
  ++queue.tail;
  RefreshHead(queue);
}

void Board::TakePlace(int32_t j, int32_t rank, int64_t turn) {
  const Lock lock(*this);
  job(j).rank[static_cast<size_t>(rank)].posted = turn;
  TakePlaceIn(node_of(j, rank), j, turn);
}

Status Board::AwaitPlace(int32_t j, int32_t rank, int64_t turn) {
  NetworkQueue& queue = network_of(j, rank);
  return WaitUntil(j, queue.changes, [&] { return IsFirst(queue, j, turn); });
}

Result<bool> Board::IsPlaceFirst(int32_t j, int32_t rank, int64_t turn) {
  const Lock lock(*this);
  if (!Alive(j)) return Gone(j);
  const bool first = IsFirst(network_of(j, rank), j, turn);
  if (!Alive(j)) return Gone(j);
  return first;
}

bool Board::IsFirst(NetworkQueue& queue, int32_t j, int64_t turn) {
  RefreshHead(queue);
  const Place* mine = FindPlace(queue, j, turn);
  if (mine == nullptr) {
    Strike(j, fmt::format("its place in line for turn {} is gone", turn));
    return false;
  }
  return mine == &queue.places[static_cast<size_t>(queue.head % kPlacesKept)];
}

void Board::LeavePlace(int32_t j, int32_t rank, int64_t turn) {
  const Lock lock(*this);
  NetworkQueue& queue = network_of(j, rank);
  Place* place = FindPlace(queue, j, turn);
  if (place == nullptr) return;  // of a job that was struck
  LearnExchange(j, *place);
  ++place->done;
  job(j).idle_since = Now();
  RefreshHead(queue);
}

namespace {

// Lets all uses go on until `now`, each at an equal share of the speed.
void Advance(FairDevice& device, int64_t now) {
  if (device.updated < 0 || device.updated > now) device.updated = now;
  for (FairUse& use : device.use) {
    if (!(use.left >= 0 && use.left <= kLongestUse)) use.left = 0;  // nobody asked for that
  }
  while (true) {
    double least = 0;
    int active = 0;
    for (const FairUse& use : device.use) {
      if (use.number == use.done) continue;
      least = active == 0 ? use.left : std::min(least, use.left);
      ++active;
    }
    const double all = static_cast<double>(now - device.updated);
    const double step = active == 0 ? 0 : std::min(least, all / active);
    for (FairUse& use : device.use) {
      if (use.number == use.done) continue;
      use.left -= step;
      if (use.left <= 0.5) use.done = use.number;
    }
    const bool someone_ended = active > 0 && least <= step + 0.5;
    device.updated =
        someone_ended ? std::min(now, device.updated + static_cast<int64_t>(step * active)) : now;
    if (!someone_ended) return;
  }
}

// When this use ends if nobody comes or goes.
int64_t NanosecondsLeft(const FairDevice& device, const FairUse& mine) {
  double wait = 0;
  for (const FairUse& use : device.use) {
    if (use.number != use.done) wait += std::min(use.left, mine.left);
  }
  return static_cast<int64_t>(wait) + 1;
}

}  // namespace

void Board::BeginFairUse(int32_t j, int32_t rank, int64_t number, double nanoseconds) {
  FairDevice& device = m().fair_device[static_cast<size_t>(device_of(j, rank))];
  const Lock lock(*this);
  if (!Alive(j)) return;
  Advance(device, Now());
  FairUse& mine = device.use[static_cast<size_t>(j)];
  mine.left = std::clamp(nanoseconds, 0.0, kLongestUse);
  mine.number = number;
  ChangeAndWake(device.changes);
}

Status Board::AwaitFairUse(int32_t j, int32_t rank, int64_t number) {
  constexpr int64_t kLookAgain = 20'000'000;
  FairDevice& device = m().fair_device[static_cast<size_t>(device_of(j, rank))];
  const FairUse& mine = device.use[static_cast<size_t>(j)];
  while (true) {
    const uint32_t seen = device.changes.load();
    int64_t wait = 0;
    {
      const Lock lock(*this);
      if (!Alive(j)) return Gone(j);
      Advance(device, Now());
      if (mine.done >= number) return Ok();
      wait = NanosecondsLeft(device, mine);
    }
    if (WaitForChange(device.changes, seen, std::min(wait, kLookAgain))) continue;
    if (wait < kLookAgain) continue;
    const Lock lock(*this);
    SweepLocked();
  }
}

}  // namespace heddle
