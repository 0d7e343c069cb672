// RankMeeting: how ranks that a launcher started find each other. The first hosts a store; on one
// host it is reached by a socket in a folder of this user, across hosts by a port and with a
// secret.
//
//   HEDDLE_ASSIGN(const RankMeeting meeting, RankMeeting::Open(launched, {.meet_within = 60s}));
//   HEDDLE_ASSIGN(auto store, meeting.Connect());        // as often as one likes
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "run/launched_rank.h"
#include "run/meet/store_client.h"
#include "run/meet/store_server.h"

namespace heddle {

struct MeetingOptions {
  Environment environment = [](const char*) -> const char* { return nullptr; };
  std::string secret_file = {};
  std::string interface = {};  // of this host, by name or address; empty: found
  std::chrono::milliseconds meet_within{60'000};
  std::function<void(const std::string& line)> note = [](const std::string&) {};
};

class RankMeeting {
 public:
  static Result<RankMeeting> Open(const LaunchedRank& launched, const MeetingOptions& options);

  // Also until somebody has had enough of waiting.
  Result<std::unique_ptr<StoreClient>> Connect(const std::atomic<bool>* enough = nullptr) const;
  // This host's, where Gloo listens for the other ranks.
  const std::string& interface_address() const { return interface_address_; }
  const MeetingPlace& place() const { return place_; }

 private:
  explicit RankMeeting(const Secret& secret) : secret_(secret) {}

  Secret secret_;
  MeetingPlace place_;
  std::string interface_address_;
  std::chrono::milliseconds meet_within_{};
  std::unique_ptr<StoreServer> server_;  // the first rank's
};

}  // namespace heddle
