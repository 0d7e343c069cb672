// Plans and collectives in real processes over shaped links between network namespaces (for root):
// measured times beside the simulated ones. Prints the tables of docs/results-testbed.md.
//
//   heddle_testbed_table [--quick] [--repetitions N] [--dilate X] [--only collectives|plans]
//                        [--bed N]
//
// --bed makes one of the plans' tables, counted from 1.
// --dilate makes devices and links of the plans' tables slower by a factor, for a busy machine;
// what is printed is of the modelled time.

#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/file.h"
#include "testbed/testbed.h"

namespace heddle {
namespace {

constexpr int kHosts = 8;

void PrintLoad(const char* when) {
  double load[1] = {0};
  if (getloadavg(load, 1) == 1) fmt::print("Load of the machine {}: {:.1f}.\n\n", when, load[0]);
}

int Main(const std::vector<std::string>& words) {
  TestbedOptions options;
  std::string only;
  for (size_t k = 0; k < words.size(); ++k) {
    const bool more = k + 1 < words.size();
    if (words[k] == "--quick") {
      options.quick = true;
      options.repetitions = 1;
    } else if (words[k] == "--repetitions" && more) {
      options.repetitions = std::max(1, std::atoi(words[++k].c_str()));
    } else if (words[k] == "--dilate" && more) {
      options.dilate = std::max(1.0, std::atof(words[++k].c_str()));
    } else if (words[k] == "--bed" && more) {
      options.bed = std::atoi(words[++k].c_str());
      only = "plans";
    } else if (words[k] == "--only" && more) {
      only = words[++k];
    } else {
      fmt::print(stderr,
                 "usage: [--quick] [--repetitions N] [--dilate X] [--only collectives|plans] "
                 "[--bed N]\n");
      return 2;
    }
  }
  setenv("OMP_NUM_THREADS", "1", 1);
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
  if (!MakeDirectories(options.folder).ok()) return 1;
  const ShapedHosts hosts("hdt", kHosts);
  if (!hosts.made()) {
    fmt::print(stderr, "making network namespaces is not permitted here: run it as root\n");
    return 1;
  }
  PrintLoad("before");
  if (only.empty() || only == "collectives") PrintCollectives(hosts, options);
  if (only.empty() || only == "plans") PrintPlans(hosts, options);
  PrintLoad("after");
  return 0;
}

}  // namespace

int NextPort() {
  static int port = 29600;
  return ++port;
}

}  // namespace heddle

int main(int argc, char** argv) {
  return heddle::Main(std::vector<std::string>(argv + 1, argv + argc));
}
