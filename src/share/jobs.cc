#include "share/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/json_struct.h"
#include "base/text.h"
#include "cluster/cluster_line.h"
#include "cluster/cluster_toml.h"
#include "model/hf_model.h"
#include "model/zoo.h"
#include "program/plan/request_fields.h"

namespace heddle {
namespace {

constexpr size_t kMostJobs = 256;
constexpr int64_t kMostSteps = 1LL << 40;
constexpr int64_t kMostPriority = 1 << 20;
constexpr double kMostWeight = 1e6;
constexpr double kMostSlowdown = 1e6;

constexpr std::string_view kFieldsOfProfiles[] = {"profile_batch", "profile_device"};

// Which of its fields a job states: one that nobody would read is a mistake. What hangs on the plan
// that was made, and not on the strategy's name, the planner refuses (clip, microbatches of async)
// or PlanJob does (overlap, sync, compress).
Status CheckFieldsAreRead(const JsonField& field, const PlanRequest& request) {
  for (const RequestField& one : RequestFields()) {
    if (one.of_strategy.empty() || !field.Has(one.key)) continue;
    if (request.strategy == one.of_strategy) continue;
    HEDDLE_ASSIGN(const JsonField child, field.Child(one.key));
    return child.Bad(
        fmt::format("has no effect with strategy = \"{}\"", request.strategy),
        fmt::format("it goes with strategy = \"{}\"; or leave it out", one.of_strategy));
  }
  for (const std::string_view key : kFieldsOfProfiles) {
    if (!field.Has(key) || IsProfileSpec(request.model)) continue;
    HEDDLE_ASSIGN(const JsonField child, field.Child(key));
    return child.Bad(fmt::format("has no effect: model \"{}\" is no layer profile", request.model),
                     "it goes with a model that is a file of measured layers; or leave it out");
  }
  return Ok();
}

struct Range {
  double least, most;
  bool open = false;  // `least` itself is not in it
};

Status ReadNumber(const JsonField& field, std::string_view key, Range range, double& value) {
  if (!field.Has(key)) return Ok();
  HEDDLE_ASSIGN(const JsonField child, field.Child(key));
  HEDDLE_ASSIGN(value, child.AsNumber());
  if (value > range.most || value < range.least || (range.open && value == range.least)) {
    return child.Bad(fmt::format("{} is out of range", ExactNumber(value)),
                     fmt::format("expected {} {} to {}", range.open ? "more than" : "from",
                                 ExactNumber(range.least), ExactNumber(range.most)));
  }
  return Ok();
}

Status ReadInt(const JsonField& field, std::string_view key, int64_t least, int64_t most,
               int64_t& value) {
  if (!field.Has(key)) return Ok();
  HEDDLE_ASSIGN(value, field.Int(key, least, most));
  return Ok();
}

Status ReadString(const JsonField& field, std::string_view key, std::string& value) {
  if (!field.Has(key)) return Ok();
  HEDDLE_ASSIGN(value, field.String(key));
  return Ok();
}

// A path of the file, from where the file lies.
std::string Beside(const std::string& file, const std::string& path) {
  const std::filesystem::path relative(path);
  if (path.empty() || relative.is_absolute()) return path;
  return (std::filesystem::path(file).parent_path() / relative).lexically_normal().string();
}

Status ReadPlanning(const JsonField& field, const std::string& file, JobSpec& job) {
  PlanRequest& request = job.request;
  if (!field.Has("model")) {
    return field.Bad("has neither model nor plan",
                     "give model = \"…\" and batch, or plan = \"plan.json\"");
  }
  HEDDLE_RETURN_IF_ERROR(field.Child("batch"));
  request.strategy = "dp";
  HEDDLE_RETURN_IF_ERROR(ReadRequestFields(field, RequestSource::kJob, request));
  HEDDLE_RETURN_IF_ERROR(CheckRequest(request, FieldsOf(field)));
  if (IsProfileSpec(request.model) || IsConfigSpec(request.model)) {
    request.model = Beside(file, request.model);
  }
  return CheckFieldsAreRead(field, request);
}

Status ReadMadePlan(const JsonField& field, const std::string& file, JobSpec& job) {
  HEDDLE_ASSIGN(const std::string path, field.String("plan"));
  if (path.empty()) return field.Bad("plan is empty", "expected the path of a plan.json");
  for (const RequestField& one : RequestFields()) {
    if (!one.taken_by(RequestSource::kJob) || !field.Has(one.key)) continue;
    HEDDLE_ASSIGN(const JsonField child, field.Child(one.key));
    return child.Bad("stands beside plan, which has decided it", "leave out the one or the other");
  }
  job.plan = Beside(file, path);
  return Ok();
}

// Names are letters of charts, keys of JSON and parts of file names.
Status CheckName(const JsonField& field, const std::string& name) {
  if (IsPlainName(name)) return Ok();
  return field.Bad(fmt::format("\"{}\" is no name for a job", name), kPlainName);
}

Result<JobSpec> ReadJob(const JsonField& field, const std::string& file) {
  HEDDLE_RETURN_IF_ERROR(field.ExpectObject());
  std::vector<std::string_view> keys = {
      "name", "plan", "steps", "weight", "priority", "overlap", "tolerated_slowdown"};
  for (const RequestField& one : RequestFields()) {
    if (one.taken_by(RequestSource::kJob)) keys.push_back(one.key);
  }
  HEDDLE_RETURN_IF_ERROR(field.OnlyKeys(keys));
  JobSpec job;
  HEDDLE_ASSIGN(job.name, field.String("name"));
  HEDDLE_ASSIGN(const JsonField name, field.Child("name"));
  HEDDLE_RETURN_IF_ERROR(CheckName(name, job.name));
  HEDDLE_RETURN_IF_ERROR(field.Has("plan") ? ReadMadePlan(field, file, job)
                                           : ReadPlanning(field, file, job));
  HEDDLE_ASSIGN(job.steps, field.Int("steps", 1, kMostSteps));
  HEDDLE_RETURN_IF_ERROR(ReadNumber(field, "weight", {0, kMostWeight, true}, job.weight));
  HEDDLE_RETURN_IF_ERROR(ReadInt(field, "priority", -kMostPriority, kMostPriority, job.priority));
  if (field.Has("tolerated_slowdown")) {
    HEDDLE_RETURN_IF_ERROR(ReadNumber(field, "tolerated_slowdown", {1, kMostSlowdown},
                                      job.tolerated_slowdown.emplace()));
  }
  if (field.Has("overlap")) {
    HEDDLE_ASSIGN(job.overlap, field.Bool("overlap"));
  }
  for (const char* key : {"overlap", "sync", "compress"}) {
    if (field.Has(key)) job.gradient_keys.emplace_back(key);
  }
  return job;
}

Status ReadLease(const JsonField& field, ShareOptions& share) {
  if (!field.Has("lease")) return Ok();
  constexpr Seconds kShortest{0.1}, kLongest{86400};
  HEDDLE_ASSIGN(share.lease, field.SecondsOf("lease"));
  if (share.lease >= kShortest && share.lease <= kLongest) return Ok();
  HEDDLE_ASSIGN(const JsonField child, field.Child("lease"));
  return child.Bad(fmt::format("{} is out of range", ToText(share.lease)),
                   fmt::format("expected {} to {}", ToText(kShortest), ToText(kLongest)));
}

Status ReadShare(const JsonField& root, ShareOptions& share) {
  if (!root.Has("share")) return Ok();
  HEDDLE_ASSIGN(const JsonField field, root.Object("share"));
  HEDDLE_RETURN_IF_ERROR(
      field.OnlyKeys({"switch", "minimum_gain", "most_slowdown", "order", "lease"}));
  if (field.Has("switch")) {
    HEDDLE_ASSIGN(share.switch_cost, field.SecondsOf("switch"));
  }
  HEDDLE_RETURN_IF_ERROR(ReadNumber(field, "minimum_gain", {0, 1}, share.minimum_gain));
  HEDDLE_RETURN_IF_ERROR(
      ReadNumber(field, "most_slowdown", {1, kMostSlowdown}, share.most_slowdown));
  HEDDLE_RETURN_IF_ERROR(ReadLease(field, share));
  if (!field.Has("order")) return Ok();
  HEDDLE_ASSIGN(const JsonField order, field.Child("order"));
  HEDDLE_ASSIGN(const std::string name, order.AsString());
  HEDDLE_ASSIGN(share.order, ReadOffered<TurnOrder>(order.where(), name));
  return Ok();
}

Status ReadSchema(const JsonField& root) {
  HEDDLE_ASSIGN(const JsonField field, root.Child("schema"));
  HEDDLE_ASSIGN(const std::string schema, field.AsString());
  if (schema == kJobsSchema) return Ok();
  return field.Bad(fmt::format("\"{}\" is unknown", schema),
                   fmt::format("expected \"{}\"", kJobsSchema));
}

Result<JobsFile> ReadJobs(const JsonField& root, const std::string& file) {
  HEDDLE_RETURN_IF_ERROR(ReadSchema(root));
  HEDDLE_RETURN_IF_ERROR(root.OnlyKeys({"schema", "cluster", "profile", "share", "job"}));
  JobsFile jobs;
  jobs.file = file;
  HEDDLE_ASSIGN(const std::string cluster, root.String("cluster"));
  jobs.cluster = Beside(file, cluster);
  std::error_code ignored;
  const bool line = !IsClusterFile(cluster) && !std::filesystem::exists(jobs.cluster, ignored);
  if (line) jobs.cluster = cluster;
  std::string profile;
  HEDDLE_RETURN_IF_ERROR(ReadString(root, "profile", profile));
  jobs.profile = Beside(file, profile);
  HEDDLE_RETURN_IF_ERROR(ReadShare(root, jobs.share));
  if (!root.Has("job")) return root.Bad("has no [[job]]", "list each job under its own [[job]]");
  HEDDLE_ASSIGN(const JsonField list, root.Array("job"));
  if (list.size() == 0 || list.size() > kMostJobs) {
    return list.Bad(fmt::format("{} jobs", list.size()),
                    fmt::format("expected 1 to {}", kMostJobs));
  }
  std::set<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    HEDDLE_ASSIGN(JobSpec job, ReadJob(list.Element(i), file));
    if (!names.insert(job.name).second) {
      HEDDLE_ASSIGN(const JsonField name, list.Element(i).Child("name"));
      return name.Bad(fmt::format("\"{}\" is the name of an earlier job", job.name),
                      "give each job a name of its own");
    }
    jobs.jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace

Result<JobsFile> ParseJobs(const std::string& text, const std::string& file) {
  HEDDLE_ASSIGN(const Json json, ParseToml(text, file));
  return ReadJobs(JsonField(json, file), file);
}

Result<JobsFile> LoadJobs(const std::string& path) {
  HEDDLE_ASSIGN(const std::string text, ReadFile(path, kMostTextBytes));
  return ParseJobs(text, path);
}

}  // namespace heddle
