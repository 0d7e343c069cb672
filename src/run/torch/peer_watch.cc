#include "run/torch/peer_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "base/result.h"
#include "base/text.h"
#include "run/vigil.h"

namespace heddle {

class PeerWatch::Impl {
 public:
  explicit Impl(PeerWatchOptions options) : options_(std::move(options)), answered_(Clock::now()) {
    for (int32_t rank = 0; rank < options_.ranks; ++rank) {
      vigils_.emplace_back(options_.silence, options_.patience, Clock::now());
    }
    talker_ = std::thread([this] { Talk(); });
    // The store may stop answering while the talker waits for it.
    guard_ = std::thread([this] {
      while (!ended_) {
        std::this_thread::sleep_for(kPause);
        if (Clock::now() - answered_.load() > options_.silence) FirstIsLost();
      }
    });
  }

  ~Impl() {
    done_ = true;
    talker_.join();
    ended_ = true;
    guard_.join();
  }

  void AwaitVerdict() const { std::this_thread::sleep_for(options_.silence + kVerdictTime); }

 private:
  using Clock = Vigil::Clock;
  static constexpr std::chrono::milliseconds kPause{250};
  static constexpr std::chrono::seconds kVerdictTime{3};

  static std::string KeyOf(int32_t rank) { return fmt::format("beat{}", rank); }
  static std::vector<uint8_t> BytesOf(const std::string& text) {
    return {text.begin(), text.end()};
  }

  void Talk() {
    try {
      c10d::TCPStoreOptions store_options;
      store_options.port = options_.port;
      store_options.waitWorkers = false;
      const auto store = c10::make_intrusive<c10d::TCPStore>(options_.address, store_options);
      std::optional<Clock::time_point> waits_since;
      for (int64_t beats = 1;; ++beats) {
        const bool done = done_;
        const std::string sign = fmt::format("{} {} {}", done ? kDone : beats,
                                             options_.progress->packed(), CpuMilliseconds());
        store->set(KeyOf(options_.rank), BytesOf(sign));
        const bool all_done = options_.rank == 0 && JudgeAll(*store);
        if (store->check({kVerdict})) End("");
        answered_ = Clock::now();
        if (done && options_.rank != 0) return;
        if (done && !waits_since) waits_since = Clock::now();
        if (done && (all_done || Clock::now() - *waits_since > options_.silence)) return;
        std::this_thread::sleep_for(done_ ? std::chrono::milliseconds(10) : kPause);
      }
    } catch (const std::exception&) {
      if (!done_) FirstIsLost();
    }
  }

  // By the first rank. Are all others done?
  bool JudgeAll(c10d::TCPStore& store) {
    bool all_done = true;
    for (int32_t rank = 1; rank < options_.ranks; ++rank) {
      if (!store.check({KeyOf(rank)})) {  // has not come yet: the rendezvous has its own limit
        all_done = false;
        continue;
      }
      const std::vector<uint8_t> bytes = store.get(KeyOf(rank));
      const std::string text(bytes.begin(), bytes.end());
      const std::vector<std::string_view> words = SplitWords(text);
      const int64_t beats = ParseInteger(words[0]).value_or(0);
      const int64_t place = ParseInteger(words[1]).value_or(0);
      if (beats == kDone) continue;
      all_done = false;
      const int64_t cpu = ParseInteger(words[2]).value_or(0);
      const WorkAt work = options_.work(place, rank);
      const Vigil::Verdict verdict = vigils_[static_cast<size_t>(rank)].Look(
          {beats, place, work.segment, work.predicted, static_cast<double>(cpu) * 1e-3},
          Clock::now());
      if (verdict == Vigil::Verdict::kWell) continue;
      store.set(kVerdict, BytesOf("lost"));
      std::this_thread::sleep_for(2 * kPause);  // for the others to see it before the store goes
      End(TextOf(rank, verdict == Vigil::Verdict::kSilent ? kSilent : kStuck,
                 ", " + options_.place(place, rank)));
    }
    return all_done;
  }

  void FirstIsLost() { End(options_.rank == 1 ? TextOf(0, kSilent, "") : ""); }

  std::string TextOf(int32_t rank, const char* what, const std::string& place) const {
    const Error error{ErrorKind::kRunFailed, options_.name(rank), what + place, options_.hint()};
    return fmt::format("heddle: {}\n", error.ToString());
  }

  [[noreturn]] static void End(const std::string& message) {
    std::fputs(message.c_str(), stderr);
    std::fflush(nullptr);
    _exit(static_cast<int>(ErrorKind::kRunFailed));
  }

  static constexpr const char* kVerdict = "verdict";
  static constexpr const char* kSilent = "does not answer: it died, is stopped or hangs";
  static constexpr const char* kStuck = "does not get on: it is stuck";
  static constexpr int64_t kDone = -1;

  PeerWatchOptions options_;
  std::vector<Vigil> vigils_;
  std::atomic<Clock::time_point> answered_;
  std::atomic<bool> done_{false}, ended_{false};
  std::thread talker_, guard_;
};

PeerWatch::PeerWatch(PeerWatchOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

PeerWatch::~PeerWatch() = default;

void PeerWatch::AwaitVerdict() const { impl_->AwaitVerdict(); }

}  // namespace heddle
