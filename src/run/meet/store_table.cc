#include "run/meet/store_table.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace heddle {

bool StoreTable::HoldsAll(const StoreRequest& request) const {
  return std::all_of(request.keys.begin(), request.keys.end(),
                     [&](const std::string& key) { return Holds(key); });
}

StoreReply StoreTable::Set(const std::string& key, const std::string& value) {
  const auto found = values_.find(key);
  const size_t before = found == values_.end() ? 0 : key.size() + found->second.size();
  const size_t after = key.size() + value.size();
  if (found == values_.end() && values_.size() >= StoreLimits::kKeys) {
    return {StoreAnswer::kRefused, "the store has too many keys"};
  }
  if (bytes_ - before + after > StoreLimits::kStoreBytes) {
    return {StoreAnswer::kRefused, "the store is full"};
  }
  bytes_ = bytes_ - before + after;
  values_[key] = value;
  return {};
}

void StoreTable::SetIfAbsent(const std::string& key, const std::string& value) {
  if (!Holds(key)) Set(key, value);
}

StoreReply StoreTable::Add(const std::string& key, int64_t number) {
  int64_t sum = 0;
  if (const auto found = values_.find(key); found != values_.end()) {
    const std::optional<int64_t> before = ParseInteger(found->second);
    if (!before) return {StoreAnswer::kRefused, key + " is no number"};
    sum = *before;
  }
  if (__builtin_add_overflow(sum, number, &sum)) {
    return {StoreAnswer::kRefused, key + " would be too large"};
  }
  StoreReply reply = Set(key, std::to_string(sum));
  reply.number = sum;
  return reply;
}

StoreReply StoreTable::CompareSet(const StoreRequest& request) {
  const std::string& key = request.keys[0];
  const auto found = values_.find(key);
  const bool as_expected =
      found == values_.end() ? request.expected.empty() : found->second == request.expected;
  if (as_expected) {
    StoreReply reply = Set(key, request.value);
    if (reply.answer != StoreAnswer::kRefused) reply.value = request.value;
    return reply;
  }
  return {StoreAnswer::kDone, found == values_.end() ? request.expected : found->second};
}

bool StoreTable::Delete(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= key.size() + found->second.size();
  values_.erase(found);
  return true;
}

std::optional<StoreReply> StoreTable::Apply(const StoreRequest& request) {
  const auto yes = [](bool it_is) {
    return StoreReply{it_is ? StoreAnswer::kDone : StoreAnswer::kNo, ""};
  };
  switch (request.op) {
    case StoreOp::kSet:
      return Set(request.keys[0], request.value);
    case StoreOp::kCompareSet:
      return CompareSet(request);
    case StoreOp::kGet: {
      const auto found = values_.find(request.keys[0]);
      if (found == values_.end()) return yes(false);
      return StoreReply{StoreAnswer::kDone, found->second};
    }
    case StoreOp::kAdd:
      return Add(request.keys[0], request.number);
    case StoreOp::kCheck:
      return yes(HoldsAll(request));
    case StoreOp::kWait:
      if (!HoldsAll(request)) return std::nullopt;
      return yes(true);
    case StoreOp::kDelete:
      return yes(Delete(request.keys[0]));
    case StoreOp::kCount:
      return StoreReply{StoreAnswer::kDone, "", static_cast<int64_t>(values_.size())};
    case StoreOp::kWill:
      break;
  }
  HEDDLE_CHECK(false);
}

}  // namespace heddle
