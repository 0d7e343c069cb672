#include "report/perfetto.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_field.h"
#include "base/json_text.h"

namespace heddle {
namespace {

constexpr std::array<std::string_view, kEventKindCount> kKindNames = {
    "forward", "backward", "weight gradients", "update", "other", "transfer", "collective"};
constexpr size_t kBytesPerEvent = 160;  // about what one takes

int64_t Nanoseconds(Seconds time) { return std::llround(time.value * 1e9); }

// Quoted and escaped; what is not UTF-8 is replaced.
std::string Quoted(const std::string& text) { return JsonText(Json(text)); }

// The inside of a quoted text, to be continued.
std::string Escaped(const std::string& text) {
  const std::string quoted = Quoted(text);
  return quoted.substr(1, quoted.size() - 2);
}

// Spreads intervals, given in order of their start, over tracks without overlap. Takes the first
// track that is free, so that a lane without overlap has one.
class TrackFinder {
 public:
  int TrackFor(int64_t start, int64_t end) {
    for (; !busy_.empty() && busy_.top().first <= start; busy_.pop()) {
      free_.push(busy_.top().second);
    }
    int track = count_;
    if (free_.empty()) {
      ++count_;
    } else {
      track = free_.top();
      free_.pop();
    }
    busy_.emplace(end, track);
    return track;
  }
  int count() const { return count_; }

 private:
  using Busy = std::pair<int64_t, int>;  // until when, which
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy_;
  std::priority_queue<int, std::vector<int>, std::greater<>> free_;
  int count_ = 0;
};

class TraceWriter {
 public:
  explicit TraceWriter(const Timeline& timeline) : timeline_(timeline) {
    for (const Lane& lane : timeline.lanes) {
      const auto next = static_cast<int>(pids_.size()) + 1;
      lane_pids_.push_back(pids_.try_emplace(lane.device, next).first->second);
    }
    for (const std::string& label : timeline.labels) labels_.push_back(Escaped(label));
  }

  std::string Write() {
    FindThreads();
    out_.reserve(timeline_.events.size() * kBytesPerEvent + timeline_.lanes.size() * 256 + 256);
    Append("{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"source\":{}}},\"traceEvents\":[",
           Quoted(timeline_.source));
    WriteNames();
    for (size_t e = 0; e < timeline_.events.size(); ++e) {
      WriteEvent(timeline_.events[e], tracks_[e]);
    }
    out_ += "\n]}\n";
    return std::move(out_);
  }

 private:
  template <class... Args>
  void Append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  // Threads are numbered over all processes: some viewers know them by this number alone.
  void FindThreads() {
    std::vector<TrackFinder> finders(timeline_.lanes.size());
    tracks_.reserve(timeline_.events.size());
    for (const TimelineEvent& event : timeline_.events) {
      TrackFinder& finder = finders[static_cast<size_t>(event.lane)];
      tracks_.push_back(finder.TrackFor(Nanoseconds(event.start), Nanoseconds(event.end)));
    }
    int next = 1;
    for (const TrackFinder& finder : finders) {
      first_thread_.push_back(next);
      next += std::max(1, finder.count());
    }
    first_thread_.push_back(next);
  }

  void WriteMetadata(std::string_view name, int pid, int tid, std::string_view args) {
    out_ += any_ ? ",\n" : "\n";
    any_ = true;
    Append(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{{}}}}})", name, pid, tid, args);
  }

  void WriteNames() {
    std::vector<std::string> devices(pids_.size());
    for (const auto& [device, pid] : pids_) devices[static_cast<size_t>(pid) - 1] = device;
    for (size_t d = 0; d < devices.size(); ++d) {
      const int pid = static_cast<int>(d) + 1;
      WriteMetadata("process_name", pid, 0, "\"name\":" + Quoted(devices[d]));
      WriteMetadata("process_sort_index", pid, 0, fmt::format("\"sort_index\":{}", pid));
    }
    for (size_t l = 0; l < timeline_.lanes.size(); ++l) {
      const Lane& lane = timeline_.lanes[l];
      for (int tid = first_thread_[l]; tid < first_thread_[l + 1]; ++tid) {
        const int track = tid - first_thread_[l];
        const std::string name =
            track == 0 ? lane.name : fmt::format("{} {}", lane.name, track + 1);
        const int pid = lane_pids_[l];
        WriteMetadata("thread_name", pid, tid, "\"name\":" + Quoted(name));
        WriteMetadata("thread_sort_index", pid, tid, fmt::format("\"sort_index\":{}", tid));
      }
    }
  }

  void WriteMicroseconds(int64_t nanoseconds) {
    const int64_t magnitude = std::abs(nanoseconds);
    Append("{}{}.{:03}", nanoseconds < 0 ? "-" : "", magnitude / 1000, magnitude % 1000);
  }

  void WriteEvent(const TimelineEvent& event, int track) {
    const auto lane = static_cast<size_t>(event.lane);
    const int64_t start = Nanoseconds(event.start);
    out_ += any_ ? ",\n" : "\n";
    any_ = true;
    out_ += R"({"ph":"X","name":")";
    out_ += labels_[static_cast<size_t>(event.label)];
    if (event.microbatch >= 0) Append(" {}", event.microbatch);
    Append(R"(","cat":"{}","pid":{},"tid":{},"ts":)", kKindNames[static_cast<size_t>(event.kind)],
           lane_pids_[lane], first_thread_[lane] + track);
    WriteMicroseconds(start);
    out_ += R"(,"dur":)";
    WriteMicroseconds(Nanoseconds(event.end) - start);
    out_ += R"(,"args":{)";
    if (event.microbatch >= 0) Append(R"("microbatch":{},)", event.microbatch);
    Append(R"("repetition":{}}}}})", event.repetition);
  }

  const Timeline& timeline_;
  std::map<std::string, int> pids_;  // by device
  std::vector<int> lane_pids_;       // by lane
  std::vector<std::string> labels_;  // escaped
  std::vector<int> first_thread_;    // by lane, and the end
  std::vector<int> tracks_;          // by event: which of its lane's threads
  bool any_ = false;
  std::string out_;
};

}  // namespace

std::string PerfettoJson(const Timeline& timeline) { return TraceWriter(timeline).Write(); }

}  // namespace heddle
