#include "cluster/device_catalogue.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/json_field.h"
#include "cluster/cluster_toml.h"

namespace heddle {

extern const char kDeviceCatalogueToml[];  // made of devices.toml by the build

namespace {

constexpr std::string_view kLaunch = "5 us";  // as in a cluster file

Result<CatalogueDevice::Rates> ReadRates(const JsonField& field) {
  CatalogueDevice::Rates rates;
  HEDDLE_RETURN_IF_ERROR(field.OnlyKeys({"fp64", "fp32", "bf16", "fp16"}));
  for (const auto& choice : Choices<DType>::kTable) {
    const std::string_view name = choice.spoken.empty() ? choice.name : choice.spoken;
    if (!field.Has(name)) continue;
    HEDDLE_ASSIGN(const std::string text, field.String(name));
    const Result<FlopRate> rate = ParseFlopRate(text);
    if (!rate.ok()) {
      return field.Bad(fmt::format("{}: {}", name, rate.error().what), rate.error().hint);
    }
    rates[static_cast<size_t>(choice.value)] = rate.value();
  }
  return rates;
}

// A string that may be left out.
Result<std::string> Optional(const JsonField& field, std::string_view key) {
  if (!field.Has(key)) return std::string();
  return field.String(key);
}

void SetRates(CatalogueDevice& device, double assumed_part) {
  for (size_t i = 0; i < kDTypeCount; ++i) {
    if (!device.peak[i]) continue;
    device.type.flops[i] = device.reached[i] ? *device.reached[i] : *device.peak[i] * assumed_part;
    device.type.flops_given[i] = true;
  }
  DeriveFlops(device.type);
}

Status ReadFigures(const JsonField& field, CatalogueDevice& device) {
  HEDDLE_ASSIGN(const JsonField peak, field.Object("peak"));
  HEDDLE_ASSIGN(device.peak, ReadRates(peak));
  if (!device.peak[static_cast<size_t>(DType::kF32)]) return peak.Bad("has no fp32");
  if (field.Has("reached")) {
    HEDDLE_ASSIGN(const JsonField reached, field.Object("reached"));
    HEDDLE_ASSIGN(device.reached, ReadRates(reached));
    for (size_t i = 0; i < kDTypeCount; ++i) {
      if (device.reached[i] && !device.peak[i]) return reached.Bad("a type that has no peak");
    }
    HEDDLE_ASSIGN(device.reached_source, field.String("reached_source"));
  }
  HEDDLE_ASSIGN(device.type.memory, field.BytesOf("memory"));
  HEDDLE_ASSIGN(device.type.memory_bandwidth, field.BandwidthOf("memory_bandwidth"));
  HEDDLE_ASSIGN(device.type.launch_overhead, ParseSeconds(kLaunch));
  if (field.Has("launch")) {
    HEDDLE_ASSIGN(device.type.launch_overhead, field.SecondsOf("launch"));
  }
  HEDDLE_ASSIGN(device.source, field.String("source"));
  return Ok();
}

Result<CatalogueDevice> ReadDevice(const std::string& name, const JsonField& field) {
  HEDDLE_RETURN_IF_ERROR(field.OnlyKeys({"about", "peak", "reached", "memory", "memory_bandwidth",
                                         "launch", "nvlink", "pcie", "source", "reached_source"}));
  CatalogueDevice device;
  device.name = name;
  device.type.name = name;
  HEDDLE_ASSIGN(device.about, field.String("about"));
  HEDDLE_RETURN_IF_ERROR(ReadFigures(field, device));
  HEDDLE_ASSIGN(device.nvlink, Optional(field, "nvlink"));
  HEDDLE_ASSIGN(device.pcie, field.String("pcie"));
  return device;
}

Result<CatalogueLink> ReadLink(const std::string& name, const JsonField& field) {
  HEDDLE_RETURN_IF_ERROR(field.OnlyKeys({"about", "kind", "bandwidth", "latency", "source"}));
  CatalogueLink link;
  link.name = name;
  HEDDLE_ASSIGN(link.about, field.String("about"));
  HEDDLE_ASSIGN(const std::string kind, field.String("kind"));
  HEDDLE_ASSIGN(link.place, ReadChoice<LinkPlace>(field.where() + ".kind", kind));
  HEDDLE_ASSIGN(link.link.bandwidth, field.BandwidthOf("bandwidth"));
  HEDDLE_ASSIGN(link.link.latency, field.SecondsOf("latency"));
  HEDDLE_ASSIGN(link.source, field.String("source"));
  return link;
}

Status CheckLinks(const DeviceCatalogue& catalogue, const std::string& file) {
  for (const CatalogueDevice& device : catalogue.devices) {
    for (const std::string& name : {device.nvlink, device.pcie}) {
      const bool known = std::any_of(catalogue.links.begin(), catalogue.links.end(),
                                     [&](const CatalogueLink& link) {
                                       return link.name == name && link.place == LinkPlace::kInside;
                                     });
      if (known || name.empty()) continue;
      return BadInput(fmt::format("{}: device.{}", file, device.name),
                      fmt::format("no link inside a node is named \"{}\"", name));
    }
  }
  return Ok();
}

template <class Entry>
const Entry* FindEntry(const std::vector<Entry>& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [&](const Entry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

template <class Entry>
std::vector<std::string> NamesOf(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.name);
  return names;
}

}  // namespace

Result<DeviceCatalogue> ParseDeviceCatalogue(const std::string& text, const std::string& file) {
  HEDDLE_ASSIGN(const Json json, ParseToml(text, file));
  const JsonField root(json, file);
  HEDDLE_RETURN_IF_ERROR(root.OnlyKeys({"assumed_part", "device", "link"}));
  DeviceCatalogue catalogue;
  HEDDLE_ASSIGN(catalogue.assumed_part, root.Number("assumed_part"));
  if (!(catalogue.assumed_part > 0 && catalogue.assumed_part <= 1)) {
    return root.Bad("assumed_part is no part of a whole", "expected more than 0, at most 1");
  }
  HEDDLE_ASSIGN(const JsonField devices, root.Object("device"));
  for (const auto& item : devices.json().items()) {
    HEDDLE_ASSIGN(const JsonField entry, devices.Object(item.key()));
    HEDDLE_ASSIGN(CatalogueDevice device, ReadDevice(item.key(), entry));
    SetRates(device, catalogue.assumed_part);
    catalogue.devices.push_back(std::move(device));
  }
  HEDDLE_ASSIGN(const JsonField links, root.Object("link"));
  for (const auto& item : links.json().items()) {
    HEDDLE_ASSIGN(const JsonField entry, links.Object(item.key()));
    HEDDLE_ASSIGN(catalogue.links.emplace_back(), ReadLink(item.key(), entry));
  }
  HEDDLE_RETURN_IF_ERROR(CheckLinks(catalogue, file));
  return catalogue;
}

const DeviceCatalogue& KnownDevices() {
  static const DeviceCatalogue catalogue = [] {
    Result<DeviceCatalogue> read = ParseDeviceCatalogue(kDeviceCatalogueToml, "devices.toml");
    HEDDLE_CHECK(read.ok());  // a mistake in the file that was built in
    return std::move(read).value();
  }();
  return catalogue;
}

void DeriveFlops(DeviceTypeSpec& type) {
  const FlopRate f32 = type.rate(DType::kF32);
  for (size_t i = 0; i < kDTypeCount; ++i) {
    if (type.flops_given[i]) continue;
    type.flops[i] = i == static_cast<size_t>(DType::kF64) ? f32 / 2 : f32;
  }
}

void JoinBySwitch(const LinkSpec& link, const NodeSpec& node, ClusterSpec& spec) {
  const std::string all = node.count ? "*" : "";
  const std::string name = node.name + kSwitchSuffix;
  spec.switches.push_back({name, node.count});
  int64_t devices = 0;
  for (const NodeSpec::Devices& some : node.devices) devices += some.count;
  for (int64_t i = 0; i < std::min<int64_t>(devices, kMostDevicesInNode); ++i) {
    spec.links.push_back({{fmt::format("{}{}:{}", node.name, all, i), name + all}, link});
  }
}

const CatalogueDevice* FindDevice(std::string_view name) {
  return FindEntry(KnownDevices().devices, name);
}

const CatalogueLink* FindLink(std::string_view name) {
  return FindEntry(KnownDevices().links, name);
}

std::vector<std::string> KnownDeviceNames() { return NamesOf(KnownDevices().devices); }
std::vector<std::string> KnownLinkNames() { return NamesOf(KnownDevices().links); }

}  // namespace heddle
