// The board's memory, as the processes of a share see it: plain records, no pointers. All but the
// futex words and the beats are read and written under the mutex only.
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>

#include "run/share/lease.h"
#include "turns/turn_cycle.h"

namespace heddle {

inline constexpr int32_t kMostJobs = 32;
inline constexpr int32_t kMostSharedDevices = 64;  // also ranks of a job, and nodes
inline constexpr int64_t kSequenceKept = 4096;     // turns; devices are never that far apart
inline constexpr int64_t kPlacesKept = 256;        // in a node's queue

// Goes up with every change of the records below: boards that are found by name may be of another
// build.
inline constexpr uint32_t kBoardLayout = 2;

enum class JobState : int32_t {
  kAbsent,
  kJoining,  // its processes are getting ready
  kRunning,  // has its place in the order from `first_turn` on
  kLeft,     // is done
  kDead,     // killed, failed or hung; `why` says so
};

struct RankRecord {
  pid_t pid = 0;  // 0: has not come, or has left
  int32_t device = -1;
  bool ready = false, left = false;
  bool computing = false;  // has its device and works on it
  int64_t turns = 0;       // that it has had
  int64_t posted = -1;     // the last turn for which it took a place in the network's queue
  std::atomic<int64_t> beats{0};
  std::atomic<int64_t> last_beat{0};  // nanoseconds
  std::atomic<int64_t> starved{0};    // nanoseconds in which it could not run, though it wanted to
};

struct JobRecord {
  std::array<char, 64> name{};
  JobState state = JobState::kAbsent;
  int32_t ranks = 0;
  int64_t first_turn = -1;
  int64_t began = 0, ended = 0;  // nanoseconds
  int64_t lease = 0;             // nanoseconds; 0: by its habits
  bool beats = true;             // false: leases end by the clock alone
  Habit turns, network, coming;  // holding a device, exchanging, being late for a turn
  int64_t rest_after = 0;        // nanoseconds of doing nothing; 0: never
  int64_t idle_since = 0;        // the last time it was seen to do something
  std::array<RankRecord, kMostSharedDevices> rank;
  std::array<char, 512> why{};
  std::atomic<uint8_t> asked_to_stop{0};
  std::atomic<int64_t> stops_after{INT64_MAX};  // repetitions, as its first rank decided
};

// Somebody waiting for a device in the order of arrival.
struct Waiting {
  int32_t job = -1, rank = -1;
};

struct Token {
  int32_t owner = -1;  // job
  int32_t owner_rank = -1;
  int64_t generation = 0;  // goes up whenever it changes hands
  Lease lease;             // of the owner
  Lease awaited;           // nobody's: of the job whose turn is next, once nothing holds it up
  int64_t awaited_turn = -1;
  int64_t turn = 0;  // the next of the sequence that this device looks at; under way if owned
  std::array<Waiting, kMostJobs> line;  // order of arrival only
  int32_t in_line = 0;
  std::atomic<uint32_t> changes{0};  // futex
};

struct Place {
  int32_t job = -1;
  int64_t turn = -1;
  int32_t ranks = 0;  // of the job on this node
  int32_t done = 0;   // of them
  Lease lease;        // runs while nobody but the job itself is in its way
};

struct NetworkQueue {
  std::array<Place, kPlacesKept> places;
  int64_t head = 0, tail = 0;
  std::atomic<uint32_t> changes{0};  // futex
};

// A device that jobs use at the same time, each at its share of the speed.
struct FairUse {
  int64_t number = -1, done = -1;  // of the use under way, of the last one that ended
  double left = 0;                 // nanoseconds at full speed
};
struct FairDevice {
  int64_t updated = 0;
  std::array<FairUse, kMostJobs> use;
  std::atomic<uint32_t> changes{0};  // futex
};

struct BoardMemory {
  pthread_mutex_t mutex;
  pid_t editor = 0;  // who holds the mutex, for those who find it orphaned
  int64_t last_sweep = 0;
  TurnOrder order = TurnOrder::kRotation;
  int32_t devices = 0, nodes = 0, jobs = 0;
  std::array<int32_t, kMostSharedDevices> node_of{};

  std::array<JobRecord, kMostJobs> job;
  std::array<OrderMember, kMostJobs> member;
  std::array<TurnJob, kMostJobs> turn_job;
  Seconds switch_cost;
  uint32_t in_cycle = 0;  // deficit: the jobs that the members' weights are for, a bit each
  std::array<int32_t, kSequenceKept> sequence{};
  int64_t scheduled = 0;  // turns in the sequence
  int32_t last_job = -1;

  std::array<Token, kMostSharedDevices> token;
  std::array<NetworkQueue, kMostSharedDevices> network;
  std::array<FairDevice, kMostSharedDevices> fair_device;
};

}  // namespace heddle
