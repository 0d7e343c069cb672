// RunConfig: how a plan is trained. What changes the Program is in the plan; the rest is here.
//
// `heddle run` makes one from its flags and gives it to heddle-worker as JSON; the run directory
// keeps it as config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/json_fwd.h"
#include "base/result.h"
#include "run/learning_rate.h"

namespace heddle {

struct RunConfig {
  std::string plan;                   // path
  std::string profile;                // the one the plan was made with; empty: none
  std::string data = "synthetic";     // data_source.h
  std::string data_hash;              // of its files, to notice that they changed; "": none
  double validation = 0.1;            // fraction of the data held out
  int64_t steps = 100;                // of the whole run, with those before a resume
  std::optional<uint64_t> seed;       // 1, or that of the run resumed
  double learning_rate = 1e-3;        //
  std::string schedule = "constant";  // learning_rate.h
  std::optional<DType> dtype;         // f32 or f64; that of the plan unless given
  int64_t eval_every = 0;             // steps; 0: only at the end
  int64_t save_every = 0;             // steps; 0: only at the end
  int64_t check_every = 0;            // steps between looks whether replicas are equal; 0: at saves
  int64_t keep = 3;                   // checkpoints
  std::string directory;              // of the run; empty: a new one in runs/
  std::string resume;                 // a run directory or a checkpoint to go on from
  bool may_override = false;          // go on with other data, another seed, …
  std::string weights;                // file to write the trained parameters to
  bool keep_going = false;            // also when the loss or a gradient is not finite
  bool measure_noise = false;         // of gradients (gradient_noise.h)
  bool elastic = false;               // plan again without a device that is lost, and go on
  bool emulate = false;               // pace to the plan's cluster; devices are threads
  double dilate = 0;                  // how much slower time goes then; 0: chosen
  bool threads = false;               // devices as threads of one process
  int64_t port = 0;                   // where a launcher's processes meet; 0: MASTER_PORT
  std::string secret_file;          // with what they must know; else HEDDLE_SECRET (meet/secret.h)
  std::string interface;            // of this host, where they listen; empty: found
  double meet_within = 60;          // seconds for all processes to come
  double silent_after = 4;          // seconds without a sign of life: lost
  double stuck_after = 10;          // times what its work should take; 0: never (vigil.h)
  bool native_collectives = false;  // the library\'s own reductions
};

Json RunConfigToJson(const RunConfig& config);
Result<RunConfig> RunConfigFromJson(const JsonField& json);

// Values within their ranges, and a schedule that can be read.
Status CheckRunConfig(const RunConfig& config);

// An option that was given works, or is refused: --dilate without --emulate would be ignored.
// `given` are the names of the options in JSON, as in "save_every"; the config is what will be run.
Status CheckGivenOptions(const RunConfig& config, const std::vector<std::string>& given);

// "--save-every" for "save_every".
std::string OptionOf(std::string_view key);

}  // namespace heddle
