#include "cli/devices.h"

#include <fmt/format.h>

#include "base/json_field.h"
#include "base/text.h"
#include "cluster/device_catalogue.h"

namespace heddle {
namespace {

std::string_view SpokenName(const Choice<DType>& choice) {
  return choice.spoken.empty() ? choice.name : choice.spoken;
}

Json RatesJson(const CatalogueDevice::Rates& rates) {
  Json json = Json::object();
  for (const auto& choice : Choices<DType>::kTable) {
    const auto& rate = rates[static_cast<size_t>(choice.value)];
    if (rate) json[std::string(SpokenName(choice))] = rate->value;
  }
  return json;
}

// The rates that a cluster gets, of the types that the device has.
CatalogueDevice::Rates UsedRates(const CatalogueDevice& device) {
  CatalogueDevice::Rates used;
  for (size_t i = 0; i < kDTypeCount; ++i) {
    if (device.peak[i]) used[i] = device.type.flops[i];
  }
  return used;
}

Json DeviceJson(const CatalogueDevice& device) {
  Json source = {{"flops", device.source},
                 {"memory_bytes", device.source},
                 {"memory_bandwidth", device.source}};
  if (!device.reached_source.empty()) source["reached"] = device.reached_source;
  Json row = {{"name", device.name},
              {"about", device.about},
              {"memory_bytes", device.type.memory.value},
              {"memory_bandwidth", device.type.memory_bandwidth.value},
              {"flops", RatesJson(device.peak)},
              {"reached", RatesJson(device.reached)},
              {"used", RatesJson(UsedRates(device))},
              {"launch", device.type.launch_overhead.value}};
  if (!device.nvlink.empty()) row["nvlink"] = device.nvlink;
  row["pcie"] = device.pcie;
  row["source"] = std::move(source);
  return row;
}

Json LinkJson(const CatalogueLink& link) {
  return {{"name", link.name},
          {"about", link.about},
          {"place", NameOf(link.place)},
          {"bandwidth", link.link.bandwidth.value},
          {"latency", link.link.latency.value},
          {"source", link.source}};
}

std::string RateText(const std::optional<FlopRate>& rate) { return rate ? ToText(*rate) : "-"; }

std::string ListText(const Terminal& terminal) {
  TextTable devices({{"device"},
                     {"memory", Align::kRight},
                     {"bandwidth", Align::kRight, 1},
                     {"fp32", Align::kRight},
                     {"bf16", Align::kRight},
                     {"fp16", Align::kRight, 2},
                     {"about"}});
  for (const CatalogueDevice& device : KnownDevices().devices) {
    const auto peak = [&](DType type) { return RateText(device.peak[static_cast<size_t>(type)]); };
    devices.AddRow({device.name, ToText(device.type.memory), ToText(device.type.memory_bandwidth),
                    peak(DType::kF32), peak(DType::kBf16), peak(DType::kF16), device.about});
  }
  TextTable links({{"link"},
                   {"bandwidth", Align::kRight},
                   {"latency", Align::kRight, 1},
                   {"place"},
                   {"about"}});
  for (const CatalogueLink& link : KnownDevices().links) {
    links.AddRow({link.name, ToText(link.link.bandwidth), ToText(link.link.latency),
                  std::string(NameOf(link.place)), link.about});
  }
  return devices.Print(terminal.style()) + "\n" + links.Print(terminal.style()) +
         "\nRates are peaks; 'heddle devices NAME' says what plans reckon with, and where each "
         "figure is from.\n";
}

std::string DeviceText(const CatalogueDevice& device, const Terminal& terminal) {
  TextTable table(
      {{"figure"}, {"value", Align::kRight}, {"plans take", Align::kRight}, {"source"}});
  const std::string assumed =
      fmt::format("; {:.0f} % of it is assumed to be reached", 100 * KnownDevices().assumed_part);
  for (const auto& choice : Choices<DType>::kTable) {
    const auto i = static_cast<size_t>(choice.value);
    if (!device.peak[i]) continue;
    const std::string name(SpokenName(choice));
    const bool published = device.reached[i].has_value();
    table.AddRow({name + " peak", RateText(device.peak[i]),
                  published ? "" : ToText(device.type.flops[i]),
                  device.source + (published ? "" : assumed)});
    if (published) {
      table.AddRow({name + " reached", RateText(device.reached[i]), ToText(device.type.flops[i]),
                    device.reached_source});
    }
  }
  const auto same = [&](const std::string& name, const std::string& text) {
    table.AddRow({name, text, text, device.source});
  };
  same("memory", ToText(device.type.memory));
  same("memory bandwidth", ToText(device.type.memory_bandwidth));
  const std::string launch = ToText(device.type.launch_overhead);
  table.AddRow({"launch of an op", launch, launch, "assumed"});
  std::string text = device.about + "\n\n" + table.Print(terminal.style());
  for (const std::string& name : {device.nvlink, device.pcie}) {
    const CatalogueLink* link = FindLink(name);
    if (link == nullptr) continue;
    text += fmt::format("\n{}: {} each way, {}\n  {}\n", name, ToText(link->link.bandwidth),
                        link->about, link->source);
  }
  return text;
}

std::string LinkText(const CatalogueLink& link) {
  return fmt::format(
      "{}\n\n{} each way, {} later, {} a node's devices\nsource: {}\n", link.about,
      ToText(link.link.bandwidth), ToText(link.link.latency),
      link.place == LinkPlace::kInside ? "between" : "from node to node, not between", link.source);
}

Error Unknown(const std::string& name) {
  std::vector<std::string> names = KnownDeviceNames();
  for (std::string& link : KnownLinkNames()) names.push_back(std::move(link));
  const auto nearest = NearestName(name, names);
  return BadInput(fmt::format("devices {}", Printable(name)), "no device or link has this name",
                  (nearest ? fmt::format("did you mean \"{}\"? ", *nearest) : std::string()) +
                      "heddle devices lists them");
}

Status Run(const std::string& name, const Terminal& terminal) {
  const CatalogueDevice* device = FindDevice(name);
  const CatalogueLink* link = FindLink(name);
  if (!name.empty() && device == nullptr && link == nullptr) return Unknown(name);
  if (!terminal.json) {
    terminal.Print(device != nullptr ? DeviceText(*device, terminal)
                   : link != nullptr ? LinkText(*link)
                                     : ListText(terminal));
    return Ok();
  }
  Json json = {{"schema", "heddle.devices/1"},
               {"assumed_part", KnownDevices().assumed_part},
               {"rows", Json::array()},
               {"links", Json::array()}};
  for (const CatalogueDevice& one : KnownDevices().devices) {
    if (name.empty() || &one == device) json["rows"].push_back(DeviceJson(one));
  }
  for (const CatalogueLink& one : KnownDevices().links) {
    if (name.empty() || &one == link) json["links"].push_back(LinkJson(one));
  }
  terminal.PrintJson(json);
  return Ok();
}

}  // namespace

void AddDevicesCommand(Commands& commands) {
  const Command command = commands.Add("devices", "List the devices and links known by name",
                                       "heddle devices a100-80gb");
  auto name = std::make_shared<std::string>();
  command.AddOption("name", *name, "A device or link: its figures, and where they are from");
  commands.OnRun(command, [name](const Terminal& terminal) { return Run(*name, terminal); });
}

}  // namespace heddle
