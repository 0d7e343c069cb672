#include "run/peer_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <optional>
#include <thread>
#include <vector>

#include "base/nap.h"
#include "run/attended_clock.h"
#include "run/departure.h"
#include "run/heartbeat.h"
#include "run/vigil.h"

namespace heddle {
namespace {

constexpr std::chrono::milliseconds kPause{250}, kPauseOfTheDone{10};
constexpr std::chrono::seconds kVerdictTime{3};
constexpr const char* kVerdict = "verdict";

// Of this rank's process.
struct Ended {};

std::string BeatOf(int32_t rank) { return fmt::format("beat{}", rank); }

}  // namespace

void EndProcess(const std::string& message, int code) {
  std::fputs(message.c_str(), stderr);
  std::fflush(nullptr);
  _exit(code);
}

class PeerWatch::Impl {
 public:
  explicit Impl(PeerWatchOptions options)
      : options_(std::move(options)),
        clock_(*options_.clock),
        attended_(clock_.Now(), options_.silence),
        until_done_(clock_),
        until_ended_(clock_) {
    for (int32_t rank = 0; rank < options_.ranks; ++rank) {
      vigils_.emplace_back(options_.silence, options_.patience, clock_.Now());
    }
    signs_.resize(static_cast<size_t>(options_.ranks), {0, WorkerProgress().packed(), 0});
    talker_ = clock_.Start([this] {
      UntilEnded([this] { Talk(); });
      until_ended_.End();  // who does not ask need not be guarded
    });
    guard_ = clock_.Start([this] { UntilEnded([this] { Guard(); }); });
  }

  ~Impl() {
    until_done_.End();
    talker_.join();
    until_ended_.End();
    guard_.join();
  }

  void Leave(const Error& error) {
    if (options_.rank == 0 && error.kind == ErrorKind::kRunFailed) {
      // Cut off by another that left before: the verdict names that one.
      const auto left = options_.store->Look(kLeft);
      if (left.ok() && left.value()) AwaitVerdict();
    }
    leaves_ = true;
    until_done_.End();
    (void)options_.store->CompareSet(kLeft, "", PrintDeparture({options_.rank, error})).ok();
    if (options_.rank == 0) Pronounce();
  }

  void AwaitVerdict() { clock_.SleepFor(options_.silence + kVerdictTime); }

 private:
  template <class Work>
  static void UntilEnded(const Work& work) {
    try {
      work();
    } catch (const Ended&) {
    }
  }

  void Talk() {
    const Status status = Beat();
    if (!status.ok() && !until_done_.ended()) FirstIsLost();
  }

  Status Beat() {
    MeetingStore& store = *options_.store;
    HEDDLE_RETURN_IF_ERROR(store.SetWill(kLeft, PrintDeparture({options_.rank, {}})));
    std::optional<Clock::Time> waits_since;
    for (int64_t beats = 1;; ++beats) {
      if (leaves_) return Ok();
      const bool done = until_done_.ended();
      if (done) HEDDLE_RETURN_IF_ERROR(store.DropWill());
      const Heartbeat beat{done ? Heartbeat::kDone : beats, options_.progress->packed(),
                           options_.cpu_milliseconds()};
      HEDDLE_RETURN_IF_ERROR(store.Set(BeatOf(options_.rank), PrintHeartbeat(beat)));
      bool all_done = false;
      if (options_.rank == 0) {
        HEDDLE_ASSIGN(all_done, JudgeAll());
      }
      HEDDLE_ASSIGN(const std::optional<std::string> verdict, store.Look(kVerdict));
      if (verdict && !done) End("");
      ++answers_;
      if (done && options_.rank != 0) return Ok();
      if (done && !waits_since) waits_since = clock_.Now();
      if (done && (all_done || clock_.Now() - *waits_since > options_.silence)) return Ok();
      // Whether the others are done the first wants to know soon.
      if (!until_done_.For(kPause) && done) clock_.SleepFor(kPauseOfTheDone);
      if (until_ended_.ended()) throw Ended();
    }
  }

  // The store may stop answering while the talker waits for it.
  void Guard() {
    AttendedClock attended(clock_.Now(), options_.silence);
    int64_t answers = 0;
    Clock::Time heard = clock_.Now();
    while (until_ended_.For(kPause)) {
      const Clock::Time now = attended.At(clock_.Now());
      if (answers_ != answers) heard = now;
      answers = answers_;
      if (now - heard > options_.silence) FirstIsLost();
    }
  }

  // By the first rank. Are all others done?
  Result<bool> JudgeAll() {
    const Clock::Time now = attended_.At(clock_.Now());
    longest_pause_ = std::max(longest_pause_, attended_.pause());
    bool all_done = true;
    for (int32_t rank = 1; rank < options_.ranks; ++rank) {
      HEDDLE_ASSIGN(const std::optional<std::string> text, options_.store->Look(BeatOf(rank)));
      const std::optional<Heartbeat> beat = text ? ParseHeartbeat(*text) : std::nullopt;
      if (beat && beat->beats == Heartbeat::kDone) continue;
      all_done = false;
      if (!text) continue;  // has not come yet: the rendezvous has its own limit
      Judge(rank, beat, now);
    }
    HEDDLE_ASSIGN(const std::optional<std::string> left, options_.store->Look(kLeft));
    if (left && !until_done_.ended()) NameWhoLeft(ParseDeparture(*left, options_.ranks));
    return all_done;
  }

  // What cannot be read counts as nothing said.
  void Judge(int32_t rank, const std::optional<Heartbeat>& beat, Clock::Time now) {
    Heartbeat& last = signs_[static_cast<size_t>(rank)];
    if (beat) last = *beat;
    const WorkAt work = options_.work(last.place, rank);
    const Vigil::Verdict verdict = vigils_[static_cast<size_t>(rank)].Look(
        {last.beats, last.place, work.segment, work.predicted,
         static_cast<double>(last.cpu_milliseconds) * 1e-3},
        now);
    if (verdict == Vigil::Verdict::kWell) return;
    Pronounce();
    End(TextOf(rank, verdict == Vigil::Verdict::kSilent ? kSilent : kStuck, PlaceOf(rank)));
  }

  void NameWhoLeft(const std::optional<Departure>& departure) {
    Pronounce();
    if (!departure) End(TextOf(0, "was told nonsense by another device", ""));
    if (!departure->error && longest_pause_ > options_.silence) {
      const double seconds = std::chrono::duration<double>(longest_pause_).count();
      End(TextOf(0, fmt::format("was stopped for {:.0f} s, and the others gave it up", seconds),
                 ""));
    }
    End(departure->error ? TextOf(departure->rank, "left: " + departure->error->ToString(), "")
                         : TextOf(departure->rank, kGone, PlaceOf(departure->rank)));
  }

  std::string PlaceOf(int32_t rank) const {
    return ", " + options_.place(signs_[static_cast<size_t>(rank)].place, rank);
  }

  // For the others to see before the store goes.
  void Pronounce() {
    (void)options_.store->Set(kVerdict, "lost").ok();
    clock_.SleepFor(2 * kPause);
  }

  void FirstIsLost() {
    if (options_.rank == 0) End(TextOf(0, "its own store does not answer", ""));
    End(options_.rank == 1 ? TextOf(0, kSilent, "") : "");
  }

  std::string TextOf(int32_t rank, const std::string& what, const std::string& place) const {
    const Error error{ErrorKind::kRunFailed, options_.name(rank), what + place, options_.hint()};
    return fmt::format("heddle: {}\n", error.ToString());
  }

  [[noreturn]] void End(const std::string& message) {
    options_.end(message, options_.code());
    until_ended_.End();
    throw Ended();
  }

  static constexpr const char* kSilent = "does not answer: it died, is stopped or hangs";
  static constexpr const char* kStuck = "does not get on: it is stuck";
  static constexpr const char* kGone = "is gone: it ended or was killed";

  PeerWatchOptions options_;
  Clock& clock_;
  AttendedClock attended_;  // the talker's
  Clock::Duration longest_pause_{};
  std::vector<Vigil> vigils_;
  std::vector<Heartbeat> signs_;     // the last of each rank
  std::atomic<int64_t> answers_{0};  // of the store
  std::atomic<bool> leaves_{false};
  Nap until_done_, until_ended_;
  std::thread talker_, guard_;
};

PeerWatch::PeerWatch(PeerWatchOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

PeerWatch::~PeerWatch() = default;

void PeerWatch::Leave(const Error& error) { impl_->Leave(error); }

void PeerWatch::AwaitVerdict() const { impl_->AwaitVerdict(); }

}  // namespace heddle
