#include "worker/run_front.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "base/json_field.h"
#include "report/perfetto.h"
#include "report/sparkline.h"
#include "run/run_files.h"
#include "worker/interrupt.h"
#include "worker/output.h"

namespace heddle {
namespace {

double Since(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - time).count();
}

Json ToJson(const RunResult& result) {
  Json held_out = Json::array();
  for (const RunResult::Evaluated& e : result.held_out) {
    held_out.push_back({{"step", e.step}, {"loss", e.loss}});
  }
  Json noise;
  if (result.noise) {
    const bool bounded = std::isfinite(result.noise->high);
    noise = {{"ratio", std::isfinite(result.noise->ratio) ? Json(result.noise->ratio) : Json()},
             {"low", result.noise->low},
             {"high", bounded ? Json(result.noise->high) : Json()},
             {"pairs", result.noise->pairs},
             {"rows_per_parameter", result.rows_per_parameter}};
  }
  return {{"schema", "heddle.run/1"},
          {"gradient_noise", std::move(noise)},
          {"steps", result.first_step + result.steps()},
          {"first_step", result.first_step},
          {"loss", result.losses},
          {"held_out", std::move(held_out)},
          {"measured_iteration_seconds", result.measured_iteration_seconds},
          {"predicted_iteration_seconds", result.predicted_iteration_seconds},
          {"emulated", result.emulated},
          {"dilation", result.dilation},
          {"deadlines", result.deadlines},
          {"missed_deadlines", result.missed},
          {"parameter_hash", result.parameter_hash},
          {"directory", result.directory},
          {"checkpoint", result.checkpoint},
          {"interrupted", result.interrupted}};
}

std::string Time(double seconds) { return ToText(Seconds{seconds}); }

std::string HeadOf(const RunResult& result, const Plan& plan) {
  const int64_t steps = result.steps();
  if (steps == 0) {
    return result.interrupted
               ? fmt::format("interrupted: {} of {}, before its first step\n", plan.strategy,
                             plan.request.model)
               : fmt::format("nothing to train: all {} steps of {} are done; --steps gives more\n",
                             result.first_step, plan.request.model);
  }
  return fmt::format("{} {} of {}, steps {} to {}\n",
                     result.interrupted       ? "interrupted:"
                     : result.timed_steps > 0 ? "kept the time of"
                                              : "trained",
                     plan.strategy, plan.request.model, result.first_step + 1,
                     result.first_step + steps);
}

std::string PaceOf(const RunResult& result) {
  const double share = result.deadlines > 0 ? 100.0 * static_cast<double>(result.missed) /
                                                  static_cast<double>(result.deadlines)
                                            : 0;
  return fmt::format(
      "pace        time {:.3g} times slower, {} of {} deadlines missed ({:.2g}%){}\n",
      result.dilation, result.missed, result.deadlines, share,
      share > 1 ? ": not valid, give a larger --dilate" : "");
}

// How much of a gradient is noise, how sure that is, and who wants to know.
std::string NoiseOf(const NoiseEstimate& noise, double rows_per_parameter) {
  const std::string rows =
      rows_per_parameter > 0 ? fmt::format(" --rows-per-parameter {:.3g}", rows_per_parameter) : "";
  if (std::isinf(noise.high)) {
    const std::string least =
        noise.low > 0 ? fmt::format("at least {:.3g} times the gradient's square", noise.low)
                      : "anything";
    return fmt::format(
        "noise       {} in an update, from {} pairs of them: the gradient is not told from none; "
        "more steps, or a larger batch, would tell\n",
        least, noise.pairs);
  }
  return fmt::format(
      "noise       {:.3g} [{:.3g}, {:.3g}] times the gradient's square in an update, from {} pairs "
      "of them\n            heddle plan --strategy auto --goal time-to-loss --noise-ratio "
      "{:.3g}{}\n",
      noise.ratio, noise.low, noise.high, noise.pairs, noise.ratio, rows);
}

std::string SummaryOf(const RunResult& result, const Plan& plan) {
  const bool timed = result.timed_steps > 0;
  std::string text = HeadOf(result, plan);
  if (!result.losses.empty()) {
    constexpr int kWidth = 40;
    text += fmt::format("loss        {:.4f} to {:.4f}  {}\n", result.losses.front(),
                        result.losses.back(), Sparkline(result.losses, kWidth));
  }
  if (!result.held_out.empty()) {
    text += fmt::format("held out    {:.4f}\n", result.held_out.back().loss);
  }
  if (result.noise) text += NoiseOf(*result.noise, result.rows_per_parameter);
  if (result.steps() > 0) {
    text += fmt::format(
        "step        {} measured ({}, median), {} predicted (simulated, for the plan's "
        "cluster)\n",
        Time(result.measured_iteration_seconds), result.emulated ? "emulated" : "real",
        Time(result.predicted_iteration_seconds));
  }
  if (result.emulated) text += PaceOf(result);
  if (!timed) text += fmt::format("parameters  {}\n", result.parameter_hash);
  text += fmt::format("run         {}\n", result.directory);
  if (result.interrupted && !timed) {
    const bool saved = !ListCheckpoints(result.directory).empty();
    text += saved ? fmt::format("go on with  heddle run --resume {}\n", result.directory)
                  : "nothing was saved: start again\n";
  }
  return text;
}

}  // namespace

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) != 0) {}

void ProgressLine::Note(const std::string& line) {
  Clear();
  Say("{}\n", line);
}

void ProgressLine::Step(int64_t step, int64_t steps, double loss, double seconds) {
  rate_.Add(seconds);
  const bool last = step == steps;
  const bool due = terminal_ ? Since(shown_) > 0.1 : step % std::max<int64_t>(1, steps / 20) == 0;
  if (!due && !last) return;
  shown_ = Clock::now();
  const double per_second = rate_.per_second();
  std::string line = fmt::format("step {}/{}  loss {:.5g}", step, steps, loss);
  if (per_second > 0) {
    line += fmt::format("  {:.3g} steps/s  {:.0f} s left", per_second,
                        static_cast<double>(steps - step) / per_second);
  }
  Clear();
  Say("{}{}", line, terminal_ ? "" : "\n");
  open_ = terminal_;
}

void ProgressLine::Clear() {
  if (open_) ClearLine();
  open_ = false;
}

RunFront::RunFront(const Plan& plan, bool as_json)
    : plan_(plan), as_json_(as_json), signal_(&FirstStop) {
  listener_.note = [this](const std::string& line) { progress_.Note(line); };
  listener_.step = [this](int64_t step, int64_t steps, double loss, double seconds) {
    progress_.Step(step, steps, loss, seconds);
  };
  listener_.interrupted = [this] { return signal_(); };
}

Result<int> RunFront::Conclude(const Result<RunResult>& trained) {
  progress_.Clear();
  if (!trained.ok()) return trained.error();
  const RunResult& result = trained.value();
  if (result.steps() > 0) {
    HEDDLE_ASSIGN(const RunDirectory directory, RunDirectory::Open(result.directory));
    HEDDLE_RETURN_IF_ERROR(directory.WriteTimeline(PerfettoJson(result.timeline)));
  }
  HEDDLE_RETURN_IF_ERROR(as_json_ ? PrintJson(ToJson(result)) : Print(SummaryOf(result, plan_)));
  return result.interrupted ? CodeOf(result.stopped_by) : 0;
}

}  // namespace heddle
