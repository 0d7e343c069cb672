#include "spp/cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace heddle {
namespace {

std::string Node(const std::string& name, const std::string& type, int count) {
  return fmt::format(
      "[[node]]\nname = \"{}\"\ndevices = [{{ type = \"{}\", count = {} }}]\n"
      "link = {{ bandwidth = \"{}\", latency = \"5 us\" }}\n",
      name, type, count, type == "v100" ? "25 GB/s" : "10 GB/s");
}

std::string ToSwitch(const std::string& node, const std::string& bandwidth) {
  return fmt::format(
      "[[link]]\nbetween = [\"{}\", \"s\"]\nbandwidth = \"{}\"\nlatency = \"10 us\"\n", node,
      bandwidth);
}

std::vector<SppModel> Models(bool quick) {
  const std::string folder = std::string(HEDDLE_SOURCE_DIR) + "/../shared/data/profiles/";
  std::vector<SppModel> models = {{"vgg16", folder + "pipedream-vgg16.txt", 64, 16},
                                  {"resnet50", folder + "pipedream-resnet50.txt", 128, 16},
                                  {"gnmt", folder + "pipedream-gnmt.txt", 64, 16},
                                  {"bert-48 (DAPPLE)", folder + "dapple-bert-48-pbs-2.txt", 2, 4},
                                  {"densenet121", folder + "pipedream-densenet121.txt", 64, 16},
                                  {"inception_v3", folder + "pipedream-inception_v3.txt", 64, 16},
                                  {"xlnet-36 (DAPPLE)", folder + "dapple-xlnet-36-pbs-1.txt", 1, 4},
                                  {"vgg-19 (DAPPLE)", folder + "dapple-vgg-19-pbs-32.txt", 32, 16},
                                  {"gpt, 24 blocks", "gpt?layers=24", 0, 4},
                                  {"bert-large", "bert-large", 0, 4},
                                  {"transformer", "transformer", 0, 8},
                                  {"resnet152", "resnet152", 0, 8}};
  if (quick) models = {models[0], models[1], models[2], models[3], models[8], models[10]};
  std::erase_if(models, [](const SppModel& model) {
    return model.profile_batch > 0 && !std::filesystem::exists(model.spec);
  });
  return models;
}

}  // namespace

std::string ClusterText(const std::string& topology, int devices) {
  std::string text =
      "schema = \"heddle.cluster/1\"\n"
      "[device_type.v100]\nflops = \"14 TFLOP/s\"\nmemory = \"16 GiB\"\n"
      "memory_bandwidth = \"900 GB/s\"\n"
      "[device_type.p100]\nflops = \"9 TFLOP/s\"\nmemory = \"12 GiB\"\n"
      "memory_bandwidth = \"700 GB/s\"\n[[switch]]\nname = \"s\"\n";
  constexpr const char* kUplinks[] = {"25 Gbit/s", "10 Gbit/s", "40 Gbit/s", "5 Gbit/s"};
  constexpr int kSizes[] = {3, 1, 4, 2};
  int placed = 0;
  for (int n = 0; placed < devices; ++n) {
    const std::string name = fmt::format("n{}", n);
    const int wanted = topology == "flat" ? 1 : topology == "irregular" ? kSizes[n % 4] : 4;
    const int size = std::min(wanted, devices - placed);
    const bool slow = topology == "mixed" && n % 2 == 1;
    text += Node(name, slow ? "p100" : "v100", size);
    text += ToSwitch(name, topology == "irregular" ? kUplinks[n % 4] : "25 Gbit/s");
    placed += size;
    // Four devices in one node would make a mixed cluster of one type.
    if (topology == "mixed" && devices == 4 && n == 0) {
      text.replace(text.find("count = 4"), 9, "count = 2");
      placed = 2;
    }
  }
  return text;
}

std::string SppCase::Name() const {
  return fmt::format("{} | {} | {} | {}", model.name, devices, topology, microbatches);
}

std::vector<SppCase> SppCases(bool quick) {
  const std::vector<int> sizes =
      quick ? std::vector<int>{4, 8, 16} : std::vector<int>{4, 8, 16, 32};
  const std::vector<int64_t> counts =
      quick ? std::vector<int64_t>{8, 32} : std::vector<int64_t>{4, 8, 16, 32, 64};
  std::vector<SppCase> cases;
  for (const SppModel& model : Models(quick)) {
    for (const int devices : sizes) {
      for (const char* topology : {"flat", "two-level", "irregular", "mixed"}) {
        for (const int64_t m : counts) cases.push_back({model, devices, topology, m});
      }
    }
  }
  return cases;
}

}  // namespace heddle
