// Turn sequence: a fixed order of turns in which jobs have them as often as they should.
//
//   SequenceOf(std::vector<double>{2, 1}, 32)      // 0 1 0: the first twice as often
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heddle {

// A short sequence, of at most `most` turns where there are no more jobs, whose counts are in
// proportion to the rates; each job has at least one turn, and turns are evenly mixed.
std::vector<int32_t> SequenceOf(std::span<const double> rates, int most);

}  // namespace heddle
