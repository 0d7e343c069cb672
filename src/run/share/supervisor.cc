#include "run/share/supervisor.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>

namespace heddle {

struct Supervisor::Report {
  std::array<char, 1024> text{};

  static Report* Make() {
    void* memory =
        mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return new (memory) Report;
  }
  static void Free(Report* report) { munmap(report, sizeof(Report)); }
  void Write(const std::string& from) {
    const size_t size = std::min(from.size(), text.size() - 1);
    std::memcpy(text.data(), from.data(), size);
    text[size] = 0;
  }
};

Result<std::unique_ptr<Process>> Supervisor::Fork(const std::function<int()>& life,
                                                  const std::string& what) {
  // Keys pressed at the terminal go to the share alone.
  HEDDLE_ASSIGN(ChildProcess child, ChildProcess::Fork(life, what, {.own_group = true}));
  return std::unique_ptr<Process>(std::make_unique<ChildProcess>(std::move(child)));
}

Status Supervisor::Start(SupervisedJob job) {
  Led led;
  led.outcome.name = job.name;
  led.outcome.number = job.number;
  led.report = std::shared_ptr<Report>(Report::Make(), &Report::Free);
  led.ranks.resize(static_cast<size_t>(board_.ranks(job.number)), Listening(options_.silence));
  const auto life = [&job, &report = *led.report] {
    try {
      const Status status = job.lead();
      if (status.ok()) return 0;
      report.Write(status.error().where + ": " + status.error().what);
      return static_cast<int>(status.error().kind);
    } catch (const std::exception& error) {
      report.Write(error.what());
      return static_cast<int>(ErrorKind::kRunFailed);
    }
  };
  HEDDLE_ASSIGN(led.leader, options_.start(life, "job " + job.name));
  jobs_.push_back(std::move(led));
  return Ok();
}

bool Supervisor::any_left() const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [](const Led& led) { return led.leader != nullptr; });
}

std::vector<JobOutcome> Supervisor::Watch() {
  constexpr std::chrono::milliseconds kPause{10}, kNewcomers{100};
  Clock::Time asked = clock_.Now();
  bool more = options_.newcomers();
  while (any_left() || more) {
    Reap();
    board_.Sweep();
    ListenForBeats();
    EndTheStruck();
    ActivateTheReady();
    if (clock_.Now() - asked > kNewcomers) {
      asked = clock_.Now();
      more = options_.newcomers();
    }
    clock_.SleepFor(kPause);
  }
  std::vector<JobOutcome> outcomes;
  for (const Led& led : jobs_) outcomes.push_back(led.outcome);
  return outcomes;
}

void Supervisor::Reap() {
  for (Led& led : jobs_) {
    const std::optional<ProcessExit> exit = led.leader ? led.leader->Look() : std::nullopt;
    if (!exit) continue;
    led.leader.reset();
    JobOutcome& outcome = led.outcome;
    const bool well = exit->well() && board_.state(outcome.number) == JobState::kLeft;
    if (!well) {
      std::string why = led.report->text.data();
      // Where the leader only repeats why the job was struck, that alone says more.
      const std::string struck = board_.why(outcome.number);
      if (why.empty() || (!struck.empty() && why.find(struck) != std::string::npos)) why = struck;
      if (why.empty() && exit->signal != 0) why = "its first process " + exit->ToString();
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
  const Clock::Time now = clock_.Now();
  for (Led& led : jobs_) {
    const int32_t number = led.outcome.number;
    if (!led.leader || board_.state(number) != JobState::kRunning) continue;
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
    if (!led.leader || board_.state(led.outcome.number) != JobState::kDead) continue;
    if (led.struck == Clock::Time{}) led.struck = clock_.Now();
    // Its ranks end with it; a rank that was stopped does so too.
    if (clock_.Now() - led.struck > options_.grace) led.leader->Kill();
  }
}

void Supervisor::ActivateTheReady() {
  std::vector<int32_t> ready;
  bool all = true;
  for (const Led& led : jobs_) {
    if (!led.leader || board_.state(led.outcome.number) != JobState::kJoining) continue;
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
  if (first_ready_ == Clock::Time{}) first_ready_ = clock_.Now();
  if (clock_.Now() - first_ready_ < options_.readiness) return;
  for (const Led& led : jobs_) {
    const int32_t number = led.outcome.number;
    if (!led.leader || board_.IsReady(number)) continue;
    board_.MarkDead(
        number, fmt::format("was not ready {} s after another job", options_.readiness.count()));
  }
}

}  // namespace heddle
