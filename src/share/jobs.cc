#include "share/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/json_field.h"
#include "base/text.h"
#include "cluster/cluster_toml.h"
#include "model/zoo.h"

namespace heddle {
namespace {

constexpr size_t kMostJobs = 256;
constexpr int64_t kMostBatch = 1 << 24;
constexpr int64_t kMostMicrobatches = 1 << 16;
constexpr int64_t kMostSteps = 1LL << 40;
constexpr int64_t kMostPriority = 1 << 20;
constexpr double kMostWeight = 1e6;
constexpr double kMostSlowdown = 1e6;

// A word of a file and what it means.
template <class T>
struct Named {
  std::string_view name;
  T value;
};
constexpr Named<TurnOrder> kOrders[] = {{"rotation", TurnOrder::kRotation},
                                        {"deficit", TurnOrder::kDeficit}};
constexpr Named<bool> kCompressed[] = {{"fp16", true}};
constexpr Named<DType> kDTypes[] = {
    {"fp32", DType::kF32}, {"bf16", DType::kBf16}, {"fp16", DType::kF16}, {"fp64", DType::kF64}};

// Fields that say how to plan: of no use beside a plan that is made.
constexpr std::string_view kPlanningFields[] = {
    "model", "batch",         "strategy",       "microbatches", "dtype",  "optimizer", "clip",
    "links", "profile_batch", "profile_device", "versions",     "search", "sync",      "compress"};

// Fields that mean something to some strategies only. What hangs on the plan that was made, and not
// on the strategy's name, the planner refuses (clip, microbatches of async) or PlanJob does
// (overlap, sync, compress).
struct FieldOfStrategy {
  std::string_view field, strategy;
};
constexpr FieldOfStrategy kFieldsOfStrategies[] = {{"versions", "async"}, {"search", "spmd"}};
constexpr std::string_view kFieldsOfProfiles[] = {"profile_batch", "profile_device"};

// A field that nobody would read is a mistake.
Status CheckFieldsAreRead(const JsonField& field, const JobSpec& job) {
  for (const auto& [key, strategy] : kFieldsOfStrategies) {
    if (!field.Has(key) || job.strategy == strategy) continue;
    HEDDLE_ASSIGN(const JsonField child, field.Child(key));
    return child.Bad(fmt::format("has no effect with strategy = \"{}\"", job.strategy),
                     fmt::format("it goes with strategy = \"{}\"; or leave it out", strategy));
  }
  for (const std::string_view key : kFieldsOfProfiles) {
    if (!field.Has(key) || IsProfileSpec(job.options.model)) continue;
    HEDDLE_ASSIGN(const JsonField child, field.Child(key));
    return child.Bad(
        fmt::format("has no effect: model \"{}\" is no layer profile", job.options.model),
        "it goes with a model that is a file of measured layers; or leave it out");
  }
  return Ok();
}

// The field as one of the names, if it is there.
template <class T, class U, size_t kCount>
Status ReadChoice(const JsonField& field, std::string_view key, const Named<T> (&names)[kCount],
                  U& value) {
  if (!field.Has(key)) return Ok();
  HEDDLE_ASSIGN(const JsonField child, field.Child(key));
  HEDDLE_ASSIGN(const std::string text, child.AsString());
  std::string known;
  for (const Named<T>& named : names) {
    if (named.name == text) {
      value = named.value;
      return Ok();
    }
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", named.name);
  }
  return child.Bad(fmt::format("\"{}\" is unknown", text), "expected one of " + known);
}

// The same for names that another folder knows.
template <class T>
Status ReadParsed(const JsonField& field, std::string_view key,
                  std::optional<T> (*parse)(std::string_view), std::string_view choices, T& value) {
  if (!field.Has(key)) return Ok();
  HEDDLE_ASSIGN(const JsonField child, field.Child(key));
  HEDDLE_ASSIGN(const std::string text, child.AsString());
  const std::optional<T> parsed = parse(text);
  if (!parsed) return child.Bad(fmt::format("\"{}\" is unknown", text), std::string(choices));
  value = *parsed;
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
  PlanOptions& options = job.options;
  if (!field.Has("model")) {
    return field.Bad("has neither model nor plan",
                     "give model = \"…\" and batch, or plan = \"plan.json\"");
  }
  HEDDLE_ASSIGN(options.model, field.String("model"));
  if (IsProfileSpec(options.model)) options.model = Beside(file, options.model);
  HEDDLE_ASSIGN(options.batch, field.Int("batch", 1, kMostBatch));
  job.strategy = "dp";
  HEDDLE_RETURN_IF_ERROR(ReadString(field, "strategy", job.strategy));
  HEDDLE_RETURN_IF_ERROR(CheckFieldsAreRead(field, job));
  if (field.Has("microbatches")) {
    HEDDLE_ASSIGN(options.microbatches,
                  field.Int("microbatches", 1, std::min(options.batch, kMostMicrobatches)));
  }
  HEDDLE_RETURN_IF_ERROR(ReadChoice(field, "dtype", kDTypes, options.dtype));
  HEDDLE_RETURN_IF_ERROR(ReadParsed<Optimizer>(field, "optimizer", &ParseOptimizer,
                                               kOptimizerChoices, options.optimizer));
  HEDDLE_RETURN_IF_ERROR(ReadNumber(field, "clip", {0, 1e30}, options.clip));
  HEDDLE_RETURN_IF_ERROR(ReadParsed<LinkModel>(field, "links", &ParseLinkModel,
                                               "shared, exclusive or channels", options.links));
  HEDDLE_RETURN_IF_ERROR(ReadParsed<WeightVersions>(
      field, "versions", &ParseWeightVersions, "stash, vertical, none or 2bw", options.versions));
  HEDDLE_RETURN_IF_ERROR(ReadParsed<SpmdSearch>(field, "search", &ParseSpmdSearch,
                                                kSpmdSearchChoices, options.search));
  HEDDLE_RETURN_IF_ERROR(ReadParsed<GradientSync>(field, "sync", &ParseGradientSync,
                                                  kGradientSyncChoices, options.sync));
  HEDDLE_RETURN_IF_ERROR(ReadChoice(field, "compress", kCompressed, options.compress));
  HEDDLE_RETURN_IF_ERROR(ReadInt(field, "profile_batch", 1, kMostBatch, options.profile_batch));
  return ReadString(field, "profile_device", options.profile_device);
}

Status ReadMadePlan(const JsonField& field, const std::string& file, JobSpec& job) {
  HEDDLE_ASSIGN(const std::string path, field.String("plan"));
  if (path.empty()) return field.Bad("plan is empty", "expected the path of a plan.json");
  for (const std::string_view key : kPlanningFields) {
    if (!field.Has(key)) continue;
    HEDDLE_ASSIGN(const JsonField child, field.Child(key));
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
  HEDDLE_RETURN_IF_ERROR(field.OnlyKeys(
      {"name",           "plan",      "model",  "batch",    "strategy",           "microbatches",
       "dtype",          "optimizer", "clip",   "links",    "versions",           "profile_batch",
       "profile_device", "steps",     "weight", "priority", "tolerated_slowdown", "sync",
       "overlap",        "compress",  "search"}));
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
  return ReadChoice(field, "order", kOrders, share.order);
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
