// Processes: one per device, forked from this one and watched by it.
//
//   const Status status = RunProcesses(4, [&](int32_t rank, ProcessSlot& slot) { … }, watch);
//
// A process that dies, fails or stops answering is named, with where it was; the others are ended.
// Of several the cause is named, and of equals the first to leave. None outlives this process. Time
// in which this process was itself stopped counts against nobody.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "run/vigil.h"
#include "run/worker.h"

namespace heddle {

// What a process tells its parent, in memory that both see.
struct ProcessSlot {
  WorkerProgress progress;
  std::atomic<int64_t> beats{0};             // goes up as long as the process answers
  std::atomic<int64_t> cpu_milliseconds{0};  // that it has used
  std::atomic<int> stop{0};   // by the parent, for the first process: the signal that asks for it
  std::atomic<int> asked{0};  // the signal that this process was sent, for the parent
  std::atomic<bool> done{false};  // its work is, well
  std::atomic<int> said{0};       // what the first process has to say to the parent at its end
  std::atomic<int> failed{0};     // ErrorKind, once the texts are written
  std::atomic<bool> lost_a_peer{false};
  std::array<char, 256> where{};
  std::array<char, 1024> what{};
  std::array<char, 512> hint{};
  std::array<char, 512> directory{};  // of the run, once it is there; by the first process
};

// Of this process, all its threads.
int64_t CpuMilliseconds();

// Fills one of a slot's texts, cut where it is too long.
template <size_t N>
void WriteText(std::array<char, N>& to, const std::string& text) {
  const size_t size = std::min(text.size(), N - 1);
  std::memcpy(to.data(), text.data(), size);
  to[size] = 0;
}

// For a Vigil.
struct WorkAt {
  int64_t segment = SignOfLife::kNoWork;
  double predicted = 0;
};

struct ProcessWatch {
  // Called in this process once all have been forked.
  std::function<Status()> after_fork = [] { return Ok(); };
  // "device 2 (b:0)", and where it is: "step 17, compute B2 #3".
  std::function<std::string(int32_t rank)> name;
  std::function<std::string(const WorkerProgress& progress, int32_t rank)> place;
  // The work it is at there, and what that takes on a slow processor (vigil.h). None unless given.
  std::function<WorkAt(const WorkerProgress& progress, int32_t rank)> work =
      [](const WorkerProgress&, int32_t) { return WorkAt{}; };
  // What to do after a failure, from the first process's slot.
  std::function<std::string(const ProcessSlot& first)> hint = [](const ProcessSlot&) {
    return std::string();
  };
  std::function<void()> asked_to_stop = [] {};  // for the first time
  std::chrono::milliseconds silence{4000};      // a process that is silent so long has hung
  double patience = 10;                         // times what its work should take; 0: for ever
  Clock* clock = &RealClock();
};

// What is known after all have ended.
struct ProcessesEnd {
  std::optional<int32_t> lost;  // the rank that was killed or hung, if one was
  int said = 0;                 // ProcessSlot::said of the first
  int signal = 0;               // SIGINT, SIGTERM or SIGHUP: what asked to stop, if anything
  bool at_once = false;         // it was asked a second time, and all were ended
};

// REQUIRES: this process has no other thread. SIGINT, SIGTERM and SIGHUP, sent to this process or
// to any of its children, are told to the first process by its slot, and it decides; a second
// SIGINT ends all at once. `end` may be null.
Status RunProcesses(int count, const std::function<Status(int32_t rank, ProcessSlot& slot)>& work,
                    const ProcessWatch& watch, ProcessesEnd* end = nullptr);

}  // namespace heddle
