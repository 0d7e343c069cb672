// MeetingStore: what processes of a run tell each other beside their tensors: keys, values, and a
// will that comes true when a connection breaks. The real one goes over a socket (store_client.h);
// tests have one without.
//
//   HEDDLE_RETURN_IF_ERROR(store.Set("beat3", "17"));
//   HEDDLE_ASSIGN(const std::optional<std::string> beat, store.Look("beat3"));
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace heddle {

class MeetingStore {
 public:
  using Milliseconds = std::chrono::milliseconds;

  virtual ~MeetingStore() = default;
  virtual Status Set(const std::string& key, const std::string& value) = 0;
  // Nothing if it is not there now.
  virtual Result<std::optional<std::string>> Look(const std::string& key) = 0;
  virtual Result<std::string> CompareSet(const std::string& key, const std::string& expected,
                                         const std::string& value) = 0;
  // Until all are there. False: the time is over.
  virtual Result<bool> Wait(const std::vector<std::string>& keys, Milliseconds limit) = 0;
  // If this connection breaks, `key` becomes `value`, unless something else was before.
  virtual Status SetWill(const std::string& key, const std::string& value) = 0;
  virtual Status DropWill() = 0;
};

}  // namespace heddle
