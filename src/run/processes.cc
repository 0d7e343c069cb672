#include "run/processes.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "run/attended_clock.h"
#include "run/communicator.h"
#include "run/vigil.h"

namespace heddle {
namespace {

using Clock = std::chrono::steady_clock;

volatile std::sig_atomic_t first_signal = 0;
volatile std::sig_atomic_t interrupts = 0;

// Schedulers may send the others several times, and to all processes.
void OnSignal(int signal) {
  if (first_signal == 0) {
    first_signal = signal;
  } else if (signal == SIGINT) {
    interrupts = interrupts + 1;
  }
}

// In a child.
std::atomic<int>* asked = nullptr;
void OnSignalOfChild(int signal) { *asked = signal; }

// All that ask to stop. Who was started with SIGHUP ignored (nohup) wants it so.
void Handle(void (*handler)(int)) {
  std::signal(SIGINT, handler);
  std::signal(SIGTERM, handler);
  if (std::signal(SIGHUP, handler) == SIG_IGN) std::signal(SIGHUP, SIG_IGN);
}

// While this lives, what asks to stop waits: a process that is not ready would just end.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
    sigprocmask(SIG_BLOCK, &set, &before_);
  }
  ~SignalsHeld() { Release(); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  void Release() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// A slot for each process, in memory that all share.
class SharedSlots {
 public:
  explicit SharedSlots(int count) : bytes_(sizeof(ProcessSlot) * static_cast<size_t>(count)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
    slots_ = static_cast<ProcessSlot*>(memory_);
    for (int k = 0; k < count; ++k) new (slots_ + k) ProcessSlot;
  }
  ~SharedSlots() { munmap(memory_, bytes_); }
  SharedSlots(const SharedSlots&) = delete;
  SharedSlots& operator=(const SharedSlots&) = delete;

  ProcessSlot& slot(int32_t rank) { return slots_[rank]; }

 private:
  size_t bytes_;
  void* memory_;
  ProcessSlot* slots_;
};

void WriteError(const Error& error, ProcessSlot& slot) {
  WriteText(slot.where, error.where);
  WriteText(slot.what, error.what);
  WriteText(slot.hint, error.hint);
  slot.failed = static_cast<int>(error.kind);
}

// The life of a child. Does not return.
[[noreturn]] void BeChild(int32_t rank, SharedSlots& shared, SignalsHeld& signals,
                          const std::function<Status(int32_t, ProcessSlot&)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);  // keys pressed at the terminal go to the parent alone
  ProcessSlot& slot = shared.slot(rank);
  asked = &slot.asked;
  Handle(OnSignalOfChild);
  signals.Release();
  std::thread([&slot] {
    while (true) {
      slot.cpu_milliseconds = CpuMilliseconds();
      ++slot.beats;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }).detach();
  int code = 0;
  try {
    const Status status = work(rank, slot);
    slot.done = status.ok();
    if (!status.ok()) {
      WriteError(status.error(), slot);
      code = static_cast<int>(status.error().kind);
    }
  } catch (const PeerLost& lost) {
    slot.lost_a_peer = true;
    WriteError({ErrorKind::kRunFailed, "", std::string("lost the others: ") + lost.what(), ""},
               slot);
    code = static_cast<int>(ErrorKind::kRunFailed);
  } catch (const std::exception& error) {
    WriteError({ErrorKind::kRunFailed, "", error.what(), ""}, slot);
    code = static_cast<int>(ErrorKind::kRunFailed);
  }
  std::fflush(nullptr);
  _exit(code);
}

// The parent's side.
class Watcher {
 public:
  Watcher(SharedSlots& shared, std::vector<pid_t> children, const ProcessWatch& watch)
      : shared_(shared), watch_(watch), clock_(Clock::now(), watch.silence) {
    for (const pid_t child : children)
      children_.push_back({child, Vigil(watch.silence, watch.patience, Clock::now())});
  }

  ~Watcher() { KillAll(); }

  Status Watch() {
    while (alive() > 0) {
      if (const int signal = Asked(); signal != 0 && shared_.slot(0).stop == 0) {
        shared_.slot(0).stop = signal;
        watch_.asked_to_stop();
      }
      if (interrupts > 0) {
        KillAll();
        at_once_ = true;
        return Ok();
      }
      Reap();
      LookAtTheLiving();
      if (first_failure_ && Clock::now() - *first_failure_ > kGather) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (!first_failure_) return Ok();
    KillAll();
    return Cause();
  }

  ProcessesEnd End() { return {lost_, shared_.slot(0).said, shared_.slot(0).stop, at_once_}; }

  void KillAll() {
    for (Child& child : children_) {
      if (child.pid <= 0) continue;
      kill(child.pid, SIGKILL);
      waitpid(child.pid, nullptr, 0);
      child.pid = 0;
    }
  }

 private:
  // After the first failure: time for others to be seen, so that the cause is not taken for an
  // effect.
  static constexpr std::chrono::milliseconds kGather{300};

  struct Child {
    pid_t pid;  // 0: has ended
    Vigil vigil;
    const char* hung = nullptr;     // how
    std::optional<int> ended = {};  // as waitpid tells
    int64_t order = INT64_MAX;      // in which it was seen to leave or hang
  };

  // By whom it may be: schedulers tell all processes of a job, or only some.
  int Asked() {
    if (first_signal != 0) return first_signal;
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      if (const int signal = shared_.slot(static_cast<int32_t>(rank)).asked) return signal;
    }
    return 0;
  }

  int alive() const {
    return static_cast<int>(std::count_if(children_.begin(), children_.end(),
                                          [](const Child& child) { return child.pid > 0; }));
  }

  void Reap() {
    for (Child& child : children_) {
      int status = 0;
      if (child.pid <= 0 || waitpid(child.pid, &status, WNOHANG) != child.pid) continue;
      child.pid = 0;
      child.ended = status;
      child.order = left_++;
      const auto rank = static_cast<int32_t>(&child - children_.data());
      const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0 && shared_.slot(rank).done;
      if (!well && !first_failure_) first_failure_ = Clock::now();
    }
  }

  void LookAtTheLiving() {
    const Clock::time_point now = clock_.At(Clock::now());
    for (size_t k = 0; k < children_.size(); ++k) {
      Child& child = children_[k];
      if (child.pid <= 0 || child.hung != nullptr) continue;
      const auto rank = static_cast<int32_t>(k);
      const ProcessSlot& slot = shared_.slot(rank);
      const WorkAt work = watch_.work(slot.progress, rank);
      const Vigil::Verdict verdict =
          child.vigil.Look({slot.beats, slot.progress.packed(), work.segment, work.predicted,
                            static_cast<double>(slot.cpu_milliseconds) * 1e-3},
                           now);
      if (verdict == Vigil::Verdict::kWell) continue;
      child.hung = verdict == Vigil::Verdict::kSilent ? "does not answer: it is stopped or hangs"
                                                      : "does not get on: it is stuck";
      child.order = left_++;
      if (!first_failure_) first_failure_ = Clock::now();
    }
  }

  // A process that gives up because it lost another ends itself.
  static bool WasKilled(const Child& child) {
    return child.ended && WIFSIGNALED(*child.ended) && WTERMSIG(*child.ended) != SIGABRT;
  }
  static bool Aborted(const Child& child) {
    return child.ended && WIFSIGNALED(*child.ended) && WTERMSIG(*child.ended) == SIGABRT;
  }

  // It ended without a word: neither done nor with an error.
  bool LeftSilently(const Child& child) {
    const ProcessSlot& slot = shared_.slot(static_cast<int32_t>(&child - children_.data()));
    return child.ended && WIFEXITED(*child.ended) && !slot.done && slot.failed == 0;
  }
  bool Failed(const Child& child, bool lost_a_peer) {
    const ProcessSlot& slot = shared_.slot(static_cast<int32_t>(&child - children_.data()));
    return slot.failed != 0 && slot.lost_a_peer == lost_a_peer;
  }

  // Killed, hung or left silently before aborted, aborted before failed, failed before having lost
  // another; among equals the first to leave.
  Error Cause() {
    const auto first = [&](const auto& is_one) -> std::optional<size_t> {
      std::optional<size_t> found;
      for (size_t rank = 0; rank < children_.size(); ++rank) {
        if (!is_one(children_[rank])) continue;
        if (!found || children_[rank].order < children_[*found].order) found = rank;
      }
      return found;
    };
    if (const auto rank = first([&](const Child& child) {
          return child.hung != nullptr || WasKilled(child) || LeftSilently(child);
        })) {
      const Child& child = children_[*rank];
      lost_ = static_cast<int32_t>(*rank);
      return Describe(*rank, child.hung != nullptr ? child.hung : HowItEnded(child));
    }
    if (const auto rank = first(&Aborted)) return Describe(*rank, HowItEnded(children_[*rank]));
    for (const bool lost_a_peer : {false, true}) {
      const auto rank = first([&](const Child& child) { return Failed(child, lost_a_peer); });
      if (rank) return WhyItFailed(*rank);
    }
    return {ErrorKind::kRunFailed, "run", "a process ended without saying why", ""};
  }

  Error WhyItFailed(size_t rank) {
    const ProcessSlot& slot = shared_.slot(static_cast<int32_t>(rank));
    const auto kind = static_cast<ErrorKind>(slot.failed.load());
    if (kind == ErrorKind::kRunFailed && slot.where[0] == 0) {
      return Describe(rank, std::string("failed: ") + slot.what.data());
    }
    Error error{kind, slot.where.data(), slot.what.data(),
                slot.hint.data()};  // says what it is about
    if (kind == ErrorKind::kRunFailed && error.hint.empty())
      error.hint = watch_.hint(shared_.slot(0));
    if (kind != ErrorKind::kRunFailed && !AllSay(error.what)) {
      error.what += ", at " + watch_.name(static_cast<int32_t>(rank));
    }
    return error;
  }

  // What all have found is nobody's in particular.
  bool AllSay(const std::string& what) {
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      const ProcessSlot& slot = shared_.slot(static_cast<int32_t>(rank));
      if (slot.failed == 0 || what != slot.what.data()) return false;
    }
    return true;
  }

  static std::string HowItEnded(const Child& child) {
    if (WIFEXITED(*child.ended)) {
      return fmt::format("left before the others, with exit code {}", WEXITSTATUS(*child.ended));
    }
    const int signal = WTERMSIG(*child.ended);
    return fmt::format("was killed by signal {} ({})", signal, strsignal(signal));
  }

  Error Describe(size_t rank, const std::string& what) {
    const auto number = static_cast<int32_t>(rank);
    const std::string place = watch_.place(shared_.slot(number).progress, number);
    return {ErrorKind::kRunFailed, watch_.name(number), what + (place.empty() ? "" : ", " + place),
            watch_.hint(shared_.slot(0))};
  }

  SharedSlots& shared_;
  const ProcessWatch& watch_;
  std::vector<Child> children_;
  std::optional<Clock::time_point> first_failure_;
  std::optional<int32_t> lost_;
  AttendedClock clock_;
  int64_t left_ = 0;  // so many, by death, end or silence
  bool at_once_ = false;
};

}  // namespace

int64_t CpuMilliseconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return int64_t{used.tv_sec} * 1000 + used.tv_nsec / 1'000'000;
}

Status RunProcesses(int count, const std::function<Status(int32_t rank, ProcessSlot& slot)>& work,
                    const ProcessWatch& watch, ProcessesEnd* end) {
  SharedSlots shared(count);
  std::fflush(nullptr);
  std::vector<pid_t> children;
  SignalsHeld signals;
  for (int rank = 0; rank < count; ++rank) {
    const pid_t child = fork();
    if (child == 0) BeChild(rank, shared, signals, work);
    if (child < 0) {
      const std::string why = std::strerror(errno);
      for (const pid_t other : children) {
        kill(other, SIGKILL);
        waitpid(other, nullptr, 0);
      }
      return Error{ErrorKind::kRunFailed, "run",
                   fmt::format("cannot start process {}: {}", rank, why),
                   "fewer devices, or more processes allowed (ulimit -u)"};
    }
    children.push_back(child);
  }
  Watcher watcher(shared, children, watch);
  Handle(OnSignal);
  signals.Release();
  HEDDLE_RETURN_IF_ERROR(watch.after_fork());
  const Status status = watcher.Watch();
  if (end != nullptr) *end = watcher.End();
  return status;
}

}  // namespace heddle
