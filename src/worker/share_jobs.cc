#include "worker/share_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost/network_cost.h"
#include "program/unroll.h"
#include "program/walk.h"
#include "run/share/turn_count.h"
#include "run/torch/torch_executor.h"

namespace heddle {
namespace {

// "a:0" is the first device of node "a".
std::string NodeOf(const std::string& device) { return device.substr(0, device.rfind(':')); }

Result<int32_t> NumberOf(const std::string& device, const std::string& job, ShareDevices& devices,
                         bool grow) {
  const auto found = std::find(devices.names.begin(), devices.names.end(), device);
  if (found != devices.names.end()) return static_cast<int32_t>(found - devices.names.begin());
  if (!grow) {
    return BadInput("job " + job, fmt::format("device {} is not one of the share's", device),
                    "plan it for the cluster of the share it joins");
  }
  int32_t node = static_cast<int32_t>(devices.names.size());
  for (size_t k = 0; k < devices.names.size(); ++k) {
    if (NodeOf(devices.names[k]) == NodeOf(device)) node = devices.node_of[k];
  }
  devices.names.push_back(device);
  devices.node_of.push_back(node);
  return static_cast<int32_t>(devices.names.size()) - 1;
}

// Seconds of the collective instructions and computes of one step, on the plan's cluster.
StepParts ModelStep(const ShareJob& job) {
  const Program& program = job.training.program;
  const NetworkCost cost(*job.both.loaded.cluster);
  StepParts parts;
  for (size_t d = 0; d < program.devices.size(); ++d) {
    const DeviceProgram& device = program.devices[d];
    double compute = 0, network = 0;
    for (const Instruction& in : device.list(Section::kBody)) {
      if (in.code == OpCode::kCompute) {
        compute += job.segment_seconds.Of(static_cast<int32_t>(d), in.target);
      } else if (in.code == OpCode::kCollective && in.kind == CollectiveKind::kAllReduce) {
        Bytes bytes;
        for (int32_t k = 0; k < in.operand_count; ++k) {
          const BufferRef& ref = device.operands[static_cast<size_t>(in.first_operand + k)];
          bytes += program.BytesOf(ref.tensor, ref.slice);
        }
        const int64_t bytes_sent =
            in.half ? bytes.value * SizeOf(DType::kF16) / SizeOf(job.both.loaded.plan.request.dtype)
                    : bytes.value;
        const std::vector<Bytes> sizes = {Bytes{bytes_sent}};
        network +=
            cost.Collective({in.kind, job.cluster_devices, sizes, in.algorithm, 0}).seconds.value;
      }
    }
    parts.compute = std::max(parts.compute, compute);
    parts.network = std::max(parts.network, network);
  }
  return parts;
}

RunConfig RunConfigOf(const ShareJobConfig& job) {
  RunConfig config;
  config.plan = job.plan;
  config.profile = job.profile;
  config.data = job.data;
  config.validation = 0;  // looking at held-out samples would take turns of its own
  config.steps = job.steps;
  config.seed = static_cast<uint64_t>(job.seed);
  config.learning_rate = job.learning_rate;
  config.dtype = job.dtype;
  config.keep = 1;
  return config;
}

}  // namespace

Result<std::unique_ptr<ShareJob>> LoadShareJob(const ShareJobConfig& config, ShareDevices& devices,
                                               bool grow) {
  auto job = std::make_unique<ShareJob>();
  job->config = config;
  HEDDLE_ASSIGN(job->both, LoadPlanAndProfile(config.plan, config.profile));
  const LoadedPlan& loaded = job->both.loaded;
  HEDDLE_ASSIGN(job->training, PrepareTraining(loaded.plan, loaded.planning->graph,
                                               RunConfigOf(config), MakeTorchExecutor));
  const Program& program = job->training.program;
  for (const DeviceProgram& device : program.devices) {
    HEDDLE_ASSIGN(const int32_t number, NumberOf(device.name, config.name, devices, grow));
    job->devices.push_back(number);
  }
  job->whole_steps = TakesWholeSteps(program);
  job->repetitions = config.steps / StepsPerBody(program) - StepsOutsideBody(program);
  HEDDLE_ASSIGN(job->turns, CountTurns(program, 0, job->repetitions));
  const OpCost cost = loaded.planning->cost();
  HEDDLE_ASSIGN(job->segment_seconds, CostSegments(program, *loaded.cluster, &cost));
  HEDDLE_ASSIGN(job->cluster_devices, FindDevices(program, *loaded.cluster));
  HEDDLE_ASSIGN(const DType run_dtype, TrainedType(loaded.plan, RunConfigOf(config)));
  job->byte_scale = static_cast<double>(SizeOf(loaded.plan.request.dtype)) /
                    static_cast<double>(SizeOf(run_dtype));
  job->modelled = ModelStep(*job);
  const Seconds network{job->modelled.network};
  job->times = config.times.value_or(JobTimes{Seconds{job->modelled.compute}, network, network});
  for (const DeviceProgram& device : program.devices) {
    const std::vector<Instruction>& body = device.list(Section::kBody);
    job->messages = std::max<int64_t>(
        job->messages, std::count_if(body.begin(), body.end(),
                                     [](const Instruction& in) { return Communicates(in.code); }));
  }
  return job;
}

}  // namespace heddle
