// The memory that jobs of a share have in common: whatever other processes wrote there, those who
// use it come back with an answer, and a board that was written off is whole.
//
// An input is a little story: bytes written somewhere into the board, and what three jobs do on it
// in between. Nobody waits, since whoever holds a device rightly may keep it; a wait is such a
// look, repeated. The mutex and the ids of processes that are examined are the system's.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "run/share/board.h"
#include "run/share/board_damage.h"

namespace {

using heddle::Board;
using heddle::BoardMemory;

constexpr int32_t kJobs = 3, kRanks = 2;

// Reads numbers from the input; zeros once it is over.
class Story {
 public:
  Story(const uint8_t* data, size_t size) : rest_(data, size) {}
  bool goes_on() const { return !rest_.empty(); }
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const uint8_t byte = rest_.front();
    rest_ = rest_.subspan(1);
    return byte;
  }
  size_t Number() { return Byte() + size_t{256} * Byte(); }

 private:
  std::span<const uint8_t> rest_;
};

// A board in the middle of its life, and the bytes that bring it back there.
struct Scene {
  explicit Scene(heddle::TurnOrder order)
      : board(Board::Create({order, {0, 0, 1, 1}, heddle::Seconds{1e-3}}).value()) {
    for (int32_t j = 0; j < kJobs; ++j) {
      heddle::JobEntry entry{.name = std::string(1, static_cast<char>('a' + j)), .devices = {j, 2}};
      entry.turns = 100;
      entry.times = {heddle::Seconds{1.0 + j}, heddle::Seconds{0.5}, heddle::Seconds{0.5}};
      const int32_t job = board.AddJob(entry).value();
      for (int32_t rank = 0; rank < kRanks; ++rank) board.Enter(job, rank);
      board.Activate(std::vector<int32_t>{job});
    }
    if (const auto grant = board.TryAcquire(0, 0); grant.value()) board.TakePlace(0, 0, 0);
    board.BeginFairUse(1, 1, 0, 1e6);
    saved = std::make_unique<unsigned char[]>(sizeof(BoardMemory));
    std::memcpy(saved.get(), &board.memory(), sizeof(BoardMemory));
  }
  void BringBack() const {
    constexpr size_t kFirst = offsetof(BoardMemory, editor);
    std::memcpy(Bytes(&board.memory()) + kFirst, saved.get() + kFirst,
                sizeof(BoardMemory) - kFirst);
  }
  static unsigned char* Bytes(void* memory) { return static_cast<unsigned char*>(memory); }

  Board board;
  std::unique_ptr<unsigned char[]> saved;
};

template <class T>
std::span<unsigned char> BytesOf(T& part) {
  return {static_cast<unsigned char*>(static_cast<void*>(&part)), sizeof part};
}

// A part of the board: all of them are worth trying, though some are a thousand times smaller.
std::span<unsigned char> Part(BoardMemory& m, Story& story) {
  const size_t kind = story.Byte() % 12, k = story.Byte();
  switch (kind) {
    case 0:
      return BytesOf(m.last_sweep);
    case 1:
      return BytesOf(m.order);
    case 2:
      return BytesOf(k % 4 == 0   ? m.devices
                     : k % 4 == 1 ? m.jobs
                     : k % 4 == 2 ? m.last_job
                                  : m.nodes);
    case 3:
      return BytesOf(m.node_of);
    case 4:
      return BytesOf(m.job[k % (kJobs + 1)]).first(offsetof(heddle::JobRecord, rank));
    case 5:
      return BytesOf(m.job[k % kJobs].rank[k / kJobs % (kRanks + 1)]);
    case 6:
      return BytesOf(m.member[k % kJobs]);
    case 7:
      return BytesOf(m.turn_job[k % kJobs]);
    case 8:
      return BytesOf(m.token[k % 4]);
    case 9:
      return k % 4 == 0 ? BytesOf(m.scheduled) : BytesOf(m.sequence);
    case 10:
      return BytesOf(m.fair_device[k % 4]);
    default:
      break;
  }
  heddle::NetworkQueue& queue = m.network[k % 3];
  const size_t part = k / 3 % 4;
  if (part == 0) return BytesOf(queue.head);
  if (part == 1) return BytesOf(queue.tail);
  return BytesOf(queue.places[k / 12 % 4]);
}

void Write(BoardMemory& m, Story& story) {
  const std::span<unsigned char> part = Part(m, story);
  const size_t at = story.Number() % part.size(), size = 1 + story.Byte() % 8;
  for (size_t k = at; k < std::min(at + size, part.size()); ++k) part[k] = story.Byte();
}

void Look(const Board& board, int32_t job) {
  (void)board.state(job);
  (void)(board.why(job) + board.name(job));
  (void)(board.ended(job) - board.began(job));
  for (const pid_t pid : board.pids(job)) HEDDLE_CHECK(pid >= 0);
  HEDDLE_CHECK(board.CountRunning() <= heddle::kMostJobs);
  HEDDLE_CHECK(board.owner(0) < heddle::kMostJobs);
  (void)board.asked_to_stop(job);
}

// What a process of a job may do next.
void Act(Board& board, Story& story) {
  const size_t deed = story.Byte() % 16;
  const uint8_t who = story.Byte();
  const int32_t job = who % kJobs, rank = who / kJobs % kRanks;
  const int64_t turn = who / 16;
  switch (deed) {
    case 0:
      board.Sweep();
      break;
    case 1:
      (void)board.TryAcquire(job, rank);
      break;
    case 2:
      board.Release(job, rank, {story.Byte(), turn});
      break;
    case 3:
      board.TakePlace(job, rank, turn);
      break;
    case 4:
      (void)board.IsPlaceFirst(job, rank, turn);
      break;
    case 5:
      board.LeavePlace(job, rank, turn);
      break;
    case 6:
      board.TakePlaceEverywhere(job, rank, turn);
      break;
    case 7:
      board.BeginFairUse(job, rank, turn, 1e3 * who);
      break;
    case 8:
      (void)board.HasOutstayed(job, board.NetworkLease(job));
      break;
    case 9:
      (void)board.Join(
          {.job = std::string(1, static_cast<char>('a' + who % 8)), .device = who % 5});
      break;
    case 10:
      board.Pause(job, rank);
      break;
    case 11:
      (void)board.Resume(job, rank, {story.Byte(), turn});
      break;
    case 12:
      board.Beat(job, rank, story.Byte());
      break;
    case 13:
      board.Leave(job, rank);
      break;
    case 14:
      (void)board.Check(job);
      break;
    default:
      Look(board, job);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static Scene scenes[] = {Scene(heddle::TurnOrder::kRotation), Scene(heddle::TurnOrder::kDeficit),
                           Scene(heddle::TurnOrder::kArrival)};
  Story story(data, size);
  Scene& scene = scenes[story.Byte() % 3];
  scene.BringBack();
  BoardMemory& memory = scene.board.memory();
  for (int deeds = 0; story.goes_on() && deeds < 64; ++deeds) {
    if (story.Byte() % 2 == 0) {
      Write(memory, story);
    } else {
      Act(scene.board, story);
    }
  }
  for (int32_t j = 0; j < kJobs; ++j) Look(scene.board, j);
  Write(memory, story);  // zeros, by now
  if (const auto damage = heddle::FindDamage(memory, heddle::BoardNow())) {
    heddle::WriteOff(memory, *damage, heddle::BoardNow());
    const auto left = heddle::FindDamage(memory, heddle::BoardNow());
    if (left) std::fprintf(stderr, "%s, and then %s\n", damage->c_str(), left->c_str());
    HEDDLE_CHECK(!left);
  }
  return 0;
}
