// RankAttendance: a rank that a launcher started is known to the others from its first moment, long
// before it has read its files and is ready to meet them. Should it end before, they hear of it at
// once: by what it says, or by its connection, which closes.
//
//   HEDDLE_ASSIGN(const auto attendance, RankAttendance::Begin(launched, options));   // first
//   …reads plan and data…                                  attendance->Leave(error);   // or
//   HEDDLE_ASSIGN(const auto store, attendance->Store());
//   …meets the others, and is watched by them…             attendance->HasMet();
#pragma once

#include <atomic>
#include <future>
#include <memory>
#include <string>

#include "base/result.h"
#include "run/launched_rank.h"
#include "run/rank_meeting.h"

namespace heddle {

class RankAttendance {
 public:
  // Comes to the meeting in the background: the first may be late.
  static Result<std::unique_ptr<RankAttendance>> Begin(const LaunchedRank& launched,
                                                       const MeetingOptions& options);
  ~RankAttendance();
  RankAttendance(const RankAttendance&) = delete;
  RankAttendance& operator=(const RankAttendance&) = delete;

  const LaunchedRank& launched() const { return launched_; }
  const RankMeeting& meeting() const { return meeting_; }

  // The connection whose end the others notice. Waits until it stands.
  Result<std::shared_ptr<StoreClient>> Store() const { return store_.get(); }

  // From now on somebody else tells the others when this rank leaves.
  void HasMet() { has_met_ = true; }
  // Tells them, unless they have met. The first stays until all have heard it, or some seconds.
  void Leave(const Error& error) const;

 private:
  RankAttendance(const LaunchedRank& launched, RankMeeting meeting);
  Result<std::shared_ptr<StoreClient>> Come() const;

  LaunchedRank launched_;
  RankMeeting meeting_;
  std::atomic<bool> gives_up_{false}, has_met_{false};
  std::shared_future<Result<std::shared_ptr<StoreClient>>> store_;  // last: it uses the rest
};

// A rank is there, though it may not be ready; and it knows why the run cannot begin.
std::string HereKey(int32_t rank);
std::string ToldKey(int32_t rank);

}  // namespace heddle
