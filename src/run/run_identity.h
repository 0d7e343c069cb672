// RunIdentity: all that must be the same for the processes of a run, so that what they train is one
// thing: version, plan, every option that changes the result, data, the checkpoint they go on from.
//
//   HEDDLE_ASSIGN(const RunIdentity mine, IdentityOf(config, HashOf(plan), DType::kF32));
//   HEDDLE_RETURN_IF_ERROR(AgreeOnIdentity(*store, rank, ranks, mine, name, limit));
//
// Paths are not compared, but what lies there.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"
#include "run/meet/store_client.h"
#include "run/run_config.h"

namespace heddle {

struct RunIdentity {
  // What it is called for people, as in "--rate", and its value.
  std::vector<std::pair<std::string, std::string>> parts;

  bool operator==(const RunIdentity&) const = default;
};

// Reads the description of the checkpoint, if there is one to go on from.
Result<RunIdentity> IdentityOf(const RunConfig& config, const std::string& plan_hash, DType dtype);

std::string PrintIdentity(const RunIdentity& identity);
std::optional<RunIdentity> ParseIdentity(std::string_view text);

// "--rate is 0.5, but 0.1 at device 0 (a:0)"; nothing if they are the same.
std::optional<std::string> Difference(const RunIdentity& first, const RunIdentity& other,
                                      const std::string& first_name);

// All ranks call it. The first compares, and tells the others; who has not come within `limit` is
// named, and who has left before (departure.h) at once. `name` gives a rank's, as in "device 2
// (b:0)".
Status AgreeOnIdentity(StoreClient& store, int32_t rank, int32_t ranks, const RunIdentity& mine,
                       const std::function<std::string(int32_t rank)>& name,
                       std::chrono::milliseconds limit);

}  // namespace heddle
