#include "simulate/simulator.h"

#include "simulate/engine.h"

namespace heddle {

Result<Simulation> Simulate(const Program& program, const Cluster& cluster,
                            const SegmentSeconds& seconds, const SimulateOptions& options) {
  HEDDLE_ASSIGN(const std::vector<DeviceId> ids, FindDevices(program, cluster));
  HEDDLE_RETURN_IF_ERROR(CheckCollectives(program, ids, cluster));
  constexpr int kFirst = 3;
  constexpr int kMost = 48;
  for (int repetitions = options.repetitions > 0 ? options.repetitions : kFirst;;
       repetitions *= 2) {
    HEDDLE_ASSIGN(Simulation simulation,
                  Engine(program, ids, cluster, seconds, options, repetitions).Run());
    const bool last = options.repetitions > 0 || repetitions >= kMost;
    if (simulation.steady || last) return simulation;
  }
}

}  // namespace heddle
