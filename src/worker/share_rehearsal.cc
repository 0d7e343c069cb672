#include "worker/share_rehearsal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <thread>

#include "run/wrapped_executor.h"

namespace heddle {
namespace {

constexpr char kVariable[] = "HEDDLE_SHARE_FAULT";

struct NamedPoint {
  std::string_view name;
  FaultPoint point;
};
constexpr NamedPoint kPoints[] = {{"before-first-step", FaultPoint::kBeforeFirstStep},
                                  {"holding", FaultPoint::kHolding},
                                  {"in-collective", FaultPoint::kInCollective},
                                  {"holding-network", FaultPoint::kHoldingNetwork}};

Error BadFault(const std::string& what) {
  return BadInput(
      kVariable, what,
      "as in \"job=a rank=1 step=5 at=holding do=hang\"; at: before-first-step, holding, "
      "in-collective or holding-network; do: kill or hang");
}

Status ReadCount(const std::string& word, const std::string& value, int64_t least, int64_t& count) {
  const char* end = value.data() + value.size();
  const auto [rest, error] = std::from_chars(value.data(), end, count);
  if (error == std::errc() && rest == end && count >= least) return Ok();
  return BadFault(fmt::format("{} is no number from {} on", word, least));
}

Status ReadPoint(const std::string& word, const std::string& value, FaultPoint& point) {
  for (const NamedPoint& known : kPoints) {
    if (known.name != value) continue;
    point = known.point;
    return Ok();
  }
  return BadFault(fmt::format("{} is unknown", word));
}

Status ReadWord(const std::string& word, ShareFault& fault) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) return BadFault(fmt::format("\"{}\" has no value", word));
  const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
  if (key == "rank") return ReadCount(word, value, 0, fault.rank);
  if (key == "step") return ReadCount(word, value, 1, fault.step);
  if (key == "at") return ReadPoint(word, value, fault.at);
  if (key == "job") {
    fault.job = value;
  } else if (key == "do" && (value == "kill" || value == "hang")) {
    fault.hangs = value == "hang";
  } else {
    return BadFault(fmt::format("{} is unknown", word));
  }
  return Ok();
}

std::string_view NameOf(FaultPoint point) {
  for (const NamedPoint& known : kPoints) {
    if (known.point == point) return known.name;
  }
  return "?";
}

}  // namespace

Result<ShareFault> ParseShareFault(const std::string& text) {
  ShareFault fault;
  std::set<std::string> keys;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    HEDDLE_RETURN_IF_ERROR(ReadWord(word, fault));
    keys.insert(word.substr(0, word.find('=')));
  }
  for (const char* key : {"job", "at", "do"}) {
    if (!keys.contains(key)) return BadFault(fmt::format("has no {}", key));
  }
  return fault;
}

Result<std::optional<ShareFault>> RehearsedFault() {
  const char* text = std::getenv(kVariable);
  if (text == nullptr) return std::optional<ShareFault>();
  HEDDLE_ASSIGN(ShareFault fault, ParseShareFault(text));
  return std::optional<ShareFault>(std::move(fault));
}

// Where the rank is, and the end of its part.
class Rehearsal::Stage {
 public:
  Stage(ShareFault fault, Board board, int32_t job, int32_t rank)
      : fault_(std::move(fault)), board_(std::move(board)), job_(job), rank_(rank) {}

  void ComputesStep(int64_t i) { step_ = i + 1; }
  bool IsAt(FaultPoint point) const {
    return fault_.at == point && (point == FaultPoint::kBeforeFirstStep || step_ == fault_.step);
  }

  // Until all members have posted their sums, and have had time to begin.
  void AwaitOthers() const {
    constexpr std::chrono::milliseconds kPause{1}, kToBegin{50};
    for (int32_t other = 0; other < board_.ranks(job_); ++other) {
      while (board_.posted(job_, other) < board_.posted(job_, rank_)) {
        std::this_thread::sleep_for(kPause);
      }
    }
    std::this_thread::sleep_for(kToBegin);
  }

  [[noreturn]] void Fail() const {
    fmt::print(stderr, "rehearsal: rank {} of {} {} at {}, {} ns\n", rank_, fault_.job,
               fault_.hangs ? "hangs" : "is killed", NameOf(fault_.at), BoardNow());
    std::fflush(stderr);
    if (!fault_.hangs) kill(getpid(), SIGKILL);
    while (true) pause();
  }

 private:
  ShareFault fault_;
  Board board_;
  int32_t job_, rank_;
  std::atomic<int64_t> step_{0};  // the network's thread looks too
};

// Below the line for the network: a collective comes here once it is first.
class Rehearsal::Network final : public Communicator {
 public:
  Network(Stage& stage, Communicator& inner) : stage_(stage), inner_(inner) {}

  TicketPtr Send(int32_t peer, int32_t tag, Payload payload) override {
    return inner_.Send(peer, tag, std::move(payload));
  }
  TicketPtr Receive(int32_t peer, int32_t tag, Payload payload) override {
    return inner_.Receive(peer, tag, std::move(payload));
  }
  TicketPtr Collective(CollectiveCall call) override {
    if (stage_.IsAt(FaultPoint::kInCollective)) {
      stage_.AwaitOthers();
      stage_.Fail();
    }
    const TicketPtr ticket = inner_.Collective(std::move(call));
    if (!stage_.IsAt(FaultPoint::kHoldingNetwork)) return ticket;
    ticket->Wait();
    stage_.Fail();
  }

 private:
  Stage& stage_;
  Communicator& inner_;
};

class Rehearsal::Turns final : public DeviceTurns {
 public:
  Turns(Stage& stage, DeviceTurns& inner) : stage_(stage), inner_(inner) {}

  void Begin() override {
    inner_.Begin();
    if (stage_.IsAt(FaultPoint::kBeforeFirstStep)) stage_.Fail();
  }
  void Acquire() override { inner_.Acquire(); }
  void Release() override { inner_.Release(); }
  void End() override { inner_.End(); }
  bool whole_steps() const override { return inner_.whole_steps(); }
  int64_t StopsAfter() const override { return inner_.StopsAfter(); }
  void StepDone(int64_t i) override { inner_.StepDone(i); }
  void TakeHash() override { inner_.TakeHash(); }
  void SetHash(std::function<uint64_t()> hash) override { inner_.SetHash(std::move(hash)); }

 private:
  Stage& stage_;
  DeviceTurns& inner_;
};

class Rehearsal::Device final : public WrappedExecutor {
 public:
  Device(Stage& stage, Executor& inner) : WrappedExecutor(inner), stage_(stage) {}

  void Compute(const Instruction& compute, int64_t i) override {
    stage_.ComputesStep(i);
    if (stage_.IsAt(FaultPoint::kHolding)) stage_.Fail();
    WrappedExecutor::Compute(compute, i);
  }

 private:
  Stage& stage_;
};

Rehearsal::Rehearsal(std::optional<ShareFault> fault, Board board, int32_t job, int32_t rank,
                     Communicator& inner)
    : inner_(inner) {
  if (!fault || fault->job != board.name(job) || fault->rank != rank) return;
  stage_ = std::make_unique<Stage>(*std::move(fault), std::move(board), job, rank);
  network_ = std::make_unique<Network>(*stage_, inner);
}

Rehearsal::~Rehearsal() = default;

Communicator& Rehearsal::communicator() {
  return network_ ? static_cast<Communicator&>(*network_) : inner_;
}

DeviceTurns& Rehearsal::Wrap(DeviceTurns& turns) {
  if (!stage_) return turns;
  turns_ = std::make_unique<Turns>(*stage_, turns);
  return *turns_;
}

Executor& Rehearsal::Wrap(Executor& executor) {
  if (!stage_) return executor;
  device_ = std::make_unique<Device>(*stage_, executor);
  return *device_;
}

}  // namespace heddle
