#include "run/store/run_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "base/atomic_file.h"
#include "base/directory_claim.h"
#include "base/file.h"
#include "base/json_field.h"
#include "base/json_text.h"
#include "run/store/checkpoint.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 5> kEntries = {"config.json", "plan.json", "log.jsonl",
                                                      "timeline.json", "checkpoints"};

// The config with its schema in front.
Json WithSchema(const Json& config) {
  HEDDLE_CHECK(config.is_object());
  Json json;
  json["schema"] = kRunConfigSchema;
  for (const auto& [key, value] : config.items()) {
    if (key != "schema") json[key] = value;
  }
  return json;
}

std::string TextOf(const Json& json, int indent) { return JsonText(json, indent) + "\n"; }

// The first entry of a run that the directory has, or "".
std::string_view EntryOf(const std::string& path) {
  for (const std::string_view entry : kEntries) {
    struct stat info {};
    if (::lstat(fmt::format("{}/{}", path, entry).c_str(), &info) == 0) return entry;
  }
  return "";
}

Status MakeDirectory(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0) return SystemError(path, "create the directory");
  return FlushDirectory(DirectoryOf(path));
}

// One line of the log, at `text`[begin, end) with its line break.
struct Line {
  size_t begin;
  size_t end;
  Json json;
};

Result<std::vector<Line>> LinesOf(const std::string& text, const std::string& file) {
  std::vector<Line> lines;
  for (size_t begin = 0;;) {
    const size_t line_break = text.find('\n', begin);
    if (line_break == std::string::npos) return lines;  // what follows is torn, or nothing
    const std::string where = fmt::format("{}: line {}", file, lines.size() + 1);
    HEDDLE_ASSIGN(Json json, ParseJson(text.substr(begin, line_break - begin), where));
    if (!json.is_object()) {
      return BadInput(where, fmt::format("found {}, expected a table", json.type_name()),
                      "remove this line, or all from it on");
    }
    lines.push_back({begin, line_break + 1, std::move(json)});
    begin = line_break + 1;
  }
}

Result<std::string> ReadLogText(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 && errno == ENOENT) return std::string();
  return ReadFile(path);
}

// Temporary files of writers that were killed: "plan.json.tmp.123.0".
void RemoveTemporaryFiles(const std::string& directory) {
  std::error_code failed;
  std::vector<fs::path> stale;
  for (fs::directory_iterator it(directory, failed), end; !failed && it != end;
       it.increment(failed)) {
    const std::string name = it->path().filename();
    for (const std::string_view entry : kEntries) {
      if (name.starts_with(fmt::format("{}.tmp.", entry))) stale.push_back(it->path());
    }
  }
  for (const fs::path& path : stale) ::unlink(path.c_str());
}

}  // namespace

std::string RunNameOf(std::string_view model) {
  constexpr size_t kMost = 64;
  std::string name;
  for (const char c : model.substr(0, kMost)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && name.empty()) continue;  // neither hidden nor taken for an option
    name += plain || c == '_' || c == '.' ? c : '-';
  }
  return name.empty() ? "run" : name;
}

Result<RunDirectory> RunDirectory::Create(const std::string& path) {
  HEDDLE_RETURN_IF_ERROR(MakeDirectories(path));
  if (const std::string_view entry = EntryOf(path); !entry.empty()) {
    return BadInput(path, fmt::format("holds a run already: there is {}", entry),
                    "resume that run, choose another directory, or remove this one");
  }
  return RunDirectory(path);
}

Result<RunDirectory> RunDirectory::CreateNamed(const std::string& parent, std::string_view model,
                                               std::time_t now) {
  constexpr int kMostSuffix = 10000;
  HEDDLE_RETURN_IF_ERROR(MakeDirectories(parent));
  std::tm local{};
  ::localtime_r(&now, &local);
  char date[64];
  std::strftime(date, sizeof date, "%Y-%m-%d-%H%M%S", &local);
  const std::string first = fmt::format("{}/{}-{}", parent, RunNameOf(model), date);
  std::string path = first;
  // mkdir itself decides whether a name is taken: two runs may begin in the same second.
  for (int suffix = 2; suffix <= kMostSuffix; ++suffix) {
    const Status made = MakeDirectory(path);
    if (made.ok()) return RunDirectory(path);
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return made.error();
    path = fmt::format("{}-{}", first, suffix);
  }
  return BadInput(first, "this name and its suffixes are taken", "name the directory of the run");
}

Result<RunDirectory> RunDirectory::Open(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return SystemError(path, "open the run");
  if (!S_ISDIR(info.st_mode)) {
    return BadInput(path, "is a file, expected the directory of a run",
                    "name the directory that holds config.json");
  }
  RunDirectory run(path);
  if (::stat(run.config_path().c_str(), &info) != 0) {
    return BadInput(path, "is not the directory of a run: there is no config.json",
                    "name a directory that a run has written, as in runs/<name>");
  }
  return run;
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      claim_(std::move(other.claim_)),
      log_(std::exchange(other.log_, -1)) {}

RunDirectory::~RunDirectory() { CloseLog(); }

void RunDirectory::CloseLog() {
  if (log_ >= 0) ::close(std::exchange(log_, -1));
}

Status RunDirectory::Claim() {
  HEDDLE_ASSIGN(DirectoryClaim claim, DirectoryClaim::Take(path_));
  claim_.emplace(std::move(claim));
  return Ok();
}

std::string RunDirectory::checkpoints_path() const { return CheckpointsOf(path_); }

Status RunDirectory::WriteConfig(const Json& config) const {
  return WriteFile(config_path(), TextOf(WithSchema(config), 2));
}

Status RunDirectory::Supersede(const Json& config, const std::string& plan, int64_t step) const {
  const auto supersede = [&](const std::string& path, const char* name,
                             const std::string& text) -> Status {
    HEDDLE_ASSIGN(const std::string before, ReadFile(path));
    if (before == text) return Ok();
    const std::string kept = fmt::format("{}/{}-until-{:08}.json", path_, name, step);
    struct stat info {};
    if (::lstat(kept.c_str(), &info) != 0) HEDDLE_RETURN_IF_ERROR(WriteFile(kept, before));
    return WriteFile(path, text);
  };
  HEDDLE_RETURN_IF_ERROR(supersede(config_path(), "config", TextOf(WithSchema(config), 2)));
  return supersede(plan_path(), "plan", plan);
}

Status RunDirectory::WritePlan(const std::string& text) const {
  return WriteFile(plan_path(), text);
}

Status RunDirectory::WriteTimeline(const std::string& text) const {
  return WriteFile(timeline_path(), text);
}

Result<Json> RunDirectory::ReadConfig() const {
  HEDDLE_ASSIGN(const std::string text, ReadFile(config_path(), kMostTextBytes));
  HEDDLE_ASSIGN(Json json, ParseJson(text, config_path()));
  const JsonField root(json, config_path());
  HEDDLE_ASSIGN(const std::string schema, root.String("schema"));
  if (schema != kRunConfigSchema) {
    return root.Child("schema").value().Bad(
        fmt::format("found \"{}\", expected \"{}\"", schema, kRunConfigSchema),
        "use the version of heddle that wrote it");
  }
  return json;
}

Status RunDirectory::OpenLog() {
  HEDDLE_ASSIGN(const std::string text, ReadLogText(log_path()));
  log_ = ::open(log_path().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log_ < 0) return SystemError(log_path(), "create");
  const size_t last_break = text.rfind('\n');
  const size_t whole = last_break == std::string::npos ? 0 : last_break + 1;
  if (whole == text.size() || ::ftruncate(log_, static_cast<off_t>(whole)) == 0) return Ok();
  Error error = SystemError(log_path(), "remove the torn last line");
  CloseLog();
  return error;
}

Status RunDirectory::Append(const Json& line) {
  HEDDLE_CHECK(line.is_object());
  if (log_ < 0) HEDDLE_RETURN_IF_ERROR(OpenLog());
  const std::string text = TextOf(line, -1);
  const off_t before = ::lseek(log_, 0, SEEK_END);
  size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = ::write(log_, text.data() + written, text.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      Error error = SystemError(log_path(), "append", static_cast<int64_t>(text.size()));
      // Should this fail as well, the line is torn: the next to open the log removes it.
      if (before < 0 || ::ftruncate(log_, before) != 0) CloseLog();
      return error;
    }
    written += static_cast<size_t>(count);
  }
  return Ok();
}

Result<std::vector<Json>> RunDirectory::ReadLog() const {
  HEDDLE_ASSIGN(const std::string text, ReadLogText(log_path()));
  return ParseRunLog(text, log_path());
}

Result<std::vector<Json>> ParseRunLog(const std::string& text, const std::string& file) {
  HEDDLE_ASSIGN(std::vector<Line> lines, LinesOf(text, file));
  std::vector<Json> log;
  for (Line& line : lines) log.push_back(std::move(line.json));
  return log;
}

Status RunDirectory::ResumeAfter(int64_t step) {
  CloseLog();
  RemoveTemporaryFiles(path_);
  HEDDLE_ASSIGN(const std::string text, ReadLogText(log_path()));
  HEDDLE_ASSIGN(const std::vector<Line> lines, LinesOf(text, log_path()));
  std::string kept;
  int64_t at = 0;
  for (const Line& line : lines) {
    if (line.json.contains("step")) {
      const JsonField root(line.json, fmt::format("{}: {}", log_path(), JsonText(line.json)));
      HEDDLE_ASSIGN(at, root.Int("step", 0, INT64_MAX));
    }
    if (at <= step) kept.append(text, line.begin, line.end - line.begin);
  }
  if (kept != text) HEDDLE_RETURN_IF_ERROR(WriteFile(log_path(), kept));
  return DropCheckpointsAfter(path_, step);
}

Result<ResumePoint> FindResumePoint(const std::string& given) {
  std::string path = given;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const auto has = [](const std::string& directory, const char* file) {
    std::error_code ignored;
    return fs::exists(fs::path(directory) / file, ignored);
  };
  if (has(path, "checkpoint.json")) {
    std::string run = (fs::path(path) / "../..").lexically_normal();
    while (run.size() > 1 && run.ends_with('/')) run.pop_back();
    return ResumePoint{has(run, "config.json") ? run : "", path};
  }
  Result<std::string> latest = LatestCheckpoint(path);
  if (!latest.ok()) {
    // It may have one yet: a run that goes on says more than that it has none.
    if (DirectoryClaim::IsTaken(path)) {
      if (const auto claim = DirectoryClaim::Take(path); !claim.ok()) return claim.error();
    }
    return latest.error();
  }
  return ResumePoint{has(path, "config.json") ? path : "", std::move(latest).value()};
}

}  // namespace heddle
