// Ranks that a launcher started watch each other: each beats in the store, the first judges.
//
//   PeerWatch watch({.store = std::move(store), .rank = 2, .ranks = 8, …});   // until destroyed
//
// When a rank dies, stops answering or is stuck, the first one prints its name and place, and every
// process ends with exit code 5. When the first is the one, the second prints it. Of several that
// leave, it is the first to leave that is named. A rank that was itself stopped does not hold the
// time against the others.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "run/meet/meeting_store.h"
#include "run/processes.h"
#include "run/worker.h"

namespace heddle {

void EndProcess(const std::string& message, int code);

struct PeerWatchOptions {
  std::shared_ptr<MeetingStore> store;  // a connection of its own
  int32_t rank = 0;
  int32_t ranks = 1;
  std::chrono::milliseconds silence{4000};
  const WorkerProgress* progress = nullptr;            // this rank's
  std::function<std::string(int32_t rank)> name;       // "device 2 (b:0)"
  std::function<std::string(int64_t, int32_t)> place;  // of a packed place and a rank
  std::function<WorkAt(int64_t, int32_t)> work;        // there (vigil.h)
  std::function<std::string()> hint;                   // what to do after a failure
  double patience = 10;                                // as in ProcessWatch
  // The exit code when another is lost.
  std::function<int()> code = [] { return static_cast<int>(ErrorKind::kRunFailed); };
  // Prints the message and ends this process. Where it returns, the watch is over.
  std::function<void(const std::string& message, int code)> end = EndProcess;
  Clock* clock = &RealClock();
  std::function<int64_t()> cpu_milliseconds = CpuMilliseconds;  // that this process has used
};

class PeerWatch {
 public:
  explicit PeerWatch(PeerWatchOptions options);
  ~PeerWatch();  // this rank is done; the first waits for the others to be
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  // This rank leaves because of this, and the others are to know.
  void Leave(const Error& error);
  // After having lost a peer: time for the verdict, which ends this process.
  void AwaitVerdict() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
