// What the functions of this folder share: vectors of floats, checks of their arguments,
// and work for all cores.

#ifndef UPSILON_JAX_NATIVE_VECTORS_H_
#define UPSILON_JAX_NATIVE_VECTORS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <thread>

#include "xla/ffi/api/ffi.h"

// As many floats as a register holds.
#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int32_t IntVec __attribute__((vector_size(4 * kLanes)));
typedef float VecInMemory __attribute__((vector_size(4 * kLanes), aligned(4), may_alias));

inline Vec Load(const float* p) { return *reinterpret_cast<const VecInMemory*>(p); }
inline void Store(float* p, Vec v) { *reinterpret_cast<VecInMemory*>(p) = v; }

// Ends a handler with an error unless the condition holds. XLA checks types and ranks
// before a handler is called, but not whether the sizes belong together.
#define REQUIRE(condition, message) \
  if (!(condition)) return xla::ffi::Error::InvalidArgument(message)

template <typename Buffer>
bool HasShape(Buffer&& buffer, std::initializer_list<int64_t> shape) {
  const auto found = buffer.dimensions();
  return std::equal(found.begin(), found.end(), shape.begin(), shape.end());
}

// Runs task(0) … task(count - 1) on the threads of XLA. The caller works too, so that
// it never waits for a task that no thread is free to begin. Callers that work at the same
// time, as those of several devices, share the cores.
inline void ParallelFor(xla::ffi::ThreadPool& pool, int64_t count,
                        const std::function<void(int64_t)>& task) {
  struct Progress {
    std::atomic<int64_t> next{0}, done{0};
  };
  auto progress = std::make_shared<Progress>();
  std::function<void()> work = [progress, count, task] {
    for (int64_t i; (i = progress->next.fetch_add(1)) < count;) {
      task(i);
      progress->done.fetch_add(1, std::memory_order_release);
    }
  };
  static std::atomic<int64_t> callers{0};
  const int64_t others = callers.fetch_add(1);
  const int64_t cores = std::thread::hardware_concurrency();
  const int64_t helpers = std::min({pool.num_threads(), cores - others, count}) - 1;
  for (int64_t i = 0; i < helpers; ++i) pool.Schedule(std::function<void()>(work));
  work();
  callers.fetch_sub(1);
  while (progress->done.load(std::memory_order_acquire) < count) {
    std::this_thread::yield();
  }
}

#endif  // UPSILON_JAX_NATIVE_VECTORS_H_
