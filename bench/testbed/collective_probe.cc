// One rank that times all-gathers and reduce-scatters of uneven blocks, padded and grouped, beside
// the others; the first prints seconds. Ranks come from RANK, WORLD_SIZE, MASTER_ADDR and
// MASTER_PORT, what they must know from HEDDLE_SECRET.
//
//   heddle_collective_probe KIND REPETITIONS BYTES,BYTES,… …    of every rank's block, for each
//   case
//
//   [{"ring": [0.0123, …], "grouped": [0.0101, …]}, …]
//
// The two take turns. A time is from when all are ready until the last has everything.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/json_field.h"
#include "run/launched_rank.h"
#include "run/rank_meeting.h"
#include "run/torch/c10d_communicator.h"

namespace heddle {
namespace {

using Clock = std::chrono::steady_clock;

Payload Of(std::vector<float>& values) {
  return {nullptr, reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)};
}

class Probe {
 public:
  Probe(Communicator& communicator, CollectiveKind kind, size_t rank,
        const std::vector<size_t>& bytes)
      : communicator_(communicator), kind_(kind), ranks_(bytes.size()) {
    for (const size_t size : bytes) blocks_.emplace_back(size / sizeof(float), 1.0F);
    mine_.resize(blocks_[rank].size(), 1.0F);
  }

  // Seconds until the last rank has everything.
  double Once(CollectiveAlgorithm algorithm) {
    (void)Longest(0);  // all are here
    const auto start = Clock::now();
    CollectiveCall call;
    call.kind = kind_;
    call.algorithm = algorithm;
    const bool gathers = kind_ == CollectiveKind::kAllGather;
    for (std::vector<float>& block : blocks_) (gathers ? call.out : call.in).push_back(Of(block));
    (gathers ? call.in : call.out).push_back(Of(mine_));
    communicator_.Collective(std::move(call))->Wait();
    return Longest(std::chrono::duration<double>(Clock::now() - start).count());
  }

 private:
  // Of what all ranks say.
  double Longest(double mine) {
    std::vector<double> all(ranks_);
    CollectiveCall call;
    call.kind = CollectiveKind::kAllGather;
    call.algorithm = CollectiveAlgorithm::kTree;
    call.in = {{nullptr, reinterpret_cast<std::byte*>(&mine), sizeof mine}};
    for (double& one : all) {
      call.out.push_back({nullptr, reinterpret_cast<std::byte*>(&one), sizeof one});
    }
    communicator_.Collective(std::move(call))->Wait();
    return *std::max_element(all.begin(), all.end());
  }

  Communicator& communicator_;
  CollectiveKind kind_;
  size_t ranks_;
  std::vector<std::vector<float>> blocks_;
  std::vector<float> mine_;
};

// "8,2,2".
std::vector<size_t> SizesOf(const std::string& word) {
  std::vector<size_t> sizes;
  for (size_t at = 0; at < word.size(); at = std::min(word.find(',', at), word.size()) + 1) {
    sizes.push_back(std::stoul(word.substr(at)));
  }
  return sizes;
}

Json TimesOf(Probe& probe, int repetitions) {
  Json seconds = {{"ring", Json::array()}, {"grouped", Json::array()}};
  for (int k = -1; k < repetitions; ++k) {
    for (const CollectiveAlgorithm algorithm :
         {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kGrouped}) {
      const double once = probe.Once(algorithm);
      if (k >= 0) seconds[std::string(NameOf(algorithm))].push_back(once);  // the first warms up
    }
  }
  return seconds;
}

Status Run(const std::vector<std::string>& words) {
  HEDDLE_ASSIGN(const std::optional<LaunchedRank> launched,
                FindLaunchedRank([](const char* name) { return std::getenv(name); }, 0));
  const std::optional<CollectiveKind> kind =
      words.size() > 2 ? ParseChoice<CollectiveKind>(words[0]) : std::nullopt;
  if (!launched || !kind) {
    return BadInput("heddle_collective_probe", "needs ranks, a kind, repetitions and sizes",
                    "see its source");
  }
  const auto rank = static_cast<size_t>(launched->rank);
  MeetingOptions meeting_options;
  meeting_options.environment = [](const char* name) { return std::getenv(name); };
  HEDDLE_ASSIGN(const RankMeeting meeting, RankMeeting::Open(*launched, meeting_options));
  C10dOptions options;
  options.interface_address = meeting.interface_address();
  HEDDLE_ASSIGN(options.store, meeting.Connect());
  options.device = launched->rank;
  options.devices = launched->ranks;
  options.groups = {{}};
  for (int32_t r = 0; r < launched->ranks; ++r) options.groups[0].push_back(r);
  HEDDLE_ASSIGN(const std::unique_ptr<Communicator> communicator, ConnectC10d(options));
  Json cases = Json::array();
  for (size_t k = 2; k < words.size(); ++k) {
    Probe probe(*communicator, *kind, rank, SizesOf(words[k]));
    cases.push_back(TimesOf(probe, std::stoi(words[1])));
  }
  if (rank == 0) fmt::print("{}\n", cases.dump());
  return Ok();
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  const heddle::Status status = heddle::Run(std::vector<std::string>(argv + 1, argv + argc));
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.error().ToString());
  return 1;
}
