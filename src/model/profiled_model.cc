#include "model/profiled_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>

#include "model/autodiff.h"
#include "model/graph_builder.h"

namespace heddle {
namespace {

constexpr double kMostElements = 1e15;  // of one tensor: its bytes must fit 64 bits

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Ids as names of tensors, distinct: "node5" stays, "5-a" becomes "_5_a".
class TensorNames {
 public:
  std::string For(std::string name) {
    for (char& c : name) c = IsWordCharacter(c) ? c : '_';
    if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) name = "_" + name;
    std::string unique = name;
    for (int again = 2; !taken_.insert(unique).second; ++again) {
      unique = fmt::format("{}_{}", name, again);
    }
    return unique;
  }

 private:
  std::set<std::string> taken_;
};

// "node5 Conv2d" of node5 and "Conv2d(3, 64)": for tables.
std::string LayerName(const std::string& name, const std::string& description) {
  constexpr size_t kMostShown = 20;
  const auto end = std::find_if_not(description.begin(), description.end(),
                                    [](char c) { return IsWordCharacter(c) || c == '-'; });
  const std::string kind = std::string(description.begin(), end).substr(0, kMostShown);
  return kind.empty() ? name : name + " " + kind;
}

// UTF-8 without quotes and control characters.
bool IsPlainText(std::string_view text) {
  size_t following = 0;  // bytes of a character that are still to come
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool continues = (byte & 0xC0) == 0x80;
    if (continues != (following > 0) || byte < ' ' || c == '"') return false;
    if (continues) {
      --following;
    } else if (byte >= 0xC2) {
      following = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
      if (byte > 0xF4) return false;
    } else if (byte >= 0x80) {
      return false;
    }
  }
  return following == 0;
}

int64_t Elements(double bytes, DType dtype) {
  return std::max<int64_t>(1, std::llround(bytes / static_cast<double>(SizeOf(dtype))));
}

class ProfileWriter {
 public:
  ProfileWriter(const LayerProfile& profile, const ModelOptions& options)
      : p_(profile), o_(options), g_(options.batch, options.dtype), made_(profile.layers.size()) {}

  Result<Graph> Write() {
    inputs_.resize(p_.layers.size());
    for (const auto& [from, to] : p_.edges) inputs_[static_cast<size_t>(to)].push_back(from);
    x_ = g_.Input("x", o_.dtype, {1});
    for (const int layer : p_.TopologicalOrder()) {
      HEDDLE_RETURN_IF_ERROR(Add(static_cast<size_t>(layer)));
    }
    AddTraining(g_, {o_.optimizer, o_.clip});
    return g_.Finish();
  }

 private:
  Status Add(size_t index) {
    const ProfiledLayer& layer = p_.layers[index];
    const std::vector<int>& from = inputs_[index];
    const std::string where = "layer " + layer.id;
    if (from.size() > GraphBuilder::kMostOpaqueInputs) {
      return BadInput(where, fmt::format("has {} inputs", from.size()),
                      fmt::format("at most {}: gather some in a layer between",
                                  GraphBuilder::kMostOpaqueInputs));
    }
    const int64_t outputs =
        Elements(layer.activation_bytes / static_cast<double>(o_.profile_batch), o_.dtype);
    if (static_cast<double>(outputs) * static_cast<double>(o_.batch) > kMostElements) {
      return BadInput(where, "its output is too large for this batch", "is --profile-batch right?");
    }
    const int64_t weights =
        layer.parameter_bytes > 0 ? Elements(layer.parameter_bytes, o_.dtype) : 0;
    const bool reads_data = from.empty() && layer.description.starts_with("Input");
    std::vector<TensorId> inputs;
    for (const int source : from) inputs.push_back(made_[static_cast<size_t>(source)]);
    if (inputs.empty()) inputs.push_back(x_);
    const std::string name = names_.For(layer.id);
    g_.BeginLayer(LayerName(name, layer.description));
    made_[index] =
        g_.Opaque(name, inputs, outputs, weights,
                  {reads_data ? Seconds{} : layer.forward, reads_data ? Seconds{} : layer.backward,
                   o_.profile_batch, o_.profile_rate});
    return Ok();
  }

  const LayerProfile& p_;
  const ModelOptions& o_;
  GraphBuilder g_;
  TensorNames names_;
  TensorId x_;
  std::vector<std::vector<int>> inputs_;  // of each layer, in the order of the edges
  std::vector<TensorId> made_;            // outputs
};

}  // namespace

Result<Graph> BuildProfiledModel(const LayerProfile& profile, const ModelOptions& options) {
  HEDDLE_CHECK(options.profile_batch >= 1);
  return ProfileWriter(profile, options).Write();
}

Result<Graph> LoadProfiledModel(const std::string& path, const ModelOptions& options) {
  if (!IsPlainText(path)) {
    return BadInput("model", "a path with quotes, control characters or bytes that are not UTF-8",
                    "plans are JSON: rename the file");
  }
  if (options.profile_batch < 1) {
    return BadInput(path, "is a layer profile: how many samples was it measured with?",
                    "give the number with --profile-batch");
  }
  HEDDLE_ASSIGN(const LayerProfile profile, LoadLayerProfile(path));
  Result<Graph> graph = BuildProfiledModel(profile, options);
  if (graph.ok()) return graph;
  const Error& error = graph.error();
  return Error{error.kind, path + ": " + error.where, error.what, error.hint};
}

}  // namespace heddle
