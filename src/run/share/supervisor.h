// Supervisor: starts the jobs of a share, each a process that leads its ranks, watches them, and
// strikes those that fail from the board, so that the others go on.
//
//   Supervisor supervisor(board);
//   HEDDLE_RETURN_IF_ERROR(supervisor.Start({"vgg", number_on_board, [&] { return Lead(…); }}));
//   const std::vector<JobOutcome> outcomes = supervisor.Watch();
//
// It never has threads of its own, so that it can fork at any time: jobs may come later.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/result.h"
#include "run/share/board.h"
#include "run/share/listening.h"

namespace heddle {

struct SupervisedJob {
  std::string name;
  int32_t number = 0;            // on the board
  std::function<Status()> lead;  // the life of the job's first process
};

struct JobOutcome {
  std::string name;
  int32_t number = 0;
  bool well = false;
  std::string why;               // if not
  int64_t began = 0, ended = 0;  // nanoseconds of the board's clock; 0: never began
};

class Supervisor {
 public:
  struct Options {
    std::chrono::milliseconds silence{1500};  // a rank that gives no sign so long has stopped
    std::chrono::milliseconds grace{500};     // for a struck job to say why by itself
    std::chrono::seconds readiness{120};      // that the first job to be ready waits for the others
    // Asked ten times a second; may Start more jobs. True: wait for more even when none is left.
    std::function<bool()> newcomers = [] { return false; };
    std::function<void(const JobOutcome&)> ended = [](const JobOutcome&) {};
    // A process with this life; its exit code is what that returns.
    std::function<Result<std::unique_ptr<Process>>(const std::function<int()>& life,
                                                   const std::string& what)>
        start = Fork;
    Clock* clock = &RealClock();
  };

  // What still runs when it goes is ended.
  Supervisor(Board board, Options options)
      : board_(std::move(board)), options_(std::move(options)), clock_(*options_.clock) {}
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  Status Start(SupervisedJob job);
  // Until all have ended. Those started before take part from the same turn on, once all are
  // ready; later ones each from the turn at which they are.
  std::vector<JobOutcome> Watch();

 private:
  struct Report;  // what a leader says at its end, in memory that both see
  struct Led {
    JobOutcome outcome;
    std::shared_ptr<Report> report;
    std::unique_ptr<Process> leader;  // null: has ended
    std::vector<Listening> ranks;
    Clock::Time struck{};  // when it was first seen dead on the board
  };

  void Reap();
  void ListenForBeats();
  void EndTheStruck();
  void ActivateTheReady();
  void WaitForTheRest();
  static Result<std::unique_ptr<Process>> Fork(const std::function<int()>& life,
                                               const std::string& what);
  bool any_left() const;

  Board board_;
  Options options_;
  Clock& clock_;
  std::vector<Led> jobs_;
  bool started_ = false;       // the first ones
  Clock::Time first_ready_{};  // when the first of them was
};

}  // namespace heddle
