#include "spp/simgrid_run.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <vector>

#include "spp/simgrid_actors.h"

namespace heddle {
namespace {

struct Period {
  double seconds;
  bool steady;
};

// As our simulator finds it: repetitions may differ in a pattern, which must show itself twice.
Period FindPeriod(const std::vector<double>& finish) {
  constexpr double kSame = 1e-6;
  const size_t last = finish.size() - 1;
  const auto mean = [&](size_t count) {
    return (finish[last] - finish[last - count]) / static_cast<double>(count);
  };
  for (size_t length = 1; 2 * length <= last; ++length) {
    bool steady = true;
    for (size_t k = last; k > last - length && steady; --k) {
      const double took = finish[k] - finish[k - 1];
      steady = std::abs(took - (finish[k - length] - finish[k - length - 1])) <= kSame * took;
    }
    if (steady) return {mean(length), true};
  }
  return {mean((last + 1) / 2), false};
}

Result<Period> RunChild(const Program& program, const std::vector<DeviceId>& ids,
                        const Cluster& cluster, const SegmentSeconds& seconds, int repetitions) {
  int ends[2];
  HEDDLE_CHECK(pipe(ends) == 0);
  const pid_t child = fork();
  HEDDLE_CHECK(child >= 0);
  if (child == 0) {
    const Period period = FindPeriod(RunInSimGrid(program, ids, cluster, seconds, repetitions));
    const bool told = write(ends[1], &period, sizeof(period)) == sizeof(period);
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  Period period{};
  const bool heard = read(ends[0], &period, sizeof(period)) == sizeof(period);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!heard) {
    return Error{ErrorKind::kInternal, "SimGrid", "the child process ended without a result", ""};
  }
  return period;
}

}  // namespace

Result<double> SimGridSeconds(const Program& program, const Cluster& cluster,
                              const SegmentSeconds& seconds) {
  constexpr int kFirst = 3;
  constexpr int kMost = 12;
  HEDDLE_ASSIGN(const std::vector<DeviceId> ids, FindDevices(program, cluster));
  for (int repetitions = kFirst;; repetitions *= 2) {
    HEDDLE_ASSIGN(const Period period, RunChild(program, ids, cluster, seconds, repetitions));
    if (period.steady || repetitions >= kMost) return period.seconds;
  }
}

}  // namespace heddle
