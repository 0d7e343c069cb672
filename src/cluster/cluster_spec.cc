#include "cluster/cluster_spec.h"

#include <fmt/format.h>

#include <initializer_list>
#include <set>
#include <string_view>
#include <utility>

#include "base/json_field.h"
#include "base/json_text.h"
#include "base/text.h"
#include "cluster/device_catalogue.h"

namespace heddle {
namespace {

constexpr std::string_view kDefaultLaunch = "5 us";

struct DTypeField {
  DType type;
  std::string_view name;
};
constexpr DTypeField kFlopsFields[] = {
    {DType::kF64, "fp64"},
    {DType::kF32, "fp32"},
    {DType::kBf16, "bf16"},
    {DType::kF16, "fp16"},
};

size_t IndexOf(DType type) { return static_cast<size_t>(type); }

// --- reading ---

Result<FlopRate> ReadFlopRate(const JsonField& field) {
  if (field.json().is_number()) {
    return field.Bad(fmt::format("{} has no unit", JsonText(field.json())),
                     "write it as text with a unit, e.g. \"14 TFLOP/s\"");
  }
  HEDDLE_ASSIGN(const std::string text, field.AsString());
  const Result<FlopRate> rate = ParseFlopRate(text);
  if (!rate.ok()) return field.Bad(rate.error().what, rate.error().hint);
  return rate;
}

// A table without fp32 adds to what is given already; any other rates replace it.
Status ReadFlops(const JsonField& field, DeviceTypeSpec& type) {
  const auto give = [&](DType dtype, FlopRate rate) {
    type.flops[IndexOf(dtype)] = rate;
    type.flops_given[IndexOf(dtype)] = true;
  };
  if (!field.json().is_object()) {
    HEDDLE_ASSIGN(const FlopRate rate, ReadFlopRate(field));
    type.flops_given = {};
    give(DType::kF32, rate);
  } else {
    HEDDLE_RETURN_IF_ERROR(field.OnlyKeys({"fp64", "fp32", "bf16", "fp16"}));
    const bool known = type.flops_given[IndexOf(DType::kF32)];
    if (!known) HEDDLE_RETURN_IF_ERROR(field.Child("fp32"));  // the others may be derived from it
    if (field.Has("fp32")) type.flops_given = {};
    for (const auto& [dtype, name] : kFlopsFields) {
      if (!field.Has(name)) continue;
      HEDDLE_ASSIGN(const JsonField child, field.Child(name));
      HEDDLE_ASSIGN(const FlopRate rate, ReadFlopRate(child));
      give(dtype, rate);
    }
  }
  DeriveFlops(type);
  return Ok();
}

// A device of the catalogue needs no figure; those that are here override its own.
Result<DeviceTypeSpec> ReadDeviceType(const std::string& name, const JsonField& field) {
  HEDDLE_RETURN_IF_ERROR(
      field.OnlyKeys({"flops", "memory", "memory_bandwidth", "launch", "message_bandwidth"}));
  const CatalogueDevice* known = FindDevice(name);
  DeviceTypeSpec type;
  if (known != nullptr) {
    type = known->type;
  } else {
    type.name = name;
    HEDDLE_ASSIGN(type.launch_overhead, ParseSeconds(kDefaultLaunch));
  }
  const auto stated = [&](std::string_view key) { return known == nullptr || field.Has(key); };
  if (stated("flops")) {
    HEDDLE_ASSIGN(const JsonField flops, field.Child("flops"));
    HEDDLE_RETURN_IF_ERROR(ReadFlops(flops, type));
  }
  if (stated("memory")) {
    HEDDLE_ASSIGN(type.memory, field.BytesOf("memory"));
  }
  if (stated("memory_bandwidth")) {
    HEDDLE_ASSIGN(type.memory_bandwidth, field.BandwidthOf("memory_bandwidth"));
  }
  if (field.Has("launch")) {
    HEDDLE_ASSIGN(type.launch_overhead, field.SecondsOf("launch"));
  }
  if (field.Has("message_bandwidth")) {
    HEDDLE_ASSIGN(type.message_bandwidth, field.BandwidthOf("message_bandwidth"));
  }
  return type;
}

// A link of the catalogue. `field` is its name, as text.
Result<LinkSpec> ReadLinkName(const JsonField& field) {
  HEDDLE_ASSIGN(const std::string name, field.AsString());
  if (const CatalogueLink* known = FindLink(name)) return known->link;
  return field.Bad(fmt::format("no link is known as \"{}\"", name),
                   SuggestName(name, KnownLinkNames()));
}

// The fields of a link; `field` may have others (between), which the caller checks.
Result<LinkSpec> ReadLinkFields(const JsonField& field) {
  LinkSpec link;
  const bool known = field.Has("type");
  if (known) {
    HEDDLE_ASSIGN(const JsonField type, field.Child("type"));
    HEDDLE_ASSIGN(link, ReadLinkName(type));
  }
  if (!known || field.Has("bandwidth")) {
    HEDDLE_ASSIGN(link.bandwidth, field.BandwidthOf("bandwidth"));
  }
  if (field.Has("latency")) {
    HEDDLE_ASSIGN(link.latency, field.SecondsOf("latency"));
  }
  if (field.Has("duplex")) {
    HEDDLE_ASSIGN(const JsonField duplex, field.Child("duplex"));
    HEDDLE_ASSIGN(const std::string text, duplex.AsString());
    if (text != "full" && text != "half") {
      return duplex.Bad(fmt::format("found \"{}\"", text), "expected \"full\" or \"half\"");
    }
    link.half_duplex = text == "half";
  }
  return link;
}

// The link inside a node: a name, or a table of which a name may be a part. A link that is known by
// name leads to a switch, unless the table says otherwise: its bandwidth is all that a device has.
struct InnerLink {
  LinkSpec link;
  bool by_switch = false;
};

Result<InnerLink> ReadInnerLink(const JsonField& node) {
  InnerLink read;
  HEDDLE_ASSIGN(const JsonField link, node.Child("link"));
  if (link.json().is_string()) {
    HEDDLE_ASSIGN(read.link, ReadLinkName(link));
    read.by_switch = true;
    return read;
  }
  HEDDLE_ASSIGN(const JsonField table, node.Object("link"));
  HEDDLE_RETURN_IF_ERROR(table.OnlyKeys({"type", "bandwidth", "latency", "duplex", "through"}));
  HEDDLE_ASSIGN(read.link, ReadLinkFields(table));
  read.by_switch = table.Has("type");
  if (table.Has("through")) {
    HEDDLE_ASSIGN(const JsonField through, table.Child("through"));
    HEDDLE_ASSIGN(const std::string text, through.AsString());
    if (text != "switch" && text != "pairs") {
      return through.Bad(fmt::format("found \"{}\"", text), "expected \"switch\" or \"pairs\"");
    }
    read.by_switch = text == "switch";
  }
  return read;
}

Result<std::optional<int>> ReadCount(const JsonField& field, int most) {
  if (!field.Has("count")) return std::optional<int>();
  HEDDLE_ASSIGN(const int64_t count, field.Int("count", 1, most));
  return std::optional<int>(static_cast<int>(count));
}

Result<NodeSpec> ReadNode(const JsonField& field) {
  HEDDLE_RETURN_IF_ERROR(field.OnlyKeys({"name", "count", "devices", "link"}));
  NodeSpec node;
  HEDDLE_ASSIGN(node.name, field.String("name"));
  HEDDLE_ASSIGN(node.count, ReadCount(field, kMostDevices));
  HEDDLE_ASSIGN(const JsonField devices, field.Array("devices"));
  for (size_t i = 0; i < devices.size(); ++i) {
    const JsonField entry = devices.Element(i);
    HEDDLE_RETURN_IF_ERROR(entry.OnlyKeys({"type", "count"}));
    NodeSpec::Devices& read = node.devices.emplace_back();
    HEDDLE_ASSIGN(read.type, entry.String("type"));
    HEDDLE_ASSIGN(const std::optional<int> count, ReadCount(entry, kMostDevicesInNode));
    read.count = count.value_or(1);
  }
  if (field.Has("link")) {
    HEDDLE_ASSIGN(const InnerLink inner, ReadInnerLink(field));
    if (!inner.by_switch) node.link = inner.link;
  }
  return node;
}

Result<SwitchSpec> ReadSwitch(const JsonField& field) {
  HEDDLE_RETURN_IF_ERROR(field.OnlyKeys({"name", "count"}));
  SwitchSpec read;
  HEDDLE_ASSIGN(read.name, field.String("name"));
  HEDDLE_ASSIGN(read.count, ReadCount(field, kMostSwitches));
  return read;
}

Result<EdgeSpec> ReadEdge(const JsonField& field) {
  HEDDLE_RETURN_IF_ERROR(field.OnlyKeys({"between", "type", "bandwidth", "latency", "duplex"}));
  EdgeSpec edge;
  HEDDLE_ASSIGN(const JsonField between, field.Array("between"));
  if (between.size() != 2) {
    return between.Bad(fmt::format("found {} ends", between.size()),
                       "expected two, e.g. between = [\"a\", \"b\"]");
  }
  HEDDLE_ASSIGN(edge.between[0], between.Element(0).AsString());
  HEDDLE_ASSIGN(edge.between[1], between.Element(1).AsString());
  HEDDLE_ASSIGN(edge.link, ReadLinkFields(field));
  return edge;
}

// Reads a list that may be left out, one element at a time.
template <class T>
Status ReadList(const JsonField& json, std::string_view key, Result<T> (*read)(const JsonField&),
                std::vector<T>& list) {
  if (!json.Has(key)) return Ok();
  HEDDLE_ASSIGN(const JsonField array, json.Array(key));
  for (size_t i = 0; i < array.size(); ++i) {
    HEDDLE_ASSIGN(list.emplace_back(), read(array.Element(i)));
  }
  return Ok();
}

// --- writing ---

// The shortest text that reads back as exactly the same value.
template <class T>
std::string ExactText(T value, Result<T> (*parse)(std::string_view),
                      std::initializer_list<std::string_view> units) {
  std::string best;
  for (const std::string_view unit : units) {
    const T one = parse(fmt::format("1 {}", unit)).value();
    const double number = static_cast<double>(value.value) / static_cast<double>(one.value);
    const std::string text = fmt::format("{} {}", ExactNumber(number), unit);
    const Result<T> again = parse(text);
    if (!again.ok() || again.value() != value) continue;
    if (best.empty() || text.size() < best.size()) best = text;
  }
  HEDDLE_CHECK(!best.empty());  // the first unit has the factor one, which is exact
  return best;
}

std::string ExactText(Bytes value) {
  return ExactText<Bytes>(value, &ParseBytes, {"B", "GiB", "MiB", "KiB", "GB", "MB", "kB"});
}
std::string ExactText(Bandwidth value) {
  return ExactText<Bandwidth>(value, &ParseBandwidth, {"B/s", "GB/s", "MB/s", "kB/s", "Gbit/s"});
}
std::string ExactText(Seconds value) {
  return ExactText<Seconds>(value, &ParseSeconds, {"s", "us", "ms", "ns"});
}
std::string ExactText(FlopRate value) {
  return ExactText<FlopRate>(value, &ParseFlopRate, {"FLOP/s", "TFLOP/s", "GFLOP/s", "MFLOP/s"});
}

Json WriteDeviceType(const DeviceTypeSpec& type) {
  Json flops;
  for (const auto& [dtype, name] : kFlopsFields) {
    if (type.flops_given[IndexOf(dtype)]) flops[name] = ExactText(type.rate(dtype));
  }
  const bool only_f32 = flops.size() == 1 && flops.contains("fp32");
  Json json = {{"flops", only_f32 ? flops["fp32"] : flops},
               {"memory", ExactText(type.memory)},
               {"memory_bandwidth", ExactText(type.memory_bandwidth)},
               {"launch", ExactText(type.launch_overhead)}};
  if (type.message_bandwidth) json["message_bandwidth"] = ExactText(*type.message_bandwidth);
  return json;
}

void WriteLinkFields(const LinkSpec& link, Json& json) {
  json["bandwidth"] = ExactText(link.bandwidth);
  json["latency"] = ExactText(link.latency);
  if (link.half_duplex) json["duplex"] = "half";
}

Json WriteNode(const NodeSpec& node) {
  Json json = {{"name", node.name}};
  if (node.count) json["count"] = *node.count;
  json["devices"] = Json::array();
  for (const NodeSpec::Devices& devices : node.devices) {
    json["devices"].push_back({{"type", devices.type}, {"count", devices.count}});
  }
  if (node.link) WriteLinkFields(*node.link, json["link"]);
  return json;
}

// Types that nodes name and the file does not define are those of the catalogue.
void AddKnownTypes(ClusterSpec& spec) {
  std::set<std::string> defined;
  for (const DeviceTypeSpec& type : spec.types) defined.insert(type.name);
  for (const NodeSpec& node : spec.nodes) {
    for (const NodeSpec::Devices& devices : node.devices) {
      if (!defined.insert(devices.type).second) continue;
      const CatalogueDevice* known = FindDevice(devices.type);
      if (known != nullptr) spec.types.push_back(known->type);
    }
  }
}

// The switches inside nodes, and the links to them, behind those that the file lists.
Status AddInnerSwitches(const JsonField& json, ClusterSpec& spec) {
  HEDDLE_ASSIGN(const JsonField nodes, json.Array("node"));
  for (size_t i = 0; i < spec.nodes.size(); ++i) {
    if (!nodes.Element(i).Has("link")) continue;
    HEDDLE_ASSIGN(const InnerLink inner, ReadInnerLink(nodes.Element(i)));
    if (inner.by_switch) JoinBySwitch(inner.link, spec.nodes[i], spec);
  }
  return Ok();
}

}  // namespace

Result<ClusterSpec> ClusterSpecFromJson(const JsonField& json) {
  HEDDLE_RETURN_IF_ERROR(json.OnlyKeys({"schema", "device_type", "node", "switch", "link"}));
  HEDDLE_ASSIGN(const JsonField schema, json.Child("schema"));
  HEDDLE_ASSIGN(const std::string found, schema.AsString());
  if (found != kClusterSchema) {
    return schema.Bad(fmt::format("found \"{}\"", found),
                      fmt::format("this heddle reads \"{}\"", kClusterSchema));
  }
  ClusterSpec spec;
  if (json.Has("device_type")) {
    HEDDLE_ASSIGN(const JsonField types, json.Object("device_type"));
    for (const auto& item : types.json().items()) {
      HEDDLE_ASSIGN(const JsonField type, types.Object(item.key()));
      HEDDLE_ASSIGN(spec.types.emplace_back(), ReadDeviceType(item.key(), type));
    }
  }
  HEDDLE_RETURN_IF_ERROR(json.Array("node"));
  HEDDLE_RETURN_IF_ERROR(ReadList(json, "node", &ReadNode, spec.nodes));
  AddKnownTypes(spec);
  HEDDLE_RETURN_IF_ERROR(ReadList(json, "switch", &ReadSwitch, spec.switches));
  HEDDLE_RETURN_IF_ERROR(ReadList(json, "link", &ReadEdge, spec.links));
  HEDDLE_RETURN_IF_ERROR(CheckClusterSpec(spec, json.where()));  // as many links as devices follow
  HEDDLE_RETURN_IF_ERROR(AddInnerSwitches(json, spec));
  HEDDLE_RETURN_IF_ERROR(CheckClusterSpec(spec, json.Bad("").where));
  return spec;
}

Json ClusterSpecToJson(const ClusterSpec& spec) {
  Json json = {{"schema", kClusterSchema}};
  json["device_type"] = Json::object();
  for (const DeviceTypeSpec& type : spec.types) {
    json["device_type"][type.name] = WriteDeviceType(type);
  }
  json["node"] = Json::array();
  for (const NodeSpec& node : spec.nodes) json["node"].push_back(WriteNode(node));
  for (const SwitchSpec& entry : spec.switches) {
    Json& written = json["switch"].emplace_back(Json{{"name", entry.name}});
    if (entry.count) written["count"] = *entry.count;
  }
  for (const EdgeSpec& edge : spec.links) {
    Json& written = json["link"].emplace_back(Json{{"between", edge.between}});
    WriteLinkFields(edge.link, written);
  }
  return json;
}

}  // namespace heddle
