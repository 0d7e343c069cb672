#include "plan/pipeline/stage_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

StageCosts::StageCosts(const LayerTable& table, std::shared_ptr<const DeviceLine> line,
                       int64_t microbatches, double memory_factor, int64_t all)
    : table_(table),
      line_(std::move(line)),
      microbatches_(microbatches),
      memory_factor_(memory_factor) {
  if (all == 0) all = microbatches * pipelines();
  rows_ = (table.planning().request.batch + all - 1) / all;
  const std::vector<int>& types = line_->types();
  alike_until_.assign(types.size(), devices());
  for (size_t k = types.size() - 1; k-- > 0;) {
    alike_until_[k] = types[k] == types[k + 1] ? alike_until_[k + 1] : static_cast<int>(k) + 1;
  }
  times_.assign(types.size() + 1, nullptr);
  for (size_t count = 1; count < times_.size(); ++count) {
    const auto divisor = static_cast<int64_t>(count);
    if (divisor <= rows_) times_[count] = &table_.TimesFor((rows_ + divisor - 1) / divisor);
  }
}

const StageCosts::Mixed& StageCosts::MembersOf(const DeviceRange& range) const {
  const int64_t key = int64_t{range.at} * (devices() + 1) + range.count;
  const auto [found, is_new] = members_.try_emplace(key);
  if (!is_new) return found->second;
  Mixed& mixed = found->second;
  std::map<int, int> counts;
  for (int k = range.at; k < range.end(); ++k) ++counts[TypeAt(k)];
  std::vector<double> seconds(table_.planning().cluster->types().size(), 0);
  double speed = 0, longest = 0;
  for (const auto& [type, count] : counts) {
    mixed.members.push_back({type, count});
    seconds[static_cast<size_t>(type)] = 1 / table_.SpeedOf(type);
    speed += count * table_.SpeedOf(type);
  }
  const std::vector<int64_t> rows = WholeRows(range, seconds);
  for (int k = 0; k < range.count; ++k) {
    longest = std::max(longest, static_cast<double>(rows[static_cast<size_t>(k)]) /
                                    table_.SpeedOf(TypeAt(range.at + k)));
  }
  mixed.uneven = longest * speed / static_cast<double>(rows_);
  return mixed;
}

// As many as would be done at the same time, rounded down; each of the rest to whoever has it done
// first. `seconds_by_type` of a sample.
std::vector<int64_t> StageCosts::WholeRows(const DeviceRange& range,
                                           const std::vector<double>& seconds_by_type) const {
  std::vector<double> seconds;
  double rate = 0;
  for (int k = range.at; k < range.end(); ++k) {
    seconds.push_back(seconds_by_type[static_cast<size_t>(TypeAt(k))]);
    rate += 1 / seconds.back();
  }
  std::vector<int64_t> rows;
  int64_t given = 0;
  for (const double each : seconds) {
    rows.push_back(static_cast<int64_t>(static_cast<double>(rows_) / (rate * each) + 1e-9));
    given += rows.back();
  }
  for (; given < rows_; ++given) {
    size_t first = 0;
    const auto end = [&](size_t k) { return static_cast<double>(rows[k] + 1) * seconds[k]; };
    for (size_t k = 1; k < rows.size(); ++k) {
      if (end(k) < end(first) * (1 - 1e-12)) first = k;
    }
    ++rows[first];
  }
  return rows;
}

// Of a microbatch, for one member: seconds are levelled, at what a sample costs when all have the
// same number.
double StageCosts::MemberRows(const std::vector<Members>& members, const Members& member, int first,
                              int end) const {
  int count = 0;
  for (const Members& other : members) count += other.count;
  const LayerTable::Times& times = *times_[static_cast<size_t>(count)];
  double rate = 0;
  for (const Members& other : members) {
    rate += other.count / times.Of(other.type, first, end).whole();
  }
  return static_cast<double>(rows_) / (rate * times.Of(member.type, first, end).whole());
}

bool StageCosts::Fits(const LayerTable::Memory& memory, int type, double rows, int depth,
                      bool recompute) const {
  const auto in_flight = static_cast<double>(std::min<int64_t>(microbatches_, depth));
  const auto capacity = static_cast<double>(
      table_.planning().cluster->types()[static_cast<size_t>(type)].memory.value);
  return memory_factor_ * memory.Peak(rows, in_flight, recompute) <= capacity;
}

StageCosts::Stage StageCosts::StageOf(int first, int end, const DeviceRange& range,
                                      int depth) const {
  if (times_[static_cast<size_t>(range.count)] == nullptr) return {kInfinity, false};
  return StageOf(first, end, range, depth, WorkOf(first, end, range));
}

StageCosts::Stage StageCosts::StageOf(int first, int end, const DeviceRange& range, int depth,
                                      const LayerTable::Work& work) const {
  const LayerTable::Memory memory = table_.MemoryOf(first, end);
  bool recompute = false;
  const auto fits = [&](int type, double rows) {
    recompute |= !Fits(memory, type, rows, depth, false);
    return !recompute || Fits(memory, type, rows, depth, true);
  };
  if (AllAlike(range)) {
    const double rows = std::ceil(static_cast<double>(rows_) / range.count);
    if (!fits(TypeAt(range.at), rows)) return {kInfinity, false};
  } else {
    const std::vector<Members>& members = MembersOf(range).members;
    for (const Members& member : members) {
      const double rows = std::ceil(MemberRows(members, member, first, end));
      if (!fits(member.type, rows)) return {kInfinity, false};
    }
  }
  return {work.whole() + (recompute ? work.forward : 0), recompute};
}

LayerTable::Work StageCosts::WorkOf(int first, int end, const DeviceRange& range) const {
  const LayerTable::Times& times = *times_[static_cast<size_t>(range.count)];
  if (AllAlike(range)) return times.Of(TypeAt(range.at), first, end);
  const Mixed& mixed = MembersOf(range);
  const Members& first_members = mixed.members[0];
  const LayerTable::Work work = times.Of(first_members.type, first, end);
  const double equal = std::ceil(static_cast<double>(rows_) / range.count);
  const double part = mixed.uneven * MemberRows(mixed.members, first_members, first, end) / equal;
  return {work.forward * part, work.input * part, work.weight * part};
}

std::vector<int64_t> StageCosts::RowsOf(int first, int end, const DeviceRange& range) const {
  std::vector<double> seconds(table_.planning().cluster->types().size(), 1);
  if (!AllAlike(range)) {
    const LayerTable::Times& times = *times_[static_cast<size_t>(range.count)];
    for (size_t type = 0; type < seconds.size(); ++type) {
      seconds[type] = times.Of(static_cast<int>(type), first, end).whole();
    }
  }
  return WholeRows(range, seconds);
}

LayerTable::Work StageCosts::WholeRowsWork(int first, int end, const DeviceRange& range) const {
  if (AllAlike(range)) return WorkOf(first, end, range);
  const std::vector<int64_t> rows = RowsOf(first, end, range);
  LayerTable::Work slowest;
  std::set<std::pair<int, int64_t>> seen;
  for (int k = 0; k < range.count; ++k) {
    const int64_t mine = rows[static_cast<size_t>(k)];
    const int type = TypeAt(range.at + k);
    if (mine == 0 || !seen.emplace(type, mine).second) continue;
    const LayerTable::Work work = table_.TimesFor(mine).Of(type, first, end);
    if (work.whole() > slowest.whole()) slowest = work;
  }
  return slowest;
}

double StageCosts::ForwardSeconds(const Channel& channel, int end) const {
  return channel.latency +
         channel.forward_per_byte * static_cast<double>(rows_) * table_.ForwardBytes(end);
}

double StageCosts::BackwardSeconds(const Channel& channel, int end) const {
  return channel.latency +
         channel.backward_per_byte * static_cast<double>(rows_) * table_.BackwardBytes(end);
}

double StageCosts::ChannelSeconds(const Channel& channel, int end) const {
  const double forward = ForwardSeconds(channel, end), backward = BackwardSeconds(channel, end);
  return channel.half_duplex ? forward + backward : std::max(forward, backward);
}

}  // namespace heddle
