#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/destination.h"
#include "base/file.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "run/torch/measure.h"
#include "run/torch/tensor_memory.h"
#include "worker/commands.h"
#include "worker/output.h"

namespace heddle {
namespace {

struct Request {
  std::vector<MeasureOptions> models;
  std::string output, cluster, type;
};

Result<Request> ReadRequest(const JsonField& json) {
  Request request;
  HEDDLE_ASSIGN(request.output, json.String("output"));
  HEDDLE_ASSIGN(request.cluster, json.String("cluster"));
  MeasureOptions options;
  HEDDLE_ASSIGN(options.type, json.String("type"));
  request.type = options.type;
  HEDDLE_ASSIGN(options.steps, json.Int("steps", 1, 1000));
  HEDDLE_ASSIGN(const std::string dtype, json.String("dtype"));
  HEDDLE_ASSIGN(const std::string optimizer, json.String("optimizer"));
  HEDDLE_ASSIGN(options.options.clip, json.Number("clip"));
  options.options.dtype = ParseChoice<DType>(dtype).value_or(DType::kF32);
  options.options.optimizer = ParseChoice<Optimizer>(optimizer).value_or(Optimizer::kAdam);
  HEDDLE_ASSIGN(const JsonField rows, json.Array("rows"));
  for (size_t k = 0; k < rows.size(); ++k) {
    HEDDLE_ASSIGN(options.rows.emplace_back(), rows.Element(k).AsInt(1, 1 << 20));
  }
  HEDDLE_ASSIGN(const JsonField models, json.Array("models"));
  for (size_t k = 0; k < models.size(); ++k) {
    HEDDLE_ASSIGN(options.model, models.Element(k).AsString());
    request.models.push_back(options);
  }
  return request;
}

}  // namespace

Status ProfileCommand(const Words& words) {
  if (words.empty()) return Usage("no request given");
  HEDDLE_ASSIGN(const Json json, ParseJson(words[0], "profile request"));
  HEDDLE_ASSIGN(const Request request, ReadRequest(JsonField(json, "profile request")));
  const bool as_json = std::find(words.begin(), words.end(), "--json") != words.end();
  HEDDLE_RETURN_IF_ERROR(CheckWritable(request.output));
  HEDDLE_RETURN_IF_ERROR(CheckWritable(request.cluster));
  InstallTensorMemory();
  Profile profile;
  if (std::filesystem::exists(request.output)) {
    HEDDLE_ASSIGN(profile, LoadProfile(request.output));
  }
  const size_t before = profile.size();
  for (const MeasureOptions& options : request.models) {
    HEDDLE_RETURN_IF_ERROR(MeasureModel(
        options, profile, [](const std::string& what) { Say("measuring {}\n", what); }));
  }
  HEDDLE_RETURN_IF_ERROR(WriteFile(request.output, JsonText(profile.ToJson(), 1) + "\n"));
  MachineSpeeds speeds;
  if (!request.cluster.empty()) {
    Say("measuring products, copies and messages\n");
    HEDDLE_ASSIGN(speeds, MeasureMachine());
    HEDDLE_RETURN_IF_ERROR(WriteFile(request.cluster, ClusterText(speeds, request.type)));
  }
  if (as_json) {
    Json result = {{"schema", "heddle.profiled/1"},
                   {"profile", request.output},
                   {"device_type", request.type},
                   {"ops", profile.size()}};
    if (!request.cluster.empty()) {
      result["cluster"] = request.cluster;
      result["flops_per_second"] = speeds.flops.value;
      result["memory_bytes_per_second"] = speeds.memory_bandwidth.value;
      result["link_bytes_per_second"] = speeds.link.value;
      result["link_latency_seconds"] = speeds.latency.value;
      result["message_bytes_per_second"] = speeds.message_bandwidth.value;
    }
    return PrintJson(result);
  }
  std::string text = fmt::format("{}: {} ops of device type {} ({} before)\n", request.output,
                                 profile.size(), request.type, before);
  if (!request.cluster.empty()) {
    text += fmt::format(
        "{}: {} devices of {:.1f} GFLOP/s, {:.1f} GB/s to memory, {:.1f} GB/s and {:.0f} us "
        "to each other\n",
        request.cluster, speeds.devices, speeds.flops.value / 1e9,
        speeds.memory_bandwidth.value / 1e9, speeds.link.value / 1e9, speeds.latency.value * 1e6);
  }
  return Print(text);
}

}  // namespace heddle
