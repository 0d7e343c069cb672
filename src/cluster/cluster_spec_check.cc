// CheckClusterSpec: what every ClusterSpec must satisfy, whether it was read from a file or
// made by a program.
#include <fmt/format.h>

#include <cmath>
#include <unordered_map>

#include "base/text.h"
#include "cluster/cluster_spec.h"
#include "cluster/device_catalogue.h"

namespace heddle {
namespace {

// The largest value the unit parsers read back, and the largest whole number a double holds.
constexpr double kLargest = 9e18;
constexpr int64_t kMostMemory = int64_t{1} << 53;

class SpecCheck {
 public:
  SpecCheck(const ClusterSpec& spec, const std::string& where) : spec_(spec), where_(where) {}

  Status Run() {
    HEDDLE_RETURN_IF_ERROR(CheckTypes());
    HEDDLE_RETURN_IF_ERROR(CheckNodes());
    HEDDLE_RETURN_IF_ERROR(CheckSwitches());
    for (size_t i = 0; i < spec_.links.size(); ++i) {
      HEDDLE_RETURN_IF_ERROR(CheckLink(fmt::format("link[{}]", i), spec_.links[i].link));
    }
    return CheckExpandedNames();
  }

 private:
  Error Bad(const std::string& path, std::string what, std::string hint = "") const {
    return BadInput(where_ + ": " + path, std::move(what), std::move(hint));
  }

  Status CheckName(const std::string& path, const std::string& name) const {
    bool good = !name.empty() && name.size() <= size_t{kMostNameLength};
    for (const char c : name) {
      const bool alphanumeric =
          (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      good = good && (alphanumeric || c == '-' || c == '_' || c == '.');
    }
    if (good) return Ok();
    return Bad(path, fmt::format("\"{}\" is not a name", name.substr(0, 2 * kMostNameLength)),
               fmt::format("1 to {} of the characters A-Z a-z 0-9 - _ .", kMostNameLength));
  }

  // Rates below one per second are surely a mistake, and would overflow times.
  Status CheckRate(const std::string& path, double rate) const {
    if (std::isfinite(rate) && rate >= 1 && rate <= kLargest) return Ok();
    return Bad(path, fmt::format("found {:.4g} per second", rate),
               "expected a positive number, at least 1 per second");
  }

  Status CheckDuration(const std::string& path, Seconds seconds) const {
    if (std::isfinite(seconds.value) && seconds.value >= 0 && seconds.value <= kLargest) {
      return Ok();
    }
    return Bad(path, fmt::format("found {:.4g} s", seconds.value), "expected zero or more seconds");
  }

  Status CheckLink(const std::string& path, const LinkSpec& link) const {
    HEDDLE_RETURN_IF_ERROR(CheckRate(path + ".bandwidth", link.bandwidth.value));
    return CheckDuration(path + ".latency", link.latency);
  }

  Status CheckTypes() {
    if (spec_.types.size() > size_t{kMostDeviceTypes}) {
      return Bad("device_type", fmt::format("found {} device types", spec_.types.size()),
                 fmt::format("expected at most {}", kMostDeviceTypes));
    }
    for (const DeviceTypeSpec& type : spec_.types) {
      const std::string path = "device_type." + type.name;
      HEDDLE_RETURN_IF_ERROR(CheckName("device_type", type.name));
      for (size_t i = 0; i < kDTypeCount; ++i) {
        HEDDLE_RETURN_IF_ERROR(CheckRate(path + ".flops", type.flops[i].value));
      }
      if (type.memory.value < 1 || type.memory.value > kMostMemory) {
        return Bad(path + ".memory", fmt::format("found {} bytes", GroupDigits(type.memory.value)),
                   "expected a positive size, at most 8 PiB");
      }
      HEDDLE_RETURN_IF_ERROR(CheckRate(path + ".memory_bandwidth", type.memory_bandwidth.value));
      HEDDLE_RETURN_IF_ERROR(CheckDuration(path + ".launch", type.launch_overhead));
      if (type.message_bandwidth) {
        HEDDLE_RETURN_IF_ERROR(
            CheckRate(path + ".message_bandwidth", type.message_bandwidth->value));
      }
      for (const std::string& other : type_names_) {
        if (other == type.name) return Bad(path, "this device type is defined twice");
      }
      type_names_.push_back(type.name);
    }
    return Ok();
  }

  Status CheckNodes() const {
    if (spec_.nodes.empty()) return Bad("node", "there is no node", "add a [[node]] with devices");
    int64_t devices_in_all = 0;
    for (size_t i = 0; i < spec_.nodes.size(); ++i) {
      const NodeSpec& node = spec_.nodes[i];
      const std::string path = fmt::format("node[{}]", i);
      HEDDLE_RETURN_IF_ERROR(CheckName(path + ".name", node.name));
      HEDDLE_RETURN_IF_ERROR(CheckCount(path, node.count, kMostDevices));
      HEDDLE_ASSIGN(const int64_t devices, CheckDevices(path, node));
      devices_in_all += devices * node.count.value_or(1);
      if (devices_in_all > kMostDevices) {
        return Bad(path, fmt::format("more than {} devices in all", GroupDigits(kMostDevices)),
                   "give smaller counts");
      }
      if (node.link) HEDDLE_RETURN_IF_ERROR(CheckLink(path + ".link", *node.link));
    }
    return Ok();
  }

  Result<int64_t> CheckDevices(const std::string& path, const NodeSpec& node) const {
    int64_t devices = 0;
    for (size_t i = 0; i < node.devices.size(); ++i) {
      const NodeSpec::Devices& entry = node.devices[i];
      const std::string entry_path = fmt::format("{}.devices[{}]", path, i);
      HEDDLE_RETURN_IF_ERROR(CheckCount(entry_path, entry.count, kMostDevicesInNode));
      devices += entry.count;
      bool known = false;
      for (const std::string& type : type_names_) known = known || type == entry.type;
      if (known) continue;
      return Bad(entry_path + ".type", fmt::format("unknown device type \"{}\"", entry.type),
                 SuggestType(entry.type));
    }
    if (devices == 0) return Bad(path + ".devices", "there is no device", "list at least one");
    if (devices > kMostDevicesInNode) {
      return Bad(path + ".devices", fmt::format("{} devices in one node", GroupDigits(devices)),
                 fmt::format("expected at most {}", GroupDigits(kMostDevicesInNode)));
    }
    return devices;
  }

  // The file's own types first, then those that `heddle devices` lists.
  std::string SuggestType(const std::string& name) const {
    std::vector<std::string> all = type_names_;
    for (std::string& known : KnownDeviceNames()) all.push_back(std::move(known));
    std::string hint;
    if (const auto nearest = NearestName(name, all))
      hint = fmt::format("did you mean \"{}\"? ", *nearest);
    if (!type_names_.empty()) hint += fmt::format("defined here: {}; ", Join(type_names_, ", "));
    return hint + "known by name: see heddle devices";
  }

  Status CheckSwitches() const {
    int64_t switches_in_all = 0;
    for (size_t i = 0; i < spec_.switches.size(); ++i) {
      const SwitchSpec& entry = spec_.switches[i];
      const std::string path = fmt::format("switch[{}]", i);
      HEDDLE_RETURN_IF_ERROR(CheckName(path + ".name", entry.name));
      HEDDLE_RETURN_IF_ERROR(CheckCount(path, entry.count, kMostSwitches));
      switches_in_all += entry.count.value_or(1);
      if (switches_in_all > kMostSwitches) {
        return Bad(path, fmt::format("more than {} switches in all", GroupDigits(kMostSwitches)),
                   "give smaller counts");
      }
    }
    return Ok();
  }

  Status CheckCount(const std::string& path, std::optional<int> count, int most) const {
    if (!count || (*count >= 1 && *count <= most)) return Ok();
    return Bad(path + ".count", fmt::format("{} is out of range", *count),
               fmt::format("expected 1 to {}", GroupDigits(most)));
  }

  // Nodes and switches share one space of names, since link ends name both.
  // REQUIRES: counts are within their limits.
  Status CheckExpandedNames() const {
    std::unordered_map<std::string, std::string> owners;  // a name, and what in the file claims it
    const auto claim = [&](const std::string& path, const std::string& name) -> Status {
      const auto [found, fresh] = owners.emplace(name, path);
      if (fresh) return Ok();
      return Bad(path, fmt::format("the name \"{}\" is taken by {}", name, found->second),
                 "names of nodes and switches must differ, also after count adds numbers");
    };
    const auto claim_all = [&](const std::string& path, const std::string& name,
                               std::optional<int> count) -> Status {
      HEDDLE_RETURN_IF_ERROR(claim(path, name));
      for (int copy = 0; copy < count.value_or(0); ++copy) {
        HEDDLE_RETURN_IF_ERROR(claim(path, fmt::format("{}{}", name, copy)));
      }
      return Ok();
    };
    for (size_t i = 0; i < spec_.nodes.size(); ++i) {
      HEDDLE_RETURN_IF_ERROR(
          claim_all(fmt::format("node[{}]", i), spec_.nodes[i].name, spec_.nodes[i].count));
    }
    for (size_t i = 0; i < spec_.switches.size(); ++i) {
      HEDDLE_RETURN_IF_ERROR(
          claim_all(fmt::format("switch[{}]", i), spec_.switches[i].name, spec_.switches[i].count));
    }
    return Ok();
  }

  const ClusterSpec& spec_;
  const std::string& where_;
  std::vector<std::string> type_names_;
};

}  // namespace

Status CheckClusterSpec(const ClusterSpec& spec, const std::string& where) {
  return SpecCheck(spec, where).Run();
}

}  // namespace heddle
