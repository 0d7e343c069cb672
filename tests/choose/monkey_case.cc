#include "choose/monkey_case.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <random>
#include <vector>

#include "base/file.h"
#include "support/profiles.h"

namespace heddle {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}

  int Int(int least, int most) {
    return least + static_cast<int>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  bool OneIn(int count) { return Int(1, count) == 1; }
  // Between, each order of magnitude as likely as another.
  double Log(double least, double most) {
    const double part = static_cast<double>(random_() >> 11) / 9007199254740992.0;
    return least * std::pow(most / least, part);
  }
  template <class T>
  T Of(const std::vector<T>& some) {
    return some[random_() % some.size()];
  }

 private:
  std::mt19937_64 random_;
};

struct Type {
  const char* name;
  double tflops, memory_gib, memory_rate;
};

// ---- clusters -----------------------------------------------------------------------------------

std::string TypeText(const Type& type, double memory_gib) {
  return fmt::format(
      "[device_type.{}]\nflops = \"{} TFLOP/s\"\nmemory = \"{:.0f} MB\"\n"
      "memory_bandwidth = \"{} GB/s\"\n",
      type.name, type.tflops, std::ceil(memory_gib * 1024), type.memory_rate);
}

std::string LinkText(const std::string& a, const std::string& b, Dice& dice) {
  return fmt::format(
      "[[link]]\nbetween = [\"{}\", \"{}\"]\nbandwidth = \"{:.3g} Gbit/s\"\n"
      "latency = \"{} us\"\n{}",
      a, b, dice.Log(1, 200), dice.Int(5, 50), dice.OneIn(6) ? "duplex = \"half\"\n" : "");
}

// A switch, a star around the first node, a line or a ring.
std::string LinksText(int nodes, Dice& dice) {
  const auto name = [](int n) { return fmt::format("n{}", n); };
  std::string text;
  const int kind = dice.Int(0, 4);
  if (nodes == 1) return text;
  if (kind <= 1) {
    text += "[[switch]]\nname = \"s\"\n";
    for (int n = 0; n < nodes; ++n) text += LinkText(name(n), "s", dice);
    return text;
  }
  for (int n = 1; n < nodes; ++n) text += LinkText(name(kind == 2 ? 0 : n - 1), name(n), dice);
  if (kind == 4 && nodes > 2) text += LinkText(name(nodes - 1), name(0), dice);
  return text;
}

bool IsSmall(MonkeySize size) {
  return size == MonkeySize::kSmall || size == MonkeySize::kSmallProfiles;
}
bool OnlyProfiles(MonkeySize size) {
  return size == MonkeySize::kProfiles || size == MonkeySize::kSmallProfiles;
}

std::string RandomClusterText(Dice& dice, MonkeySize size) {
  const std::vector<Type> known = {{"v100", 14, 16, 900}, {"p100", 9, 12, 700},
                                   {"m60", 3.2, 8, 160},  {"a100", 19.5, 40, 1500},
                                   {"t4", 4, 15, 300},    {"old", 1.2, 4, 100}};
  const bool small = IsSmall(size);
  // Every third cluster is short of memory.
  const double memory = dice.OneIn(3) ? dice.Log(small ? 0.002 : 0.05, 1) : 1;
  std::vector<Type> types;
  const int wanted = dice.Of<int>({1, 2, 2, 3});
  while (static_cast<int>(types.size()) < wanted) {
    const Type type = dice.Of(known);
    bool is_new = true;
    for (const Type& other : types) is_new = is_new && other.name != type.name;
    if (is_new) types.push_back(type);
  }
  std::string text = "schema = \"heddle.cluster/1\"\n";
  for (const Type& type : types) text += TypeText(type, type.memory_gib * memory);
  const int nodes = dice.Int(1, small ? 3 : 4);
  for (int n = 0; n < nodes; ++n) {
    const int count = dice.Int(1, small ? 2 : 5);
    text += fmt::format("[[node]]\nname = \"n{}\"\ndevices = [{{ type = \"{}\", count = {} }}]\n",
                        n, dice.Of(types).name, count);
    if (count > 1) {
      text += fmt::format("link = {{ bandwidth = \"{:.3g} GB/s\", latency = \"{} us\" }}\n",
                          dice.Log(4, 200), dice.Int(1, 10));
    }
  }
  return text + LinksText(nodes, dice);
}

// ---- models and options -------------------------------------------------------------------------

const std::vector<std::string>& SmallModels() {
  static const std::vector<std::string> models = {
      "tiny-mlp",
      "tiny-gpt",
      "tiny-gpt?layers=6&tied=0",
      "tiny-moe?layers=2",
      "mlp?layers=6&inputs=256&hidden=512&outputs=64",
      "bert-base?layers=2&hidden=64&heads=4&vocab=500",
      "transformer?layers=2&hidden=64&wide=128&heads=4&vocab=300&seq=32",
      "vgg19?image=32&width=8&hidden=128",
      "resnet152?image=64&width=8&blocks1=1&blocks2=2&blocks3=2&blocks4=1",
      "vit?layers=3&hidden=64&heads=4&image=64"};
  return models;
}

const std::vector<std::string>& LargeModels() {
  static const std::vector<std::string> models = {
      "vgg19",      "resnet152",     "inception-v3", "transformer", "bert-base",
      "bert-large", "gpt?layers=24", "gpt",          "vit",         "xlnet-large?layers=12"};
  return models;
}

void RandomModel(uint64_t seed, Dice& dice, MonkeySize size, MonkeyCase& one) {
  const bool small = IsSmall(size);
  const bool profile = OnlyProfiles(size) || dice.OneIn(3);
  if (!profile) {
    one.options.model = dice.Of(small || dice.OneIn(3) ? SmallModels() : LargeModels());
    return;
  }
  one.options.profile_batch = dice.Of<int64_t>({1, 16, 64});
  std::vector<std::filesystem::path> published = AllProfiles();
  if (!small && dice.OneIn(2) && !published.empty()) {
    one.options.model = dice.Of(published);
    return;
  }
  const int nodes = small ? dice.Int(3, 14) : dice.Int(3, 90);
  one.profile = RandomProfile(seed, nodes);
  one.options.model = one.folder + "/" + one.name + ".txt";
}

}  // namespace

std::string RandomProfile(uint64_t seed, int nodes) {
  Dice dice(seed);
  std::string lines, edges;
  const double compute = dice.Log(0.05, 20), activations = dice.Log(1e4, 5e7);
  const double weights = dice.Log(1e3, 1e8), branches = dice.Log(0.01, 0.5);
  int open = 0;  // where the branch that is not yet joined left the trunk
  for (int n = 1; n <= nodes; ++n) {
    const double forward = n == 1 ? 0 : compute * dice.Log(0.1, 10) / nodes;
    lines += fmt::format(
        "node{} -- {} -- forward_compute_time={:.3f}, backward_compute_time={:.3f}, "
        "activation_size={:.0f}, parameter_size={:.0f}\n",
        n, n == 1 ? "Input" : "Layer", forward, forward * dice.Log(1, 3),
        activations * dice.Log(0.1, 3), n == 1 || dice.OneIn(3) ? 0 : weights * dice.Log(0.01, 2));
    if (n > 1) edges += fmt::format("\tnode{} -- node{}\n", n - 1, n);
    if (open == 0 && n > 1 && dice.Log(0.01, 1) < branches) {
      open = n;
    } else if (open > 0 && n > open + 1 && dice.OneIn(3)) {
      edges += fmt::format("\tnode{} -- node{}\n", open, n);
      open = 0;
    }
  }
  return lines + edges;
}

MonkeyCase MakeMonkeyCase(uint64_t seed, int number, MonkeySize size, const std::string& folder) {
  const uint64_t mixed = seed * 1'000'003 + static_cast<uint64_t>(number);
  Dice dice(mixed);
  MonkeyCase one;
  one.name = fmt::format("{}-{}", seed, number);
  one.folder = folder;
  one.cluster = RandomClusterText(dice, size);
  RandomModel(mixed, dice, size, one);
  PlanRequest& options = one.options;
  options.batch = IsSmall(size) ? dice.Of<int64_t>({1, 3, 8, 16, 24, 32})
                                : dice.Of<int64_t>({1, 7, 16, 32, 64, 100, 128, 256, 512, 1024});
  if (OnlyProfiles(size)) return one;
  if (dice.OneIn(5))
    options.microbatches = dice.Int(1, static_cast<int>(std::min<int64_t>(options.batch, 32)));
  options.dtype = dice.Of<DType>({DType::kF32, DType::kF32, DType::kBf16, DType::kF16});
  options.optimizer = dice.Of<Optimizer>({Optimizer::kAdam, Optimizer::kSgd, Optimizer::kMomentum});
  if (dice.OneIn(8)) options.clip = 1;
  if (dice.OneIn(8)) options.sync = GradientSync::kServers;
  if (dice.OneIn(8)) options.compress = true;
  if (dice.OneIn(10)) options.links = dice.OneIn(2) ? LinkModel::kExclusive : LinkModel::kChannels;
  return one;
}

Status WriteMonkeyFiles(const MonkeyCase& one) {
  std::filesystem::create_directories(one.folder);
  HEDDLE_RETURN_IF_ERROR(WriteFile(one.cluster_path(), one.cluster));
  if (one.profile.empty()) return Ok();
  return WriteFile(one.options.model, one.profile);
}

std::string MonkeyCase::Command(const std::string& command) const {
  std::string text = fmt::format("heddle {} --model '{}' --cluster {} --batch {}", command,
                                 options.model, cluster_path(), options.batch);
  const auto add = [&](const char* flag, const auto& value) {
    text += fmt::format(" {} {}", flag, value);
  };
  if (options.profile_batch) add("--profile-batch", *options.profile_batch);
  if (options.microbatches) add("--microbatches", *options.microbatches);
  if (options.dtype != DType::kF32) add("--dtype", NameOf(options.dtype));
  if (options.optimizer != Optimizer::kAdam) add("--optimizer", NameOf(options.optimizer));
  if (options.clip > 0) add("--clip", options.clip);
  if (options.sync != GradientSync::kAllReduce) add("--sync", NameOf(options.sync));
  if (options.compress) add("--compress", "fp16");
  if (options.links != LinkModel::kShared) add("--links", NameOf(options.links));
  return text;
}

}  // namespace heddle
