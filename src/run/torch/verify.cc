#include "run/torch/verify.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <thread>

#include "run/data/synthetic.h"
#include "run/local_communicator.h"
#include "run/torch/reference.h"
#include "run/torch/torch_executor.h"
#include "run/worker.h"

namespace heddle {
namespace {

// The largest difference, relative to the largest element of the reference.
double Difference(const at::Tensor& got, const at::Tensor& expected) {
  if (got.sizes() != expected.sizes()) return INFINITY;
  if (got.numel() == 0) return 0;
  const double scale = std::max(expected.abs().max().item<double>(), 1e-30);
  const double error = (got - expected).abs().max().item<double>() / scale;
  return std::isnan(error) ? INFINITY : error;
}

class Comparison {
 public:
  explicit Comparison(double tolerance) : tolerance_(tolerance) { result_.ok = true; }

  void Add(double error, double& most, const std::string& where) {
    most = std::max(most, error);
    if (error > worst_) {
      worst_ = error;
      result_.worst = fmt::format("{}: relative error {:.3g}", where, error);
    }
    if (!(error <= tolerance_)) result_.ok = false;
  }

  Verification& result() { return result_; }

 private:
  double tolerance_;
  double worst_ = -1;
  Verification result_;
};

// Runs every device of the Program as a thread.
Status RunThreads(const Program& program, const VerifyOptions& options,
                  std::vector<std::unique_ptr<TorchExecutor>>& executors) {
  LocalExchange exchange(LocalExchange::GroupsOf(program));
  std::atomic<bool> stop{false};
  std::vector<Status> statuses(executors.size(), Ok());
  std::vector<std::thread> threads;
  for (size_t d = 0; d < executors.size(); ++d) {
    threads.emplace_back([&, d] {
      const auto communicator = exchange.ForDevice(static_cast<int32_t>(d));
      WorkerOptions worker;
      worker.repetitions = options.steps;
      worker.start = std::chrono::steady_clock::now();
      worker.stop = &stop;
      try {
        const auto events =
            RunDevice(program, static_cast<int32_t>(d), *executors[d], *communicator, worker);
        if (!events.ok()) statuses[d] = events.error();
      } catch (const std::exception& error) {
        statuses[d] = Error{ErrorKind::kRunFailed, program.devices[d].name, error.what(), ""};
      }
      if (!statuses[d].ok()) {
        stop = true;
        exchange.Abandon();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) {
    if (!status.ok() && status.error().what.find("another device") == std::string::npos) {
      return status;
    }
  }
  return Ok();
}

}  // namespace

Result<Verification> VerifyProgram(const Program& program, const Graph& graph,
                                   const VerifyOptions& options) {
  for (const Op& op : graph.ops()) {
    if (op.kind != OpKind::kOpaque) continue;
    return BadInput("verify",
                    fmt::format("layer {} is a profile: it has times, no arithmetic", op.name),
                    "verify a model of the zoo");
  }
  at::set_num_threads(1);  // devices are the threads
  TrainOptions train = options.train;
  train.keep_gradients = true;
  const std::unique_ptr<DataSource> data = MakeSyntheticData(graph, {.seed = train.seed});
  std::vector<std::unique_ptr<TorchExecutor>> executors;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    executors.push_back(
        std::make_unique<TorchExecutor>(program, static_cast<int32_t>(d), graph, *data, train));
  }
  HEDDLE_RETURN_IF_ERROR(RunThreads(program, options, executors));
  const Trained expected = TrainDirectly(graph, options.train, options.steps, GroupsOf(program));
  Comparison comparison(options.tolerance);
  Verification& result = comparison.result();
  for (int64_t step = 0; step < options.steps; ++step) {
    double loss = 0;
    for (const auto& executor : executors) {
      const auto found = executor->losses().find(step);
      if (found != executor->losses().end()) loss += found->second;
    }
    const double reference = expected.losses[static_cast<size_t>(step)];
    comparison.Add(std::abs(loss - reference) / std::max(std::abs(reference), 1e-30),
                   result.max_loss_error, fmt::format("loss of step {}", step));
  }
  for (size_t d = 0; d < executors.size(); ++d) {
    const std::string& device = program.devices[d].name;
    for (const auto& [name, gradient] : executors[d]->gradients()) {
      comparison.Add(Difference(gradient, expected.gradients.at(name)), result.max_gradient_error,
                     fmt::format("gradient {} on {}", name, device));
    }
    for (const auto& [name, parameter] : executors[d]->Values(Role::kParameter)) {
      comparison.Add(Difference(parameter, expected.parameters.at(name)),
                     result.max_parameter_error, fmt::format("parameter {} on {}", name, device));
    }
  }
  return result;
}

}  // namespace heddle
