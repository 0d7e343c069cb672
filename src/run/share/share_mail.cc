#include "run/share/share_mail.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/directory_claim.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

std::string HeadOf(const std::string& directory) { return directory + "/share.json"; }
std::string BoxOf(const std::string& directory) { return directory + "/attach"; }

// Letters are from whoever can write there: files alone are read, and only so much of them.
Result<ShareJobConfig> ReadJob(const std::string& path) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  HEDDLE_ASSIGN(const std::string text, ReadRegularFile(path, kMostBytes));
  HEDDLE_ASSIGN(const Json json, ParseJson(text, path));
  return ShareJobFromJson(JsonField(json, path));
}

}  // namespace

Status OpenMailbox(const std::string& directory) {
  HEDDLE_RETURN_IF_ERROR(MakeDirectories(BoxOf(directory)));
  const Json head = {{"schema", "heddle.share/1"}, {"process", getpid()}};
  return WriteFile(HeadOf(directory), JsonText(head, 2) + "\n");
}

void CloseMailbox(const std::string& directory) {
  std::error_code ignored;
  fs::remove(HeadOf(directory), ignored);
}

std::vector<Mail> TakeMail(const std::string& directory) {
  constexpr size_t kMostAtOnce = 64;
  std::vector<fs::path> letters;
  std::error_code failed;
  for (fs::directory_iterator it(BoxOf(directory), failed), end; !failed && it != end;
       it.increment(failed)) {
    if (letters.size() == kMostAtOnce) break;
    const bool named = it->path().extension() == ".json" && IsPlainName(it->path().stem().string());
    if (named) letters.push_back(it->path());
  }
  std::sort(letters.begin(), letters.end());
  std::vector<Mail> mail;
  for (const fs::path& letter : letters) {
    fs::path taken = letter;
    taken.replace_extension(".taken");
    fs::rename(letter, taken, failed);
    if (failed) continue;  // it stays where it is
    mail.push_back({letter.stem().string(), ReadJob(taken.string())});
  }
  return mail;
}

Status Answer(const std::string& directory, const JobOutcome& outcome) {
  const Json json = {{"name", outcome.name},
                     {"ended_well", outcome.well},
                     {"why", outcome.why},
                     {"seconds", static_cast<double>(outcome.ended - outcome.began) * 1e-9}};
  return WriteFile(fmt::format("{}/{}.done", BoxOf(directory), outcome.name),
                   JsonText(json, 2) + "\n");
}

Status CanAttach(const std::string& directory, const std::string& name) {
  if (!fs::exists(HeadOf(directory)) || !DirectoryClaim::IsTaken(directory)) {
    return BadInput(directory, "no share runs there",
                    "start one with heddle share jobs.toml --run --dir " + directory);
  }
  for (const char* ending : {".json", ".taken", ".done"}) {
    if (fs::exists(fmt::format("{}/{}{}", BoxOf(directory), name, ending))) {
      return BadInput(name, "a job of this name has joined already", "choose another name");
    }
  }
  return Ok();
}

Result<Json> AttachJob(const std::string& directory, const ShareJobConfig& job) {
  HEDDLE_RETURN_IF_ERROR(CanAttach(directory, job.name));
  const std::string head = HeadOf(directory);
  const std::string stem = fmt::format("{}/{}", BoxOf(directory), job.name);
  HEDDLE_RETURN_IF_ERROR(WriteFile(stem + ".json", JsonText(ShareJobToJson(job), 2) + "\n"));
  constexpr std::chrono::milliseconds kPause{50};
  while (!fs::exists(stem + ".done")) {
    const bool lives = DirectoryClaim::IsTaken(directory) && fs::exists(head);
    if (!lives && !fs::exists(stem + ".done")) {
      return Error{ErrorKind::kRunFailed, directory, "the share ended before the job was done", ""};
    }
    std::this_thread::sleep_for(kPause);
  }
  HEDDLE_ASSIGN(const std::string answer, ReadFile(stem + ".done", kMostTextBytes));
  HEDDLE_ASSIGN(Json outcome, ParseJson(answer, stem + ".done"));
  if (outcome.value("ended_well", false)) return outcome;
  return Error{ErrorKind::kRunFailed, "job " + job.name, outcome.value("why", ""), ""};
}

}  // namespace heddle
