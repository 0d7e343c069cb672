#include "model/layer_profile.h"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <set>

#include "base/file.h"
#include "base/text.h"

namespace heddle {
namespace {

constexpr std::string_view kSeparator = " -- ";
constexpr std::string_view kLayerForm =
    "expected: node5 -- name -- forward_compute_time=1.5, backward_compute_time=3, "
    "activation_size=4096, parameter_size=0";
// Far above anything measured, far below what would overflow a sum of them.
constexpr double kMostBytes = 1e15;
constexpr double kMostMilliseconds = 1e12;
constexpr size_t kMostShown = 60;  // bytes of a text in an error

std::string Shown(std::string_view text) {
  return text.size() <= kMostShown ? std::string(text)
                                   : std::string(text.substr(0, kMostShown)) + "...";
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// A number of at least 0, or a list of them "[a; b]", which counts as its sum.
std::optional<double> ParseSum(std::string_view text, double most) {
  if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
  } else if (text.find(';') != std::string_view::npos) {
    return std::nullopt;
  }
  double sum = 0;
  for (const std::string_view piece : SplitAt(text, ';')) {
    const auto value = ParseReal(Trimmed(piece));
    if (!value || *value < 0) return std::nullopt;
    sum += *value;
  }
  if (!(sum <= most)) return std::nullopt;
  return sum;
}

enum Field : size_t { kForward, kBackward, kActivation, kParameter };
constexpr std::array<std::string_view, 4> kFields = {
    "forward_compute_time", "backward_compute_time", "activation_size", "parameter_size"};

// "forward_compute_time=2.69, …, parameter_size=50384896": each field once, no other.
Result<std::array<double, 4>> ParseFields(std::string_view text, const std::string& where) {
  std::array<std::optional<double>, 4> values;
  for (const std::string_view piece : SplitAt(text, ',')) {
    const std::string_view pair = Trimmed(piece);
    const size_t equals = pair.find('=');
    const std::string_view key = Trimmed(pair.substr(0, equals));
    size_t field = 0;
    while (field < kFields.size() && kFields[field] != key) ++field;
    if (equals == std::string_view::npos || field == kFields.size()) {
      return BadInput(where, fmt::format("\"{}\" is not a field of a layer", Shown(pair)),
                      std::string(kLayerForm));
    }
    if (values[field]) return BadInput(where, fmt::format("{} is given twice", key));
    const bool is_time = field == kForward || field == kBackward;
    const std::string_view value = Trimmed(pair.substr(equals + 1));
    values[field] = is_time && value.starts_with('[')
                        ? std::nullopt
                        : ParseSum(value, is_time ? kMostMilliseconds : kMostBytes);
    if (values[field]) continue;
    return BadInput(where, fmt::format("{} = \"{}\"", key, Shown(value)),
                    is_time ? "expected milliseconds, at least 0"
                            : "expected bytes, at least 0, or a list of them as in [4096; 128]");
  }
  std::array<double, 4> found{};
  for (size_t field = 0; field < kFields.size(); ++field) {
    if (!values[field]) {
      return BadInput(where, fmt::format("no {}", kFields[field]), std::string(kLayerForm));
    }
    found[field] = *values[field];
  }
  return found;
}

struct EdgeLine {
  std::string_view from;
  std::string_view to;
  std::string where;
};

// Layers as they come; edges wait until every layer is known.
class ProfileReader {
 public:
  explicit ProfileReader(const std::string& file) : file_(file) {}

  Status ReadLine(std::string_view raw, int64_t number) {
    const std::string_view line = Trimmed(raw);
    if (line.empty()) return Ok();
    const std::string where = fmt::format("{}:{}", file_, number);
    const size_t first = line.find(kSeparator);
    if (first == std::string_view::npos) {
      return BadInput(where, fmt::format("\"{}\" is neither a layer nor an edge", Shown(line)),
                      std::string(kLayerForm) + "; or an edge: node4 -- node5");
    }
    const std::string_view id = Trimmed(line.substr(0, first));
    // From the separator's last blank: "node1 --  -- …" is a layer without a description.
    const std::string_view rest = line.substr(first + kSeparator.size() - 1);
    if (rest.rfind(kSeparator) != std::string_view::npos) return ReadLayer(id, rest, where);
    const std::string_view to = Trimmed(rest);
    if (to.find('=') != std::string_view::npos && !index_.contains(to)) {
      return BadInput(where, "a layer without a name", std::string(kLayerForm));
    }
    edges_.push_back({id, to, where});
    return Ok();
  }

  Result<LayerProfile> Finish() {
    if (profile_.layers.empty()) {
      return BadInput(file_, "no layers: not a profile", std::string(kLayerForm));
    }
    std::set<std::pair<int, int>> seen;  // an edge given twice says no more than once
    for (const EdgeLine& edge : edges_) {
      HEDDLE_ASSIGN(const int from, IndexOf(edge.from, edge.where));
      HEDDLE_ASSIGN(const int to, IndexOf(edge.to, edge.where));
      if (seen.emplace(from, to).second) profile_.edges.emplace_back(from, to);
    }
    HEDDLE_RETURN_IF_ERROR(CheckAcyclic());
    return std::move(profile_);
  }

 private:
  // `rest` is "name -- fields", perhaps with " -- stage_id=3" as PipeDream's optimizer adds it.
  Status ReadLayer(std::string_view id, std::string_view rest, const std::string& where) {
    size_t last = rest.rfind(kSeparator);
    if (Trimmed(rest.substr(last + kSeparator.size())).starts_with("stage_id=")) {
      rest = rest.substr(0, last);
      last = rest.rfind(kSeparator);
      if (last == std::string_view::npos) {
        return BadInput(where, "a layer without a name", std::string(kLayerForm));
      }
    }
    if (id.empty()) return BadInput(where, "a layer without an id", std::string(kLayerForm));
    HEDDLE_ASSIGN(const auto fields, ParseFields(rest.substr(last + kSeparator.size()), where));
    const auto [known, is_new] = index_.emplace(id, profile_.layers.size());
    if (!is_new) {
      return BadInput(where, fmt::format("layer {} is given twice", Shown(id)),
                      "each layer needs an id of its own, as in node5");
    }
    places_.push_back(where);
    profile_.layers.push_back({std::string(id), std::string(Trimmed(rest.substr(0, last))),
                               Seconds{fields[kForward] * 1e-3}, Seconds{fields[kBackward] * 1e-3},
                               fields[kActivation], fields[kParameter]});
    return Ok();
  }

  Result<int> IndexOf(std::string_view id, const std::string& where) const {
    const auto found = index_.find(id);
    if (found != index_.end()) return static_cast<int>(found->second);
    return BadInput(where, fmt::format("an edge with the unknown layer \"{}\"", Shown(id)),
                    "both ends of an edge are ids of layers, as in node4 -- node5");
  }

  // Walks back from a layer that never became ready: among such, every one has such an input.
  Status CheckAcyclic() const {
    const std::vector<int> order = profile_.TopologicalOrder();
    if (order.size() == profile_.layers.size()) return Ok();
    std::vector<bool> ordered(profile_.layers.size());
    for (const int layer : order) ordered[static_cast<size_t>(layer)] = true;
    std::map<int, int> input;
    for (const auto& [from, to] : profile_.edges) {
      if (!ordered[static_cast<size_t>(from)]) input[to] = from;
    }
    int at = 0;
    while (ordered[static_cast<size_t>(at)]) ++at;
    std::set<int> visited;
    while (visited.insert(at).second) at = input.at(at);
    const auto index = static_cast<size_t>(at);
    return BadInput(places_[index],
                    fmt::format("layer {} depends on itself", Shown(profile_.layers[index].id)),
                    "edges go from a layer to one that reads its output, without cycles");
  }

  const std::string& file_;
  LayerProfile profile_;
  std::map<std::string, size_t, std::less<>> index_;  // of a layer, by id
  std::vector<std::string> places_;                   // of the layers
  std::vector<EdgeLine> edges_;
};

}  // namespace

std::vector<int> LayerProfile::TopologicalOrder() const {
  std::vector<int> missing(layers.size());
  std::vector<std::vector<int>> readers(layers.size());
  for (const auto& [from, to] : edges) {
    readers[static_cast<size_t>(from)].push_back(to);
    ++missing[static_cast<size_t>(to)];
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (missing[i] == 0) ready.push(static_cast<int>(i));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int reader : readers[static_cast<size_t>(order.back())]) {
      if (--missing[static_cast<size_t>(reader)] == 0) ready.push(reader);
    }
  }
  return order;
}

Result<LayerProfile> ParseLayerProfile(std::string_view text, const std::string& file) {
  ProfileReader reader(file);
  int64_t number = 0;
  for (const std::string_view line : SplitAt(text, '\n')) {
    HEDDLE_RETURN_IF_ERROR(reader.ReadLine(line, ++number));
  }
  return reader.Finish();
}

Result<LayerProfile> LoadLayerProfile(const std::string& path) {
  HEDDLE_ASSIGN(const std::string text, ReadFile(path, kMostTextBytes));
  return ParseLayerProfile(text, path);
}

}  // namespace heddle
