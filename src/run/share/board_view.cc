// What the board shows of its jobs.

#include <algorithm>

#include "run/share/board_lock.h"

namespace heddle {

JobState Board::state(int32_t j) const {
  const Lock lock(*this);
  return job(j).state;
}
std::string Board::why(int32_t j) const {
  const Lock lock(*this);
  return job(j).why.data();
}
std::string Board::name(int32_t j) const {
  const Lock lock(*this);
  return job(j).name.data();
}
int64_t Board::began(int32_t j) const {
  const Lock lock(*this);
  return job(j).began;
}
int64_t Board::ended(int32_t j) const {
  const Lock lock(*this);
  return job(j).ended;
}
int64_t Board::first_turn(int32_t j) const {
  const Lock lock(*this);
  return job(j).first_turn;
}
int32_t Board::owner(int32_t device) const {
  const Lock lock(*this);
  return device < m().devices ? token(device).owner : -1;
}
bool Board::has_left(int32_t j, int32_t rank) const {
  const Lock lock(*this);
  return job(j).rank[static_cast<size_t>(rank)].left;
}
int64_t Board::posted(int32_t j, int32_t rank) const {
  const Lock lock(*this);
  return job(j).rank[static_cast<size_t>(rank)].posted;
}
int32_t Board::CountRunning() const {
  const Lock lock(*this);
  return static_cast<int32_t>(
      std::count_if(m().job.begin(), m().job.begin() + m().jobs,
                    [](const JobRecord& r) { return r.state == JobState::kRunning; }));
}
int32_t Board::ranks(int32_t j) const {
  const Lock lock(*this);
  return job(j).ranks;
}
std::vector<pid_t> Board::pids(int32_t j) const {
  const Lock lock(*this);
  std::vector<pid_t> pids;
  for (int32_t rank = 0; rank < job(j).ranks; ++rank) {
    pids.push_back(job(j).rank[static_cast<size_t>(rank)].pid);
  }
  return pids;
}
int64_t Board::beats(int32_t j, int32_t rank) const {
  return job(j).rank[static_cast<size_t>(rank)].beats;
}

}  // namespace heddle
