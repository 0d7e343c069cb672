#include "program/plan/plan_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace heddle {

Status CheckRequest(PlanRequest& request, const PlaceOfField& place) {
  if (request.microbatches && request.micro_batch_size) {
    return BadInput(place("micro_batch_size"), "stands beside the number of microbatches",
                    "leave out the one or the other");
  }
  if (const auto size = std::exchange(request.micro_batch_size, std::nullopt)) {
    if (*size < 1 || request.batch % *size != 0) {
      return BadInput(place("micro_batch_size"),
                      fmt::format("{} does not divide the batch of {}", *size, request.batch),
                      "choose a divisor, change the batch, or leave it out to have it tuned");
    }
    request.microbatches = request.batch / *size;
  }
  if (!request.microbatches) return Ok();
  const int64_t most = std::min(request.batch, kMostMicrobatches);
  if (*request.microbatches >= 1 && *request.microbatches <= most) return Ok();
  return BadInput(place("microbatches"), fmt::format("{} is out of range", *request.microbatches),
                  fmt::format("expected 1 to {}; leave it out to have it tuned", most));
}

}  // namespace heddle
