// BufferNames: which storage the buffers of a device have, by name. A check looks up millions of
// names and forgets none, so that this is a list with a table of places in it, and no map of nodes.
//
//   BufferNames names;
//   names[key] = 3;
//   const size_t* storage = names.Find(key);      // null: there never was such a buffer
#pragma once

#include <cstdint>
#include <vector>

#include "program/unroll.h"

namespace heddle {

class BufferNames {
 public:
  static constexpr size_t kFreed = SIZE_MAX;  // what a name has that was freed, or is new
  struct Entry {
    BufferKey key;
    size_t storage = kFreed;
  };

  const size_t* Find(const BufferKey& key) const {
    if (table_.empty()) return nullptr;
    const uint32_t entry = table_[PlaceOf(key)];
    return entry == 0 ? nullptr : &entries_[entry - 1].storage;
  }
  size_t* Find(const BufferKey& key) {
    return const_cast<size_t*>(static_cast<const BufferNames*>(this)->Find(key));
  }

  size_t& operator[](const BufferKey& key) { return At(NumberOf(key)); }

  // A name's number stays what it is: for those who look at one several times.
  size_t NumberOf(const BufferKey& key) {
    if (2 * (entries_.size() + 1) > table_.size()) Grow();
    uint32_t& entry = table_[PlaceOf(key)];
    if (entry == 0) {
      entries_.push_back({key, kFreed});
      entry = static_cast<uint32_t>(entries_.size());
    }
    return entry - 1;
  }
  size_t& At(size_t number) { return entries_[number].storage; }

  const std::vector<Entry>& entries() const { return entries_; }  // in the order they came

 private:
  // Where the key is, or the free place where it would be.
  size_t PlaceOf(const BufferKey& key) const {
    const size_t mask = table_.size() - 1;
    size_t place = std::hash<BufferKey>()(key) & mask;
    while (table_[place] != 0 && !(entries_[table_[place] - 1].key == key)) {
      place = (place + 1) & mask;
    }
    return place;
  }

  void Grow() {
    constexpr size_t kFirst = 256;
    table_.assign(table_.empty() ? kFirst : 2 * table_.size(), 0);
    for (size_t k = 0; k < entries_.size(); ++k) {
      table_[PlaceOf(entries_[k].key)] = static_cast<uint32_t>(k + 1);
    }
  }

  std::vector<Entry> entries_;
  std::vector<uint32_t> table_;  // a power of two of places: entry + 1; 0: free
};

}  // namespace heddle
