#include "run/torch/measure.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "cost/op_cost.h"
#include "program/lower/lower.h"
#include "run/data/synthetic.h"
#include "run/meet/store_server.h"
#include "run/torch/c10d_communicator.h"
#include "run/torch/torch_threads.h"

namespace heddle {
namespace {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <class Work>
double SecondsOf(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The median of some tries, after one to warm up.
template <class Work>
double MedianSecondsOf(const Work& work) {
  constexpr int kTries = 9;
  work();
  std::vector<double> seconds;
  for (int k = 0; k < kTries; ++k) seconds.push_back(SecondsOf(work));
  return Median(std::move(seconds));
}

// All layers on one device, all samples at once.
Result<Program> WholeOnOne(const Graph& graph) {
  Plan plan;
  plan.strategy = "measure";
  plan.request.batch = graph.batch();
  StagePlan stage;
  stage.chunks = {{0, static_cast<int32_t>(graph.layers().size()) - 1}};
  stage.devices = {"here"};
  stage.shares = {1};
  HEDDLE_ASSIGN(stage.order, ParseOrder("F B", "order"));
  plan.pipelines = {{{stage}}};
  return LowerPlan(plan, graph);
}

// Two devices that talk over c10d, as processes do; both are threads here. The median of some
// rounds.
Result<double> RoundSeconds(
    const std::function<void(int32_t me, Communicator& communicator)>& round) {
  constexpr int kRounds = 20;
  HEDDLE_ASSIGN(const Seats seats, Seats::Make(2));
  HEDDLE_ASSIGN(const auto server, StoreServer::Start(seats));
  const auto play = [&](int32_t me) -> Result<std::vector<double>> {
    C10dOptions options;
    HEDDLE_ASSIGN(options.store, seats.Take(me, std::chrono::minutes(1)));
    options.device = me;
    options.devices = 2;
    options.groups = {{0, 1}};
    HEDDLE_ASSIGN(const auto communicator, ConnectC10d(options));
    round(me, *communicator);
    std::vector<double> seconds;
    for (int k = 0; k < kRounds; ++k) {
      seconds.push_back(SecondsOf([&] { round(me, *communicator); }));
    }
    return seconds;
  };
  std::thread other([&] { (void)play(1).ok(); });
  const Result<std::vector<double>> seconds = play(0);
  other.join();
  if (!seconds.ok()) return seconds.error();
  return Median(seconds.value());
}

Result<double> MessageSeconds(size_t bytes) {
  std::vector<std::byte> memory[2] = {std::vector<std::byte>(bytes), std::vector<std::byte>(bytes)};
  HEDDLE_ASSIGN(
      const double seconds, RoundSeconds([&](int32_t me, Communicator& communicator) {
        const Payload payload{nullptr, memory[me].data(), bytes};
        for (const bool sends : {me == 0, me != 0}) {
          (sends ? communicator.Send(1 - me, 0, payload) : communicator.Receive(1 - me, 0, payload))
              ->Wait();
        }
      }));
  return seconds / 2;
}

Result<double> AllReduceSeconds(size_t bytes) {
  std::vector<std::byte> memory[2] = {std::vector<std::byte>(bytes), std::vector<std::byte>(bytes)};
  return RoundSeconds([&](int32_t me, Communicator& communicator) {
    CollectiveCall call;
    call.kind = CollectiveKind::kAllReduce;
    call.dtype = DType::kF32;
    call.in = {{nullptr, memory[me].data(), bytes}};
    communicator.Collective(std::move(call))->Wait();
  });
}

}  // namespace

Status MeasureModel(const MeasureOptions& options, Profile& profile,
                    const std::function<void(const std::string&)>& note) {
  for (const int64_t rows : options.rows) {
    note(fmt::format("{}, {} samples at once", options.model, rows));
    ModelOptions model = options.options;
    model.batch = rows;
    HEDDLE_ASSIGN(const Graph graph, BuildModel(options.model, model));
    HEDDLE_ASSIGN(const Program program, WholeOnOne(graph));
    const auto data = MakeSyntheticData(graph, {});
    TrainOptions train;
    train.dtype = model.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    const Executors executors = MakeExecutors(program, graph, *data, train);
    std::map<const Op*, std::vector<double>> seconds;
    executors[0]->SetListener([&](const Op& op, double time) { seconds[&op].push_back(time); });
    HEDDLE_RETURN_IF_ERROR(RunThreads(program, options.steps + 1, executors));
    std::map<std::string, std::vector<double>> by_signature;
    for (auto& [op, times] : seconds) {
      times.erase(times.begin());  // the first step is cold
      by_signature[SignatureOf(graph, *op, op->extents)].push_back(Median(times));
    }
    for (const auto& [signature, medians] : by_signature) {
      double sum = 0;
      for (const double median : medians) sum += median;
      profile.Add(options.type, signature, Seconds{sum / static_cast<double>(medians.size())});
    }
  }
  return Ok();
}

Result<MachineSpeeds> MeasureMachine() {
  at::set_num_threads(1);
  constexpr int64_t kMatrix = 1024;
  constexpr int64_t kElements = int64_t{1} << 24;
  constexpr size_t kLargeMessage = size_t{1} << 24;
  MachineSpeeds speeds;
  speeds.devices = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  speeds.memory = Bytes{sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / speeds.devices};
  const at::Tensor a = at::randn({kMatrix, kMatrix}), b = at::randn({kMatrix, kMatrix});
  at::Tensor c = at::empty({kMatrix, kMatrix});
  const double product = MedianSecondsOf([&] { at::mm_out(c, a, b); });
  speeds.flops = FlopRate{2.0 * kMatrix * kMatrix * kMatrix / product};
  const at::Tensor from = at::ones({kElements});
  at::Tensor to = at::empty({kElements});
  const double copy = MedianSecondsOf([&] { to.copy_(from); });
  speeds.memory_bandwidth = Bandwidth{2.0 * 4 * kElements / copy};
  at::Tensor small = at::zeros({1});
  constexpr int kSmall = 1000;
  speeds.launch = Seconds{MedianSecondsOf([&] {
                            for (int k = 0; k < kSmall; ++k) small.add_(1);
                          }) /
                          kSmall};
  HEDDLE_ASSIGN(speeds.latency.value, MessageSeconds(8));
  HEDDLE_ASSIGN(const double whole, MessageSeconds(kLargeMessage));
  const double large = whole - speeds.latency.value;
  speeds.link = Bandwidth{static_cast<double>(kLargeMessage) / std::max(large, 1e-9)};
  // What an all-reduce takes beyond the wire is the cores' own work.
  constexpr size_t kAllReduced = size_t{1} << 26;
  constexpr double kBytes = kAllReduced;
  HEDDLE_ASSIGN(const double reduced, AllReduceSeconds(kAllReduced));
  const double on_wire = 2 * speeds.latency.value + kBytes / speeds.link.value;
  speeds.message_bandwidth = Bandwidth{BytesMoved(CollectiveKind::kAllReduce, 2, kBytes) /
                                       std::max(reduced - on_wire, 1e-9)};
  return speeds;
}

std::string ClusterText(const MachineSpeeds& s, const std::string& type) {
  return fmt::format(
      R"(# This machine, as heddle profile measured it: each core is a device.
schema = "heddle.cluster/1"

[device_type.{0}]
flops = "{1:.1f} GFLOP/s"
memory = "{2:.1f} GiB"
memory_bandwidth = "{3:.2f} GB/s"
launch = "{4:.2f} us"
message_bandwidth = "{8:.2f} GB/s"

[[node]]
name = "here"
devices = [{{ type = "{0}", count = {5} }}]
link = {{ bandwidth = "{6:.2f} GB/s", latency = "{7:.1f} us" }}
)",
      type, s.flops.value / 1e9, static_cast<double>(s.memory.value) / (1 << 30),
      s.memory_bandwidth.value / 1e9, s.launch.value * 1e6, s.devices, s.link.value / 1e9,
      s.latency.value * 1e6, s.message_bandwidth.value / 1e9);
}

}  // namespace heddle
