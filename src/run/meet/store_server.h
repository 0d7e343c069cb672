// StoreServer: a small table of keys and values by which the processes of a run find each other and
// say that they live. A thread of the process that starts it.
//
//   HEDDLE_ASSIGN(const Seats seats, Seats::Make(4));             // before fork(): no name, no
//   port HEDDLE_ASSIGN(const auto server, StoreServer::Start(seats));  // after it, in the parent
//
// Who does not prove within some seconds to know the secret is sent away; so are those who come
// while too many others have yet to prove it, the oldest first. Neither costs the others anything.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "run/meet/descriptor.h"
#include "run/meet/meeting_place.h"
#include "run/meet/secret.h"
#include "run/meet/store_client.h"

namespace heddle {

// A connection for each of some processes that are yet to be forked, which nobody else can have.
class Seats {
 public:
  static Result<Seats> Make(int count);

  // Each once, while the server runs or is about to.
  Result<std::unique_ptr<StoreClient>> Take(int seat, std::chrono::milliseconds limit) const;
  // In every process, once it has what it wants: so that all see when one leaves.
  void CloseRest() const;
  // The server's ends.
  std::vector<Descriptor> TakeEnds() const;
  const Secret& secret() const { return secret_; }

 private:
  explicit Seats(const Secret& secret) : secret_(secret) {}

  struct Pair {
    Descriptor mine, servers;
  };
  Secret secret_;
  std::shared_ptr<std::vector<Pair>> pairs_ = std::make_shared<std::vector<Pair>>();
};

struct StoreServerOptions {
  Secret secret;
  int members = 1;  // processes, each of which connects a few times
  std::chrono::milliseconds proof_within{5000};
  // A line about strangers, once a second at most. Called by the server's thread.
  std::function<void(const std::string& line)> note = [](const std::string&) {};
};

class StoreServer {
 public:
  static Result<std::unique_ptr<StoreServer>> Start(const Seats& seats);
  static Result<std::unique_ptr<StoreServer>> Start(Listener listener, StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  const MeetingPlace& place() const;

 private:
  class Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle
