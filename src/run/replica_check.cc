#include "run/replica_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.h"

namespace heddle {
namespace {

// Those who hold the same part of a weight, by what they have.
using Holders = std::map<uint64_t, std::vector<int32_t>>;

std::string NamesOf(const Program& program, const std::vector<int32_t>& devices) {
  constexpr size_t kMost = 4;
  std::vector<std::string> names;
  for (size_t k = 0; k < std::min(kMost, devices.size()); ++k) {
    const auto device = static_cast<size_t>(devices[k]);
    names.push_back(fmt::format("device {} ({})", device, program.devices[device].name));
  }
  if (devices.size() > kMost) names.push_back(fmt::format("{} more", devices.size() - kMost));
  return Join(names, ", ");
}

}  // namespace

std::vector<BufferRef> HeldParameters(const Program& program, int32_t device) {
  std::vector<BufferRef> held;
  for (const BufferRef& ref : program.devices[static_cast<size_t>(device)].holds) {
    if (program.tensor(ref.tensor).role == Role::kParameter) held.push_back(ref);
  }
  return held;
}

std::optional<std::string> CompareReplicas(const Program& program,
                                           std::span<const DeviceHashes> devices, bool any_kind) {
  std::map<std::tuple<int32_t, int32_t, uint64_t>, Holders> replicas;
  for (size_t d = 0; d < devices.size(); ++d) {
    const auto device = static_cast<int32_t>(d);
    const std::vector<BufferRef> held = HeldParameters(program, device);
    if (held.size() != devices[d].hashes.size()) {
      return fmt::format("{} holds other weights than the plan says", NamesOf(program, {device}));
    }
    for (size_t k = 0; k < held.size(); ++k) {
      const uint64_t kind = any_kind ? 0 : devices[d].kind;
      replicas[{held[k].tensor, held[k].slice, kind}][devices[d].hashes[k]].push_back(device);
    }
  }
  for (const auto& [key, holders] : replicas) {
    if (holders.size() == 1) continue;
    // Most are probably right.
    const auto right = std::max_element(
        holders.begin(), holders.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    std::vector<int32_t> others;
    for (const auto& [hash, ranks] : holders) {
      if (hash != right->first) others.insert(others.end(), ranks.begin(), ranks.end());
    }
    return fmt::format("{} is not the same everywhere: {} {} another than {}",
                       program.tensor(std::get<0>(key)).name, NamesOf(program, others),
                       others.size() == 1 ? "has" : "have", NamesOf(program, right->second));
  }
  return std::nullopt;
}

}  // namespace heddle
