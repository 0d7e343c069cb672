// What asks this process to stop: SIGINT, SIGTERM and SIGHUP. Their only owner: nobody else sets
// what they do. (Signals belong to a process as a whole, and so does what is known of them.)
//
//   ListenForStops({.second_ends = true, .say = "stopping\n"});
//   while (FirstStop() == 0) …
//
// Schedulers send some of them several times, and to all processes of a job, which means one stop;
// a second SIGINT is somebody at the terminal who does not want to wait. Who was started with
// SIGHUP ignored (nohup) wants it so.
#pragma once

#include <atomic>
#include <csignal>

namespace heddle {

struct StopManner {
  bool ends = false;          // there is nothing to save: each ends this process at once
  bool second_ends = false;   // a second SIGINT does
  const char* say = nullptr;  // on standard error at the first; must live as long as the process
  // Told which came first, instead of FirstStop: a process that another one watches.
  std::atomic<int>* tell = nullptr;
};
// From now on. What came before is not forgotten.
void ListenForStops(const StopManner& manner);

int FirstStop();        // the signal that came first, or 0
int InterruptsSince();  // SIGINTs after it

// The exit code of a process that a signal stopped.
inline int CodeOf(int signal) { return 128 + (signal != 0 ? signal : SIGTERM); }

// While this lives they wait: a process that is not ready yet would just end.
class StopsHeld {
 public:
  StopsHeld();
  ~StopsHeld() { Release(); }
  StopsHeld(const StopsHeld&) = delete;
  StopsHeld& operator=(const StopsHeld&) = delete;
  void Release();

 private:
  sigset_t before_;
};

}  // namespace heddle
