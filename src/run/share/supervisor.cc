#include "run/share/supervisor.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

namespace heddle {

struct Supervisor::Report {
  std::array<char, 1024> text{};

  static Report* Make() {
    void* memory =
        mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return new (memory) Report;
  }
  void Write(const std::string& from) {
    const size_t size = std::min(from.size(), text.size() - 1);
    std::memcpy(text.data(), from.data(), size);
    text[size] = 0;
  }
};

Supervisor::~Supervisor() {
  for (Led& led : jobs_) {
    if (led.leader > 0) {
      Kill(led);
      waitpid(led.leader, nullptr, 0);
    }
    munmap(led.report, sizeof(Report));
  }
}

Status Supervisor::Start(SupervisedJob job) {
  Led led;
  led.outcome.name = job.name;
  led.outcome.number = job.number;
  led.report = Report::Make();
  led.ranks.resize(static_cast<size_t>(board_.ranks(job.number)), Listening(options_.silence));
  std::fflush(nullptr);
  const pid_t parent = getpid();
  led.leader = fork();
  if (led.leader < 0) {
    const std::string why = std::strerror(errno);
    munmap(led.report, sizeof(Report));
    return Error{ErrorKind::kRunFailed, "job " + job.name, "cannot be started: " + why,
                 "are more processes allowed (ulimit -u)?"};
  }
  if (led.leader == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);  // keys pressed at the terminal go to the share alone
    if (getppid() != parent) _exit(static_cast<int>(ErrorKind::kRunFailed));
    int code = 0;
    try {
      const Status status = job.lead();
      if (!status.ok()) {
        led.report->Write(status.error().where + ": " + status.error().what);
        code = static_cast<int>(status.error().kind);
      }
    } catch (const std::exception& error) {
      led.report->Write(error.what());
      code = static_cast<int>(ErrorKind::kRunFailed);
    }
    std::fflush(nullptr);
    _exit(code);
  }
  jobs_.push_back(std::move(led));
  return Ok();
}

void Supervisor::Kill(Led& led) {
  // Its ranks end with it; a rank that was stopped does so too.
  kill(led.leader, SIGKILL);
}

bool Supervisor::any_left() const {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const Led& led) { return led.leader > 0; });
}

std::vector<JobOutcome> Supervisor::Watch() {
  constexpr std::chrono::milliseconds kPause{10}, kNewcomers{100};
  auto asked = Clock::now();
  bool more = options_.newcomers();
  while (any_left() || more) {
    Reap();
    board_.Sweep();
    ListenForBeats();
    EndTheStruck();
    ActivateTheReady();
    if (Clock::now() - asked > kNewcomers) {
      asked = Clock::now();
      more = options_.newcomers();
    }
    std::this_thread::sleep_for(kPause);
  }
  std::vector<JobOutcome> outcomes;
  for (const Led& led : jobs_) outcomes.push_back(led.outcome);
  return outcomes;
}

void Supervisor::Reap() {
  for (Led& led : jobs_) {
    int status = 0;
    if (led.leader <= 0 || waitpid(led.leader, &status, WNOHANG) != led.leader) continue;
    led.leader = 0;
    JobOutcome& outcome = led.outcome;
    const bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
                      board_.state(outcome.number) == JobState::kLeft;
    if (!well) {
      std::string why = led.report->text.data();
      // Where the leader only repeats why the job was struck, that alone says more.
      const std::string struck = board_.why(outcome.number);
      if (why.empty() || (!struck.empty() && why.find(struck) != std::string::npos)) why = struck;
      if (why.empty() && WIFSIGNALED(status)) {
        why = fmt::format("its first process was killed by signal {} ({})", WTERMSIG(status),
                          strsignal(WTERMSIG(status)));
      }
      outcome.why = why.empty() ? "ended before its last step" : why;
      board_.MarkDead(outcome.number, outcome.why);
    }
    outcome.well = well;
    outcome.began = board_.began(outcome.number);
    outcome.ended = board_.ended(outcome.number);
    options_.ended(outcome);
  }
}

void Supervisor::ListenForBeats() {
  const Clock::time_point now = Clock::now();
  for (Led& led : jobs_) {
    const int32_t number = led.outcome.number;
    if (led.leader <= 0 || board_.state(number) != JobState::kRunning) continue;
    for (size_t k = 0; k < led.ranks.size(); ++k) {
      const auto rank = static_cast<int32_t>(k);
      const bool silent = led.ranks[k].IsSilent(board_.beats(number, rank), now);
      if (!silent || board_.has_left(number, rank)) continue;
      board_.MarkDead(number, fmt::format("rank {} does not answer: it is stopped or hangs", rank));
      break;
    }
  }
}

void Supervisor::EndTheStruck() {
  for (Led& led : jobs_) {
    if (led.leader <= 0 || board_.state(led.outcome.number) != JobState::kDead) continue;
    if (led.struck == Clock::time_point{}) led.struck = Clock::now();
    if (Clock::now() - led.struck > options_.grace) Kill(led);
  }
}

void Supervisor::ActivateTheReady() {
  std::vector<int32_t> ready;
  bool all = true;
  for (const Led& led : jobs_) {
    if (led.leader <= 0 || board_.state(led.outcome.number) != JobState::kJoining) continue;
    if (board_.IsReady(led.outcome.number)) {
      ready.push_back(led.outcome.number);
    } else {
      all = false;
    }
  }
  if (ready.empty()) return;
  if (!started_ && !all) return WaitForTheRest();
  board_.Activate(ready);
  started_ = true;
}

// Some are ready, others are not: those who hang now would hold them up for ever.
void Supervisor::WaitForTheRest() {
  if (first_ready_ == Clock::time_point{}) first_ready_ = Clock::now();
  if (Clock::now() - first_ready_ < options_.readiness) return;
  for (const Led& led : jobs_) {
    const int32_t number = led.outcome.number;
    if (led.leader <= 0 || board_.IsReady(number)) continue;
    board_.MarkDead(
        number, fmt::format("was not ready {} s after another job", options_.readiness.count()));
  }
}

}  // namespace heddle
