#include "run/rank_attendance.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "run/departure.h"

namespace heddle {
namespace {

// For the store to be there when a rank wants to say why it leaves, and for the others to hear it
// from the first. Who starts later than that is told by nobody.
constexpr std::chrono::seconds kToTell{10}, kToCome{3};

// Until all others know, but for the one that left, and for those that do not come.
void AwaitHeard(MeetingStore& store, int32_t ranks) {
  const auto left = LookWhoLeft(store, ranks);
  const Clock::Time since = RealClock().Now();
  for (int32_t rank = 1; rank < ranks; ++rank) {
    if (left.ok() && left.value() && left.value()->rank == rank) continue;
    for (const auto& [key, limit] : {std::pair{HereKey(rank), kToCome}, {ToldKey(rank), kToTell}}) {
      const auto more =
          std::chrono::duration_cast<std::chrono::milliseconds>(since + limit - RealClock().Now());
      const auto came = store.Wait({key}, std::max(more, std::chrono::milliseconds(0)));
      if (!came.ok()) return;
      if (!came.value()) break;
    }
  }
}

}  // namespace

std::string HereKey(int32_t rank) { return fmt::format("here{}", rank); }
std::string ToldKey(int32_t rank) { return fmt::format("told{}", rank); }

Result<std::unique_ptr<RankAttendance>> RankAttendance::Begin(const LaunchedRank& launched,
                                                              const MeetingOptions& options) {
  HEDDLE_ASSIGN(RankMeeting meeting, RankMeeting::Open(launched, options));
  return std::unique_ptr<RankAttendance>(new RankAttendance(launched, std::move(meeting)));
}

RankAttendance::RankAttendance(const LaunchedRank& launched, RankMeeting meeting)
    : launched_(launched),
      meeting_(std::move(meeting)),
      store_(std::async(std::launch::async, [this] { return Come(); })) {}

RankAttendance::~RankAttendance() {
  gives_up_ = true;
  store_.wait();
}

Result<std::shared_ptr<StoreClient>> RankAttendance::Come() const {
  HEDDLE_ASSIGN(std::shared_ptr<StoreClient> store, meeting_.Connect(&gives_up_));
  HEDDLE_RETURN_IF_ERROR(store->SetWill(kLeft, PrintDeparture({launched_.rank})));
  HEDDLE_RETURN_IF_ERROR(store->Set(HereKey(launched_.rank), ""));
  return store;
}

void RankAttendance::Leave(const Error& error) const {
  if (has_met_ || launched_.ranks == 1) return;
  if (store_.wait_for(kToTell) != std::future_status::ready || !store_.get().ok()) return;
  StoreClient& store = *store_.get().value();
  // A store that is gone has nobody to tell it to.
  (void)store.CompareSet(kLeft, "", PrintDeparture({launched_.rank, error})).ok();
  if (launched_.rank == 0) {
    AwaitHeard(store, launched_.ranks);
  } else {
    (void)store.Set(ToldKey(launched_.rank), "").ok();
  }
}

}  // namespace heddle
