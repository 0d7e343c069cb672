// What the parts of the testbed's table share.
#pragma once

#include <string>

#include "shaped/shaped_hosts.h"

namespace heddle {

struct TestbedOptions {
  bool quick = false;
  int repetitions = 5;
  int bed = 0;        // plans: of which table, counted from 1; 0: all
  double dilate = 1;  // plans: devices and links so many times slower, for a busy machine
  std::string folder = "/tmp/heddle-testbed";
};

// Another port for every run: the last one's may still be closing.
int NextPort();

// Padded against grouped all-gathers and reduce-scatters. collective_rows.cc
void PrintCollectives(const ShapedHosts& hosts, const TestbedOptions& options);

// Plans in processes, beside what the simulator says. plan_rows.cc
void PrintPlans(const ShapedHosts& hosts, const TestbedOptions& options);

}  // namespace heddle
