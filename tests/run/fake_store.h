// FakeStore: what processes of a run tell each other, without sockets.
//
//   FakeStore store(clock);
//   PeerWatch watch({.store = store.Connect(), …});
//   connection->Break();          // its will comes true
//   store.Freeze();               // whoever asks from now on waits for ever
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "run/meet/meeting_store.h"
#include "run/meet/store_table.h"

namespace heddle {

class FakeStore {
 public:
  explicit FakeStore(Clock& clock) : clock_(clock) {}

  class Connection final : public MeetingStore {
   public:
    explicit Connection(FakeStore& store) : store_(store) {}

    Status Set(const std::string& key, const std::string& value) override {
      return Apply({.op = StoreOp::kSet, .keys = {key}, .value = value}).ok() ? Ok()
                                                                              : Status(Gone());
    }
    Result<std::optional<std::string>> Look(const std::string& key) override {
      HEDDLE_ASSIGN(const StoreReply reply, Apply({.op = StoreOp::kGet, .keys = {key}}));
      if (reply.answer == StoreAnswer::kNo) return std::optional<std::string>();
      return std::optional<std::string>(reply.value);
    }
    Result<std::string> CompareSet(const std::string& key, const std::string& expected,
                                   const std::string& value) override {
      HEDDLE_ASSIGN(
          const StoreReply reply,
          Apply({.op = StoreOp::kCompareSet, .keys = {key}, .value = value, .expected = expected}));
      return reply.value;
    }
    Result<bool> Wait(const std::vector<std::string>& keys, Milliseconds limit) override {
      constexpr Milliseconds kPause{10};
      const Clock::Time end = store_.clock_.Now() + limit;
      while (true) {
        HEDDLE_ASSIGN(const StoreReply reply, Apply({.op = StoreOp::kCheck, .keys = keys}));
        if (reply.answer == StoreAnswer::kDone) return true;
        if (store_.clock_.Now() >= end) return false;
        store_.clock_.SleepFor(kPause);
      }
    }
    Status SetWill(const std::string& key, const std::string& value) override {
      const std::lock_guard lock(store_.mutex_);
      will_ = {key, value};
      return Ok();
    }
    Status DropWill() override {
      const std::lock_guard lock(store_.mutex_);
      will_.reset();
      return Ok();
    }

    // As when its process is killed.
    void Break() {
      const std::lock_guard lock(store_.mutex_);
      broken_ = true;
      if (will_) store_.table_.SetIfAbsent(will_->first, will_->second);
      will_.reset();
    }

   private:
    static Error Gone() { return {ErrorKind::kRunFailed, "store", "is gone", ""}; }
    Result<StoreReply> Apply(const StoreRequest& request) {
      while (store_.IsFrozen()) store_.clock_.SleepFor(std::chrono::seconds(1));
      const std::lock_guard lock(store_.mutex_);
      if (broken_) return Gone();
      return *store_.table_.Apply(request);
    }

    FakeStore& store_;
    bool broken_ = false;
    std::optional<std::pair<std::string, std::string>> will_;
  };

  std::shared_ptr<Connection> Connect() { return std::make_shared<Connection>(*this); }
  void Freeze(bool frozen = true) {
    const std::lock_guard lock(mutex_);
    frozen_ = frozen;
  }

 private:
  bool IsFrozen() const {
    const std::lock_guard lock(mutex_);
    return frozen_;
  }

  Clock& clock_;
  mutable std::mutex mutex_;
  StoreTable table_;
  bool frozen_ = false;
};

}  // namespace heddle
