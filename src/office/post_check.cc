#include "office/post_check.h"

#include <algorithm>
#include <vector>

namespace heddle {
namespace {

// Sums of as many as there are devices are far from the largest number.
constexpr int64_t kMostBytes = int64_t{1} << 50;

bool IsIn(int64_t value, int64_t least, int64_t most) { return value >= least && value <= most; }

std::span<const int32_t> DevicesOf(const FlowPost& post) {
  return std::span(post.device).first(static_cast<size_t>(post.ends));
}

const char* LookAtDevices(const FlowPost& post, int32_t devices) {
  const bool is_message = post.kind < 0;
  if (!IsIn(post.ends, is_message ? 2 : 1, is_message ? 2 : kMostSharedDevices)) return "ends";
  std::vector<int32_t> known;
  for (const int32_t device : DevicesOf(post)) {
    if (!IsIn(device, 0, devices - 1)) return "device";
    if (std::find(known.begin(), known.end(), device) != known.end()) return "device twice";
    known.push_back(device);
  }
  return nullptr;
}

const char* LookAtBlocks(const FlowPost& post) {
  // A message's receiver puts nothing in.
  const bool is_message = post.kind < 0;
  if (!IsIn(post.blocks, 0, is_message ? 1 : kMostSharedDevices)) return "blocks";
  for (const int64_t bytes : std::span(post.bytes).first(static_cast<size_t>(post.blocks))) {
    if (!IsIn(bytes, 0, kMostBytes)) return "bytes";
  }
  if (post.blocks == 0 && post.bytes[0] != 0) return "bytes";
  return nullptr;
}

// As many blocks as an end of such a collective puts in.
bool HasItsBlocks(const FlowPost& post, CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kBroadcast:
      return post.blocks <= 1;  // none if there is nothing to sum
    case CollectiveKind::kAllGather:
      return post.blocks == 1;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      break;
  }
  return post.blocks == post.ends;
}

}  // namespace

const char* FindNonsense(const FlowPost& post, const PostBounds& bounds) {
  if (!IsIn(post.rank, 0, bounds.ranks - 1)) return "rank";
  if (post.number < 0) return "number";
  if (!IsIn(post.time, 0, bounds.now)) return "time";
  if (!IsIn(post.performed, 0, 1)) return "kind";
  if (post.performed != 0) return nullptr;  // says no more
  constexpr auto kLastKind = static_cast<int32_t>(CollectiveKind::kBroadcast);
  constexpr auto kLastAlgorithm = static_cast<int32_t>(CollectiveAlgorithm::kGrouped);
  if (!IsIn(post.kind, -1, kLastKind)) return "kind";
  if (!IsIn(post.algorithm, 0, kLastAlgorithm)) return "algorithm";
  if (post.channel < 0) return "channel";
  if (const char* found = LookAtDevices(post, bounds.devices)) return found;
  return LookAtBlocks(post);
}

const char* FindDiscord(std::span<const FlowPost> posts, const NetworkCost& cost) {
  const FlowPost& first = posts.front();
  for (const FlowPost& post : posts) {
    if (post.kind != first.kind || post.algorithm != first.algorithm) return "kinds that differ";
    if (!std::ranges::equal(DevicesOf(post), DevicesOf(first))) return "ends that differ";
  }
  if (std::ssize(posts) != first.ends) return "ends that differ";
  if (first.kind < 0) return nullptr;
  const auto kind = static_cast<CollectiveKind>(first.kind);
  for (const FlowPost& post : posts) {
    if (!HasItsBlocks(post, kind)) return "blocks";
  }
  std::vector<DeviceId> devices;
  for (const int32_t device : DevicesOf(first)) devices.push_back(DeviceId{device});
  const auto algorithm = static_cast<CollectiveAlgorithm>(first.algorithm);
  return cost.Supports({kind, devices, {}, algorithm, 0}) ? nullptr : "algorithm";
}

}  // namespace heddle
