// Independent pieces of work on two threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>

namespace heddle {

// Calls work(k) once for every k below count, from this thread and another.
template <class Work>
void ForEachOnTwoThreads(size_t count, const Work& work) {
  std::atomic<size_t> next{0};
  const auto loop = [&] {
    for (size_t k = next++; k < count; k = next++) work(k);
  };
  std::thread other(loop);
  loop();
  other.join();
}

}  // namespace heddle
