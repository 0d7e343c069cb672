#include "run/share/share_mail.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/file.h"
#include "run/share/process_state.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

std::string HeadOf(const std::string& directory) { return directory + "/share.json"; }
std::string BoxOf(const std::string& directory) { return directory + "/attach"; }

Result<ShareJobConfig> ReadJob(const std::string& path) {
  HEDDLE_ASSIGN(const std::string text, ReadFile(path));
  HEDDLE_ASSIGN(const Json json, ParseJson(text, path));
  return ShareJobFromJson(JsonField(json, path));
}

}  // namespace

Status OpenMailbox(const std::string& directory) {
  HEDDLE_RETURN_IF_ERROR(MakeDirectories(BoxOf(directory)));
  const Json head = {{"schema", "heddle.share/1"}, {"process", getpid()}};
  return WriteFile(HeadOf(directory), head.dump(2) + "\n");
}

void CloseMailbox(const std::string& directory) {
  std::error_code ignored;
  fs::remove(HeadOf(directory), ignored);
}

std::vector<Mail> TakeMail(const std::string& directory) {
  std::vector<fs::path> letters;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(BoxOf(directory), ignored)) {
    if (entry.path().extension() == ".json") letters.push_back(entry.path());
  }
  std::sort(letters.begin(), letters.end());
  std::vector<Mail> mail;
  for (const fs::path& letter : letters) {
    Result<ShareJobConfig> job = ReadJob(letter.string());
    fs::path taken = letter;
    fs::rename(letter, taken.replace_extension(".taken"), ignored);
    mail.push_back({letter.stem().string(), std::move(job)});
  }
  return mail;
}

Status Answer(const std::string& directory, const JobOutcome& outcome) {
  const Json json = {{"name", outcome.name},
                     {"ended_well", outcome.well},
                     {"why", outcome.why},
                     {"seconds", static_cast<double>(outcome.ended - outcome.began) * 1e-9}};
  return WriteFile(fmt::format("{}/{}.done", BoxOf(directory), outcome.name), json.dump(2) + "\n");
}

Result<Json> AttachJob(const std::string& directory, const ShareJobConfig& job) {
  const std::string head = HeadOf(directory);
  const std::string stem = fmt::format("{}/{}", BoxOf(directory), job.name);
  if (!fs::exists(head)) {
    return BadInput(directory, "no share runs there",
                    "start one with heddle share jobs.toml --run --dir " + directory);
  }
  HEDDLE_ASSIGN(const std::string text, ReadFile(head));
  HEDDLE_ASSIGN(const Json json, ParseJson(text, head));
  HEDDLE_ASSIGN(const int64_t leader, JsonField(json, head).Int("process", 1, INT32_MAX));
  for (const char* ending : {".json", ".taken", ".done"}) {
    if (fs::exists(stem + ending)) {
      return BadInput(job.name, "a job of this name has joined already", "choose another name");
    }
  }
  HEDDLE_RETURN_IF_ERROR(WriteFile(stem + ".json", ShareJobToJson(job).dump(2) + "\n"));
  constexpr std::chrono::milliseconds kPause{50};
  while (!fs::exists(stem + ".done")) {
    const bool lives = ProcessLives(static_cast<pid_t>(leader)) && fs::exists(head);
    if (!lives && !fs::exists(stem + ".done")) {
      return Error{ErrorKind::kRunFailed, directory, "the share ended before the job was done", ""};
    }
    std::this_thread::sleep_for(kPause);
  }
  HEDDLE_ASSIGN(const std::string answer, ReadFile(stem + ".done"));
  HEDDLE_ASSIGN(Json outcome, ParseJson(answer, stem + ".done"));
  if (outcome.value("ended_well", false)) return outcome;
  return Error{ErrorKind::kRunFailed, "job " + job.name, outcome.value("why", ""), ""};
}

}  // namespace heddle
