#include "cluster/cluster_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/text.h"
#include "cluster/device_catalogue.h"
#include "cluster/this_machine.h"

namespace heddle {
namespace {

constexpr size_t kMostLine = 4096;
constexpr int kMostGroups = 26;  // a … z
constexpr int kMostLinksOfOne = 1024;
constexpr std::string_view kSpaces = " \t";
constexpr std::string_view kDefaultNetwork = "ethernet-10";
constexpr char kNetworkSwitch[] = "net";

// Names of a whole family. The device, or the line, says which member is meant.
struct Family {
  std::string_view name;
  LinkPlace place;
  std::string_view
      like;  // whose latency it has, where the line states the bandwidth; empty: of the device
};
constexpr Family kFamilies[] = {{"nvlink", LinkPlace::kInside, ""},
                                {"pcie", LinkPlace::kInside, ""},
                                {"ib", LinkPlace::kNetwork, "ib-hdr"},
                                {"ethernet", LinkPlace::kNetwork, "ethernet-100"}};

// A piece of the line, and where it begins.
struct Piece {
  std::string_view text;
  size_t at = 0;
};

Piece Trimmed(Piece piece) {
  const size_t first = piece.text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {piece.text.substr(0, 0), piece.at};
  const size_t last = piece.text.find_last_not_of(kSpaces);
  return {piece.text.substr(first, last - first + 1), piece.at + first};
}

std::vector<Piece> PiecesOf(Piece whole, char separator) {
  std::vector<Piece> pieces;
  for (const std::string_view text : SplitAt(whole.text, separator)) {
    const auto offset = static_cast<size_t>(text.data() - whole.text.data());
    pieces.push_back(Trimmed({text, whole.at + offset}));
  }
  return pieces;
}

// Takes the first word off a piece.
Piece TakeWord(Piece& piece) {
  const size_t end = std::min(piece.text.find_first_of(kSpaces), piece.text.size());
  const Piece word{piece.text.substr(0, end), piece.at};
  piece = Trimmed({piece.text.substr(end), piece.at + end});
  return word;
}

struct Group {
  const CatalogueDevice* device = nullptr;
  int nodes = 1;
  int devices = 1;
  std::optional<LinkSpec> inside;
  std::optional<LinkSpec> network;
};

class LineReader {
 public:
  explicit LineReader(std::string_view text) : text_(text) {}

  Result<std::vector<Group>> Read() const {
    std::vector<Group> groups;
    for (const Piece& piece : PiecesOf({text_, 0}, ';')) {
      if (groups.size() == size_t{kMostGroups}) {
        return Bad(piece, fmt::format("more than {} groups", kMostGroups), "write a file");
      }
      HEDDLE_ASSIGN(groups.emplace_back(), ReadGroup(piece));
    }
    return groups;
  }

 private:
  Error Bad(const Piece& piece, const std::string& what, std::string hint = "") const {
    return BadInput(fmt::format("cluster \"{}\"", Printable(text_.substr(0, 120))),
                    fmt::format("at character {}: {}", piece.at + 1, what), std::move(hint));
  }

  Result<int> ReadNumber(const Piece& piece, int most, const char* of) const {
    const auto number = ParseInteger(piece.text);
    if (!number || *number < 1 || *number > most) {
      return Bad(piece, fmt::format("\"{}\" is no number of {}", Printable(piece.text), of),
                 fmt::format("expected 1 to {}", GroupDigits(most)));
    }
    return static_cast<int>(*number);
  }

  // "4x8", "8".
  Status ReadCounts(const Piece& word, Group& group) const {
    const size_t cross = word.text.find('x');
    if (cross == std::string_view::npos) {
      HEDDLE_ASSIGN(group.devices, ReadNumber(word, kMostDevicesInNode, "devices in a node"));
      return Ok();
    }
    HEDDLE_ASSIGN(group.nodes,
                  ReadNumber({word.text.substr(0, cross), word.at}, kMostDevices, "nodes"));
    HEDDLE_ASSIGN(group.devices, ReadNumber({word.text.substr(cross + 1), word.at + cross + 1},
                                            kMostDevicesInNode, "devices in a node"));
    return Ok();
  }

  Result<Group> ReadGroup(const Piece& piece) const {
    const std::vector<Piece> parts = PiecesOf(piece, ',');
    Piece rest = parts[0];
    if (rest.text.empty()) {
      return Bad(rest, "there is no device", "e.g. 4x8 a100-80gb, nvlink, ib 200 Gbit/s");
    }
    Group group;
    if (std::isdigit(static_cast<unsigned char>(rest.text[0])) != 0) {
      HEDDLE_RETURN_IF_ERROR(ReadCounts(TakeWord(rest), group));
    }
    const Piece name = TakeWord(rest);
    group.device = FindDevice(name.text);
    if (group.device == nullptr) return UnknownDevice(name);
    if (!rest.text.empty()) {
      return Bad(rest, fmt::format("\"{}\" after the device", Printable(rest.text)),
                 "links go after a comma");
    }
    for (size_t i = 1; i < parts.size(); ++i) {
      HEDDLE_RETURN_IF_ERROR(ReadLink(parts[i], group));
    }
    return group;
  }

  Error UnknownDevice(const Piece& name) const {
    std::string hint;
    if (const auto nearest = NearestName(name.text, KnownDeviceNames())) {
      hint = fmt::format("did you mean \"{}\"? ", *nearest);
    }
    return Bad(name, fmt::format("no device is known as \"{}\"", Printable(name.text)),
               hint + "heddle devices lists them; a file's name ends in .toml or .json");
  }

  // "nvlink", "nvlink3", "nvlink 300 GB/s", "ib-ndr 8x", "ib 8x200 Gbit/s".
  Status ReadLink(const Piece& piece, Group& group) const {
    Piece rest = piece;
    const Piece name = TakeWord(rest);
    int number = 1;
    const size_t digits = std::min(rest.text.find_first_not_of("0123456789"), rest.text.size());
    if (digits > 0 && digits < rest.text.size() && rest.text[digits] == 'x') {
      HEDDLE_ASSIGN(number,
                    ReadNumber({rest.text.substr(0, digits), rest.at}, kMostLinksOfOne, "links"));
      rest = Trimmed({rest.text.substr(digits + 1), rest.at + digits + 1});
    }
    std::optional<Bandwidth> bandwidth;
    if (!rest.text.empty()) {
      const Result<Bandwidth> read = ParseBandwidth(rest.text);
      if (!read.ok()) return Bad(rest, read.error().what, read.error().hint);
      bandwidth = read.value();
    }
    HEDDLE_ASSIGN(const CatalogueLink known, KnownLink(name, *group.device, bandwidth.has_value()));
    LinkSpec link = known.link;
    if (bandwidth) link.bandwidth = *bandwidth;
    link.bandwidth = link.bandwidth * number;
    std::optional<LinkSpec>& place =
        known.place == LinkPlace::kInside ? group.inside : group.network;
    if (place) {
      return Bad(name, known.place == LinkPlace::kInside ? "a second link inside the nodes"
                                                         : "a second link between the nodes");
    }
    place = link;
    return Ok();
  }

  Result<CatalogueLink> KnownLink(const Piece& name, const CatalogueDevice& device,
                                  bool with_bandwidth) const {
    if (const CatalogueLink* known = FindLink(name.text)) return *known;
    const auto family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                     [&](const Family& one) { return one.name == name.text; });
    if (family == std::end(kFamilies)) {
      std::vector<std::string> names = KnownLinkNames();
      for (const Family& one : kFamilies) names.emplace_back(one.name);
      return Bad(name, fmt::format("no link is known as \"{}\"", Printable(name.text)),
                 SuggestName(name.text, names));
    }
    if (!family->like.empty()) {
      if (with_bandwidth) return *FindLink(family->like);
      return Bad(name, fmt::format("\"{}\" without a bandwidth", name.text),
                 fmt::format("e.g. {} 200 Gbit/s, or a name of heddle devices: {}", name.text,
                             family->like));
    }
    const std::string& own = family->name == "nvlink" ? device.nvlink : device.pcie;
    if (!own.starts_with(family->name)) {
      return Bad(name, fmt::format("{} has no {}", device.name, name.text),
                 fmt::format("inside its node: {}", device.pcie));
    }
    return *FindLink(own);
  }

  std::string_view text_;
};

ClusterSpec SpecOf(const std::vector<Group>& groups) {
  ClusterSpec spec;
  int nodes = 0;
  for (const Group& group : groups) nodes += group.nodes;
  if (nodes > 1) spec.switches.push_back({kNetworkSwitch, std::nullopt});
  for (size_t i = 0; i < groups.size(); ++i) {
    const Group& group = groups[i];
    const bool defined =
        std::any_of(spec.types.begin(), spec.types.end(),
                    [&](const DeviceTypeSpec& type) { return type.name == group.device->name; });
    if (!defined) spec.types.push_back(group.device->type);
    NodeSpec& node = spec.nodes.emplace_back();
    node.name = std::string(1, static_cast<char>('a' + i));
    if (group.nodes > 1) node.count = group.nodes;
    node.devices = {{group.device->name, group.devices}};
    if (group.devices > 1) {
      JoinBySwitch(group.inside ? *group.inside : FindLink(group.device->pcie)->link, node, spec);
    }
    if (nodes == 1) continue;
    EdgeSpec& edge = spec.links.emplace_back();
    edge.between = {node.name + (node.count ? "*" : ""), kNetworkSwitch};
    edge.link = group.network ? *group.network : FindLink(kDefaultNetwork)->link;
  }
  return spec;
}

}  // namespace

bool IsClusterFile(std::string_view text) {
  if (text.ends_with(".toml") || text.ends_with(".json")) return true;
  if (text.substr(0, text.find_first_of(" \t,;")).find('/') != std::string_view::npos) return true;
  std::error_code ignored;
  return !text.empty() && std::filesystem::exists(std::filesystem::path(text), ignored);
}

Result<ClusterSpec> ParseClusterLine(std::string_view text) {
  if (text.size() > kMostLine) {
    return BadInput("cluster", fmt::format("a line of {} characters", text.size()),
                    "write a file, see docs/cluster.md");
  }
  if (Trimmed({text, 0}).text == "here") return ThisMachine();
  HEDDLE_ASSIGN(const std::vector<Group> groups, LineReader(text).Read());
  ClusterSpec spec = SpecOf(groups);
  HEDDLE_RETURN_IF_ERROR(CheckClusterSpec(spec, "cluster \"" + std::string(text) + "\""));
  return spec;
}

}  // namespace heddle
