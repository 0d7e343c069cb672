// How a job that comes later reaches a share that runs: as files in the share's directory.
//
//   <dir>/share.json                what runs there, and the process that leads it
//   <dir>/attach/<name>.json        a job that asks to join (ShareJobToJson); written whole
//   <dir>/attach/<name>.taken       the same, once it has been seen
//   <dir>/attach/<name>.done        what became of it
//
// Files, because they need nobody to listen at that very moment, and can be looked at.
#pragma once

#include <string>
#include <vector>

#include "base/json_field.h"
#include "base/result.h"
#include "run/share/share_config.h"
#include "run/share/supervisor.h"

namespace heddle {

// The leader's side.
Status OpenMailbox(const std::string& directory);
struct Mail {
  std::string name;
  Result<ShareJobConfig> job;
};
std::vector<Mail> TakeMail(const std::string& directory);
Status Answer(const std::string& directory, const JobOutcome& outcome);
// No more mail is taken.
void CloseMailbox(const std::string& directory);

// The side of the job: asks, and waits until it is done. An error of kind kRunFailed if it failed,
// or if the share has ended.
// Before anything is written: whether a share runs there that has no job of this name.
Status CanAttach(const std::string& directory, const std::string& name);
Result<Json> AttachJob(const std::string& directory, const ShareJobConfig& job);

}  // namespace heddle
