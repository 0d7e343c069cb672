#include "lab/network_objective.h"

#include <algorithm>

#include "base/check.h"

namespace heddle {

Block NetworkObjective::BlockOf(int block) const {
  const std::vector<int64_t>& offsets = network_.offsets();
  return {offsets[static_cast<size_t>(block)], offsets[static_cast<size_t>(block) + 1]};
}

NetworkObjective::Span NetworkObjective::SpanOf(const Block& block) const {
  const std::vector<int64_t>& offsets = network_.offsets();
  const auto place = [&](int64_t element) {
    const auto found = std::lower_bound(offsets.begin(), offsets.end(), element);
    HEDDLE_CHECK(found != offsets.end() && *found == element);
    return static_cast<int>(found - offsets.begin());
  };
  return {place(block.begin), place(block.end)};
}

std::vector<Block> NetworkObjective::Blocks(int stages) const {
  HEDDLE_CHECK(stages == network_.blocks());
  std::vector<Block> blocks;
  for (int b = 0; b < stages; ++b) blocks.push_back(BlockOf(b));
  return blocks;
}

Pass NetworkObjective::MakePass() const {
  Pass pass;
  pass.point.assign(static_cast<size_t>(dimension()), 0.0);
  return pass;
}

void NetworkObjective::Begin(Pass& pass) const {
  pass.network = network_.Begin({pass.draw.seed, pass.draw.microbatch});
}

void NetworkObjective::Forward(const Block& block, const double* values, Pass& pass) const {
  std::copy(values, values + block.size(), pass.point.begin() + block.begin);
  const Span span = SpanOf(block);
  for (int b = span.first; b < span.last; ++b) {
    network_.Forward(b, pass.point.data() + BlockOf(b).begin, *pass.network);
  }
}

void NetworkObjective::Turn(Pass& pass) const { pass.returned = network_.blocks(); }

void NetworkObjective::Backward(const Block& block, Pass& pass, double* gradient) const {
  const Span span = SpanOf(block);
  HEDDLE_CHECK(pass.returned >= span.last);
  while (pass.returned > span.first) {
    const auto b = static_cast<int>(--pass.returned);
    const bool wanted = b < span.last;
    network_.Backward(b, *pass.network,
                      wanted ? gradient + (BlockOf(b).begin - block.begin) : nullptr);
  }
}

void NetworkObjective::Reread(const Block& block, const double* values, Pass& pass) const {
  std::copy(values, values + block.size(), pass.point.begin() + block.begin);
  const Span span = SpanOf(block);
  for (int b = span.first; b < span.last; ++b) {
    network_.Reread(b, pass.point.data() + BlockOf(b).begin, *pass.network);
  }
}

void NetworkObjective::Descend(const Block& block, const double* gradient, double step,
                               double* x) const {
  const Span span = SpanOf(block);
  for (int b = span.first; b < span.last; ++b) {
    const int64_t at = BlockOf(b).begin - block.begin;
    network_.Descend(b, gradient + at, step, x + at);
  }
}

}  // namespace heddle
