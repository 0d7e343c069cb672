#include "worker/run_timed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <string_view>

#include "base/json_field.h"
#include "base/json_text.h"
#include "program/lower/lower.h"
#include "run/store/run_directory.h"
#include "run/timed_run.h"
#include "worker/emulated_network.h"

namespace heddle {
namespace {

// Options that mean something without training.
constexpr std::array<std::string_view, 7> kUseful = {"plan",   "steps",   "directory", "emulate",
                                                     "dilate", "threads", "profile"};

// The run's directory with what it was asked to do.
Result<RunDirectory> OpenTimedDirectory(const Plan& plan, const Graph& graph,
                                        const RunConfig& config) {
  Result<RunDirectory> opened =
      config.directory.empty()
          ? RunDirectory::CreateNamed("runs", plan.request.model, std::time(nullptr))
          : RunDirectory::Create(config.directory);
  if (!opened.ok()) return opened.error();
  RunDirectory directory = std::move(opened).value();
  HEDDLE_RETURN_IF_ERROR(directory.Claim());
  HEDDLE_RETURN_IF_ERROR(directory.WriteConfig(RunConfigToJson(config)));
  HEDDLE_RETURN_IF_ERROR(directory.WritePlan(JsonText(PlanToJson(plan, graph), 2) + "\n"));
  return directory;
}

double MedianAfterFirst(std::vector<double> values) {
  if (values.size() > 1) values.erase(values.begin());
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Result<RunResult> RunProfiled(const LoadedPlan& loaded, const RunConfig& config,
                              const std::vector<std::string>& given, const RunListener& listener) {
  for (const std::string& key : given) {
    if (std::find(kUseful.begin(), kUseful.end(), key) != kUseful.end()) continue;
    return Error{
        ErrorKind::kUsage, OptionOf(key),
        fmt::format("{} is a profile: there is nothing to train", loaded.plan.request.model),
        "leave it out"};
  }
  HEDDLE_ASSIGN(const Program program, LowerPlan(loaded.plan, loaded.planning->graph));
  HEDDLE_ASSIGN(const std::unique_ptr<Emulation> emulation,
                EmulatePlan(loaded, program, loaded.plan.request.dtype));
  HEDDLE_ASSIGN(RunDirectory directory,
                OpenTimedDirectory(loaded.plan, loaded.planning->graph, config));
  RunResult result;
  result.predicted_iteration_seconds = loaded.plan.estimate.iteration_seconds;
  result.emulated = true;
  result.directory = directory.path();
  result.dilation = config.dilate > 0
                        ? config.dilate
                        : DilationFor(program, *emulation, result.predicted_iteration_seconds);
  listener.note(fmt::format("{}: {} of {} on {} devices that only keep time, {:.3g} times slower",
                            directory.path(), loaded.plan.strategy, loaded.plan.request.model,
                            program.devices.size(), result.dilation));
  HEDDLE_ASSIGN(TimedResult timed, RunTimed(program, *emulation,
                                            {config.steps, result.dilation, listener.interrupted}));
  result.timed_steps = std::ssize(timed.seconds);
  for (size_t k = 0; k < timed.seconds.size(); ++k) {
    HEDDLE_RETURN_IF_ERROR(directory.Append({{"step", k + 1}, {"seconds", timed.seconds[k]}}));
  }
  result.interrupted = result.timed_steps < config.steps;
  result.stopped_by = listener.interrupted();
  result.measured_iteration_seconds = MedianAfterFirst(std::move(timed.seconds));
  result.deadlines = timed.deadlines;
  result.missed = timed.missed;
  result.timeline = std::move(timed.timeline);
  return result;
}

}  // namespace heddle
