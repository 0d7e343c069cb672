#include "run/train/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace heddle {

Result<RunRecord> RunRecord::Open(const Training& training, DType dtype, int64_t done,
                                  const RunListener& listener) {
  HEDDLE_ASSIGN(RunFiles files,
                RunFiles::Open(*training.plan, *training.graph, training.config, dtype, done));
  listener.opened(files.path());
  return RunRecord(std::move(files), training, listener);
}

Status RunRecord::Add(const Step& step, bool ends) {
  if (any_) seconds_.push_back(step.seconds);  // the first step is cold
  any_ = true;
  listener_->step(step.step, steps_, step.loss, step.seconds);
  HEDDLE_RETURN_IF_ERROR(files_.Append(
      {{"step", step.step}, {"loss", step.loss}, {"seconds", step.seconds}, {"rate", step.rate}}));
  if (std::isfinite(step.loss) || ends || said_) return Ok();
  listener_->note(fmt::format("step {}: the loss is not finite; going on", step.step));
  said_ = true;
  return Ok();
}

Status RunRecord::AddHeldOut(int64_t step, double loss) {
  listener_->note(fmt::format("step {}: held-out loss {:.5g}", step, loss));
  return files_.Append({{"step", step}, {"validation_loss", loss}});
}

Status RunRecord::AddNoise(int64_t step, double ratio) {
  return files_.Append({{"step", step}, {"noise_ratio", ratio}});
}

double RunRecord::MedianSeconds() const {
  if (seconds_.empty()) return 0;
  std::vector<double> values = seconds_;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace heddle
