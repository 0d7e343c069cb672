#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>

#include "base/json_field.h"
#include "report/perfetto.h"
#include "report/sparkline.h"
#include "run/store/run_directory.h"
#include "run/torch/tensor_memory.h"
#include "run/torch/train.h"
#include "worker/commands.h"

namespace heddle {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void OnInterrupt(int) {
  if (interrupted != 0) _exit(128 + SIGINT);  // asked twice
  interrupted = 1;
}

// One line that is rewritten on a terminal, some twenty lines elsewhere.
class Progress {
 public:
  Progress() : terminal_(isatty(STDERR_FILENO) != 0), start_(Clock::now()) {}

  void Note(const std::string& line) {
    Clear();
    fmt::print(stderr, "{}\n", line);
  }

  void Step(int64_t step, int64_t steps, double loss) {
    if (first_ < 0) {
      first_ = step - 1;
      start_ = Clock::now();
    }
    const bool last = step == steps;
    const bool due = terminal_ ? Since(shown_) > 0.1 : step % std::max<int64_t>(1, steps / 20) == 0;
    if (!due && !last) return;
    shown_ = Clock::now();
    const double per_second = static_cast<double>(step - first_ - 1) / Since(start_);
    std::string line = fmt::format("step {}/{}  loss {:.5g}", step, steps, loss);
    if (per_second > 0) {
      line += fmt::format("  {:.3g} steps/s  {:.0f} s left", per_second,
                          static_cast<double>(steps - step) / per_second);
    }
    Clear();
    fmt::print(stderr, "{}{}", line, terminal_ ? "" : "\n");
    open_ = terminal_;
  }

  void Clear() {
    if (open_) fmt::print(stderr, "\r\033[K");
    open_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double Since(Clock::time_point time) {
    return std::chrono::duration<double>(Clock::now() - time).count();
  }

  bool terminal_;
  bool open_ = false;  // a line without its end
  int64_t first_ = -1;
  Clock::time_point start_, shown_;
};

Json ToJson(const RunResult& result) {
  Json held_out = Json::array();
  for (const RunResult::Evaluated& e : result.held_out) {
    held_out.push_back({{"step", e.step}, {"loss", e.loss}});
  }
  return {{"schema", "heddle.run/1"},
          {"steps", result.first_step + static_cast<int64_t>(result.losses.size())},
          {"first_step", result.first_step},
          {"loss", result.losses},
          {"held_out", std::move(held_out)},
          {"measured_iteration_seconds", result.measured_iteration_seconds},
          {"predicted_iteration_seconds", result.predicted_iteration_seconds},
          {"emulated", false},
          {"parameter_hash", result.parameter_hash},
          {"directory", result.directory},
          {"checkpoint", result.checkpoint},
          {"interrupted", result.interrupted}};
}

std::string Time(double seconds) { return ToText(Seconds{seconds}); }

void PrintSummary(const RunResult& result, const Plan& plan) {
  const auto steps = static_cast<int64_t>(result.losses.size());
  fmt::print("{} {} of {}, steps {} to {}{}\n", result.interrupted ? "interrupted:" : "trained",
             plan.strategy, plan.model, result.first_step + 1, result.first_step + steps,
             steps == 0 ? " (none)" : "");
  if (steps > 0) {
    constexpr int kWidth = 40;
    fmt::print("loss        {:.4f} to {:.4f}  {}\n", result.losses.front(), result.losses.back(),
               Sparkline(result.losses, kWidth));
  }
  if (!result.held_out.empty()) fmt::print("held out    {:.4f}\n", result.held_out.back().loss);
  fmt::print(
      "step        {} measured (real, median), {} predicted (simulated, for the plan's "
      "cluster)\n",
      Time(result.measured_iteration_seconds), Time(result.predicted_iteration_seconds));
  fmt::print("parameters  {}\n", result.parameter_hash);
  fmt::print("run         {}\n", result.directory);
  if (result.interrupted) fmt::print("go on with  --resume {}\n", result.directory);
}

}  // namespace

Status RunCommand(const Words& words) {
  if (words.empty()) return Usage("no configuration given");
  HEDDLE_ASSIGN(const Json json, ParseJson(words[0], "run configuration"));
  HEDDLE_ASSIGN(const RunConfig config, RunConfigFromJson(JsonField(json, "run configuration")));
  const bool as_json = std::find(words.begin(), words.end(), "--json") != words.end();
  HEDDLE_ASSIGN(const PlanAndProfile both, LoadPlanAndProfile(config.plan, config.profile));
  InstallTensorMemory();
  std::signal(SIGINT, OnInterrupt);
  std::signal(SIGTERM, OnInterrupt);
  Progress progress;
  RunListener listener;
  listener.note = [&](const std::string& line) { progress.Note(line); };
  listener.step = [&](int64_t step, int64_t steps, double loss, double) {
    progress.Step(step, steps, loss);
  };
  listener.interrupted = [] { return interrupted != 0; };
  Result<RunResult> trained =
      Train(both.loaded.plan, both.loaded.planning->graph, config, listener);
  progress.Clear();
  if (!trained.ok()) return trained.error();
  const RunResult& result = trained.value();
  HEDDLE_ASSIGN(const RunDirectory directory, RunDirectory::Open(result.directory));
  HEDDLE_RETURN_IF_ERROR(directory.WriteTimeline(PerfettoJson(result.timeline)));
  if (as_json) {
    fmt::print("{}\n", ToJson(result).dump(2));
  } else {
    PrintSummary(result, both.loaded.plan);
  }
  return Ok();
}

}  // namespace heddle
