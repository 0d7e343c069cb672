// StoreTable: the keys and values of a store, and what requests do to them. It knows no sockets and
// no time.
//
//   StoreTable table;
//   table.Apply({.op = StoreOp::kAdd, .keys = {"n"}, .number = 3})   ->  kDone, 3
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>

#include "run/meet/store_message.h"

namespace heddle {

class StoreTable {
 public:
  // Nothing while a kWait has to wait. REQUIRES: not kWill, which is about connections.
  std::optional<StoreReply> Apply(const StoreRequest& request);
  void SetIfAbsent(const std::string& key, const std::string& value);

  size_t size() const { return values_.size(); }
  size_t bytes() const { return bytes_; }

 private:
  bool Holds(const std::string& key) const { return values_.contains(key); }
  bool HoldsAll(const StoreRequest& request) const;
  StoreReply Set(const std::string& key, const std::string& value);
  StoreReply Add(const std::string& key, int64_t number);
  StoreReply CompareSet(const StoreRequest& request);
  bool Delete(const std::string& key);

  std::unordered_map<std::string, std::string> values_;
  size_t bytes_ = 0;
};

}  // namespace heddle
