// PlanRequest: everything that a person may ask of planning. One table (request_fields.h) describes
// its fields; the command line, plan.json, jobs.toml and docs/request.md all come from that table,
// and a Plan carries the request it was made for, so nothing is lost on the way to the next plan.
// How long the search may take is no part of it: that is a matter of the moment.
//
//   PlanRequest request;
//   request.model = "gpt?layers=24";
//   request.batch = 256;
//   HEDDLE_ASSIGN(Planning planning, Planning::Make(request, cluster, nullptr));
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/choices.h"
#include "base/dtype.h"
#include "base/result.h"
#include "cost/link_model.h"
#include "model/graph.h"

namespace heddle {

// How the replicas of a weight come to the same gradient: by all-reduces, or through one of them,
// which receives gradients, updates, and sends weights (program/lower/server_sync.h).
enum class GradientSync : uint8_t { kAllReduce, kServers };
template <>
struct Choices<GradientSync> {
  static constexpr Choice<GradientSync> kTable[] = {{GradientSync::kAllReduce, "allreduce"},
                                                    {GradientSync::kServers, "ps"}};
};

// Which version of its weights a stage of an asynchronous pipeline uses for a microbatch.
enum class WeightVersions : uint8_t {
  kStash,     // backward reads what forward read
  kVertical,  // every stage reads what was newest when the microbatch entered the first
  kNone,      // both read the newest: one version in all
  kTwo,       // a batch of microbatches reads the version one batch old: two versions in all
};
inline constexpr std::array<WeightVersions, 4> kWeightVersions = {
    WeightVersions::kStash, WeightVersions::kVertical, WeightVersions::kNone, WeightVersions::kTwo};
template <>
struct Choices<WeightVersions> {
  static constexpr Choice<WeightVersions> kTable[] = {{WeightVersions::kStash, "stash"},
                                                      {WeightVersions::kVertical, "vertical"},
                                                      {WeightVersions::kNone, "none"},
                                                      {WeightVersions::kTwo, "2bw"}};
};

// Where the replicas of LocalSGD are: one on each device, or all on every stage of one pipeline.
enum class ReplicaPlace : uint8_t { kAny, kWhole, kPipelined };
template <>
struct Choices<ReplicaPlace> {
  static constexpr Choice<ReplicaPlace> kTable[] = {{ReplicaPlace::kAny, "any"},
                                                    {ReplicaPlace::kWhole, "whole"},
                                                    {ReplicaPlace::kPipelined, "pipelined"}};
};

// How programs of one mesh are searched: the folded dynamic program, A* after it, or the former
// with A* for the plan that is taken (docs/spmd.md).
enum class SpmdSearch : uint8_t { kAuto, kFold, kAStar };
template <>
struct Choices<SpmdSearch> {
  static constexpr Choice<SpmdSearch> kTable[] = {
      {SpmdSearch::kAuto, "auto"}, {SpmdSearch::kFold, "fold"}, {SpmdSearch::kAStar, "astar"}};
};

// Which plan `auto` takes.
enum class PlanGoal : uint8_t { kStepTime, kTimeToLoss };
template <>
struct Choices<PlanGoal> {
  static constexpr Choice<PlanGoal> kTable[] = {{PlanGoal::kStepTime, "step-time"},
                                                {PlanGoal::kTimeToLoss, "time-to-loss"}};
};

struct PlanRequest {
  std::string strategy = "auto";            // of choose/planners.h, or auto
  std::string model;                        // of the zoo, or a layer profile's path
  std::optional<int64_t> profile_batch;     // samples that the layer profile was measured with
  std::string profile_device;               // type its times hold for; empty: see ProfiledType
  int64_t batch = 256;                      // samples per update over all devices
  std::optional<int64_t> microbatches;      // tuned unless given
  std::optional<int64_t> micro_batch_size;  // instead: samples of each; CheckRequest counts them
  DType dtype = DType::kF32;
  Optimizer optimizer = Optimizer::kAdam;
  double clip = 0;  // largest norm of all gradients together; 0: none
  GradientSync sync = GradientSync::kAllReduce;
  bool compress = false;  // gradients travel as f16 between replicas
  LinkModel links = LinkModel::kShared;
  WeightVersions versions = WeightVersions::kStash;  // of asynchronous pipelines
  int64_t every = 8;                                 // local updates between two averages
  ReplicaPlace replicas = ReplicaPlace::kAny;        // of LocalSGD
  SpmdSearch search = SpmdSearch::kAuto;             // of SPMD programs
  PlanGoal goal = PlanGoal::kStepTime;               // of auto
  std::string evidence = "map";                      // of time-to-loss (advise/adviser.h)
  double noise = 0.2;                                // σ of gradients in the race
  std::optional<double> noise_ratio;                 // instead: what a run measured
  double rows_per_parameter = 1;                     // of the data

  auto operator<=>(const PlanRequest&) const = default;
};

inline constexpr int64_t kMostBatch = 1 << 24;
inline constexpr int64_t kMostMicrobatches = 1 << 16;

// What one field alone cannot tell: microbatches that the batch has samples for. Samples of each
// become their number. Errors name the place of a field.
using PlaceOfField = std::function<std::string(std::string_view key)>;
Status CheckRequest(PlanRequest& request, const PlaceOfField& place);

}  // namespace heddle
