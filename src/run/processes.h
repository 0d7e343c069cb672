// Processes: one per device, forked from this one and watched by it.
//
//   const Status status = RunProcesses(4, [&](int32_t rank, ProcessSlot& slot) { … }, watch);
//
// A process that dies, fails or stops answering is named, with where it was; the others are ended.
// None outlives this process.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "run/worker.h"

namespace heddle {

// What a process tells its parent, in memory that both see.
struct ProcessSlot {
  WorkerProgress progress;
  std::atomic<int64_t> beats{0};  // goes up as long as the process answers
  std::atomic<int> failed{0};     // ErrorKind, once the texts are written
  std::atomic<bool> lost_a_peer{false};
  std::array<char, 256> where{};
  std::array<char, 1024> what{};
  std::array<char, 256> hint{};
};

struct ProcessWatch {
  // Called in this process once all have been forked; returns a number for them (a port).
  std::function<Result<int>()> after_fork = []() -> Result<int> { return 0; };
  // "device 2 (b:0)", and where it is: "step 17, compute B2 #3".
  std::function<std::string(int32_t rank)> name;
  std::function<std::string(const WorkerProgress& progress, int32_t rank)> place;
  // Is it at work there, so that nobody else can be the one to wait for?
  std::function<bool(const WorkerProgress& progress, int32_t rank)> computing;
  std::chrono::milliseconds silence{4000};  // a process that is silent so long has hung
};

// `work` gets its rank, its slot and the number of after_fork. REQUIRES: this process has no other
// thread. SIGINT and SIGTERM are passed on to the first process, which decides.
// `lost` is set to the rank that was killed or hung, if one was.
Status RunProcesses(int count,
                    const std::function<Status(int32_t rank, ProcessSlot& slot, int number)>& work,
                    const ProcessWatch& watch, std::optional<int32_t>* lost = nullptr);

}  // namespace heddle
