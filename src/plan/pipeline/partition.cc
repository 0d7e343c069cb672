#include "plan/pipeline/partition.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>

namespace heddle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One way to build a suffix.
struct Point {
  double bottleneck;
  double all_reduce;
  int32_t next;   // point of the suffix without the first stage; -1: there is none
  int32_t range;  // of the first stage
  int32_t first;  // block
};

// Points of which none is worse than another in both; best bottleneck first.
class Front {
 public:
  explicit Front(double tolerance = 0) : tolerance_(tolerance) {}
  void Clear() { points_.clear(); }
  const std::vector<Point>& points() const { return points_; }

  bool Takes(double bottleneck, double all_reduce) const {
    for (const Point& p : points_) {
      if (p.bottleneck > bottleneck) break;
      if (p.all_reduce <= all_reduce + tolerance_) return false;
    }
    return true;
  }
  void Add(const Point& point) {
    if (!Takes(point.bottleneck, point.all_reduce)) return;
    std::erase_if(points_, [&](const Point& p) {
      return p.bottleneck >= point.bottleneck && p.all_reduce >= point.all_reduce;
    });
    const auto place = std::find_if(points_.begin(), points_.end(), [&](const Point& p) {
      return p.bottleneck > point.bottleneck;
    });
    points_.insert(place, point);
  }

 private:
  double tolerance_;
  std::vector<Point> points_;
};

// Where blocks of layers may begin, and the end of the last.
std::vector<int> ChooseCuts(const StageCosts& costs, int most) {
  const int layers = costs.layers();
  std::vector<int> cuts = {0};
  if (most == 0 || layers <= most) {
    for (int l = 1; l <= layers; ++l) cuts.push_back(l);
    return cuts;
  }
  const LayerTable& table = costs.table();
  const LayerTable::Times& times = table.TimesFor(costs.rows());
  const double all = times.Of(0, 0, layers).whole();
  int chosen = -1, stretch = 0;
  const auto bytes = [&](int l) { return table.ForwardBytes(l) + table.BackwardBytes(l); };
  for (int l = 1; l < layers; ++l) {
    const int here = static_cast<int>(times.Of(0, 0, l).whole() / all * most);
    if (here != stretch && chosen > 0) {
      cuts.push_back(chosen);
      chosen = -1;
    }
    stretch = here;
    if (chosen < 0 || bytes(l) < bytes(chosen)) chosen = l;
  }
  if (chosen > 0) cuts.push_back(chosen);
  cuts.push_back(layers);
  return cuts;
}

class Search {
 public:
  Search(const StageCosts& costs, const PartitionOptions& options)
      : costs_(costs), options_(options), cuts_(ChooseCuts(costs, options.most_cuts)) {
    blocks_ = static_cast<int>(cuts_.size()) - 1;
    MakeRanges();
    SumFractions();
    FindWays();
  }

  std::vector<std::vector<Partition>> Run() {
    std::vector<std::vector<Partition>> found;
    const int most = std::min({options_.most_stages, blocks_, costs_.devices()});
    for (int depth = 1; depth <= most; ++depth) {
      std::vector<Slice> level(ranges_.size() * static_cast<size_t>(blocks_));
      const size_t before = pool_.size();
      FillLevel(depth, level);
      found.push_back(Collect(level));
      if (pool_.size() == before) break;  // deeper ones would need these
      previous_ = std::move(level);
    }
    return found;
  }

 private:
  struct Slice {
    int32_t first = 0;
    int32_t count = 0;
  };

  // From the first to the last, both included; none: the last is before the first.
  struct Blocks {
    int first = std::numeric_limits<int>::max();
    int last = -1;
    void Add(int block) {
      first = std::min(first, block);
      last = std::max(last, block);
    }
  };

  static size_t Index(int block) { return static_cast<size_t>(block); }

  bool Allowed(int at, int count) const {
    const int node = options_.node;
    if (node == 1) return true;
    if (count % node == 0) return at % node == 0;
    if (!options_.equal_parts) return count < node && at / node == (at + count - 1) / node;
    return node % count == 0 && at % count == 0;
  }

  void MakeRanges() {
    const int devices = costs_.devices();
    std::vector<int> counts = options_.counts;
    if (counts.empty()) {
      for (int count = 1; count <= devices; ++count) counts.push_back(count);
    }
    by_start_.resize(static_cast<size_t>(devices) + 1);
    for (int at = 0; at < devices; ++at) {
      for (const int count : counts) {
        if (at + count > devices || count > costs_.rows() || !Allowed(at, count)) continue;
        by_start_[static_cast<size_t>(at)].push_back(static_cast<int32_t>(ranges_.size()));
        ranges_.push_back({at, count});
        all_reduces_.push_back(costs_.AllReduceOver(ranges_.back()));
      }
    }
    channels_.resize(ranges_.size());
  }

  // Fractions of the model in blocks 0..l-1, each on the type that is relatively best at it.
  void SumFractions() {
    const Planning& planning = costs_.table().planning();
    const LayerTable::Times& times = costs_.table().TimesFor(planning.request.batch);
    fractions_.assign(static_cast<size_t>(blocks_) + 1, 0);
    for (int l = 0; l < blocks_; ++l) {
      double least = kInfinity;
      for (int type = 0; type < static_cast<int>(planning.cluster->types().size()); ++type) {
        least = std::min(least, times.Of(type, cuts_[Index(l)], cuts_[Index(l + 1)]).whole() /
                                    times.Of(type, 0, costs_.layers()).whole());
      }
      fractions_[static_cast<size_t>(l) + 1] = fractions_[static_cast<size_t>(l)] + least;
    }
  }

  // What the layers before, on the devices before, make of the bottleneck at least: a sample never
  // costs less than as one of the whole batch.
  double LeastBefore(int first, int at) const {
    if (first == 0) return 0;
    if (at == 0) return kInfinity;
    return fractions_[static_cast<size_t>(first)] * static_cast<double>(costs_.rows()) /
           costs_.speed_before(at);
  }

  // What one microbatch's way through `depth` stages takes at least: no stage has more than the
  // fastest devices that the others leave.
  void FindWays() {
    std::vector<double> speeds;
    for (int at = 0; at < costs_.devices(); ++at) {
      speeds.push_back(costs_.speed_before(at + 1) - costs_.speed_before(at));
    }
    std::sort(speeds.begin(), speeds.end(), std::greater<>());
    const double work = fractions_.back() * static_cast<double>(costs_.rows());
    least_way_.assign(speeds.size() + 1, 0);
    double speed = 0;
    for (size_t k = 0; k < speeds.size(); ++k) {
      speed += speeds[k];
      least_way_[speeds.size() - k] = work / speed;
    }
  }

  // Whether a pipeline of at least this many stages can be within the limit. An all-reduce may hide
  // behind the last microbatch.
  bool Wanted(double bottleneck, int depth, double all_reduce = 0) const {
    if (depth > costs_.devices()) return false;
    const auto others = static_cast<double>(costs_.microbatches() - 1);
    const double way = std::max(bottleneck, least_way_[Index(depth)]);
    return others * bottleneck + std::max(way, all_reduce) <= options_.limit;
  }

  // By place: the last block that a stage there may begin with. With more before it, it is worse.
  std::vector<int> LastFirsts(int depth) const {
    std::vector<int> lasts;
    for (int at = 0; at < costs_.devices(); ++at) {
      int first = blocks_ - depth;
      while (first >= 0 && !Wanted(LeastBefore(first, at), depth + (first > 0 ? 1 : 0))) --first;
      lasts.push_back(first);
    }
    return lasts;
  }

  void FillLevel(int depth, std::vector<Slice>& level) {
    const double tolerance = options_.limit < 1e200 ? options_.tolerance * options_.limit : 0;
    std::vector<Front> after(static_cast<size_t>(blocks_) + 1, Front(tolerance));
    Front front(tolerance);
    std::vector<Blocks> used(ranges_.size());
    const std::vector<int> last_firsts = LastFirsts(depth);
    const Deadline& deadline = costs_.table().planning().deadline;
    for (size_t r = 0; r < ranges_.size() && !deadline.passed(); ++r) {
      const DeviceRange& range = ranges_[r];
      const Blocks ends = depth > 1 ? JoinSuffixes(r, depth, after) : Blocks{blocks_, blocks_};
      const int last_first = std::min(last_firsts[Index(range.at)], ends.last - 1);
      for (int first = last_first; first >= 0; --first) {
        front.Clear();
        if (depth == 1) {
          AddLastStage(first, r, front);
        } else {
          for (int end = std::max(first + 1, ends.first); end <= ends.last; ++end) {
            // Longer runs are only slower.
            if (!AddStages(first, end, r, depth, after[static_cast<size_t>(end)], front)) break;
          }
        }
        if (front.points().empty()) continue;
        used[r].Add(first);
        level[r * static_cast<size_t>(blocks_) + static_cast<size_t>(first)] = {
            static_cast<int32_t>(pool_.size()), static_cast<int32_t>(front.points().size())};
        pool_.insert(pool_.end(), front.points().begin(), front.points().end());
      }
    }
    used_ = std::move(used);
  }

  // after[l]: the best of all suffixes that begin at layer l behind the range, channel included.
  // Between which l there are any.
  Blocks JoinSuffixes(size_t r, int depth, std::vector<Front>& after) {
    for (Front& front : after) front.Clear();
    Blocks found;
    const DeviceRange& range = ranges_[r];
    std::vector<StageCosts::Channel>& channels = ChannelsOf(r);
    size_t number = 0;
    for (int skipped = 0; skipped <= options_.most_skipped; ++skipped) {
      const int at = range.end() + skipped;
      if (at >= costs_.devices()) break;
      for (const int32_t next : by_start_[static_cast<size_t>(at)]) {
        const StageCosts::Channel& channel = channels[number++];
        const size_t base = static_cast<size_t>(next) * static_cast<size_t>(blocks_);
        const Blocks& used = used_[static_cast<size_t>(next)];
        for (int l = std::max(1, used.first); l <= used.last; ++l) {
          const Slice& slice = previous_[base + static_cast<size_t>(l)];
          if (slice.count == 0) continue;
          const double seconds = costs_.ChannelSeconds(channel, cuts_[Index(l)]);
          if (!Wanted(seconds, depth)) continue;
          found.Add(l);
          for (int32_t k = 0; k < slice.count; ++k) {
            const Point& p = pool_[static_cast<size_t>(slice.first + k)];
            after[static_cast<size_t>(l)].Add(
                {std::max(p.bottleneck, seconds), p.all_reduce, slice.first + k, next, l});
          }
        }
      }
    }
    return found;
  }

  std::vector<StageCosts::Channel>& ChannelsOf(size_t r) {
    std::vector<StageCosts::Channel>& channels = channels_[r];
    if (!channels.empty()) return channels;
    const DeviceRange& range = ranges_[r];
    for (int skipped = 0; skipped <= options_.most_skipped; ++skipped) {
      const int at = range.end() + skipped;
      if (at >= costs_.devices()) break;
      for (const int32_t next : by_start_[static_cast<size_t>(at)]) {
        channels.push_back(costs_.ChannelBetween(range, ranges_[static_cast<size_t>(next)]));
      }
    }
    return channels;
  }

  // False when the stage alone is too slow.
  bool AddStages(int first, int end, size_t r, int depth, const Front& after, Front& front) {
    if (after.points().empty()) return true;
    const int layer = cuts_[Index(first)], layer_end = cuts_[Index(end)];
    // Without a look at memory first, which can only make it slower.
    const LayerTable::Work work = costs_.WorkOf(layer, layer_end, ranges_[r]);
    if (!Wanted(work.whole(), depth)) return false;
    const double sum = costs_.AllReduceSeconds(all_reduces_[r], layer, layer_end);
    const Point &fastest = after.points().front(), &least = after.points().back();
    const bool may_add =
        front.Takes(std::max(work.whole(), fastest.bottleneck), std::max(sum, least.all_reduce));
    if (!may_add) return true;
    const StageCosts::Stage stage = costs_.StageOf(layer, layer_end, ranges_[r], depth, work);
    if (!Wanted(stage.seconds, depth)) return false;
    for (const Point& p : after.points()) {
      const double bottleneck = std::max(stage.seconds, p.bottleneck);
      const double all_reduce = std::max(sum, p.all_reduce);
      if (!Wanted(bottleneck, depth, all_reduce)) continue;
      front.Add({bottleneck, all_reduce, p.next, static_cast<int32_t>(r), first});
    }
    return true;
  }

  void AddLastStage(int first, size_t r, Front& front) {
    const StageCosts::Stage stage =
        costs_.StageOf(cuts_[Index(first)], costs_.layers(), ranges_[r], 1);
    const double all_reduce =
        costs_.AllReduceSeconds(all_reduces_[r], cuts_[Index(first)], costs_.layers());
    if (!Wanted(stage.seconds, 1, all_reduce)) return;
    front.Add({stage.seconds, all_reduce, -1, static_cast<int32_t>(r), first});
  }

  std::vector<Partition> Collect(const std::vector<Slice>& level) const {
    Front best;
    for (size_t r = 0; r < ranges_.size(); ++r) {
      const Slice& slice = level[r * static_cast<size_t>(blocks_)];
      for (int32_t k = 0; k < slice.count; ++k) {
        Point whole = pool_[static_cast<size_t>(slice.first + k)];
        whole.next = slice.first + k;
        best.Add(whole);
      }
    }
    std::vector<Partition> partitions;
    for (const Point& point : best.points()) partitions.push_back(Unfold(point.next));
    return partitions;
  }

  Partition Unfold(int32_t start) const {
    Partition partition;
    partition.bottleneck = pool_[static_cast<size_t>(start)].bottleneck;
    partition.all_reduce = pool_[static_cast<size_t>(start)].all_reduce;
    for (int32_t at = start; at >= 0; at = pool_[static_cast<size_t>(at)].next) {
      const Point& point = pool_[static_cast<size_t>(at)];
      const int end = point.next < 0 ? blocks_ : pool_[static_cast<size_t>(point.next)].first;
      partition.stages.push_back({cuts_[Index(point.first)], cuts_[Index(end)],
                                  ranges_[static_cast<size_t>(point.range)], false});
    }
    for (size_t s = 0; s < partition.stages.size(); ++s) {
      PartitionStage& stage = partition.stages[s];
      const int depth = static_cast<int>(partition.stages.size() - s);
      stage.recompute = costs_.StageOf(stage.first, stage.end, stage.devices, depth).recompute;
    }
    return partition;
  }

  const StageCosts& costs_;
  const PartitionOptions& options_;
  const std::vector<int> cuts_;  // where blocks of layers begin, and the end
  int blocks_ = 0;
  std::vector<double> fractions_;
  std::vector<double> least_way_;  // by number of stages
  std::vector<DeviceRange> ranges_;
  std::vector<StageCosts::Line> all_reduces_;
  std::vector<std::vector<int32_t>> by_start_;              // ranges that begin at a device
  std::vector<std::vector<StageCosts::Channel>> channels_;  // by range: to those that may follow
  std::vector<Point> pool_;
  std::vector<Slice> previous_;  // of the level before, by range and first layer
  std::vector<Blocks> used_;     // of the level before, by range: where its slices lie
};

}  // namespace

std::vector<std::vector<Partition>> FindPartitions(const StageCosts& costs,
                                                   const PartitionOptions& options) {
  return Search(costs, options).Run();
}

}  // namespace heddle
