// StoreClient: a process's conversation with the store (store_server.h). Threads may share one;
// they wait for each other.
//
//   HEDDLE_ASSIGN(const auto store, StoreClient::Connect(place, secret, 60s));
//   HEDDLE_RETURN_IF_ERROR(store->Set("beat3", "17"));
//   HEDDLE_ASSIGN(const std::string value, store->Get("beat0", 5s));
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "run/meet/descriptor.h"
#include "run/meet/meeting_place.h"
#include "run/meet/meeting_store.h"
#include "run/meet/sealed_channel.h"
#include "run/meet/secret.h"
#include "run/meet/store_message.h"

namespace heddle {

class StoreClient final : public MeetingStore {
 public:
  // Tries until somebody is there who knows the secret, for as long as `limit`. One who knows
  // another is an error at once. It also ends once `enough` is true.
  static Result<std::unique_ptr<StoreClient>> Connect(const MeetingPlace& place,
                                                      const Secret& secret, Milliseconds limit,
                                                      const std::atomic<bool>* enough = nullptr);
  // Over a socket that is connected.
  static Result<std::unique_ptr<StoreClient>> Over(Descriptor socket, const Secret& secret,
                                                   Milliseconds limit);

  Status Set(const std::string& key, const std::string& value) override;
  // Once it is there.
  Result<std::string> Get(const std::string& key, Milliseconds limit);
  Result<std::optional<std::string>> Look(const std::string& key) override;
  Result<std::string> CompareSet(const std::string& key, const std::string& expected,
                                 const std::string& value) override;
  Result<int64_t> Add(const std::string& key, int64_t number);
  Result<bool> Check(const std::vector<std::string>& keys);
  Result<bool> Wait(const std::vector<std::string>& keys, Milliseconds limit) override;
  Result<bool> Delete(const std::string& key);
  Result<int64_t> Count();
  Status SetWill(const std::string& key, const std::string& value) override;
  Status DropWill() override;

 private:
  StoreClient(Descriptor socket, const Secret& secret);
  Result<StoreReply> Ask(const StoreRequest& request, Milliseconds limit = kAnswerWithin);
  Status Meet(Milliseconds limit);
  Result<std::string> Exchange(std::chrono::steady_clock::time_point deadline);

  static constexpr Milliseconds kAnswerWithin{60'000};

  std::mutex mutex_;
  Descriptor socket_;
  SealedChannel channel_;
  bool broken_ = false;
};

}  // namespace heddle
