// Independent pieces of work on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace heddle {

// Calls work(k) once for every k below count, from this thread and `threads` - 1 others.
template <class Work>
void ForEachOnThreads(size_t count, int threads, const Work& work) {
  std::atomic<size_t> next{0};
  const auto loop = [&] {
    for (size_t k = next++; k < count; k = next++) work(k);
  };
  std::vector<std::thread> others;
  for (size_t k = 1; k < std::min(count, static_cast<size_t>(threads)); ++k) {
    others.emplace_back(loop);
  }
  loop();
  for (std::thread& other : others) other.join();
}

// From this thread and another.
template <class Work>
void ForEachOnTwoThreads(size_t count, const Work& work) {
  ForEachOnThreads(count, 2, work);
}

}  // namespace heddle
